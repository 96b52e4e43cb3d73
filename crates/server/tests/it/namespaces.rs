//! Namespaces from outside: two teams whose jobs have the same names, apart from each other.

use std::path::Path;

use serde_json::{Value, json};

use crate::process::{ServerProcess, evenkeel, text, until};
use crate::servers;

/// One file for both teams: it names no namespace.
const JOBS: &str = r#"
[[calendar]]
name = "freeze"

[[job]]
name = "backup"
schedule = "@every 1s"
exclude_calendars = ["freeze"]
pool = { name = "disk", limit = 1 }
command = ["/bin/sh", "-c", "echo $EVENKEEL_NAMESPACE $EVENKEEL_JOB"]
"#;

/// The exit codes for what is invalid, for what does not exist, and for what contradicts what stands.
const INVALID: i32 = 5;
const NOT_FOUND: i32 = 4;
const CONFLICT: i32 = 6;

/// The texts under a key of the rows of a list.
fn column(rows: &Value, key: &str) -> Vec<String> {
    let rows = rows.as_array().expect("a list").iter();
    rows.map(|row| row[key].as_str().expect("a text").to_owned()).collect()
}

fn refused(node: &ServerProcess, args: &[&str], code: i32) -> String {
    let output = node.cli(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"))
}

fn get(node: &ServerProcess, path: &str) -> (u16, Value) {
    let (status, answer) = node.raw(&format!("GET /api/v1{path} HTTP/1.1\nHost: {}", node.address), b"");
    (status, body(&answer))
}

/// Applies the file for a namespace.
fn apply(node: &ServerProcess, namespace: &str) {
    let applied = node.fed(&["-n", namespace, "job", "apply", "-f", "-"], JOBS);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let said = text(&applied.stdout);
    assert!(said.contains(&format!("calendar {namespace}/freeze")), "{said}");
    assert!(said.contains(&format!("{namespace}/backup")), "{said}");
}

#[test]
fn two_teams_have_jobs_of_one_name_which_stay_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    play(folder.path(), &ServerProcess::serve(folder.path(), "a", &[]));
}

/// The same on a server, where there is one.
fn play_on(engine: &str) {
    let Some(url) = servers::find(engine) else { return };
    let url = format!("{url}/itns{}-{}", evenkeel::clock::now().wall.0, std::process::id());
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--registry", &url]);
    play(folder.path(), &node);
}

#[test]
fn two_teams_stay_apart_on_zookeeper() {
    play_on("ZOOKEEPER");
}

#[test]
fn two_teams_stay_apart_on_etcd() {
    play_on("ETCD");
}

#[test]
fn two_teams_stay_apart_on_redis() {
    play_on("REDIS");
}

#[test]
fn two_teams_stay_apart_on_postgres() {
    play_on("POSTGRES");
}

#[test]
fn two_teams_stay_apart_on_mysql() {
    play_on("MYSQL");
}

fn play(folder: &Path, node: &ServerProcess) {
    // A namespace is created before it is used; a near name is suggested.
    let missing = node.fed(&["-n", "team-a", "job", "apply", "-f", "-"], JOBS);
    assert_eq!(missing.status.code(), Some(NOT_FOUND), "{}", text(&missing.stderr));
    assert!(text(&missing.stderr).contains("evenkeel namespace create team-a"), "{}", text(&missing.stderr));
    assert_eq!(
        node.ok(&["namespace", "create", "team-a", "--jobs-max", "2"]),
        "namespace team-a is created\n"
    );
    node.ok(&["namespace", "create", "team-b", "--description", "the others"]);
    let again = refused(node, &["namespace", "create", "team-a"], CONFLICT);
    assert!(again.contains("exists already"), "{again}");
    let near = refused(node, &["-n", "team-c", "job", "list"], NOT_FOUND);
    assert!(near.contains("did you mean team-"), "{near}");

    // The same file for both, and a job of that name in `default`.
    apply(node, "team-a");
    apply(node, "team-b");
    node.fed(&["job", "apply", "-f", "-"], "[[job]]\nname = \"backup\"\ncommand = [\"/bin/true\"]\n");
    until("both fire", || {
        let fired = |name: &str| {
            let runs = node.json(&["-n", name, "run", "list", "--job", "backup", "--state", "succeeded"]);
            runs.as_array().is_some_and(|runs| runs.len() > 1)
        };
        (fired("team-a") && fired("team-b")).then_some(())
    });
    lists_are_filtered(node);
    outputs_are_apart(folder, node);
    limits_and_deletions_are_refused(node);
    declarations_are_read_back(node);
}

