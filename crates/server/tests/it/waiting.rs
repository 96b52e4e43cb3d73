//! Runs that wait: they are listed with the reason, and a request that no node can run is told of at once and taken back.

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "train"
node_selector = ["gpu"]
command = ["/bin/true"]

[[job]]
name = "sent"
placement = "dispatched"
node_selector = ["gpu"]
command = ["/bin/true"]

[[job]]
name = "split"
placement = "sharded"
shards = 2
node_selector = ["gpu"]
command = ["/bin/true"]

[[job]]
name = "fine"
command = ["/bin/true"]
"#;

fn served(folder: &std::path::Path, jobs: &str) -> ServerProcess {
    let node = ServerProcess::serve(folder, "a", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    node
}

fn rows(node: &ServerProcess, args: &[&str]) -> Vec<Value> {
    node.json(&[&["run", "list"], args].concat()).as_array().expect("a list").clone()
}

/// The only row of a run, once it says this.
fn row(node: &ServerProcess, run: &str, says: &str) -> Value {
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
        assert_eq!(warned.matches("no living node fits gpu").count(), 1, "{job}: {warned}");
        assert!(!text(&asked.stdout).contains("shards"), "no shard runs: {}", text(&asked.stdout));
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
        assert!(text(&ended.stdout).contains("ended by an operator"), "{job}: {}", text(&ended.stdout));
        assert!(rows(&node, &["--job", job]).iter().all(|row| row["state"] == "skipped"), "{job}");
        let again = node.cli(&["run", "kill", run]);
        assert_ne!(again.status.code(), Some(0), "{job}: it is over");
    }
    let claims = node.ok(&["job", "claim"]);
    let left = "claiming 0 jobs; without a node: 1 job\n1 job: they are for nodes with gpu, and node a does not meet gpu\n";
    assert_eq!(claims, left);
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
        job("one", "pool = { name = \"db\", limit = 1 }"),
        job("two", "pool = { name = \"db\", limit = 1 }"),
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
    let waits = row(&node, "two:ask-r:0", "it waits for a permit of pool db, where these go on: one:ask-r:0");
    assert_eq!(waits["node"], "a", "it has claimed it: {waits}");
    let queued = until("two fires wait", || {
        let waits = rows(&node, &["--job", "queued", "--state", "waiting"]);
        (waits.len() == 2).then_some(waits)
    });
    let why = queued[0]["reason"].as_str().unwrap_or_default();
    assert!(why.starts_with("it waits for the end of run queued:"), "{queued:?}");
    let table = node.ok(&["run", "list", "--state", "waiting"]);
    let line = |run: &str| table.lines().find(|line| line.starts_with(run)).unwrap_or_default().to_owned();
    assert!(line("queued:").contains(" due ") && line("two:ask-r:0").contains(" waiting "), "{table}");
    assert!(table.contains("due: fires that no node has claimed"), "{table}");
    let killable = |job: &str| rows(&node, &["--job", job, "--state", "waiting"])[0]["killable"].clone();
    assert_eq!((killable("queued"), killable("two")), (false.into(), true.into()));
    let few = node.cli(&["run", "list", "--limit", "4"]);
    let (table, more) = (text(&few.stdout), text(&few.stderr));
    assert!(table.lines().filter(|line| line.contains(" running ")).count() == 2, "{table}");
    assert!(more.contains("more wait: see them with `evenkeel run list --state waiting"), "{more}");
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
    assert_eq!(none, "no runs of job backup yet: start one with `evenkeel job run backup`\n");
    let run = node.json(&["job", "run", "backup"])["run"].as_str().expect("a run").to_owned();
    node.ok(&["run", "wait", &run]);
    node.ok(&["job", "delete", "backup"]);
    assert_eq!(rows(&node, &["--job", "backup"]).len(), 1, "its history stays");
}

