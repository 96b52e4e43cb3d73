//! Backfills on a real node: runs for fires of the past.

use serde_json::{Value, json};

use crate::process::{ServerProcess, text, until};

const JOB: &str = r#"
[[job]]
name = "j"
schedule = "* * * * *"
command = "echo \"$EVENKEEL_DUE $region\""
shell = true

[job.parameters.region]
default = "eu"

[[job]]
name = "s"
schedule = "* * * * *"
placement = "sharded"
shards = 2
command = ["true"]
"#;

const SPAN: [&str; 4] = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T00:03:00Z"];
/// The moments of the span, as texts and in milliseconds since 1970.
const MOMENTS: [(&str, i64); 3] = [
    ("2026-01-01T00:00:00.000Z", 1_767_225_600_000),
    ("2026-01-01T00:01:00.000Z", 1_767_225_660_000),
    ("2026-01-01T00:02:00.000Z", 1_767_225_720_000),
];

fn served(folder: &std::path::Path) -> ServerProcess {
    let node = ServerProcess::serve(folder, "a", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], JOB);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    node
}

fn backfill(node: &ServerProcess, more: &[&str]) -> Value {
    node.json(&[&["job", "backfill", "j"], &SPAN[..], more].concat())
}

#[test]
fn the_fires_of_a_past_span_are_made_up_for_in_order_each_with_its_own_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path());
    let fires: Vec<&str> = MOMENTS.iter().map(|(text, _)| *text).collect();

    let planned = backfill(&node, &["--dry-run", "--max-parallel", "4"]);
    assert_eq!((&planned["fires"], &planned["id"]), (&json!(fires), &Value::Null));
    assert_eq!(planned["max_parallel"], 1);
    let warned = planned["warnings"][0].as_str().unwrap_or_default();
    assert!(warned.contains("overlap of job j lets 1 run at once"), "{warned}");
    let listed = node.ok(&[&["job", "backfill", "j", "--dry-run"], &SPAN[..]].concat());
    assert!(listed.contains("3 runs would be made, at most 1 at once"), "{listed}");

    let asked = backfill(&node, &["--request", "b", "--param", "region=us"]);
    assert_eq!((&asked["applied"], &asked["count"]), (&json!("created"), &json!(3)));
    let runs = MOMENTS.map(|(_, due)| format!("j:ask-b.{due}:0"));
    assert_eq!(asked["first_run"], json!(runs[0]));
    let mut started = Vec::new();
    for (run, (moment, _)) in runs.iter().zip(MOMENTS) {
        node.ok(&["run", "wait", run]);
        assert_eq!(node.ok(&["run", "logs", run]).trim(), format!("{moment} us"));
        let shown = node.json(&["run", "show", run]);
        assert_eq!(shown["parameters"], json!({ "region": "us" }), "{shown}");
        let attempt = &shown["attempts"][0];
        assert_eq!((&attempt["due"], &attempt["state"]), (&json!(moment), &json!("succeeded")));
        started.push(attempt["started"].as_str().expect("a moment").to_owned());
    }
    assert!(started.is_sorted(), "{started:?}");
    let table = node.ok(&["run", "show", &runs[1]]);
    assert!(table.contains("backfill b, 2 of 3"), "{table}");
    let audit = node.ok(&["audit", "--job", "j", "-o", "json"]);
    assert!(
        audit.contains("b: fires from 2026-01-01T00:00:00.000Z to 2026-01-01T00:03:00.000Z, 1 at once"),
        "{audit}"
    );

    // The same request again is the same backfill, and no run is made twice.
    let again = backfill(&node, &["--request", "b"]);
    assert_eq!((&again["applied"], &again["claimed"]), (&json!("unchanged"), &json!(3)), "{again}");
    let list = node.json(&["run", "list", "--job", "j"]);
    let made = list
        .as_array()
        .expect("runs")
        .iter()
        .filter(|run| run["run"].as_str().is_some_and(|r| r.contains("ask-b")));
    assert_eq!(made.count(), 3, "{list}");
}

#[test]
fn a_cancelled_backfill_begins_no_further_run_and_what_is_none_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = served(folder.path());
    let slow = JOB.replace("echo", "sleep 600; echo");
    assert!(node.fed(&["job", "apply", "-f", "-"], &slow).status.success());
    backfill(&node, &["--request", "b"]);
    let first = format!("j:ask-b.{}:0", MOMENTS[0].1);
    until("the first run executes", || (backfill(&node, &["--request", "b"])["claimed"] == 1).then_some(()));
    let cancelled = node.json(&["job", "backfill", "j", "--cancel", "b"]);
    assert!(cancelled["cancelled"].is_string() && cancelled["claimed"] == 1, "{cancelled}");
    let said = node.ok(&["job", "backfill", "j", "--cancel", "b"]);
    assert!(said.contains("1 of 3 began, and no other will"), "{said}");
    until("the first run can be killed", || {
        node.cli(&["run", "kill", &first]).status.success().then_some(())
    });
    node.cli(&["run", "wait", &first]);
    let list = node.json(&["run", "list", "--job", "j"]);
    let made = list
        .as_array()
        .expect("runs")
        .iter()
        .filter(|run| run["run"].as_str().is_some_and(|r| r.contains("ask-b")));
    assert_eq!(made.count(), 1, "{list}");

    for (args, words) in [
        (&["job", "backfill", "s", "--from", "1h"][..], "job s is sharded"),
        (&["job", "backfill", "j", "--from", "2999-01-01T00:00:00Z"], "from is not before to"),
        (&["job", "backfill", "j", "--from", "1h", "--to", "2999-01-01T00:00:00Z"], "in the future"),
        (&["job", "backfill", "j", "--from", "soon"], "like 10m or 2d"),
        (&["job", "backfill", "j", "--from", "2d"], "more than 1000 fires"),
        (&["job", "backfill", "j", "--from", "1h", "--param", "regoin=us"], "did you mean"),
        (&["job", "backfill", "j", "--cancel", "x"], "no backfill x"),
    ] {
        let refused = node.cli(args);
        assert!(
            !refused.status.success() && text(&refused.stderr).contains(words),
            "{args:?}: {}",
            text(&refused.stderr)
        );
    }
}
