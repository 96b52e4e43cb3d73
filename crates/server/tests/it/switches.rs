//! Switches that operators set stay through every file that says nothing new of them.

use serde_json::Value;

use crate::process::{ServerProcess, text};

const FILE: &str =
    "[[job]]\nname = \"backup\"\nschedule = \"at 2099-01-01T06:00:00Z\"\ncommand = [\"/bin/true\"]\n";

fn apply(node: &ServerProcess, args: &[&str], file: &str) -> String {
    let mut args = [&["job", "apply", "-f", "-"], args].concat();
    let is_plan = args.contains(&"--plan");
    args.extend(is_plan.then_some("-v"));
    let done = node.fed(&args, file);
    // A plan with changes has an exit code of its own.
    assert!(done.status.success() || is_plan && done.status.code() == Some(2), "{}", text(&done.stderr));
    text(&done.stdout)
}

fn applied(node: &ServerProcess, args: &[&str], file: &str) -> Value {
    let args = [args, &["-o", "json"]].concat();
    let done: Value = serde_json::from_str(&apply(node, &args, file)).expect("JSON");
    done.get("jobs").unwrap_or(&done)[0].clone()
}

#[test]
fn a_job_disabled_in_an_incident_stays_so_through_the_file_and_the_command_line_says_since_when() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    apply(&node, &[], FILE);
    node.ok(&["job", "disable", "backup"]);
    let stays = |said: &str| {
        assert!(said.contains("backup: disabled since "), "{said}");
        assert!(
            said.contains("@") && said.contains("left so; `evenkeel job enable backup` ends it"),
            "{said}"
        );
    };
    let said = apply(&node, &[], FILE);
    stays(&said);
    assert!(said.ends_with("1 unchanged\n"), "{said}");
    assert_eq!(node.json(&["job", "list"])[0]["disabled"], true, "the file ended the switch");

    let edited = FILE.replace("06:00", "07:00");
    let planned = apply(&node, &["--plan"], &edited);
    assert!(planned.contains("  disabled since ") && planned.contains("left so; "), "{planned}");
    assert!(planned.contains("it is disabled: it does not fire"), "{planned}");
    assert_eq!(applied(&node, &["--plan"], &edited)["switches"][0]["switch"], "disabled");
    let row = applied(&node, &[], &edited);
    assert_eq!((&row["applied"], &row["switches"][0]["switch"]), (&"updated".into(), &"disabled".into()));
    assert_eq!(row["switches"][0]["ends"], "evenkeel job enable backup");
    assert!(row["switches"][0]["since"].is_string() && row["switches"][0]["by"].is_string(), "{row}");
    assert_eq!(node.json(&["job", "list"])[0]["disabled"], true, "a file with other times ended the switch");

    let shown = node.ok(&["job", "show", "backup"]);
    assert!(shown.contains("# switched apart from this declaration: disabled since "), "{shown}");
    assert!(shown.contains("# disabled, held by "), "{shown}");
    let back = apply(&node, &[], &shown);
    assert!(back.ends_with("1 unchanged\n"), "what is shown can be applied: {back}");

    node.ok(&["job", "enable", "backup"]);
    assert!(!apply(&node, &[], &edited).contains("left so"));
    assert!(node.json(&["job", "list"])[0]["next"].is_string());
}

#[test]
fn a_file_that_says_something_new_of_a_switch_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let off = format!("{FILE}enabled = false\n");
    apply(&node, &[], &off);
    node.ok(&["job", "enable", "backup"]);
    assert!(apply(&node, &[], &off).contains("enabled, although its file disables it, since "));
    node.ok(&["job", "disable", "backup"]);
    let planned = applied(&node, &["--plan"], FILE);
    assert_eq!(planned["fields"], serde_json::json!(["enabled"]));
    assert_eq!(planned["changes"].as_array().map(Vec::len), Some(1), "{planned}");
    // The operator has ended his own switch by then: the job is as its file said.
    assert!(planned["ended"].is_null(), "{planned}");
    assert_eq!(applied(&node, &[], FILE)["applied"], "updated");
    assert!(node.json(&["job", "list"])[0]["next"].is_string(), "the file enables it");
}

#[test]
fn pauses_shards_that_are_off_and_switches_of_single_nodes_are_named_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let file = format!("{FILE}placement = \"sharded\"\nshards = 4\n");
    apply(&node, &[], &file);
    node.ok(&["job", "pause", "backup"]);
    node.ok(&["shard", "disable", "backup", "1-2"]);
    node.ok(&["job", "disable", "backup", "--node", "b"]);
    node.ok(&["job", "shutdown", "backup", "--node", "a"]);
    let said = apply(&node, &[], &file);
    for left in [
        "backup: paused since ",
        "`evenkeel job resume backup` ends it",
        "backup: shards 1-2 disabled since ",
        "`evenkeel shard enable backup 1-2` ends it",
        "backup: disabled on node b since ",
        "`evenkeel job enable backup --node b` ends it",
        "backup: shut down on node a since ",
        "it ends when the node is started again",
    ] {
        assert!(said.contains(left), "{left}: {said}");
    }
    let planned = applied(&node, &["--plan"], &file);
    assert_eq!(planned["switches"].as_array().map(Vec::len), Some(4), "{planned}");
}

#[test]
fn a_switch_that_a_file_ends_is_named_by_apply_and_by_its_plan_and_the_audit_names_the_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    apply(&node, &[], FILE);
    node.ok(&["job", "disable", "backup"]);
    let off = format!("{FILE}enabled = false\n");
    for args in [&["--plan"][..], &[]] {
        let said = apply(&node, args, &off);
        assert!(said.contains("disabled since "), "{said}");
        assert!(said.contains(": the file ends that, because its `enabled` has changed"), "{said}");
        assert!(!said.contains("left so"), "{said}");
    }
    let entries = node.json(&["audit", "--job", "backup"]);
    let last = entries.as_array().and_then(|entries| entries.first()).cloned().unwrap_or_default();
    assert_eq!(last["verb"], "apply", "{last}");
    assert!(last["what"].as_str().is_some_and(|what| what.contains("enabled: unset → false")), "{last}");

    node.ok(&["job", "enable", "backup"]);
    assert_eq!(applied(&node, &["--plan"], FILE)["ended"][0]["switch"], "enabled");
    let row = applied(&node, &[], FILE);
    assert_eq!((&row["applied"], &row["ended"][0]["switch"]), (&"updated".into(), &"enabled".into()));
    assert!(row["switches"].is_null(), "{row}");
    assert!(applied(&node, &[], FILE)["ended"].is_null(), "what is ended is ended once");
}
