//! One verb on many jobs, on the command line.

use serde_json::Value;

use crate::process::{ServerProcess, text};

/// The names of the jobs that are in this state.
fn jobs(node: &ServerProcess, is: &str) -> Vec<String> {
    let rows = node.json(&["job", "list"]);
    let rows = rows.as_array().expect("a list").iter().filter(|row| row[is] == true);
    rows.filter_map(|row| row["name"].as_str().map(str::to_owned)).collect()
}

/// The lines of a table, with one space between two cells.
fn words(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn many_jobs_are_switched_run_and_deleted_by_their_labels() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = |name: &str, team: &str| {
        format!("[[job]]\nname = \"{name}\"\ncommand = [\"/bin/true\"]\nlabels = {{ team = \"{team}\" }}\n")
    };
    let declared = [job("a1", "a"), job("a2", "a"), job("b1", "b")].concat();
    assert!(node.fed(&["job", "apply", "-f", "-"], &declared).status.success());

    for empty in ["", " ", ",", "team=a,"] {
        let refused = node.cli(&["job", "delete", "-l", empty, "--yes"]);
        assert_eq!(refused.status.code(), Some(2), "{empty:?} does not mean all: {}", text(&refused.stderr));
    }
    let trial = node.ok(&["job", "pause", "-l", "team=a", "--dry-run"]);
    let expected =
        ["JOB OUTCOME MORE", "a1 would be paused -", "a2 would be paused -", "", "2 would be paused"];
    assert_eq!(words(&trial), expected);
    assert_eq!(jobs(&node, "paused"), [""; 0]);
    let refused = node.cli(&["job", "pause", "--all"]);
    assert_eq!(refused.status.code(), Some(2), "no person can be asked");
    assert!(text(&refused.stderr).contains("pause 3 jobs? Say so with --yes"), "{}", text(&refused.stderr));
    node.ok(&["job", "pause", "-l", "team=a"]);
    assert_eq!(jobs(&node, "paused"), ["a1", "a2"]);
    node.ok(&["job", "resume", "--all", "--yes"]);
    assert_eq!(jobs(&node, "paused"), [""; 0]);

    node.ok(&["job", "disable", "b1"]);
    let ran = node.cli(&["job", "run", "--all", "--yes", "-o", "json"]);
    assert_eq!(ran.status.code(), Some(6), "a disabled job does not run: {}", text(&ran.stderr));
    let rows: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let done: Vec<(&str, bool)> = rows
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| (row["job"].as_str().expect("a name"), row["done"] == true))
        .collect();
    assert_eq!(done, [("a1", true), ("a2", true), ("b1", false)]);
    assert!(text(&ran.stderr).contains("1 of 3 jobs refused"), "{}", text(&ran.stderr));

    assert_eq!(node.cli(&["job", "delete", "-l", "team=a"]).status.code(), Some(2), "no person can be asked");
    node.ok(&["job", "delete", "-l", "team=a", "--dry-run"]);
    assert_eq!(node.ok(&["job", "list", "-o", "name"]), "a1\na2\nb1\n");
    let deleted = node.ok(&["job", "delete", "-l", "team=a", "--yes"]);
    assert_eq!(words(&deleted), ["JOB OUTCOME MORE", "a1 deleted -", "a2 deleted -", "", "2 deleted"]);
    assert_eq!(node.ok(&["job", "list", "-o", "name"]), "b1\n");
    assert_eq!(node.ok(&["job", "delete", "-l", "team=a", "--yes"]), "no job matches\n");
    for wrong in [
        &["job", "pause", "b1", "--all"][..],
        &["job", "pause"],
        &["job", "pause", "b1", "--dry-run"],
        &["job", "run", "--all", "--yes", "--follow"],
        &["job", "pause", "-l", "team=b", "--node", "a"],
        &["job", "pause", "b1", "-A"],
    ] {
        assert_eq!(node.cli(wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(jobs(&node, "paused"), [""; 0]);
}
