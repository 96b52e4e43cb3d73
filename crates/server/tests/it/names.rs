//! Names that nobody has and words that mean nothing: each verb says so in the same way, with the nearest that there is.

use crate::process::{ServerProcess, text};

const JOBS: &str = r#"
[[job]]
name = "backup"
schedule = "at 2099-01-01T06:00:00Z"
command = ["/bin/true"]

[[job]]
name = "split"
placement = "sharded"
shards = 2
command = ["/bin/true"]

[[calendar]]
name = "holidays"
days = ["2099-01-01"]
"#;

fn served(folder: &std::path::Path) -> ServerProcess {
    let node = ServerProcess::serve(folder, "worker", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], JOBS);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    node
}

fn refused(node: &ServerProcess, args: &[&str], code: i32, words: &str) {
    let output = node.cli(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(words), "{args:?}: {said}");
}

#[test]
fn every_verb_that_names_a_job_a_node_or_a_calendar_says_which_one_may_be_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path());
    let job = "no job is called bakcup: did you mean backup?";
    for verb in ["show", "next", "run", "pause", "resume", "enable", "disable", "shutdown", "delete"] {
        refused(&node, &["job", verb, "bakcup"], 4, job);
    }
    for args in [
        &["job", "pause", "bakcup", "--node", "worker"][..],
        &["job", "run", "bakcup", "--node", "worker"],
        &["job", "backfill", "bakcup", "--from", "1h"],
        &["job", "backfill", "bakcup", "--cancel", "b"],
        &["shard", "list", "bakcup"],
        &["shard", "enable", "bakcup", "0"],
        &["shard", "disable", "bakcup", "0"],
        &["explain", "job", "bakcup"],
        &["run", "kill", "bakcup:1:0"],
        &["run", "restart", "bakcup:1:0"],
        &["run", "show", "bakcup:1:0"],
        &["run", "show", "bakcup:1"],
        &["run", "list", "--job", "bakcup"],
    ] {
        refused(&node, args, 4, job);
    }
    let other = "no living node is called wroker: did you mean worker?";
    for args in [
        &["node", "drain", "wroker"][..],
        &["node", "undrain", "wroker"],
        &["node", "activate", "wroker"],
        &["node", "load", "wroker"],
        &["job", "run", "split", "--node", "wroker"],
        &["job", "shutdown", "split", "--node", "wroker"],
    ] {
        refused(&node, args, 4, other);
    }
    for verb in ["show", "delete"] {
        let words = "no calendar is called holiday: did you mean holidays?";
        refused(&node, &["calendar", verb, "holiday"], 4, words);
    }
}

#[test]
fn a_wrong_word_of_an_option_is_one_exit_code_and_says_which_word_may_be_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path());
    for (args, words) in [
        (&["run", "list", "--state", "succeded"][..], "did you mean \"succeeded\"?"),
        (&["event", "list", "--kind", "lease_lots"], "did you mean \"lease_lost\"?"),
        (&["event", "list", "--kind", "job.falure"], "did you mean \"job.failure\"?"),
        (&["event", "list", "--since", "yesterday"], "like 10m or 2d"),
        (&["audit", "--since", "yesterday"], "like 10m or 2d"),
        (&["audit", "--until", "yesterday"], "like 10m or 2d"),
        (&["node", "load", "worker", "--since", "yesterday"], "like 10m or 2d"),
        (&["node", "upgrade", "worker", "--wait", "soon"], "such as `90s` or `1h30m`"),
        (&["job", "next", "backup", "--from", "noon"], "write it with an offset"),
        (&["job", "next", "--schedule", "@daily", "--from", "noon"], "write it with an offset"),
        (&["job", "next", "backup", "--tz", "Berlin"], "no zone is named"),
        (&["cluster", "settings", "--planner", "leadr"], "did you mean \"leader\"?"),
        (&["cluster", "settings", "--spread", "evn"], "did you mean \"even\"?"),
    ] {
        refused(&node, args, 2, words);
    }
    for (path, words) in [("/runs?state=succeded", "succeeded"), ("/events?kind=lease_lots", "lease_lost")] {
        let request = format!("GET /api/v1{path} HTTP/1.1\nHost: {}", node.address);
        let (status, said) = node.raw(&request, b"");
        assert_eq!(status, 400, "{path}: {said}");
        assert!(said.contains(&format!("did you mean \\\"{words}\\\"?")), "{path}: {said}");
    }
}

#[test]
fn a_list_of_a_name_that_nobody_has_or_had_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path());
    for (args, words) in [
        (&["event", "list", "--node", "wroker"][..], "no living node is called wroker: did you mean worker?"),
        (&["audit", "--node", "wroker"], "no living node is called wroker: did you mean worker?"),
        (&["audit", "--job", "bakcup"], "no job is called bakcup: did you mean backup?"),
        (&["audit", "--who", "locl"], "did you mean \"local\"?"),
        (&["audit", "--who", "nobody@nowhere"], "no entry is of a caller who says \"nobody@nowhere\""),
    ] {
        refused(&node, args, 0, words);
    }
    // These are known, and there is nothing of them in that time.
    for args in [
        &["event", "list", "--node", "worker", "--since", "2200-01-01T00:00:00Z"][..],
        &["audit", "--who", "key", "--since", "2200-01-01T00:00:00Z"],
        &["audit", "--job", "backup", "--since", "2200-01-01T00:00:00Z"],
    ] {
        let output = node.cli(args);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn what_changes_nothing_and_what_is_one_is_said_in_the_right_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path());
    assert_eq!(node.ok(&["node", "undrain", "worker"]), "node worker is not drained: nothing was changed\n");
    node.ok(&["node", "drain", "worker", "--force"]);
    assert_eq!(node.ok(&["node", "undrain", "worker"]), "node worker is back: it claims jobs again\n");
    node.ok(&["shard", "disable", "split", "1"]);
    let shown = node.ok(&["job", "show", "split"]);
    assert!(shown.contains("shards 1 disabled since "), "{shown}");
    assert!(!shown.contains("are switched off"), "it was said already: {shown}");
    assert!(node.ok(&["shard", "list", "split"]).contains("shards 1 are switched off"));
}
