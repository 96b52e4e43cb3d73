//! Why a job or a run is where it is, asked of living nodes.

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "slow"
schedule = "at 2099-01-01T00:00:00Z"
command = ["/bin/sleep", "3600"]

[[job]]
name = "off"
command = ["/bin/true"]
enabled = false

[[job]]
name = "split"
placement = "sharded"
shards = 4
schedule = "@every 1s"
command = ["/bin/true"]

[[job]]
name = "sent"
placement = "dispatched"
schedule = "@every 1s"
command = ["/bin/true"]
"#;

/// What is said about something, with the rule.
fn point(shown: &Value, about: &str) -> (String, String) {
    let points = shown["points"].as_array().expect("points");
    let found = points.iter().find(|point| point["about"] == about);
    let found = found.unwrap_or_else(|| panic!("nothing about {about}: {shown}"));
    let word = |field: &str| found[field].as_str().unwrap_or("-").to_owned();
    (word("rule"), word("says"))
}

fn applied(node: &ServerProcess) {
    let applied = node.fed(&["job", "apply", "-f", "-"], JOBS);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    until("it is held", || {
        (node.json(&["explain", "job", "slow"])["facts"]["holder"] == "a@1").then_some(())
    });
}

#[test]
fn a_claimed_job_and_its_run_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    applied(&node);
    let shown = node.json(&["explain", "job", "slow"]);
    assert_eq!(point(&shown, "holder"), ("claims".into(), "a@1 has it by place epoch 2".into()));
    assert_eq!(
        point(&shown, "quota"),
        ("claims".into(), "a holds 1 of at most 2 = 1 + 1 / max(1 − 1, 1)".into())
    );
    assert!(point(&shown, "now").1.starts_with("it is not due before "), "{shown}");
    let facts = &shown["facts"];
    assert_eq!(
        (&facts["epoch"], &facts["quota"], &facts["placement"]),
        (&2.into(), &2.into(), &"claimed".into())
    );

    let off = node.ok(&["explain", "job", "off"]);
    let first = "job off: held by no node; job off is disabled: enable it with `evenkeel job enable off`\n";
    assert!(off.starts_with(first), "{off}");

    let run = node.json(&["job", "run", "slow"])["run"].as_str().expect("a run").to_owned();
    until("it runs", || {
        let says = point(&node.json(&["explain", "job", "slow"]), "now").1;
        (says == format!("run {run} is under way on a, attempt 1")).then_some(())
    });
    let shown = until("its attempt is known", || {
        let shown = node.json(&["explain", "run", &run]);
        (shown["facts"]["attempts"] == 1).then_some(shown)
    });
    assert!(point(&shown, "why").1.starts_with("it was requested as a manual run, request "), "{shown}");
    assert!(point(&shown, "where").1.contains("a@1 now, by place epoch 2"), "{shown}");
    assert!(point(&shown, "attempt").1.contains("(generation 0, claim 1): running"), "{shown}");

    node.ok(&["node", "drain", "a", "--force"]);
    node.ok(&["job", "pause", "slow"]);
    node.ok(&["run", "kill", &run]);
    until("it is given up", || {
        (node.json(&["explain", "job", "slow"])["facts"]["holder"].is_null()).then_some(())
    });
    let shown = node.json(&["explain", "job", "slow"]);
    assert_eq!(
        point(&shown, "now"),
        ("claims".into(), "every node drains: start a node or undrain one".into())
    );
    until("the history has its end", || {
        (node.json(&["explain", "run", &run])["says"] == "killed on a").then_some(())
    });
    assert_eq!(node.cli(&["explain", "job", "nobody"]).status.code(), Some(4));
    assert_eq!(node.cli(&["explain", "run", "slow:1:0"]).status.code(), Some(4));
    assert_eq!(node.cli(&["explain", "run", "slow"]).status.code(), Some(5));
}

#[test]
fn a_sharded_job_says_who_leads_it_and_how_it_was_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    applied(&node);
    until("it was cut", || {
        node.json(&["explain", "job", "split"])["facts"]["reshard"].as_u64().filter(|cut| *cut > 0)
    });
    let shown = node.json(&["explain", "job", "split"]);
    let (rule, leads) = point(&shown, "leader");
    assert!(rule == "election" && leads.starts_with("a@1 leads by place epoch "), "{shown}");
    let (rule, cut) = point(&shown, "reshard");
    assert!(rule == "sharding" && cut.ends_with("cut 4 shards by average for a"), "{shown}");
    assert!(point(&shown, "assignment").1.starts_with("a@1 has shards 0-3"), "{shown}");
    let run = until("a shard ran", || {
        let runs = node.json(&["run", "list", "--job", "split", "--state", "succeeded"]);
        runs[0]["run"].as_str().map(ToOwned::to_owned)
    });
    let shown = node.json(&["explain", "run", &run]);
    let (rule, place) = point(&shown, "where");
    assert!(rule == "sharding" && place.contains(" is a@1's by the reshard of epoch "), "{shown}");
    assert!(point(&shown, "why").1.contains("is due by @every 1s in UTC"), "{shown}");
}

#[test]
fn a_dispatched_job_says_who_planned_and_why_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--slots", "7"]);
    applied(&node);
    let shown = until("runs are planned", || {
        let shown = node.json(&["explain", "job", "sent"]);
        shown["facts"]["runs"].as_u64().filter(|runs| *runs > 0).map(|_| shown)
    });
    let (rule, planner) = point(&shown, "planner");
    assert!(rule == "beat" && planner.starts_with("a@1 took beat "), "{shown}");
    assert!(point(&shown, "planned").1.starts_with("last by a@1 in beat "), "{shown}");
    let (rule, run) = point(&shown, "run");
    assert!(
        rule == "dispatch" && run.starts_with("sent:") && run.contains(": a was to have the most free slots"),
        "{shown}"
    );
    let id = run.split(' ').next().expect("its id").to_owned();
    let shown = node.json(&["explain", "run", &id]);
    assert!(point(&shown, "why").1.contains("is due by @every 1s in UTC"), "{shown}");
    let shown = until("it has run", || {
        let shown = node.json(&["explain", "run", &id]);
        (shown["facts"]["state"] == "succeeded").then_some(shown)
    });
    // The plan is forgotten by then; history has it.
    let (rule, place) = point(&shown, "where");
    assert!(rule == "dispatch" && place.starts_with("planned by a@1 in beat "), "{shown}");
    let jobs = node.json(&["job", "list"]);
    let sent = jobs.as_array().into_iter().flatten().find(|job| job["name"] == "sent");
    assert_eq!(sent.map(|job| &job["owner"]), Some(&"a".into()), "{jobs}");
    assert!(node.ok(&["job", "show", "sent"]).contains("planned by a,"));
}
