//! Jobs that may run on some nodes only, on real nodes with labels.

use std::collections::BTreeSet;

use crate::process::{ServerProcess, text, until};

fn apply(node: &ServerProcess, jobs: &str) -> String {
    let applied = node.fed(&["job", "apply", "-f", "-"], jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    text(&applied.stderr)
}

/// The nodes that ran a job, and how often it ran.
fn ran(node: &ServerProcess, job: &str) -> (BTreeSet<String>, usize) {
    let rows = node.json(&["run", "list", "--job", job, "--state", "succeeded"]);
    let rows = rows.as_array().cloned().unwrap_or_default();
    (rows.iter().filter_map(|row| row["node"].as_str().map(str::to_owned)).collect(), rows.len())
}

#[test]
fn jobs_of_each_placement_run_where_they_fit_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let a = ServerProcess::serve(folder.path(), "a", &["--label", "gpu,zone=eu"]);
    let b = ServerProcess::serve(folder.path(), "b", &["--label", "zone=us", "--label", "spot"]);
    a.json(&["cluster", "settings", "--beat", "1s"]);
    let jobs = [("held", "claimed", "gpu"), ("sent", "dispatched", "zone=us"), ("cut", "sharded", "!spot")];
    let jobs = jobs.map(|(name, placement, nodes)| {
        format!(
            "[[job]]\nname = \"{name}\"\nschedule = \"@every 1s\"\nplacement = \"{placement}\"\n\
             node_selector = [\"{nodes}\"]\ncommand = [\"true\"]\n"
        )
    });
    assert_eq!(apply(&a, &jobs.concat()), "");
    for (job, node) in [("held", "a"), ("sent", "b"), ("cut", "a")] {
        let nodes = until(job, || Some(ran(&b, job)).filter(|(_, runs)| *runs >= 3)).0;
        assert_eq!(nodes, BTreeSet::from([node.to_owned()]), "{job}");
    }
    let listed = a.ok(&["node", "list"]);
    assert!(listed.contains("gpu,zone=eu") && listed.contains("spot,zone=us"), "{listed}");
    let refused = a.cli(&["job", "run", "cut", "--node", "b"]);
    let why = text(&refused.stderr);
    assert!(!refused.status.success() && why.contains("that is for nodes with !spot"), "{why}");
    assert!(why.contains("it has the labels spot,zone=us"), "{why}");
}

#[test]
fn a_job_moves_when_its_declaration_names_another_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let a = ServerProcess::serve(folder.path(), "a", &[]);
    let _b = ServerProcess::serve(folder.path(), "b", &[]);
    let job = |node: &str| {
        format!(
            "[[job]]\nname = \"j\"\nschedule = \"@every 1s\"\nnode_selector = [\"name={node}\"]\ncommand = [\"true\"]\n"
        )
    };
    let owner = || a.json(&["job", "show", "j", "--details"])["owner"].as_str().map(str::to_owned);
    for node in ["b", "a", "b"] {
        apply(&a, &job(node));
        until("it has moved", || (owner().as_deref() == Some(node)).then_some(()));
        let before = ran(&a, "j").1;
        until("it runs there", || (ran(&a, "j").1 > before + 1).then_some(()));
        let latest = &a.json(&["run", "list", "--job", "j"])[0]["node"];
        assert_eq!(latest, node);
    }
}

#[test]
fn where_no_node_fits_it_is_said_and_runs_once_one_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let a = ServerProcess::serve(folder.path(), "a", &[]);
    let job =
        "[[job]]\nname = \"j\"\nschedule = \"@every 1s\"\nnode_selector = [\"gpu\"]\ncommand = [\"true\"]\n";
    let warned = apply(&a, job);
    assert!(warned.contains("no living node fits job j, which is for gpu"), "{warned}");
    until("the list says so", || a.ok(&["job", "list"]).contains("no node fits").then_some(()));
    let why = a.ok(&["explain", "job", "j"]);
    assert!(why.contains("no living node fits gpu: start one with these labels"), "{why}");
    until("the event is told", || a.ok(&["event", "list"]).contains("unschedulable").then_some(()));
    let told = a.json(&["event", "list", "--kind", "unschedulable"]);
    assert_eq!(told.as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(ran(&a, "j").1, 0);
    let _b = ServerProcess::serve(folder.path(), "b", &["--label", "gpu"]);
    let nodes = until("it runs", || Some(ran(&a, "j")).filter(|(_, runs)| *runs > 0)).0;
    assert_eq!(nodes, BTreeSet::from(["b".to_owned()]));
    until("the list says so no more", || (!a.ok(&["job", "list"]).contains("no node fits")).then_some(()));
}