fn lists_are_filtered(node: &ServerProcess) {
    assert_eq!(column(&node.json(&["job", "list"]), "name"), ["backup"]);
    assert_eq!(column(&node.json(&["-n", "team-a", "job", "list"]), "name"), ["team-a/backup"]);
    assert_eq!(
        column(&node.json(&["job", "list", "-A"]), "name"),
        ["backup", "team-a/backup", "team-b/backup"]
    );
    assert_eq!(column(&node.json(&["-n", "team-b", "calendar", "list"]), "name"), ["team-b/freeze"]);
    assert_eq!(node.json(&["calendar", "list"]), json!([]));
    let hint = node.cli(&["job", "list"]);
    assert!(
        text(&hint.stderr).contains("2 more in other namespaces: -A shows them"),
        "{}",
        text(&hint.stderr)
    );
    assert_eq!(text(&node.cli(&["job", "list", "-A"]).stderr), "");
    let by_environment =
        node.client(&["job", "list", "-o", "json"]).env("EVENKEEL_NAMESPACE", "team-b").output();
    let by_environment = text(&by_environment.expect("it starts").stdout);
    assert!(
        by_environment.contains("team-b/backup") && !by_environment.contains("team-a"),
        "{by_environment}"
    );

    // Runs, in each history.
    for (namespace, prefix) in [("team-a", "team-a/backup"), ("team-b", "team-b/backup")] {
        let jobs = column(&node.json(&["-n", namespace, "run", "list"]), "job");
        assert!(!jobs.is_empty() && jobs.iter().all(|job| job == prefix), "{namespace}: {jobs:?}");
        let failed = node.json(&["-n", namespace, "run", "list", "--state", "failed"]);
        assert_eq!(failed, json!([]));
    }
    assert_eq!(node.json(&["run", "list"]), json!([]), "the job in default has not run");
    node.json(&["job", "run", "backup", "--request", "r"]);
    until("it has run", || {
        let jobs = column(&node.json(&["run", "list", "--state", "succeeded"]), "job");
        assert!(jobs.iter().all(|job| job == "backup"), "{jobs:?}");
        (!jobs.is_empty()).then_some(())
    });
    let all = column(&node.json(&["run", "list", "-A", "--limit", "500"]), "job");
    assert!(["backup", "team-a/backup", "team-b/backup"].iter().all(|job| all.iter().any(|one| one == job)));
    let running = node.json(&["-n", "team-a", "run", "running"]);
    let jobs = column(&running["runs"], "job");
    assert!(jobs.iter().all(|job| job == "team-a/backup"), "{jobs:?}");

    // The audit log, by jobs; and the API with names in paths.
    let audit = node.json(&["-n", "team-a", "audit"]);
    let objects = column(&audit, "object");
    assert!(objects.iter().any(|object| object == "job team-a/backup"), "{objects:?}");
    assert!(objects.iter().all(|object| !object.contains("team-b")), "{objects:?}");
    let (status, shown) = get(node, "/jobs/team-a%2Fbackup");
    assert_eq!((status, &shown["name"]), (200, &json!("team-a/backup")));
    assert_eq!(get(node, "/jobs/team-a/backup").0, 405, "a slash separates parts of a path");
    assert_eq!(get(node, "/jobs?namespace=nowhere").0, 404);
    assert_eq!(get(node, "/jobs?namespace=default").1["elsewhere"], 2);
    assert_eq!(get(node, "/events?namespace=team-a").0, 200);
    let (status, found) = get(node, "/namespaces");
    assert_eq!(status, 200);
    assert_eq!(column(&found["namespaces"], "name"), ["default", "team-a", "team-b"]);
    assert_eq!(
        (&found["namespaces"][1]["jobs"], &found["namespaces"][1]["jobs_max"]),
        (&json!(1), &json!(2))
    );
}

/// Each run says its own namespace, and its output lies in a folder of its own.
fn outputs_are_apart(folder: &Path, node: &ServerProcess) {
    for namespace in ["team-a", "team-b"] {
        let runs = node.json(&["-n", namespace, "run", "list", "--state", "succeeded"]);
        let run = column(&runs, "run").swap_remove(0);
        assert_eq!(node.ok(&["run", "logs", &run]), format!("{namespace} {namespace}/backup\n"));
        let alone = run.strip_prefix(&format!("{namespace}/")).expect("its namespace");
        assert_eq!(
            node.ok(&["-n", namespace, "run", "logs", alone]),
            format!("{namespace} {namespace}/backup\n")
        );
    }
    let logs = folder.join("a").join("logs");
    let mut folders: Vec<String> = std::fs::read_dir(&logs)
        .expect("the folder of outputs")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    folders.sort_unstable();
    assert_eq!(folders, ["backup", "team-a+backup", "team-b+backup"]);
    let explained = node.ok(&["-n", "team-a", "explain", "job", "backup"]);
    assert!(explained.contains("team-a/backup"), "{explained}");
}

