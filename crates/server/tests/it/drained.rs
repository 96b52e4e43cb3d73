//! A node that is drained says when it may be stopped, and what is in the way of a drain is named.

use std::path::Path;

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

/// A sharded job whose next fire is months away.
const YEARLY: &str = "[[job]]\nname = \"yearly\"\nplacement = \"sharded\"\nshards = 6\n\
                      schedule = \"0 0 1 1 *\"\ncommand = [\"/bin/true\"]\n";

fn row(node: &ServerProcess, name: &str) -> Value {
    let rows = node.living();
    rows.into_iter().find(|row| row["name"] == name).expect("it lives")
}

fn fleet(folder: &Path, names: &[&str], more: &[&[&str]]) -> Vec<ServerProcess> {
    let nodes: Vec<ServerProcess> =
        names.iter().zip(more).map(|(name, more)| ServerProcess::serve(folder, name, more)).collect();
    until("all see all", || nodes.iter().all(|node| node.living().len() == names.len()).then_some(()));
    nodes
}

/// proves: S1-39, S1-60, S1-61
#[test]
fn a_drain_that_waits_returns_when_the_node_owns_nothing_any_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = fleet(folder.path(), &["a", "b", "c"], &[&[], &[], &[]]);
    let [a, b, _] = nodes.as_slice() else { panic!("three nodes") };
    // Each of three nodes holds two of six jobs that run until they are ended.
    let slow = |n| format!("[[job]]\nname = \"slow{n}\"\ncommand = [\"/bin/sleep\", \"3600\"]\n");
    let jobs: String = (0..6).map(slow).chain([YEARLY.to_owned()]).collect();
    assert!(a.fed(&["job", "apply", "-f", "-"], &jobs).status.success());
    let fire = a.json(&["job", "run", "yearly"])["run"].as_str().expect("a run").to_owned();
    a.ok(&["run", "wait", &fire]);
    let held = until("b has jobs and shards", || {
        let jobs = a.json(&["job", "list"]);
        let held = jobs.as_array()?.iter().find(|job| job["owner"] == "b" && job["name"] != "yearly")?;
        let b = row(a, "b");
        (b["shards"] == 2 && b["held"] == 2).then(|| held["name"].as_str().expect("a name").to_owned())
    });
    let run = a.json(&["job", "run", &held])["run"].as_str().expect("a run").to_owned();
    until("it runs on b", || {
        let shown = a.cli(&["run", "show", &run, "-o", "json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).ok()?;
        (shown["attempts"][0]["node"] == "b" && shown["attempts"][0]["state"] == "running").then_some(())
    });
    let given_up = a.cli(&["node", "drain", "b", "--wait", "--timeout", "1s"]);
    assert_eq!(given_up.status.code(), Some(7), "{}", text(&given_up.stderr));
    assert!(text(&given_up.stderr).contains("node b is not drained yet"), "{}", text(&given_up.stderr));
    until("its idle shards are gone at once", || (row(a, "b")["shards"] == 0).then_some(()));
    let draining = row(a, "b");
    assert_eq!((&draining["state"], &draining["drained"]), (&"draining".into(), &false.into()), "{draining}");

    let waiting = a.client(&["node", "drain", "b", "--wait"]).stdout(std::process::Stdio::piped()).spawn();
    let waiting = waiting.expect("evenkeel starts");
    b.ok(&["run", "kill", &run]);
    let done = waiting.wait_with_output().expect("it ends");
    assert!(done.status.success(), "{done:?}");
    assert!(text(&done.stdout).contains("node b is drained: it may be stopped"), "{}", text(&done.stdout));
    assert_eq!(row(a, "b")["state"], "drained");
    assert!(a.ok(&["node", "list"]).contains("drained, may be stopped"));
    until("it told the event, once", || {
        let told = b.json(&["event", "list", "--kind", "drained"]);
        let told = told["events"].as_array().or(told.as_array()).expect("a list").len();
        assert!(told <= 1);
        (told == 1).then_some(())
    });
    let again = a.json(&["node", "drain", "b", "--wait"]);
    assert_eq!(again["drained"], true, "{again}");
    a.ok(&["node", "undrain", "b"]);
    until("it takes part again", || (row(a, "b")["state"] == "online").then_some(()));
}

/// proves: S1-63
#[test]
fn the_jobs_in_the_way_of_a_drain_are_named_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = fleet(folder.path(), &["a", "b"], &[&["--label", "gpu"], &[]]);
    let job = |name: &str, more: &str| {
        format!("[[job]]\nname = \"{name}\"\ncommand = [\"/bin/true\"]\nnode_selector = [\"gpu\"]\n{more}")
    };
    let jobs = [
        job("render", ""),
        job("send", "placement = \"dispatched\"\n"),
        job("cut", "placement = \"sharded\"\nshards = 2\n"),
        "[[job]]\nname = \"anywhere\"\ncommand = [\"/bin/true\"]\n".to_owned(),
    ];
    assert!(nodes[0].fed(&["job", "apply", "-f", "-"], &jobs.concat()).status.success());
    let why = "it is for nodes with gpu, and b does not meet gpu";
    let then = until("b has heard of all", || {
        let found = nodes[1].json(&["node", "balance", "--simulate", "drain=a"]);
        let then = found["then"].clone();
        (then["obstacles"].as_array().map(Vec::len) == Some(3)).then_some(then)
    });
    let obstacle = |job: &str| serde_json::json!({ "job": job, "why": why });
    assert_eq!(then["obstacles"], serde_json::json!([obstacle("cut"), obstacle("render"), obstacle("send")]));
    assert_eq!(then["obstacles_more"], 0);
    let said = nodes[1].ok(&["node", "balance", "--simulate", "kill=a"]);
    assert!(said.contains(&format!("in the way: job send: {why}")), "{said}");
    assert_eq!(
        nodes[1].json(&["node", "balance", "--simulate", "drain=b"])["then"]["obstacles"],
        serde_json::json!([])
    );
    let refused = nodes[1].cli(&["node", "drain", "a"]);
    assert_eq!(refused.status.code(), Some(6));
    let said = text(&refused.stderr);
    assert!(said.contains(&format!("in the way: job cut: {why}")) && said.contains("--force"), "{said}");
    // Room for claimed jobs is no node for the others.
    nodes[1].ok(&["job", "delete", "render"]);
    let refused = nodes[1].cli(&["node", "drain", "a"]);
    assert!(text(&refused.stderr).contains("leaves jobs without a node"), "{}", text(&refused.stderr));
}

