//! What job files mean in each format, and where mistakes are found.

use super::*;

fn mistake(language: TextFormat, text: &str) -> String {
    parse(language, text).expect_err("it is a mistake").to_string()
}

fn jobs(language: TextFormat, text: &str) -> Result<Vec<JobFile>, String> {
    parse(language, text).map(|file| file.job).map_err(|e| e.to_string())
}

#[test]
fn both_languages_say_the_same() {
    let toml = "[[job]]\nname = \"a\"\nschedule = \"@every 5s\"\ncommand = [\"/bin/true\"]\ncatch_up = { all = 3 }\n";
    let yaml =
        "job:\n  - name: a\n    schedule: '@every 5s'\n    command: [/bin/true]\n    catch_up: {all: 3}\n";
    assert_eq!(jobs(TextFormat::Toml, toml), jobs(TextFormat::Yaml, yaml));
    assert_eq!(jobs(TextFormat::Toml, toml).map(|jobs| jobs.len()), Ok(1));
    let toml = "[[calendar]]\nname = \"c\"\ndays = [\"12-25\"]\n";
    let yaml = "calendar:\n  - {name: c, days: [12-25]}\n";
    let calendars =
        |language, text| parse(language, text).map(|file| file.calendar).map_err(|e| e.to_string());
    assert_eq!(calendars(TextFormat::Toml, toml), calendars(TextFormat::Yaml, yaml));
    assert_eq!(calendars(TextFormat::Toml, toml).map(|calendars| calendars.len()), Ok(1));
}

/// proves: S2-18, S2-19
#[test]
fn both_languages_know_every_key_of_a_sharded_job() {
    let toml = "[[job]]\nname = \"a\"\nplacement = \"sharded\"\nshards = 3\nshard_parameters = \"0=x, 2=z\"\n\
                parameter = \"p\"\nstrategy = \"odd_even\"\norder = \"descending\"\nsticky_shards = true\n\
                one_per_host = true\nmonitor_execution = false\nmax_clock_skew = \"2s\"\nreshard_timeout = \"3s\"\n\
                catch_up = \"skip\"\ncommand = [\"/bin/true\"]\n";
    let yaml = "job:\n- {name: a, placement: sharded, shards: 3, shard_parameters: [x, '', z], parameter: p, strategy: odd_even,\n   \
                order: descending, sticky_shards: true, one_per_host: true, monitor_execution: false, max_clock_skew: 2s,\n   \
                reshard_timeout: 3s, catch_up: skip, command: [/bin/true]}\n";
    let written = jobs;
    let jobs = written(TextFormat::Toml, toml).expect("it is right");
    assert_eq!(Ok(&jobs), written(TextFormat::Yaml, yaml).as_ref());
    assert_eq!(jobs[0].shard_parameters, ["x", "", "z"]);
    let json = serde_json::to_string(&jobs).expect("plain data");
    assert_eq!(serde_json::from_str::<Vec<JobFile>>(&json).expect("it is read back"), jobs);
    Job::parse(jobs[0].clone()).expect("a valid job");
}

#[test]
fn both_languages_know_every_key_of_a_command() {
    let toml = "[[job]]\nname = \"a\"\nshell = true\ncommand = \"x | y\"\ndirectory = \"/tmp\"\n\
                environment = { A = \"1\" }\ninherit = [\"B\"]\nstdin = \"in\\n\"\n\
                user = \"u\"\nlimits = { cpu = \"5s\", memory = \"1G\", files = 9, processes = 7 }\n";
    let yaml = "job:\n- {name: a, shell: true, command: x | y, directory: /tmp, environment: {A: '1'}, inherit: [B],\n   \
                stdin: \"in\\n\", user: u, limits: {cpu: 5s, memory: 1G, files: 9, processes: 7}}\n";
    let written = jobs;
    let jobs = written(TextFormat::Toml, toml).expect("it is right");
    assert_eq!(Ok(&jobs), written(TextFormat::Yaml, yaml).as_ref());
    Job::parse(jobs[0].clone()).expect("a valid job");
    let json = serde_json::to_string(&jobs).expect("plain data");
    assert_eq!(serde_json::from_str::<Vec<JobFile>>(&json).expect("it is read back"), jobs);
    let text = mistake(TextFormat::Toml, "[[job]]\nname = \"a\"\ncommand = 7\n");
    assert!(text.starts_with("3:11: ") && text.contains("the program and its arguments as a list"), "{text}");
}

