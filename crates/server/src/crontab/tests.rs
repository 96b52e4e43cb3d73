//! Crontabs as people have them, and what becomes of each entry.

use super::*;
use evenkeel_core::time::Wall;

fn origin(prefix: &str) -> CrontabSource {
    CrontabSource {
        shown: format!("{prefix}.crontab"),
        prefix: prefix.to_owned(),
        form: None,
        seconds: false,
        zone: "Europe/Berlin".to_owned(),
        user: "deploy".to_owned(),
        users: vec![
            "root".to_owned(),
            "deploy".to_owned(),
            "www-data".to_owned(),
            "mail".to_owned(),
            "backup".to_owned(),
        ],
        known: BTreeMap::new(),
    }
}

/// 2026-03-02T10:00:00Z, a Monday.
const MONDAY: Wall = Wall(1_772_445_600_000);

fn shown(import: &CrontabImport) -> String {
    let mut out = String::new();
    for job in &import.jobs {
        let schedule = job.schedule().expect("it was checked").expect("it has one");
        let job = job.to_file();
        let mut after = MONDAY;
        let fires = std::iter::from_fn(|| {
            after = schedule.next(after)?;
            Some(after.to_string().replace(":00.000Z", "Z"))
        });
        let fires: Vec<_> = fires.take(3).collect();
        out.push_str(&format!("{}\n  {} [{}]\n", job.name, job.schedule, job.timezone));
        out.push_str(&format!("  {:?} {:?}\n", job.command, job.environment));
        for (key, value) in [("user", &job.user), ("directory", &job.directory), ("stdin", &job.stdin)] {
            if !value.is_empty() {
                out.push_str(&format!("  {key} {value:?}\n"));
            }
        }
        out.push_str(&format!("  {}\n", fires.join("  ")));
    }
    for remark in &import.remarks {
        out.push_str(&format!("{remark}\n"));
    }
    out
}

#[test]
fn a_system_crontab_becomes_jobs_with_the_right_fires() {
    let import = read(include_str!("../../../../examples/crontab/system.crontab"), &origin("crontab"));
    insta::assert_snapshot!(shown(&import.expect("it is a crontab")));
}

#[test]
fn a_user_crontab_becomes_jobs_with_the_right_fires() {
    let import = read(include_str!("../../../../examples/crontab/user.crontab"), &origin("user"));
    insta::assert_snapshot!(shown(&import.expect("it is a crontab")));
}

fn one(text: &str) -> JobFile {
    let import = read(text, &origin("u")).expect(text);
    assert_eq!(import.jobs.len(), 1, "{text}: {:?}", import.remarks);
    import.jobs[0].to_file()
}

fn remarks(text: &str) -> Vec<String> {
    let import = read(text, &origin("u")).expect(text);
    import.remarks.iter().map(ToString::to_string).collect()
}

#[test]
fn an_entry_is_written_with_the_keys_that_a_person_would_use() {
    let job = one("GREETING = \"good  day\"\n0 1 * * * cat -; echo \"$HOME\" '%a\\%b%%\n");
    assert_eq!(job.command, Program::Line("cat -; echo \"$HOME\" '".to_owned()));
    assert!(job.shell);
    assert_eq!(job.stdin, "a%b\n\n");
    assert_eq!(job.environment, BTreeMap::from([("GREETING".to_owned(), "good  day".to_owned())]));
    let bash = one("SHELL=/bin/bash\n0 1 * * * echo {1..3}\n");
    assert_eq!(bash.command.argv(), ["/bin/bash", "-c", "echo {1..3}"]);
    assert!(!bash.shell && bash.environment["SHELL"] == "/bin/bash");
    let home = one("HOME=/var/log\n0 2 * * * pwd > here.out\n");
    assert_eq!((home.directory.as_str(), home.environment["HOME"].as_str()), ("/var/log", "/var/log"));
    let user = one("0 8 * * 1-5 root /bin/true\n@reboot www-data id -un\n");
    assert_eq!((user.user.as_str(), user.command), ("root", Program::Line("/bin/true".to_owned())));
}

#[test]
fn the_input_of_an_imported_command_reaches_it() {
    let job = one("0 1 * * * cat; false%one \\% 'two'%three\n");
    assert_eq!(job.stdin, "one % 'two'\nthree\n");
    let said = remarks("0 1 * * * echo \"now:\"$(date +\"%H\")\n");
    assert!(
        said[0].starts_with("line 1: cron cuts the command at its first bare %, also within quotes"),
        "{said:?}"
    );
    let command = one("0 1 * * * echo \"now:\"$(date +\"%H\")\n").command;
    assert_eq!(command, Program::Line("echo \"now:\"$(date +\"".to_owned()), "as cron does");
}

