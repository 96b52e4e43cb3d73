//! What needs a person is one list, and the health of the cluster one page.

use std::path::Path;

use serde_json::Value;

use crate::process::{SHORT_LEASE, ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "fails"
command = ["/bin/sh", "-c", "test -e $EVENKEEL_JOB_PARAMETER"]
parameter = "MARK"

[[job]]
name = "hangs"
schedule = "* * * * * *"
command = ["/bin/sleep", "600"]
notify = { late_after = "1s", absent_after = "2s" }

[[job]]
name = "misses"
schedule = "* * * * * *"
misfire_grace = "1s"
command = ["/bin/sleep", "4"]
labels = { team = "billing" }

# What it skips is what it is to skip.
[[job]]
name = "skips"
schedule = "* * * * * *"
overlap = "skip"
command = ["/bin/sleep", "3"]

[[job]]
name = "train"
node_selector = ["gpu"]
command = ["/bin/true"]

[[job]]
name = "fine"
command = ["/bin/true"]
"#;

fn apply(node: &ServerProcess, jobs: &str) {
    let applied = node.fed(&["job", "apply", "-f", "-"], jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
}

fn get(node: &ServerProcess, path: &str) -> (u16, Value) {
    let (status, answer) = node.raw(&format!("GET /api/v1/{path} HTTP/1.1\nHost: {}", node.address), b"");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    (status, serde_json::from_str(body).expect("JSON"))
}

/// The rows as `kind name`.
fn kinds(page: &Value) -> Vec<String> {
    let name = |row: &Value| row["job"].as_str().or(row["node"].as_str()).unwrap_or_default().to_owned();
    let rows = page["attention"].as_array().expect("a list").iter();
    rows.map(|row| format!("{} {}", row["kind"].as_str().expect("a kind"), name(row))).collect()
}

fn row<'a>(page: &'a Value, kind: &str) -> &'a Value {
    let rows = page["attention"].as_array().expect("a list");
    rows.iter().find(|row| row["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {page}"))
}

fn run_to_end(node: &ServerProcess, job: &str, request: &str) {
    node.ok(&["job", "run", job, "--request", request]);
    drop(node.cli(&["run", "wait", &format!("{job}:ask-{request}:0")]));
}

#[test]
fn what_needs_a_person_is_one_list_the_worst_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let mark = folder.path().join("mark");
    apply(&node, &JOBS.replace("MARK", &mark.display().to_string()));
    for request in ["1", "2"] {
        run_to_end(&node, "fails", request);
    }
    run_to_end(&node, "fine", "1");
    node.ok(&["job", "run", "train", "--request", "r"]);
    let page = until("all of it is known", || {
        let (status, page) = get(&node, "attention");
        assert_eq!(status, 200, "{page}");
        let all = ["failing fails", "stuck hangs", "late hangs", "missed misses", "unschedulable train"];
        (kinds(&page) == all).then_some(page)
    });
    assert!(!page.to_string().contains("fine"), "{page}");
    let failing = row(&page, "failing");
    assert_eq!((&failing["count"], failing["run"].as_str()), (&2.into(), Some("fails:ask-2:0")), "{failing}");
    assert!(failing["text"].as_str().is_some_and(|text| text.contains("2 times in a row")), "{failing}");
    let stuck = row(&page, "stuck");
    assert!(
        stuck["text"].as_str().is_some_and(|text| text.contains("should have an outcome 2s later")),
        "{stuck}"
    );
    assert!(stuck["run"].as_str().is_some_and(|run| run.starts_with("hangs:")), "{stuck}");
    let blocked = row(&page, "unschedulable");
    assert!(
        blocked["text"].as_str().is_some_and(|text| text.contains("no living node fits gpu")),
        "{blocked}"
    );
    assert!(blocked["since"].is_string(), "{blocked}");
    let missed = row(&page, "missed");
    assert!(missed["count"].as_u64().is_some_and(|count| count >= 1), "{missed}");
    assert_eq!(page["missing"], serde_json::json!([]));

    // Filters, and how many rows there are.
    let (_, billing) = get(&node, "attention?label=team%3Dbilling");
    assert!(kinds(&billing).iter().all(|row| row.ends_with(" misses")), "{billing}");
    let (_, some) = get(&node, "attention?kind=unschedulable,failing&limit=1");
    assert_eq!(kinds(&some), ["failing fails"], "in the order of kinds");
    assert_eq!(some["counts"], serde_json::json!({ "failing": 1, "unschedulable": 1 }));
    let (status, refused) = get(&node, "attention?kind=falling");
    assert!(
        status == 400 && refused["detail"].as_str().is_some_and(|it| it.contains("did you mean")),
        "{refused}"
    );
    assert_eq!(get(&node, "attention?namespace=none").0, 404);
    assert_eq!(get(&node, "attention?limit=0").0, 400);

    // What is over is gone.
    std::fs::write(&mark, "").expect("a file");
    run_to_end(&node, "fails", "3");
    node.ok(&["job", "disable", "train"]);
    let (_, page) = get(&node, "attention?kind=failing,unschedulable");
    assert_eq!(kinds(&page), [] as [&str; 0], "{page}");
    assert_eq!(page["counts"], serde_json::json!({}));
}