#[test]
fn what_lies_too_deep_is_refused_before_it_costs_anything() {
    for (language, text) in [
        (TextFormat::Yaml, "[".repeat(200_000)),
        (TextFormat::Yaml, "{".repeat(200_000)),
        (TextFormat::Yaml, "- ".repeat(200_000)),
        (TextFormat::Yaml, "? ".repeat(200_000)),
        (TextFormat::Yaml, format!("job:\n- name: a\n  command: {}", "[".repeat(200_000))),
        (TextFormat::Yaml, (0..2_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
        (TextFormat::Toml, format!("job = {}", "[".repeat(200_000))),
        (TextFormat::Toml, format!("job = {}", "{a=".repeat(200_000))),
        (TextFormat::Toml, format!("{} = 1", vec!["a"; 200_000].join("."))),
        (TextFormat::Toml, format!("[{}]", vec!["a"; 200_000].join("."))),
    ] {
        let refused = mistake(language, &text);
        assert!(refused.len() < 500, "{language:?} {}: {refused}", &text[..20]);
    }
    let refused = mistake(TextFormat::Yaml, &"[".repeat(200_000));
    assert!(refused.starts_with("1:65: ") && refused.contains("64"), "{refused}");
}

#[test]
fn aliases_repeat_no_more_than_a_file_may_hold() {
    let yaml = "job:\n- {name: a, environment: &e {A: '1'}, command: [x]}\n- {name: b, environment: *e, command: [x]}\n";
    let read = jobs(TextFormat::Yaml, yaml).expect("a few are fine");
    assert_eq!(read[0].environment, read[1].environment);
    let long =
        format!("job:\n- &a {{name: a, description: {}}}\n{}", "x".repeat(300_000), "- *a\n".repeat(9_000));
    let many = format!("job:\n- &a {{name: a}}\n{}", "- *a\n".repeat(70_000));
    let laughs: String =
        (1..12).map(|n| format!("- &x{n} [{}]\n", vec![format!("*x{}", n - 1); 9].join(", "))).collect();
    for text in [long, many] {
        let refused = mistake(TextFormat::Yaml, &text);
        assert!(refused.contains("write it out, or split the file"), "{refused}");
    }
    assert!(jobs(TextFormat::Yaml, &format!("job:\n- &x0 [a]\n{laughs}")).is_err(), "nor do they nest");
}

#[test]
fn a_wrong_name_is_refused_where_it_stands() {
    let text = mistake(TextFormat::Toml, "[[job]]\nname = \"a b\"\n");
    assert!(text.starts_with("2:8: job name \"a b\" is not allowed"), "{text}");
    let text = mistake(TextFormat::Yaml, "job:\n  - name: a b\n");
    assert!(text.starts_with("2:"), "{text}");
}

#[test]
fn each_job_is_found_on_its_own_line() {
    let text = "[[job]]\nname = \"ab\"\n[[job]]\nname = 'a'\n\n[[job]]\nname=\"a\"\n";
    let mut lines = JobLineFinder::new(text);
    assert_eq!([lines.of("ab"), lines.of("a"), lines.of("a"), lines.of("zz")], [2, 4, 7, 1]);
}

#[test]
fn a_wrong_value_is_found_on_the_line_of_its_key() {
    let text = "[[job]]\nname = \"a\"\ntimeout = \"0s\"\nretry = { max_retries = 0 }\n\n[job.notify]\non = [\"late\"]\n\n\
                [[job]]\nname = \"b\"\n\ntimeout = \"0s\"\n";
    let mut lines = JobLineFinder::new(text);
    lines.of("a");
    let keys =
        ["timeout is 0 seconds", "retry.times is 0", "notify.on has", "shards is 0", "it does nothing"];
    assert_eq!(keys.map(|key| lines.of_key(key)), [3, 4, 7, 2, 2]);
    lines.of("b");
    assert_eq!(["timeout is 0", "retry.times is 0"].map(|key| lines.of_key(key)), [12, 10]);
    let yaml = "job:\n- name: a\n  shards: 0\n- name: b\n  shards: 0\n";
    let mut lines = JobLineFinder::new(yaml);
    lines.of("a");
    assert_eq!(lines.of_key("shards is 0"), 3);
}

#[test]
fn a_file_names_a_namespace_or_is_read_in_one() {
    let text = "[[calendar]]\nname = \"c\"\ndays = [\"12-25\"]\n\
                [[job]]\nname = \"a\"\nfunction = \"f\"\n\
                [[job]]\nname = \"a\"\nnamespace = \"team-b\"\nfunction = \"f\"\n\
                [[job]]\nname = \"default/a\"\nfunction = \"f\"\n\
                [[job]]\nname = \"team-c/a\"\nfunction = \"f\"\nschedule = \"@daily\"\nexclude_calendars = [\"c\"]\n";
    let names = |namespace: Option<&str>| {
        let namespace = namespace.map(|name| name.parse().expect("a namespace"));
        let file = FileText {
            shown: "f".to_owned(),
            language: TextFormat::Toml,
            text: text.to_owned(),
            shared: None,
        };
        let all = both(&[file], &ReadRequest { namespace: namespace.as_ref(), ..ReadRequest::default() })
            .map_err(|e| e.to_string())?;
        let calendars = all.calendars.iter().map(|calendar| calendar.name.to_string());
        Ok::<_, String>(calendars.chain(all.jobs.iter().map(|job| job.name.to_string())).collect::<Vec<_>>())
    };
    assert_eq!(
        names(Some("team-a")).expect("it is right"),
        ["team-a/c", "team-a/a", "team-b/a", "a", "team-c/a"]
    );
    for twice in [None, Some("default")] {
        assert_eq!(names(twice), Err("f:12: job a is already declared at f:5".to_owned()), "{twice:?}");
    }
    let quick = quick::read([(TextFormat::Toml, text)].into_iter());
    assert!(quick.is_none(), "what is wrong is read again as a whole");
}

#[test]
fn a_file_that_contradicts_itself_is_refused_at_its_line() {
    let said = |text: &str| parse(TextFormat::Toml, text).map(drop).map_err(|e| e.to_string());
    let error =
        said("[[job]]\nname = \"a/j\"\nnamespace = \"b\"\nfunction = \"f\"\n").expect_err("two namespaces");
    assert!(
        error.contains("namespace is b, and the name a/j is in the namespace a: leave one of them out"),
        "{error}"
    );
    let error =
        said("[[job]]\nname = \"j\"\nnamespace = \"b/c\"\nfunction = \"f\"\n").expect_err("no namespace");
    assert!(error.contains("3:13"), "{error}");
}
