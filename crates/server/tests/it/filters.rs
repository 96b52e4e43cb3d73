//! Jobs by their labels, one verb on many jobs, runs by state, node and time, and the fires of a schedule without a job.

use serde_json::{Value, json};

use crate::process::{ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "invoices"
schedule = "0 0 1 1 *"
command = ["true"]
labels = { team = "billing", tier = "1" }

[[job]]
name = "reminders"
schedule = "0 0 1 1 *"
command = ["false"]
labels = { team = "billing" }

[[job]]
name = "leads"
schedule = "0 0 1 1 *"
command = ["true"]
labels = { team = "sales" }

[[job]]
name = "plain"
schedule = "0 0 1 1 *"
command = ["true"]
"#;

fn names(jobs: &Value) -> Vec<&str> {
    jobs.as_array().expect("a list").iter().filter_map(|job| job["name"].as_str()).collect()
}

fn post(node: &ServerProcess, path: &str, body: &Value) -> (u16, Value) {
    let head = format!("POST {path} HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    let (status, answer) = node.raw(&head, body.to_string().as_bytes());
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn jobs_are_listed_and_switched_by_their_labels() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    for (label, meant) in [
        ("team=billing", vec!["invoices", "reminders"]),
        ("team=billing|sales", vec!["invoices", "leads", "reminders"]),
        ("team=billing,!tier", vec!["reminders"]),
        ("!team", vec!["plain"]),
        ("team=absent", vec![]),
    ] {
        assert_eq!(names(&node.json(&["job", "list", "-l", label])), meant, "{label}");
    }
    let wrong = node.cli(&["job", "list", "--label", "team=a b"]);
    assert!(
        text(&wrong.stderr).contains("the value of a label \"a b\" is not allowed"),
        "{}",
        text(&wrong.stderr)
    );
    let shown = node.ok(&["job", "show", "invoices"]);
    assert!(shown.contains("team = \"billing\""), "{shown}");
    // What it says of itself applies as nothing to do.
    assert!(text(&node.fed(&["job", "apply", "-f", "-"], &shown).stdout).contains("unchanged"));

    let bulk = |verb: &str, body: Value| post(&node, &format!("/api/v1/bulk/jobs/{verb}"), &body);
    let (status, tried) = bulk("pause", json!({ "label": "team=billing", "dry_run": true }));
    assert_eq!((status, &tried["done"], tried["items"].as_array().map(Vec::len)), (200, &json!(0), Some(2)));
    let (status, paused) = bulk("pause", json!({ "label": "team=billing" }));
    assert_eq!((status, &paused["done"], &paused["failed"]), (200, &json!(2), &json!(0)), "{paused}");
    let jobs = node.json(&["job", "list"]);
    let is_paused = |name: &str| {
        let job = jobs.as_array().expect("a list").iter().find(|job| job["name"] == name).expect("the job");
        job["paused"].as_bool()
    };
    assert_eq!(["invoices", "reminders", "leads"].map(is_paused), [Some(true), Some(true), Some(false)]);

    // One that is refused keeps no other from it, and says why.
    let (status, mixed) = bulk("resume", json!({ "jobs": ["invoices", "absent", "reminders"] }));
    assert_eq!((status, &mixed["done"], &mixed["failed"]), (200, &json!(2), &json!(1)), "{mixed}");
    assert_eq!(mixed["items"][1]["code"], "not_found", "{mixed}");
    let (status, ran) = bulk("run", json!({ "jobs": ["plain", "default/plain"] }));
    let item = &ran["items"][0];
    assert!(status == 200 && item["run"].as_str().is_some_and(|run| run.starts_with("plain:")), "{ran}");
    assert_eq!(
        (ran["items"].as_array().map(Vec::len), &item["applied"]),
        (Some(1), &json!("created")),
        "one job"
    );
    let unfit = "[[job]]\nname = \"unfit\"\ncommand = [\"true\"]\nnode_selector = [\"gpu\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], unfit).status.success());
    let (_, waits) = bulk("run", json!({ "jobs": ["unfit"] }));
    assert!(waits["items"][0]["reason"].as_str().is_some_and(|why| why.contains("gpu")), "{waits}");
    for (body, says) in [
        (json!({}), "say either jobs"),
        (json!({ "jobs": [], "label": "x" }), "say either jobs"),
        (json!({ "label": "" }), "label is empty"),
        (json!({ "label": "x", "namespace": "absent" }), "absent"),
        (json!({ "jobs": ["plain"], "namespace": "default" }), "namespace goes with label"),
    ] {
        let (status, refused) = bulk("pause", body.clone());
        let said = refused["detail"].as_str().unwrap_or_default();
        assert!((400..500).contains(&status) && said.contains(says), "{body}: {refused}");
    }
    let (status, refused) = bulk("dance", json!({ "jobs": ["plain"] }));
    assert!(status == 404 && refused["detail"].as_str().unwrap_or_default().contains("pause"), "{refused}");
    // Each change has its line in the audit log, and so has each refusal.
    let refused = node.json(&["audit", "--job", "absent"]);
    assert_eq!(
        (&refused[0]["verb"], &refused[0]["outcome"]),
        (&json!("resume"), &json!("refused")),
        "{refused}"
    );
    let audit = node.json(&["audit", "--job", "reminders"]);
    let verbs: Vec<&str> =
        audit.as_array().expect("a list").iter().filter_map(|row| row["verb"].as_str()).collect();
    assert_eq!(verbs.iter().filter(|verb| ["pause", "resume"].contains(verb)).count(), 2, "{audit}");
}

#[test]
fn a_caller_switches_many_jobs_only_where_it_has_the_role() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.ok(&["namespace", "create", "team-a"]);
    let jobs = JOBS.replace("name = \"leads\"", "name = \"team-a/leads\"");
    assert!(node.fed(&["job", "apply", "-f", "-"], &jobs).status.success());
    let made = node.json(&["token", "create", "ops", "--role", "operator:team-a"]);
    let token = made["token"].as_str().expect("a token").to_owned();
    let ask = |body: Value| {
        let head = format!(
            "POST /api/v1/bulk/jobs/pause HTTP/1.1\nHost: {}\nAuthorization: Bearer {token}\nContent-Type: application/json",
            node.address
        );
        let (status, answer) = node.raw(&head, body.to_string().as_bytes());
        let body = answer.split_once("\r\n\r\n").expect("a body").1.to_owned();
        (status, serde_json::from_str::<Value>(&body).unwrap_or(Value::Null))
    };
    let (status, answer) = ask(json!({ "jobs": ["plain", "team-a/leads"] }));
    assert_eq!((status, &answer["done"], &answer["failed"]), (200, &json!(1), &json!(1)), "{answer}");
    assert_eq!(answer["items"][0]["code"], "not_found", "what it may not see does not exist: {answer}");
    assert_eq!(ask(json!({ "label": "team=sales" })).0, 400, "a namespace has to be named");
    assert_eq!(ask(json!({ "label": "team=sales", "namespace": "default" })).0, 404);
    let (status, answer) = ask(json!({ "label": "team=sales", "namespace": "team-a" }));
    assert_eq!((status, &answer["done"]), (200, &json!(1)), "{answer}");
}

#[test]
fn runs_are_listed_by_several_states_by_node_and_by_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    for job in ["invoices", "reminders"] {
        node.ok(&["job", "run", job]);
    }
    let listed = |more: &[&str]| {
        let args: Vec<&str> = ["run", "list"].iter().chain(more).copied().collect();
        node.json(&args).as_array().expect("a list").len()
    };
    until("both have run", || (listed(&["--state", "succeeded,failed"]) == 2).then_some(()));
    assert_eq!(listed(&["--state", "failed"]), 1);
    assert_eq!(listed(&["--state", "failed", "--state", "succeeded"]), 2);
    assert_eq!((listed(&["--node", "a"]), listed(&["--node", "b"])), (2, 0));
    assert_eq!((listed(&["--since", "1h"]), listed(&["--until", "1h"])), (2, 0));
    assert_eq!(listed(&["--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z"]), 0);
    let wrong = node.cli(&["run", "list", "--state", "failed,odd"]);
    assert!(text(&wrong.stderr).contains("odd"), "{}", text(&wrong.stderr));
}