#[test]
fn importing_again_gives_the_same_and_moving_a_line_renames_nothing() {
    let text = "0 1 * * * /bin/a\n0 2 * * * /bin/b\n";
    let moved = "# a comment\n0 2 * * * /bin/b\n0 1 * * * /bin/a\n";
    let names = |text| {
        let jobs = read(text, &origin("u")).expect("it is a crontab").jobs;
        let mut names: Vec<_> =
            jobs.into_iter().map(|job| (job.name.clone(), job.to_file().schedule)).collect();
        names.sort();
        names
    };
    assert_eq!(names(text), names(moved));
    assert_eq!(read(text, &origin("u")).ok(), read(text, &origin("u")).ok());
}

#[test]
fn a_wrong_line_refuses_the_file_and_says_the_line() {
    for (text, line, says) in [
        ("0 1 * * * a\n61 * * * * b\n", 2, "minute"),
        ("0 1 * *\n", 1, "too few words"),
        ("0 1 * * * %input only\n", 1, "no command before the %"),
        (
            "CRON_TZ=Mars/Olympus\n0 1 * * * a\n",
            1,
            "CRON_TZ: timezone `Mars/Olympus` is not an IANA time zone",
        ),
        ("CRON_TZ=Europe/Berln\n0 1 * * * a\n", 1, "did you mean `Europe/Berlin`?"),
        ("CRON_TZ=Europe/Berlin\u{a0}\n0 1 * * * a\n", 1, "a no-break space (U+00A0)"),
        ("HOME=/srv\u{200b}\n", 1, "HOME holds a zero-width space (U+200B): remove it"),
        ("0 1 * * * a\n\u{a0}# a comment\n", 2, "a no-break space (U+00A0) begins the line"),
        ("0 1 * * * a\n\u{feff}0 2 * * * b\n", 2, "a byte order mark (U+FEFF) begins the line"),
        ("0 1 * * * a\r\u{2028}0 2 * * * b\r", 2, "a line separator (U+2028) begins the line"),
        ("0 1 * * * root a\n0 2 * * * root\u{a0} b\n", 2, "the user column holds a no-break space (U+00A0)"),
        ("0 0 12 ? * 6#3 /app/run.sh\n", 1, "say --seconds"),
        ("0 0 12 ? * 6L 2031 /app/run.sh\n", 1, "say --seconds"),
        ("@every_minute a\n", 1, "write `* * * * *`"),
        ("@every soon a\n", 1, "@every `soon`: write numbers with a unit"),
        ("SHELL=bash\n", 1, "give the whole path"),
        ("HOME=logs\n", 1, "give the whole path"),
        ("0 1 * * * a\n5 4 * * *\u{a0} /bin/b\n", 2, "a no-break space (U+00A0) stands among the times"),
        ("5 4 *\u{200b} * * /bin/b\n", 1, "a zero-width space (U+200B)"),
        ("5 4 * * * \u{a0}/bin/b\n", 1, "a no-break space (U+00A0)"),
        ("*/6 * * * * * echo starting\n", 1, "say --seconds"),
        ("*/10 * * * * * * /app/run.sh\n", 1, "say --seconds"),
        ("0 0 9 * * MON-FRI /app/run.sh\n", 1, "say --seconds"),
        ("@sometimes a\n", 1, "@sometimes"),
    ] {
        let failure = read(text, &origin("u")).expect_err(text);
        let begins = format!("u.crontab:{line}: ");
        assert!(failure.message.starts_with(&begins), "{text:?}: {failure}");
        assert!(failure.message.contains(says), "{text:?}: {failure}");
        assert!(!failure.message.contains("job u"), "{failure}");
    }
}

#[test]
fn what_makes_sense_and_cannot_be_carried_over_leaves_the_other_lines_alone() {
    for (text, says) in [
        ("0 0 30 2 * a\n0 1 * * * b\n", "line 1: it is left out: schedule `0 0 30 2 *` never fires"),
        ("@reboot a\n0 1 * * * b\n", "line 1: @reboot is left out"),
        (
            "*/5 * * * * stranger-here /bin/a\n0 1 * * * root b\n",
            "line 1: it is not imported, for this host has no user stranger-here",
        ),
    ] {
        let import = read(text, &origin("u")).expect(text);
        let commands: Vec<_> = import.jobs.iter().map(|job| job.to_file().command).collect();
        assert_eq!(commands, [Program::Line("b".to_owned())], "{text}");
        assert!(
            import.remarks.iter().any(|remark| remark.to_string().starts_with(says)),
            "{:?}",
            import.remarks
        );
    }
    let marked =
        read("\u{feff}# with a mark\n0 5 * * * /bin/echo a\n", &origin("u")).expect("it is a crontab");
    assert_eq!(marked.jobs.len(), 1);
    assert!(marked.remarks[0].to_string().starts_with("line 1: a byte order mark (U+FEFF) begins the file"));
}