fn limits_and_deletions_are_refused(node: &ServerProcess) {
    let more = "[[job]]\nname = \"x\"\ncommand = [\"/bin/true\"]\n[[job]]\nname = \"y\"\ncommand = [\"/bin/true\"]\n";
    let output = node.fed(&["-n", "team-a", "job", "apply", "-f", "-"], more);
    assert_eq!(output.status.code(), Some(CONFLICT), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("job team-a/y: namespace team-a holds 2 jobs, allowed are 2"), "{said}");
    assert_eq!(column(&node.json(&["-n", "team-a", "job", "list"]), "name"), ["team-a/backup", "team-a/x"]);
    node.ok(&["namespace", "set", "team-a", "--jobs-max", "none"]);
    let output = node.fed(&["-n", "team-a", "job", "apply", "-f", "-"], more);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = node.json(&["namespace", "show", "team-a"]);
    assert_eq!((&shown["jobs"], &shown["jobs_max"]), (&json!(3), &Value::Null));

    let said = refused(node, &["namespace", "set", "team-a", "--runs-max", "501"], INVALID);
    assert!(said.contains("runs_max allows 1 to 500"), "{said}");
    node.ok(&["namespace", "set", "team-a", "--runs-max", "3"]);
    node.ok(&["namespace", "set", "team-a", "--description", "billing"]);
    assert_eq!(node.json(&["namespace", "show", "team-a"])["runs_max"], json!(3), "it stays");
    let uncounted = "[[job]]\nname = \"u\"\nplacement = \"sharded\"\nmonitor_execution = false\ncommand = [\"/bin/true\"]\n";
    let output = node.fed(&["-n", "team-a", "job", "apply", "-f", "-"], uncounted);
    assert_eq!(output.status.code(), Some(CONFLICT), "{}", text(&output.stderr));

    let held = refused(node, &["namespace", "delete", "team-a"], CONFLICT);
    assert!(held.contains("namespace team-a holds 3 jobs and 1 calendar: delete them first"), "{held}");
    let third = "[[job]]\nname = \"z\"\nschedule = \"@daily\"\nexclude_calendars = [\"team-b/freeze\"]\ncommand = [\"/bin/true\"]\n";
    let output = node.fed(&["-n", "team-a", "job", "apply", "-f", "-"], third);
    assert!(text(&output.stderr).contains("of another namespace"), "{}", text(&output.stderr));
    for job in ["backup", "x", "y"] {
        node.ok(&["-n", "team-a", "job", "delete", job]);
    }
    node.ok(&["-n", "team-a", "calendar", "delete", "freeze"]);
    assert_eq!(node.ok(&["namespace", "delete", "team-a"]), "namespace team-a is deleted\n");
    assert_eq!(column(&node.json(&["job", "list", "-A"]), "name"), ["backup", "team-b/backup"]);
}

/// What `job show` prints is the same declaration again.
fn declarations_are_read_back(node: &ServerProcess) {
    let shown = node.ok(&["-n", "team-b", "job", "show", "backup"]);
    assert!(shown.contains("name = \"team-b/backup\""), "{shown}");
    for args in [&["job", "apply", "-f", "-"][..], &["-n", "team-c", "job", "apply", "-f", "-"]] {
        let applied = node.fed(args, &shown);
        assert!(
            text(&applied.stdout).starts_with("unchanged"),
            "{}{}",
            text(&applied.stdout),
            text(&applied.stderr)
        );
    }
}

#[test]
fn a_backup_holds_namespaces_and_what_they_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.ok(&["namespace", "create", "team-a", "--jobs-max", "5"]);
    apply(&node, "team-a");
    until("it fires", || {
        let runs = node.json(&["-n", "team-a", "run", "list", "--state", "succeeded"]);
        runs.as_array().is_some_and(|runs| !runs.is_empty()).then_some(())
    });
    let (registry, file) = (folder.path().join("registry.db"), folder.path().join("backup"));
    let (registry, file) = (format!("sqlite:{}", registry.display()), file.display().to_string());
    let restored = format!("sqlite:{}", folder.path().join("restored.db").display());
    let done = |args: &[&str]| {
        let output = evenkeel(args).output().expect("it starts");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let counts = done(&["cluster", "backup", "--registry", &registry, &file]);
    assert!(
        counts.lines().any(|line| line.contains("namespaces") && line.trim_end().ends_with('1')),
        "{counts}"
    );
    done(&["cluster", "restore", "--registry", &restored, "--may-repeat-runs", &file]);
    drop(node);
    let node = ServerProcess::serve(folder.path(), "b", &["--registry", &restored]);
    assert_eq!(column(&node.json(&["job", "list", "-A"]), "name"), ["team-a/backup"]);
    assert_eq!(node.json(&["namespace", "show", "team-a"])["jobs_max"], 5);
    until("it fires again", || {
        let runs = node.json(&["-n", "team-a", "run", "list", "--state", "succeeded"]);
        let runs = column(&runs, "node");
        runs.iter().any(|name| name == "b").then_some(())
    });
}
