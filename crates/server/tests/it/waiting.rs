//! Runs that wait: they are listed with the reason, and a request that no node can run is told of at once and taken back.

use serde_json::Value;

use crate::process::{Node, text, until};

const JOBS: &str = r#"
[[job]]
name = "train"
nodes = ["gpu"]
command = ["/bin/true"]

[[job]]
name = "sent"
placement = "dispatched"
nodes = ["gpu"]
command = ["/bin/true"]

[[job]]
name = "split"
placement = "sharded"
shards = 2
nodes = ["gpu"]
command = ["/bin/true"]

[[job]]
name = "fine"
command = ["/bin/true"]
"#;

fn served(folder: &std::path::Path, jobs: &str) -> Node {
    let node = Node::serve(folder, "a", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    node
}

fn rows(node: &Node, args: &[&str]) -> Vec<Value> {
    node.json(&[&["run", "list"], args].concat()).as_array().expect("a list").clone()
}

/// The only row of a run, once it says this.
fn row(node: &Node, run: &str, says: &str) -> Value {
    until(&format!("{run} waits: {says}"), || {
        let found = rows(node, &[]).into_iter().find(|row| row["run"] == run)?;
        found["reason"].as_str().is_some_and(|why| why.contains(says)).then_some(found)
    })
}

#[test]
fn a_request_that_no_node_can_run_is_told_of_at_once_listed_with_the_reason_and_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path(), JOBS);
    for (job, run) in [("train", "train:ask-r:0"), ("sent", "sent:ask-r:0"), ("split", "split:ask-r")] {
        let asked = node.cli(&["job", "run", job, "--request", "r"]);
        assert_eq!(asked.status.code(), Some(0), "{job}: it stays asked for");
        let warned = text(&asked.stderr);
        assert!(warned.contains("no living node fits job") && warned.contains("gpu"), "{job}: {warned}");
        assert!(warned.contains(&format!("`evenkeel run kill {run}` takes it back")), "{job}: {warned}");
        let waits = row(&node, run, "no living node fits gpu");
        assert_eq!((&waits["state"], &waits["job"]), (&"waiting".into(), &job.into()), "{waits}");
        assert_eq!(rows(&node, &["--state", "waiting", "--job", job]).len(), 1, "{job}");
        assert!(rows(&node, &["--state", "succeeded", "--job", job]).is_empty(), "{job}");
        let shown = node.ok(&["run", "show", run]);
        assert!(shown.starts_with("it waits: no living node fits gpu"), "{job}: {shown}");

        node.ok(&["run", "kill", run]);
        let ended = node.cli(&["run", "wait", run]);
        assert_eq!(ended.status.code(), Some(1), "{job}: {}", text(&ended.stderr));
        assert!(text(&ended.stdout).contains("ended by hand"), "{job}: {}", text(&ended.stdout));
        assert!(rows(&node, &["--job", job]).iter().all(|row| row["state"] == "skipped"), "{job}");
        let again = node.cli(&["run", "kill", run]);
        assert_ne!(again.status.code(), Some(0), "{job}: it is over");
    }
    let fine = node.cli(&["job", "run", "fine"]);
    assert_eq!(text(&fine.stderr), "", "a node can run it");
}

#[test]
fn runs_that_wait_for_the_run_before_or_for_a_seat_are_listed_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let held = folder.path().join("held").display().to_string();
    let job = |name: &str, more: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\n{more}\nshell = true\ncommand = \"until test -e {held}; do sleep 0.1; done\"\n"
        )
    };
    let jobs = [
        job("queued", "schedule = \"@every 1s\"\noverlap = { queue = 2 }\n"),
        job("one", "pool = { name = \"db\", at_most = 1 }"),
        job("two", "pool = { name = \"db\", at_most = 1 }"),
        job("busy", ""),
    ];
    let node = served(folder.path(), &jobs.concat());
    node.ok(&["job", "run", "busy", "--request", "r"]);
    node.ok(&["job", "run", "busy", "--request", "s"]);
    row(&node, "busy:ask-s:0", "it waits for the end of run busy:ask-r:0");
    node.ok(&["job", "run", "one", "--request", "r"]);
    until("it goes on", || {
        (node.json(&["run", "list", "--job", "one"])[0]["state"] == "running").then_some(())
    });
    node.ok(&["job", "run", "two", "--request", "r"]);
    let waits = row(&node, "two:ask-r:0", "it waits for a seat in pool db, where these go on: one:ask-r:0");
    assert_eq!(waits["node"], "a", "it has claimed it: {waits}");
    let queued = until("two fires wait", || {
        let waits = rows(&node, &["--job", "queued", "--state", "waiting"]);
        (waits.len() == 2).then_some(waits)
    });
    let why = queued[0]["reason"].as_str().unwrap_or_default();
    assert!(why.starts_with("it waits for the end of run queued:"), "{queued:?}");
    let table = node.ok(&["run", "list", "--state", "waiting"]);
    assert!(table.contains("queued:") && table.contains("waiting"), "{table}");
    node.ok(&["job", "delete", "queued"]);
    std::fs::write(&held, "").expect("a file");
    node.ok(&["run", "wait", "two:ask-r:0"]);
    assert_eq!(
        node.ok(&["run", "list", "--state", "waiting", "--job", "two"]),
        "no run of job two is waiting\n"
    );
}

#[test]
fn a_job_that_there_is_not_is_no_empty_list() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path(), "[[job]]\nname = \"backup\"\ncommand = [\"/bin/true\"]\n");
    let refused = node.cli(&["run", "list", "--job", "bakup"]);
    assert_eq!(refused.status.code(), Some(4));
    let said = text(&refused.stderr);
    assert!(said.contains("no job is called bakup: did you mean backup?"), "{said}");
    let none = node.ok(&["run", "list", "--job", "backup"]);
    assert_eq!(none, "no runs of job backup yet: run one by hand with `evenkeel job run backup`\n");
    let run = node.json(&["job", "run", "backup"])["run"].as_str().expect("a run").to_owned();
    node.ok(&["run", "wait", &run]);
    node.ok(&["job", "delete", "backup"]);
    assert_eq!(rows(&node, &["--job", "backup"]).len(), 1, "its history stays");
}

#[test]
fn a_run_that_is_restarted_where_no_node_can_run_it_says_that_it_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path(), JOBS);
    node.ok(&["job", "run", "fine", "--request", "r"]);
    node.ok(&["run", "wait", "fine:ask-r:0"]);
    let elsewhere = "[[job]]\nname = \"fine\"\nnodes = [\"gpu\"]\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], elsewhere).status.success());
    let again = node.cli(&["run", "restart", "fine:ask-r:0"]);
    let warned = text(&again.stderr);
    assert_eq!(again.status.code(), Some(0), "{warned}");
    assert!(warned.contains(" waits: ") && warned.contains("no living node fits job"), "{warned}");
}