#[test]
fn an_unknown_user_is_a_mistake_of_its_line_alone() {
    let text =
        "*/5 * * * * kestrel /usr/bin/python3 /opt/poll.py\n*/5 * * * * root /usr/bin/python3 /opt/push.py\n";
    let import = read(text, &origin("u")).expect("it is a crontab");
    assert_eq!((import.jobs.len(), import.mistakes), (1, 1));
    assert_eq!(import.jobs[0].to_file().user, "root");
    assert!(
        import.remarks[0]
            .to_string()
            .starts_with("line 1: it is not imported, for this host has no user kestrel")
    );
    let left_out = read("@reboot a\n0 1 * * * b\n", &origin("u")).expect("it is a crontab");
    assert_eq!(left_out.mistakes, 0, "what has no meaning here is no mistake");
}

#[test]
fn what_other_crons_add_is_said() {
    for (text, says) in [
        ("@every 90s /bin/a\n", "line 1: @every counts from the same moment on each node"),
        ("0 1 * * * -n -q /bin/a\n", "line 1: -n -q before the command is left out"),
        ("0 1 * * * root:adm /bin/a\n0 2 * * * root /bin/b\n", "line 1: the group adm is left out"),
        ("0 1 * * * /bin/a\u{a0}-v\n", "line 1: the command holds a no-break space (U+00A0)"),
        ("0 1 * * * /bin/a \\\n", "line 1: the command ends with a backslash"),
        ("GREETING=a\u{200b}b\n0 1 * * * /bin/a\n", "line 1: GREETING holds a zero-width space"),
    ] {
        let said = remarks(text);
        assert!(said.iter().any(|said| said.starts_with(says)), "{text:?}: {said:?}");
    }
    assert_eq!(one("@every 90s /bin/a\n").schedule, "@every 90s");
    assert_eq!(one("0 1 * * * -n -q /bin/a -n\n").command, Program::Line("/bin/a -n".to_owned()));
    for ends in ["\r", "\r\n"] {
        let text = "GREETING=good\n0 1 * * * /bin/a\n0 2 * * * /bin/b\n".replace('\n', ends);
        let jobs = read(&text, &origin("u")).expect("it is a crontab").jobs;
        assert_eq!(jobs.len(), 2, "{ends:?}");
        assert_eq!(jobs[1].to_file().environment["GREETING"], "good");
    }
}

#[test]
fn a_first_field_of_seconds_is_read_when_it_is_asked_for() {
    let text =
        "*/6 * * * * * echo starting ; sleep 1\n0 0 9 * * 1-5 /bin/a\n*/10 * * * * * * /bin/b\n@daily c\n";
    let import = read(text, &CrontabSource { seconds: true, ..origin("u") }).expect("it is a crontab");
    let read: Vec<_> = import
        .jobs
        .iter()
        .map(|job| (job.to_file().schedule, job.to_file().command.argv()[2].clone()))
        .collect();
    let of = |schedule: &str, command: &str| (schedule.to_owned(), command.to_owned());
    assert_eq!(
        read,
        [
            of("*/6 * * * * *", "echo starting ; sleep 1"),
            of("0 0 9 * * MON-FRI", "/bin/a"),
            of("*/10 * * * * * *", "/bin/b"),
            of("@daily", "c"),
        ]
    );
}

#[test]
fn the_form_is_found_out_or_asked_for() {
    let users = origin("u").users;
    for (text, form) in [
        ("17 * * * * root run-parts /etc/cron.hourly\n", Ok(Some(CrontabFormat::System))),
        ("17 * * * * run-parts /etc/cron.hourly\n", Ok(Some(CrontabFormat::User))),
        ("17 * * * * root\n", Ok(Some(CrontabFormat::User))),
        // Commands that are called like users of the host.
        ("0 * * * * backup --full /srv\n30 6 * * * backup --verify\n", Ok(Some(CrontabFormat::User))),
        ("0 22 * * 1-5 mail -s \"Closing time\" ops%Hello,\n", Ok(Some(CrontabFormat::User))),
        ("0 22 * * 1-5 mail ops < /tmp/text\n", Ok(None)),
        ("@daily www-data /usr/bin/php cron.php\n", Ok(None)),
        ("@daily www-data /usr/bin/php cron.php\n@daily root a\n", Ok(Some(CrontabFormat::System))),
        // A user that this host does not know makes no user crontab of it.
        ("* * * * * deploy /usr/bin/a\n* * * * * root /usr/bin/b\n", Ok(Some(CrontabFormat::System))),
        ("* * * * * root a\n* * * * * /bin/b\n", Err(())),
        ("", Ok(Some(CrontabFormat::User))),
    ] {
        assert_eq!(line::form(text, &users).map_err(|_| ()), form, "{text:?}");
    }
    let refused = read("@daily www-data id -un\n", &origin("u")).expect_err("both make sense");
    assert!(refused.message.contains("say --system") && refused.message.contains("--user"), "{refused}");
    let system =
        read("@daily www-data id -un\n", &CrontabSource { form: Some(CrontabFormat::System), ..origin("u") });
    let system = system.expect("it is said");
    assert_eq!(system.jobs[0].to_file().user, "www-data");
    assert!(system.remarks[0].to_string().contains("takes nodes that run as root"), "{:?}", system.remarks);
}