fn serve(folder: &Path, name: &str) -> ServerProcess {
    let history = format!("sqlite:{}", folder.join(format!("{name}-history")).display());
    ServerProcess::serve(folder, name, &[&["--history", &history], &SHORT_LEASE[..]].concat())
}

#[test]
fn a_success_on_another_node_ends_a_failure_and_a_node_that_does_not_answer_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = serve(folder.path(), "a");
    let mark = folder.path().join("mark");
    apply(&first, &JOBS.split("\n\n").next().expect("a job").replace("MARK", &mark.display().to_string()));
    run_to_end(&first, "fails", "1");
    let second = serve(folder.path(), "b");
    for node in [&first, &second] {
        until("both know", || (kinds(&get(node, "attention").1) == ["failing fails"]).then_some(()));
    }
    // The job moves to the other node, whose history has no failure of it.
    first.ok(&["node", "drain", "a", "--force"]);
    std::fs::write(&mark, "").expect("a file");
    until("b owns it", || {
        let job = first.json(&["job", "show", "fails", "--details"]);
        (job["owner"] == "b").then_some(())
    });
    run_to_end(&second, "fails", "2");
    for node in [&first, &second] {
        let (_, page) = get(node, "attention?kind=failing");
        assert_eq!(kinds(&page), [] as [&str; 0], "{page}");
    }
    first.ok(&["node", "undrain", "a"]);

    let (status, health) = get(&first, "cluster/health");
    assert_eq!(status, 200, "{health}");
    let measured = |n: usize| &health["nodes"][n]["measured"];
    for n in [0, 1] {
        assert_eq!(measured(n)["lease"]["trusted"], true, "{health}");
        assert!(measured(n)["lease"]["age_ms"].as_i64().is_some_and(|age| age >= 0), "{health}");
        assert!(measured(n)["commits"]["samples"].as_u64().is_some_and(|samples| samples > 0), "{health}");
        assert!(measured(n)["uptime_ms"].as_i64().is_some_and(|uptime| uptime > 0), "{health}");
    }
    assert_eq!((&health["nodes_online"], &health["nodes_expected"]), (&2.into(), &2.into()), "{health}");
    assert_eq!(health["tolerated_losses"], 1, "{health}");

    // The process stands still: it is listed, and named with the reason.
    second.signal("STOP");
    // Both at once, while it still counts as living.
    let (health, page) = std::thread::scope(|scope| {
        let health = scope.spawn(|| get(&first, "cluster/health").1);
        let page = get(&first, "attention").1;
        (health.join().expect("an answer"), page)
    });
    second.signal("CONT");
    assert_eq!(page["missing"], serde_json::json!(["b"]), "{page}");
    assert_eq!(health["verdict"], "degraded", "{health}");
    let row = health["nodes"].as_array().expect("nodes").iter().find(|row| row["name"] == "b").expect("b");
    assert!(row["unreachable"].as_str().is_some_and(|why| why.contains("no answer within")), "{health}");
    assert_eq!(row["measured"], Value::Null, "{health}");
    let reasons = health["reasons"].as_array().expect("reasons");
    assert!(reasons.iter().any(|it| it["node"] == "b" && it["text"].as_str().is_some_and(|t| t.contains("does not answer"))));
}

#[test]
fn the_health_of_one_node_is_ok() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let health = until("it is well", || {
        let (_, health) = get(&node, "cluster/health");
        (health["verdict"] == "ok").then_some(health)
    });
    assert_eq!(health["reasons"], serde_json::json!([]));
    assert_eq!((health["node"].as_str(), health["nodes_online"].as_u64()), (Some("a"), Some(1)));
    assert_eq!(health["tolerated_losses"], 0, "nothing runs without it");
    assert_eq!(health["nodes"][0]["state"], "online");
    node.ok(&["node", "drain", "a", "--force"]);
    let health = until("no node takes jobs", || {
        let (_, health) = get(&node, "cluster/health");
        (health["verdict"] == "failing").then_some(health)
    });
    assert!(
        health["reasons"][0]["text"].as_str().is_some_and(|it| it.contains("no node takes jobs")),
        "{health}"
    );
}
