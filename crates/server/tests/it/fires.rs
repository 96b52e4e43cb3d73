//! A fire as a whole: waited for and shown by the name that `job run` prints; and output that is followed to a run's end.

use std::fs;

use crate::process::{SHORT_LEASE, ServerProcess, text, until};

/// Shards that end in turn: the first at once, the others when their files are there, and one of these ill.
fn jobs(folder: &std::path::Path) -> String {
    let gate = folder.join("gate").display().to_string();
    format!(
        "[[job]]\nname = \"meters\"\nplacement = \"sharded\"\nshards = 4\ncommand = [\"/bin/sh\", \"-c\", \
         \"test $EVENKEEL_SHARD = 0 && exit 0; until test -e {gate}; do sleep 0.05; done; \
         test $EVENKEEL_SHARD != 2 || exit 7\"]\n\
         [[job]]\nname = \"again\"\ncommand = [\"/bin/sh\", \"-c\", \
         \"echo attempt $EVENKEEL_ATTEMPT; test $EVENKEEL_ATTEMPT = 3\"]\n\
         retry = {{ max_retries = 2, delay = \"1s\" }}\n"
    )
}

#[test]
fn the_printed_command_waits_for_all_shards_and_says_the_worst_outcome() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], &jobs(folder.path()));
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    until("a leads", || {
        let jobs = node.json(&["job", "list"]);
        jobs.as_array()?.iter().all(|job| job["owner"] == "a").then_some(())
    });
    let said = node.ok(&["job", "run", "meters", "--request", "r"]);
    assert!(
        said.starts_with("meters:ask-r\n") && said.contains("`evenkeel run wait meters:ask-r`"),
        "{said}"
    );
    until("the first shard has ended", || {
        let ended = node.json(&["run", "list", "--job", "meters", "--state", "succeeded"]);
        (ended.as_array().map(Vec::len) == Some(1)).then_some(())
    });
    let early = node.cli(&["run", "wait", "meters:ask-r", "--timeout", "1s"]);
    assert_eq!(early.status.code(), Some(7), "{}{}", text(&early.stdout), text(&early.stderr));
    let shown = node.json(&["run", "show", "meters:ask-r"]);
    assert_eq!((&shown["state"], &shown["shards"]["succeeded"]), (&"running".into(), &"0".into()));
    fs::write(folder.path().join("gate"), "").expect("written");
    let waited = node.cli(&["run", "wait", "meters:ask-r"]);
    assert_eq!(waited.status.code(), Some(1));
    assert_eq!(text(&waited.stdout), "failed: shards 2 failed (exit code 7)\n");
    let shown = node.json(&["run", "show", "meters:ask-r"]);
    assert_eq!(shown["shards"], serde_json::json!({ "succeeded": "0-1,3", "failed": "2" }));
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(4));
    let table = node.ok(&["run", "show", "meters:ask-r"]);
    assert!(
        table.ends_with("\nas a whole failed, 3 of 4 shards succeeded: shards 2 failed (exit code 7)\n"),
        "{table}"
    );
    // By its program's name for it, and once more as a whole.
    assert_eq!(node.json(&["job", "run", "meters", "--request", "r"])["run"], "meters:ask-r");
    let again = node.json(&["run", "restart", "meters:ask-r:2"])["run"].as_str().expect("a fire").to_owned();
    assert_eq!(again.split(':').count(), 2, "{again}");
    assert_eq!(node.cli(&["run", "wait", &again]).status.code(), Some(1));
    for (args, code) in [
        (["run", "wait", "meters:ask-nobody"], 4),
        (["run", "show", "meters:1"], 4),
        (["run", "show", "nobody:ask-r"], 4),
        (["run", "show", "nobody"], 4),
    ] {
        assert_eq!(node.cli(&args).status.code(), Some(code), "{args:?}");
    }
    let latest = node.json(&["run", "show", "meters"])["run"].as_str().expect("a run").to_owned();
    assert!(latest.starts_with(&again), "a job's name means its latest run: {latest}");
}

#[test]
fn output_is_followed_and_a_run_waited_for_until_its_last_attempt_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], &jobs(folder.path())).status.success());
    node.ok(&["job", "run", "again", "--request", "r"]);
    let followed = node.ok(&["run", "logs", "-f", "again:ask-r:0"]);
    assert_eq!(followed, "attempt 1\nattempt 2\nattempt 3\n");
    assert_eq!(node.ok(&["run", "wait", "again:ask-r:0"]), "succeeded\n");
    assert_eq!(node.ok(&["run", "wait", "again:ask-r"]), "succeeded\n", "a job without shards has fires too");
    assert_eq!(node.ok(&["run", "logs", "again:ask-r:0"]), "attempt 3\n");
    assert_eq!(node.ok(&["run", "logs", "-f", "--attempt", "1", "again:ask-r:0"]), "attempt 1\n");
}

#[test]
fn output_that_cannot_be_had_is_not_taken_for_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let far = ServerProcess::serve(folder.path(), "far", &SHORT_LEASE);
    let jobs = "[[job]]\nname = \"says\"\ncommand = [\"/bin/echo\", \"said\"]\n\
                [[job]]\nname = \"nowhere\"\nnode_selector = [\"gpu\"]\ncommand = [\"/bin/true\"]\n";
    assert!(far.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    far.ok(&["job", "run", "says", "--request", "r"]);
    far.ok(&["run", "wait", "says:ask-r:0"]);
    let near = ServerProcess::serve(folder.path(), "near", &[]);
    until("near sees both", || (near.json(&["node", "list"]).as_array()?.len() == 2).then_some(()));
    assert_eq!(near.ok(&["run", "logs", "says:ask-r:0"]), "said\n");
    far.ok(&["job", "run", "says", "--request", "s"]);
    far.ok(&["run", "wait", "says:ask-s:0"]);
    far.ok(&["run", "delete", "says:ask-s:0"]);
    far.ok(&["job", "run", "nowhere", "--request", "r"]);
    let refused = |args: &[&str], code: i32, says: &str| {
        let output = near.cli(args);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(code) && said.contains(says) && output.stdout.is_empty(),
            "{args:?}: {} {}",
            output.status,
            said
        );
    };
    refused(&["run", "logs", "says:ask-s:0"], 4, "no longer kept");
    refused(&["run", "logs", "nowhere:ask-r:0"], 6, "has not started yet");
    drop(far);
    until("far is gone", || (near.living().len() == 1).then_some(()));
    let why = "node far keeps the output of attempt 1 of run says:ask-r:0 and is away";
    refused(&["run", "logs", "says:ask-r:0"], 7, why);
    refused(&["run", "logs", "-f", "says:ask-r:0"], 7, why);
    let saved = folder.path().join("saved.log").display().to_string();
    refused(&["run", "logs", "says:ask-r:0", "--save", &saved], 7, why);
    refused(&["run", "logs", "says:ask-r:0", "--grep", "said"], 7, why);
}