/// A cordon lasts through a restart, and drain and cordon are two switches.
#[test]
fn a_cordoned_node_keeps_its_job_gets_no_other_and_stays_cordoned_through_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut nodes = fleet(folder.path(), &["a", "b"], &[&[], &["--label", "own"]]);
    let job = |name: &str| {
        format!("[[job]]\nname = \"{name}\"\nnode_selector = [\"own\"]\ncommand = [\"/bin/true\"]\n")
    };
    assert!(nodes[0].fed(&["job", "apply", "-f", "-"], &job("kept")).status.success());
    let owner =
        |node: &ServerProcess, job: &str| node.json(&["job", "show", job, "--details"])["owner"].clone();
    until("b owns its job", || (owner(&nodes[0], "kept") == "b").then_some(()));

    nodes[0].ok(&["node", "cordon", "b"]);
    let again = nodes[0].json(&["node", "cordon", "b"]);
    assert_eq!(again["applied"], "unchanged", "{again}");
    let state = until("a sees it", || Some(row(&nodes[0], "b")).filter(|row| row["state"] == "cordoned"));
    assert_eq!((&state["cordoned"], &state["draining"]), (&true.into(), &false.into()), "{state}");
    let list = nodes[0].ok(&["node", "list"]);
    assert!(list.contains("cordoned"), "{list}");

    assert!(nodes[0].fed(&["job", "apply", "-f", "-"], &job("late")).status.success());
    let why = "every node that fits own is cordoned: start one or uncordon one";
    let told = nodes[0].ok(&["explain", "job", "late"]);
    assert!(told.contains(why), "{told}");
    // What it has it goes on running.
    let run = nodes[0].json(&["job", "run", "kept"])["run"].as_str().expect("a run").to_owned();
    nodes[0].ok(&["run", "wait", &run]);
    assert_eq!((owner(&nodes[0], "kept"), owner(&nodes[0], "late")), ("b".into(), Value::Null));

    let unknown = nodes[0].cli(&["node", "cordon", "c"]);
    assert!(!unknown.status.success() && text(&unknown.stderr).contains("no living node is called c"));

    let b = nodes.pop().expect("b");
    b.signal("TERM");
    assert_eq!(b.end(), 0);
    until("b is gone", || (nodes[0].living().len() == 1).then_some(()));
    nodes.push(ServerProcess::serve(folder.path(), "b", &["--label", "own"]));
    until("b is back", || (nodes[0].living().len() == 2).then_some(()));
    assert_eq!(row(&nodes[0], "b")["state"], "cordoned");
    let undrained = nodes[0].json(&["node", "undrain", "b"]);
    assert_eq!(undrained["applied"], "unchanged", "{undrained}");
    let claims = nodes[1].ok(&["job", "claim"]);
    assert!(claims.contains("node b is cordoned"), "{claims}");

    let back = nodes[0].json(&["node", "uncordon", "b"]);
    assert_eq!(back["applied"], "updated", "{back}");
    until("b owns both jobs", || {
        (owner(&nodes[0], "kept") == "b" && owner(&nodes[0], "late") == "b").then_some(())
    });
    assert_eq!(row(&nodes[0], "b")["state"], "online");
    let audit = nodes[0].ok(&["audit"]);
    assert!(audit.contains("cordon") && audit.contains("uncordon"), "{audit}");
}
