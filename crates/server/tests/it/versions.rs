//! A tree in a layout that the program does not know, and the order that raises one.

use std::path::Path;

use serde_json::json;

use crate::process::{ServerProcess, run, text};

const SAYS: &str = "it has layout 3, this program knows 2: use a newer program";

/// Gives the tree of a cluster at rest another layout, as a program of another version would have.
fn set_layout(folder: &Path, layout: u32) {
    let base = rusqlite::Connection::open(folder.join("registry.db")).expect("the registry opens");
    let value: Vec<u8> = base
        .query_row("SELECT value FROM entry WHERE key = 'cluster'", [], |row| row.get(0))
        .expect("the first node wrote it");
    let mut record: serde_json::Value = serde_json::from_slice(&value).expect("it is JSON");
    record["layout"] = layout.into();
    let value = serde_json::to_vec(&record).expect("it is JSON");
    let changed = base.execute("UPDATE entry SET value = ?1 WHERE key = 'cluster'", [value]);
    assert_eq!(changed.expect("it is written"), 1);
}

/// proves: I49
#[test]
fn a_program_that_does_not_know_the_layout_leaves_the_cluster_alone_and_says_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert_eq!(node.json(&["cluster", "finalize-upgrade"]), json!([{ "layout": 2, "applied": "unchanged" }]));
    node.signal("TERM");
    assert_eq!(node.end(), 0);
    set_layout(folder.path(), 3);
    let refused = ServerProcess::command(folder.path(), "b", &[]).output().expect("evenkeel starts");
    assert!(!refused.status.success());
    let why = text(&refused.stderr);
    assert!(why.contains("no node can join") && why.contains(SAYS), "{why}");
    let registry = format!("sqlite:{}", folder.path().join("registry.db").display());
    let file = folder.path().join("backup").display().to_string();
    let backup = vec!["cluster", "backup", &file, "--registry", &registry];
    for words in [backup, vec!["cluster", "doctor", "--registry", &registry, "-o", "json"]] {
        let refused = run(&words);
        assert!(!refused.status.success());
        let said = text(&refused.stdout) + &text(&refused.stderr);
        assert!(said.contains(SAYS), "{said}");
    }
    set_layout(folder.path(), 2);
    let again = ServerProcess::serve(folder.path(), "b", &[]);
    assert_eq!(again.json(&["cluster", "finalize-upgrade"])[0]["layout"], 2);
}
