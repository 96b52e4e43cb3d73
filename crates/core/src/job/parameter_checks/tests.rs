//! Which declarations, and which values of a run, are accepted, and what the refusals say.

use alloc::format;
use alloc::string::ToString;

use super::*;
use crate::job::{Job, RUN_PARAMETERS_BYTES_MAX};

fn read(fields: &str) -> Result<Job, String> {
    let file: JobFile =
        serde_json::from_str(&format!(r#"{{"name":"j",{fields}}}"#)).map_err(|e| e.to_string())?;
    Job::parse(file).map_err(|e| e.to_string())
}

fn job(parameters: &str) -> Result<Job, String> {
    read(&format!(r#""command":["a"],"parameters":{{{parameters}}}"#))
}

fn given(text: &str) -> RunParameters {
    serde_json::from_str(text).expect("parameters")
}

#[test]
fn a_run_has_what_it_is_given_and_the_defaults_of_the_rest() {
    let job = job(r#""day":{"type":"date"},"n":{"type":"integer","default":7,"allowed":[7,-8]},
                     "dry":{"type":"boolean","default":false},"region":{"default":""}"#)
    .unwrap();
    let run = |text: &str| job.run_parameters(&given(text)).map(|run| run.to_string());
    assert_eq!(run(r#"{"day":"2026-01-31"}"#).unwrap(), r#"day="2026-01-31", dry="false", n="7", region="""#);
    assert_eq!(
        run(r#"{"day":"2026-01-31","n":-8,"dry":true,"region":"eu"}"#).unwrap(),
        r#"day="2026-01-31", dry="true", n="-8", region="eu""#
    );
    for (text, why) in [
        ("{}", "needs the parameter day, a day, as 2026-01-31: give it, as `--param day=VALUE`"),
        (r#"{"dya":"2026-01-31"}"#, r#"has no parameter "dya": it has day, dry, n, region"#),
        (r#"{"day":"tomorrow"}"#, r#"parameter day is "tomorrow": it takes a day"#),
        (r#"{"day":"2026-02-30"}"#, "it takes a day"),
        (r#"{"day":"20260131"}"#, r#"write it as "2026-01-31""#),
        (r#"{"day":"2026-01-31","n":9}"#, r#"parameter n is "9": allowed are "7", "-8""#),
        (r#"{"day":"2026-01-31","n":"07"}"#, r#"write it as "7""#),
        (r#"{"day":"2026-01-31","dry":"yes"}"#, "it takes true or false"),
        (r#"{"day":"2026-01-31","region":"\u0000"}"#, "NUL"),
    ] {
        let said = run(text).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
    let none = read(r#""command":["a"]"#).unwrap();
    assert!(none.run_parameters(&RunParameters::default()).unwrap().is_empty());
    assert!(none.run_parameters(&given(r#"{"x":"1"}"#)).unwrap_err().contains("has no parameters"));
}

#[test]
fn the_parameters_of_a_run_are_bounded_together() {
    let job = job(r#""a":{"default":""},"b":{"default":""}"#).unwrap();
    let run = |a: usize, b: usize| {
        let pairs = [("a", a), ("b", b)].map(|(name, n)| (name.to_string(), "x".repeat(n)));
        job.run_parameters(&pairs.into_iter().collect())
    };
    let frame = r#"{"a":"","b":""}"#.len();
    let most = RUN_PARAMETERS_BYTES_MAX - frame;
    assert_eq!(run(most - 96, 96).unwrap().bytes(), RUN_PARAMETERS_BYTES_MAX);
    assert!(run(most - 95, 96).unwrap_err().contains("allowed are 4096"));
    assert_eq!(RunParameters::default().bytes(), 0);
}

#[test]
fn a_declaration_that_no_run_could_follow_is_refused_with_the_fix() {
    let many: Vec<String> = (0..33).map(|n| format!(r#""p{n}":{{}}"#)).collect();
    let long = "x".repeat(65);
    let large = "x".repeat(RUN_PARAMETERS_BYTES_MAX);
    for (parameters, why) in [
        (many.join(","), "parameters has 33, allowed are at most 32"),
        (r#""a-b":{}"#.into(), "letters, digits and _"),
        (r#""1a":{}"#.into(), "begins with no digit"),
        (r#""":{}"#.into(), "not empty"),
        (format!(r#""{long}":{{}}"#), "up to 64"),
        (r#""EVENKEEL_DUE":{}"#.into(), "set for every run"),
        (r#""PATH":{}"#.into(), "decides what a command runs"),
        (r#""LD_PRELOAD":{}"#.into(), "decides what a command runs"),
        (r#""a":{"allowed":[]}"#.into(), "is an empty list"),
        (r#""a":{"type":"float"}"#.into(), "unknown variant"),
        (r#""a":{"typ":"date"}"#.into(), "unknown field"),
        (r#""a":{"default":1.5}"#.into(), "a text, a whole number, true or false"),
        (
            r#""a":{"type":"integer","default":"x"}"#.into(),
            "parameters.a: default is \"x\": it takes a whole",
        ),
        (r#""a":{"type":"date","allowed":["x"]}"#.into(), "parameters.a: allowed has \"x\": it takes a day"),
        (r#""a":{"default":"c","allowed":["a","b"]}"#.into(), r#"default is "c": allowed are "a", "b""#),
        (format!(r#""a":{{"default":"{large}"}}"#), "with their defaults the parameters of a run are"),
    ] {
        let said = job(&parameters).unwrap_err();
        assert!(said.contains(why), "{parameters}: {said}");
    }
    for field in [
        r#""environment":{"A":"1"}"#,
        r#""inherit":["A"]"#,
        r#""secrets":{"A":"s"}"#,
        r#""secret_files":{"A":"s"}"#,
    ] {
        let said = read(&format!(r#""command":["a"],"parameters":{{"A":{{}}}},{field}"#)).unwrap_err();
        assert!(said.contains("both name A: once is enough"), "{said}");
    }
}

#[test]
fn a_schedule_takes_parameters_with_defaults_only() {
    let with = |parameter: &str| {
        read(&format!(r#""command":["a"],"schedule":"@daily","parameters":{{"a":{parameter}}}"#))
    };
    assert!(with("{}").unwrap_err().contains("give it one, or leave schedule out"));
    with(r#"{"default":""}"#).unwrap();
}

#[test]
fn a_request_names_only_declared_parameters() {
    let with = |body: &str| {
        read(&format!(
            r#""http":{{"url":"http://h/","body":"{body}"}},"parameters":{{"day":{{"type":"date"}}}}"#
        ))
    };
    with("{{parameter:day}} {{ parameter:day | json }}").unwrap();
    assert!(with("{{parameter:dya}}").unwrap_err().contains("the parameter dya, which is not declared"));
    let header = r#""http":{"url":"http://h/","headers":{"X":"{{parameter:day}}"}},"parameters":{"day":{}}"#;
    assert!(read(header).unwrap_err().contains("only secrets are filled in here"));
}

#[test]
fn a_declaration_is_written_as_it_was_read() {
    let text = r#"{"name":"j","parameters":{"day":{"type":"date","default":"2026-01-31","description":"d"},"x":{"allowed":["a","b"]}},"command":["a"]}"#;
    let file: JobFile = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&Job::parse(file).unwrap().to_file()).unwrap(), text);
}
