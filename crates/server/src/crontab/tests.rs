//! Crontabs as people have them, and what becomes of each entry.

use super::*;
use evenkeel_core::time::Wall;

fn origin(prefix: &str) -> Origin {
    Origin {
        shown: format!("{prefix}.crontab"),
        prefix: prefix.to_owned(),
        form: None,
        zone: "Europe/Berlin".to_owned(),
        user: "deploy".to_owned(),
        users: vec!["root".to_owned(), "deploy".to_owned(), "www-data".to_owned()],
    }
}

/// 2026-03-02T10:00:00Z, a Monday.
const MONDAY: Wall = Wall(1_772_445_600_000);

fn shown(import: &Import) -> String {
    let mut out = String::new();
    for job in &import.jobs {
        let schedule = job.schedule().expect("it was checked").expect("it has one");
        let mut after = MONDAY;
        let fires = std::iter::from_fn(|| {
            after = schedule.next(after)?;
            Some(after.to_string().replace(":00.000Z", "Z"))
        });
        let fires: Vec<_> = fires.take(3).collect();
        out.push_str(&format!("{}\n  {} [{}]\n", job.name, job.schedule, job.zone));
        out.push_str(&format!("  {:?}\n  {}\n", job.command.argv(), fires.join("  ")));
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

#[test]
fn a_command_and_its_input_are_read_by_one_shell_only() {
    let import = read("0 1 * * * cat -; echo \"$HOME\" '%a\\%b%%\n", &origin("u")).expect("it is a crontab");
    let command = &import.jobs[0].command.argv();
    assert_eq!(command[3..], ["cat -; echo \"$HOME\" '", "a%b\n\n", "/bin/sh"]);
}

#[test]
fn the_input_of_an_imported_command_reaches_it() {
    let import = read("0 1 * * * cat; false%one \\% 'two'%three\n", &origin("u")).expect("it is a crontab");
    let argv = &import.jobs[0].command.argv();
    let done = std::process::Command::new(&argv[0]).args(&argv[1..]).output().expect("sh runs");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "one % 'two'\nthree\n");
    assert_eq!(done.status.code(), Some(1), "the command's own end is the run's end");
}

#[test]
fn importing_again_gives_the_same_and_moving_a_line_renames_nothing() {
    let text = "0 1 * * * /bin/a\n0 2 * * * /bin/b\n";
    let moved = "# a comment\n0 2 * * * /bin/b\n0 1 * * * /bin/a\n";
    let names = |text| {
        let jobs = read(text, &origin("u")).expect("it is a crontab").jobs;
        let mut names: Vec<_> = jobs.into_iter().map(|job| (job.name, job.schedule)).collect();
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
        ("0 0 30 2 * a\n", 1, "never fires"),
        ("0 1 * *\n", 1, "too few words"),
        ("0 1 * * * %input only\n", 1, "no command before the %"),
        ("CRON_TZ=Mars/Olympus\n0 1 * * * a\n", 1, "names no zone"),
        ("SHELL=bash\n", 1, "give the whole path"),
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
fn the_form_is_found_out() {
    let users = origin("u").users;
    for (text, form) in [
        ("17 * * * * root run-parts /etc/cron.hourly\n", Form::System),
        ("17 * * * * run-parts /etc/cron.hourly\n", Form::User),
        ("17 * * * * root\n", Form::User),
        ("@daily www-data /usr/bin/php cron.php\n", Form::System),
        ("* * * * * root a\n* * * * * backup now\n", Form::User),
        ("", Form::User),
    ] {
        assert_eq!(line::form(text, &users), form, "{text:?}");
    }
}