/// What each of the verbs that are asked says of why a request waits.
fn reported_by_all(node: &ServerProcess, job: &str, run: &str) -> [String; 4] {
    let listed = rows(node, &["--job", job, "--state", "waiting"]);
    let listed = listed.iter().find(|row| row["run"] == run).expect("it is listed");
    let says = |about: &[&str]| node.json(about)["says"].as_str().expect("a text").to_owned();
    [
        listed["reason"].as_str().expect("a reason").to_owned(),
        says(&["explain", "job", job]),
        says(&["explain", "run", run]),
        node.ok(&["run", "show", run]),
    ]
}

#[test]
fn whoever_asks_why_a_request_waits_hears_the_same_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--label", "gpu"]);
    let _other = ServerProcess::serve(folder.path(), "b", &[]);
    let one = |name: &str, more: &str| {
        format!("[[job]]\nname = \"{name}\"\nnode_selector = [\"gpu\"]\n{more}\ncommand = [\"/bin/true\"]\n")
    };
    let jobs = [
        one("split", "placement = \"sharded\"\nshards = 1"),
        one("sent", "placement = \"dispatched\""),
        one("held", ""),
    ];
    let applied = node.fed(&["job", "apply", "-f", "-"], &jobs.concat());
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    node.ok(&["job", "shutdown", "split", "--node", "a"]);
    let asked = |job: &str, why: &str| {
        let run = format!("{job}:ask-r:0");
        let said = node.cli(&["job", "run", job, "--request", "r"]);
        let (out, warned) = (text(&said.stdout), text(&said.stderr));
        assert!(said.status.success() && warned.contains(&format!("run {run} waits: {why}")), "{warned}");
        assert!(!out.contains("shard") && out.contains("no node runs it before that changes"), "{out}");
        until(&format!("all say of {job}: {why}"), || {
            reported_by_all(&node, job, &run).iter().all(|said| said.contains(why)).then_some(())
        });
    };
    asked("split", "no node takes part in job split: a was shut down for it");
    node.ok(&["node", "drain", "a", "--force"]);
    until("it is given up", || {
        (node.json(&["explain", "job", "held"])["facts"]["holder"].is_null()).then_some(())
    });
    asked("held", "every node that fits gpu drains");
    asked("sent", "every node that fits gpu drains");
}

#[test]
fn a_run_that_is_restarted_where_no_node_can_run_it_says_that_it_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path(), JOBS);
    node.ok(&["job", "run", "fine", "--request", "r"]);
    node.ok(&["run", "wait", "fine:ask-r:0"]);
    let elsewhere = "[[job]]\nname = \"fine\"\nnode_selector = [\"gpu\"]\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], elsewhere).status.success());
    let again = node.cli(&["run", "restart", "fine:ask-r:0"]);
    let warned = text(&again.stderr);
    assert_eq!(again.status.code(), Some(0), "{warned}");
    assert!(warned.contains(" waits: ") && warned.contains("no living node fits gpu"), "{warned}");
}

#[test]
fn a_run_that_waited_for_a_slot_here_and_began_on_another_node_is_ended_from_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |name: &str| ServerProcess::serve(folder.path(), name, &["--slots", "1"]);
    let full = serve("b");
    let long = |n: u8| {
        format!(
            "[[job]]\nname = \"long{n}\"\nplacement = \"dispatched\"\ncommand = [\"/bin/sleep\", \"3600\"]\n\n"
        )
    };
    let applied = full.fed(&["job", "apply", "-f", "-"], &(long(0) + &long(1)));
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    full.ok(&["job", "run", "long0", "--request", "r"]);
    let run = "long1:ask-r:0";
    until("long0 has the slot", || (!rows(&full, &["--state", "running"]).is_empty()).then_some(()));
    full.ok(&["job", "run", "long1", "--request", "r"]);
    until("long1 waits for it", || {
        text(&full.cli(&["explain", "run", run]).stdout).contains("b has no free slot").then_some(())
    });
    let _free = serve("a");
    until("long1 runs on the other node", || {
        let running = rows(&full, &["--state", "running"]);
        running.into_iter().find(|row| row["run"] == run && row["node"] == "a")
    });
    full.ok(&["run", "kill", run]);
    until("it has ended", || {
        let attempts = full.json(&["run", "show", run])["attempts"].clone();
        (attempts[0]["state"] == "killed" || attempts[0]["state"] == "stopped").then_some(())
    });
}
