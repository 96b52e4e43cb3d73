//! Calendars from outside: a job is left out while its calendar is closed, and fires when that is opened.

use std::fs;

use serde_json::Value;

use crate::process::{ServerProcess, run, text, until};

const CLOSED: &str = r#"
[[job]]
name = "tick"
schedule = "@every 1s"
exclude_calendars = ["freeze"]
command = ["/bin/true"]

[[job]]
name = "free"
schedule = "@every 1s"
command = ["/bin/true"]

[[calendar]]
name = "freeze"
windows = ["2020-01-01T00:00..2100-01-01T00:00"]
"#;
const OPEN: &str = "[[calendar]]\nname = \"freeze\"\n";

/// The moments of a job's runs, the first one first.
fn dues(node: &ServerProcess, job: &str) -> Vec<String> {
    let runs = node.json(&["run", "list", "--job", job]);
    let due = |run: &Value| run["due"].as_str().expect("a moment").to_owned();
    runs.as_array().expect("a list").iter().rev().map(due).collect()
}

#[test]
fn a_closed_job_is_left_out_and_when_it_is_opened_nothing_of_the_past_fires() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let before = node.fed(&["job", "apply", "-f", "-"], CLOSED.split("[[calendar]]").next().expect("jobs"));
    assert_eq!(before.status.code(), Some(6), "{}", text(&before.stdout));
    let refused = text(&before.stderr);
    assert!(refused.contains("job tick: there is no calendar freeze: declare it first"), "{refused}");
    let applied = node.fed(&["job", "apply", "-f", "-"], CLOSED);
    assert!(text(&applied.stdout).starts_with("created    calendar freeze\n"), "{}", text(&applied.stdout));
    until("time passes", || (dues(&node, "free").len() > 3).then_some(()));
    assert_eq!(dues(&node, "tick"), Vec::<String>::new());
    assert_eq!(node.json(&["job", "show", "tick", "--details"])["next"], "2100-01-01T00:00:00.000Z");
    let told = node.ok(&["explain", "job", "tick"]);
    assert!(told.contains("it is not due before 2100-01-01T00:00:00.000Z"), "{told}");

    let applied = node.fed(&["calendar", "apply", "-f", "-"], OPEN);
    assert_eq!(text(&applied.stdout), "updated    freeze\n");
    let warned = text(&applied.stderr);
    assert!(
        warned.contains("calendar freeze holds no moment: it has no days, weekdays or windows"),
        "{warned}"
    );
    let shown = node.json(&["calendar", "show", "freeze"]);
    assert_eq!((&shown["jobs"][0], &shown["version"]), (&"tick".into(), &2.into()));
    let since = shown["since"].as_str().expect("a moment");
    until("it fires", || (dues(&node, "tick").len() > 1).then_some(()));
    let next = node.json(&["job", "next", "tick", "--from", since, "--count", "2"]);
    let next = next.as_array().expect("a list").iter().filter_map(Value::as_str).find(|due| *due > since);
    assert_eq!(dues(&node, "tick").first().map(String::as_str), next, "the first second since {since}");

    let refused = node.cli(&["calendar", "delete", "freeze"]);
    assert_eq!(refused.status.code(), Some(6));
    assert!(text(&refused.stderr).contains("calendar freeze is named by tick:"), "{}", text(&refused.stderr));
    node.ok(&["job", "delete", "tick"]);
    assert_eq!(node.ok(&["calendar", "delete", "freeze"]), "calendar freeze is deleted\n");
    assert_eq!(node.json(&["calendar", "list"]), Value::Array(Vec::new()));
}

#[test]
fn a_calendar_is_tried_out_without_a_node_and_says_what_it_leaves_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("calendars.toml");
    fs::write(&file, "[[calendar]]\nname = \"holidays\"\ndays = [\"12-25..12-26\"]\n")
        .expect("it is written");
    let file = file.to_str().expect("a path");
    let tried = |name: &str| {
        run(&[
            "job",
            "next",
            "--schedule",
            "30 2 * * *",
            "--timezone",
            "Europe/Berlin",
            "--tz",
            "Europe/Berlin",
            "--from",
            "2026-12-24T00:00:00Z",
            "--count",
            "2",
            "--calendars",
            file,
            "--exclude-calendars",
            name,
        ])
    };
    assert_eq!(
        text(&tried("holidays").stdout),
        "Thu 2026-12-24 02:30:00 +01:00 CET\n\
         Sun 2026-12-27 02:30:00 +01:00 CET  # 2 left out from 2026-12-25 02:30 on: closed by holidays\n"
    );
    assert!(text(&tried("freeze").stderr).contains("there is no calendar freeze in the file of --calendars"));
    fs::write(file, "[[calendar]]\nname = \"holidays\"\ndays = [\"12-32\"]\n").expect("it is written");
    let wrong = text(&tried("holidays").stderr);
    assert!(
        wrong.contains("calendars.toml:2: calendar holidays: line 1 of days, `12-32`: write a day as"),
        "{wrong}"
    );
}