#[test]
fn a_schedule_is_previewed_with_calendars_and_notes_before_there_is_a_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let calendar = "[[calendar]]\nname = \"feast\"\ndays = [\"12-25\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], calendar).status.success());
    let preview = |query: &str| {
        let head = format!("GET /api/v1/preview?{query} HTTP/1.1\nHost: {}", node.address);
        let (status, answer) = node.raw(&head, b"");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        (status, serde_json::from_str::<Value>(body).unwrap_or(Value::Null))
    };
    let (status, found) = preview(
        "schedule=0+5+*+*+*&timezone=Europe%2FBerlin&n=2&from=2026-12-24T00:00:00Z&exclude_calendars=feast",
    );
    assert_eq!(
        (status, &found["next"]),
        (200, &json!(["2026-12-24T04:00:00.000Z", "2026-12-26T04:00:00.000Z"]))
    );
    // The hour that clocks skip.
    let (status, found) =
        preview("schedule=30+2+*+*+*&timezone=Europe%2FBerlin&n=1&from=2027-03-28T00:00:00Z");
    assert!(status == 200 && !found["notes"][0].as_array().expect("notes").is_empty(), "{found}");
    for (query, says) in [
        ("", "schedule"),
        ("schedule=0+25+*+*+*", "25"),
        ("schedule=@daily&timezone=Mars", "Mars"),
        ("schedule=@daily&exclude_calendars=absent", "no calendar absent"),
        ("schedule=@daily&n=0", "n"),
        ("schedule=@daily&jitter=soon", "jitter"),
    ] {
        let (status, refused) = preview(query);
        let said = refused["detail"].as_str().unwrap_or_default();
        assert!((400..500).contains(&status) && said.contains(says), "{query}: {status} {refused}");
    }
}
