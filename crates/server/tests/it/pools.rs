//! Pools, and namespaces that limit their runs, on real nodes.

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

/// When runs were under way, from their rows.
fn spans(rows: &[Value]) -> Vec<(String, String)> {
    let span = |row: &Value| Some((row["started"].as_str()?.to_owned(), row["ended"].as_str()?.to_owned()));
    rows.iter().filter_map(span).collect()
}

/// How many of them went on at once, at most.
fn most(spans: &[(String, String)]) -> usize {
    let during = |at: &str| spans.iter().filter(|(from, to)| from.as_str() <= at && at < to.as_str()).count();
    spans.iter().map(|(from, _)| during(from)).max().unwrap_or(0)
}

/// proves: I55
#[test]
fn of_the_jobs_of_a_pool_no_more_run_at_once_than_it_allows_on_all_nodes_together() {
    two_of_six_run_at_once("default", "pool = { name = \"db\", limit = 2 }\n", "pool db");
}

/// proves: I55
#[test]
fn of_the_jobs_of_a_namespace_no_more_run_at_once_than_it_allows_on_all_nodes_together() {
    two_of_six_run_at_once("team-a", "", "namespace team-a");
}

/// Runs six jobs of a namespace, with this line in each declaration, where this limit allows two runs at once.
fn two_of_six_run_at_once(namespace: &str, line: &str, limit: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let a = ServerProcess::serve(folder.path(), "a", &[]);
    let b = ServerProcess::serve(folder.path(), "b", &[]);
    if line.is_empty() {
        a.ok(&["namespace", "create", namespace, "--runs-max", "2"]);
    }
    let held = folder.path().join("held").display().to_string();
    let job = |n: usize| {
        format!(
            "[[job]]\nname = \"j{n}\"\n{line}shell = true\ncommand = \"until test -e {held}; do sleep 0.1; done\"\n"
        )
    };
    let jobs: String = (0..6).map(job).collect();
    let applied = a.fed(&["-n", namespace, "job", "apply", "-f", "-"], &jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    (0..6).for_each(|n| drop(a.ok(&["-n", namespace, "job", "run", &format!("j{n}")])));
    let rows = || a.json(&["-n", namespace, "run", "list"]).as_array().expect("a list").clone();
    let said = until("no more may run", || {
        let said = a.ok(&["-n", namespace, "explain", "job", "j0"]);
        said.contains(&format!("{limit} is full")).then_some(said)
    });
    assert!(said.contains("waits until one of these 2 ends"), "{said}");
    let running = |row: &Value| row["state"] == "running";
    until("two go on", || (rows().iter().filter(|row| running(row)).count() == 2).then_some(()));
    std::fs::write(&held, "").expect("a file");
    let ended = |row: &Value| row["state"] == "succeeded";
    until("all have run", || (rows().iter().filter(|row| ended(row)).count() == 6).then_some(()));
    let spans = spans(&rows());
    assert_eq!((spans.len(), most(&spans)), (6, 2), "{spans:?}");
    drop(b);
}

#[test]
fn a_pool_that_makes_no_sense_is_refused_with_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let refused = |line: &str| {
        let file = format!("[[job]]\nname = \"j\"\n{line}\ncommand = [\"true\"]\n");
        let out = node.fed(&["job", "apply", "-f", "-"], &file);
        assert!(!out.status.success());
        text(&out.stderr)
    };
    assert!(refused("pool = { name = \"db\", limit = 0 }").contains("allowed are 1 to 500"));
    assert!(refused("pool = { name = \"db\" }").contains("limit"));
    assert!(refused("pool = \"db\"").contains("pool takes a pool, as { name = "));
}

#[test]
fn what_waits_for_a_seat_is_ended_by_hand_and_never_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = ["a", "b"].map(|name| ServerProcess::serve(folder.path(), name, &[]));
    let [a, b] = &nodes;
    let job = |name: &str, command: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\npool = {{ name = \"db\", limit = 1 }}\nshell = true\ncommand = \"{command}\"\n"
        )
    };
    let [held, mark] = ["held", "mark"].map(|name| folder.path().join(name).display().to_string());
    let jobs = [
        job("long", &format!("until test -e {held}; do sleep 0.1; done")),
        job("short", &format!("touch {mark}")),
    ];
    let applied = a.fed(&["job", "apply", "-f", "-"], &jobs.concat());
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let run = |name: &str| a.json(&["job", "run", name])["run"].as_str().expect("a run").to_owned();
    let long = run("long");
    let state = |run: &str| a.json(&["run", "show", run])["attempts"][0]["state"].as_str().map(str::to_owned);
    until("it goes on", || (state(&long)? == "running").then_some(()));
    let short = run("short");
    until("the other one waits", || {
        a.ok(&["explain", "run", &short]).contains("waits for a permit of pool db").then_some(())
    });
    until("the other node has heard of the job and ends it", || {
        b.cli(&["run", "kill", &short]).status.success().then_some(())
    });
    assert_eq!(a.cli(&["run", "wait", &short]).status.code(), Some(1));
    let shown = a.json(&["run", "show", &short]);
    assert_eq!(shown["attempts"][0]["state"], "skipped", "{shown}");
    assert_eq!(shown["attempts"][0]["reason"], "ended by an operator", "{shown}");
    std::fs::write(&held, "").expect("a file");
    assert_eq!(a.cli(&["run", "wait", &long]).status.code(), Some(0));
    assert!(!std::path::Path::new(&mark).exists(), "it ran after all");
}
