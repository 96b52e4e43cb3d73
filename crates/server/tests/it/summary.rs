//! Summaries of fires: each counts once, whichever node's history has it.

use serde_json::{Value, json};

use crate::process::{ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "good"
schedule = "* * * * * ?"
command = ["true"]
labels = { team = "billing" }

[[job]]
name = "bad"
schedule = "* * * * * ?"
command = ["false"]
retry = { max_retries = 1, delay = "1s" }
overlap = "skip"

[[job]]
name = "still"
schedule = "0 0 1 1 *"
command = ["true"]
"#;

fn get(node: &ServerProcess, query: &str) -> (u16, Value) {
    let (status, answer) =
        node.raw(&format!("GET /api/v1/summary{query} HTTP/1.1\nHost: {}", node.address), b"");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn summary(node: &ServerProcess, query: &str) -> Value {
    let (status, answer) = get(node, query);
    assert_eq!(status, 200, "{query}: {answer}");
    answer
}

fn count(row: &Value, kind: &str) -> u64 {
    row[kind].as_u64().unwrap_or_else(|| panic!("{kind}: {row}"))
}

/// How many runs of a job are listed in this state.
fn listed(node: &ServerProcess, job: &str, state: &str) -> u64 {
    let runs = node.json(&["run", "list", "--job", job, "--state", state, "--limit", "1000"]);
    runs.as_array().expect("a list").len() as u64
}

/// The counts of jobs, once they have followed those of the cluster.
fn by_job(node: &ServerProcess) -> Value {
    until("the counts of jobs are merged", || {
        let found = summary(node, "?by=job");
        let all = |row: &Value| count(row, "expected") + count(row, "manual");
        let sum: u64 = found["rows"].as_array().expect("rows").iter().map(|row| all(&row["counts"])).sum();
        (sum == all(&found["totals"])).then_some(found)
    })
}

fn at_rest(node: &ServerProcess) {
    until("nothing runs or waits", || {
        let rows = node.json(&["run", "list", "--state", "running,waiting"]);
        rows.as_array().is_some_and(Vec::is_empty).then_some(())
    });
}

#[test]
fn a_summary_has_the_counts_of_the_runs_by_hour_day_and_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert_eq!(summary(&node, "")["rows"], json!([]), "nothing was due");
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    until("both came to outcomes", || {
        let totals = summary(&node, "")["totals"].clone();
        (count(&totals, "ran") > 2 && count(&totals, "failed") > 1).then_some(())
    });
    for job in ["good", "bad"] {
        node.ok(&["job", "pause", job]);
    }
    at_rest(&node);
    node.ok(&["job", "run", "still"]);
    until("the manual run has ended", || (count(&summary(&node, "")["totals"], "manual") == 1).then_some(()));
    let by_job = by_job(&node);
    let jobs = by_job["rows"].as_array().expect("rows").clone();
    let names: Vec<_> = jobs.iter().map(|row| row["job"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["bad", "good", "still"], "{by_job}");
    let [bad, good, still] = [0, 1, 2].map(|n| jobs[n]["counts"].clone());
    assert_eq!(count(&good, "ran"), listed(&node, "good", "succeeded"));
    assert_eq!(count(&good, "expected"), count(&good, "ran"), "{good}");
    // Each fire has two attempts and is one.
    assert_eq!(2 * count(&bad, "failed"), listed(&node, "bad", "failed"), "{bad}");
    assert_eq!(count(&bad, "skipped") > 0, listed(&node, "bad", "skipped") > 0, "{bad}");
    assert_eq!((count(&still, "manual"), count(&still, "expected")), (1, 0), "{still}");
    let totals = &by_job["totals"];
    assert_eq!(count(totals, "expected"), count(&good, "expected") + count(&bad, "expected"));
    for query in
        ["?since=2h", "?by=day&since=3d", "?by=job&limit=1", "?by=job&sort=trouble", "?namespace=default"]
    {
        assert_eq!(summary(&node, query)["totals"], *totals, "{query}");
    }
    let page = summary(&node, "?by=job&limit=2");
    assert_eq!((page["rows"].as_array().map(Vec::len), &page["after"]), (Some(2), &json!("good")));
    assert_eq!(summary(&node, "?by=job&limit=2&after=good")["rows"], json!([jobs[2]]));
    assert_eq!(summary(&node, "?by=job&sort=trouble")["rows"], json!([jobs[0]]));
    for query in ["?label=team%3Dbilling", "?job=good", "?by=day&job=good&label=team"] {
        assert_eq!(summary(&node, query)["totals"], good, "{query}");
    }
    assert_eq!(count(&summary(&node, "?since=400d&until=2d")["totals"], "expected"), 0);
    node.ok(&["job", "delete", "bad"]);
    assert_eq!(summary(&node, "?job=bad")["totals"], bad, "a deleted job is remembered");
    for (query, status, says) in [
        ("?job=none", 404, "none"),
        ("?limit=5", 400, "add by=job"),
        ("?since=500d", 400, "longer than 400 days"),
        ("?by=week", 400, "week"),
        ("?by=job&sort=trouble&after=a", 400, "one page"),
        ("?namespace=absent", 404, "absent"),
    ] {
        let (got, answer) = get(&node, query);
        assert!(got == status && answer.to_string().contains(says), "{query}: {got} {answer}");
    }
}

/// With a history each, and with one file that both were given by name.
#[test]
fn each_fire_of_several_nodes_counts_once() {
    const JOB: &str = "[[job]]\nname = \"sent\"\nplacement = \"dispatched\"\nschedule = \"* * * * * ?\"\n\
                       command = [\"/bin/sh\", \"-c\", \"true\"]\n";
    for file in [None, Some("one")] {
        let folder = tempfile::tempdir().expect("a folder");
        let serve = |name: &str| {
            let history = format!(
                "sqlite:{}",
                folder.path().join(format!("{}-history", file.unwrap_or(name))).display()
            );
            ServerProcess::serve(folder.path(), name, &["--history", &history, "--ttl", "10m"])
        };
        let nodes = [serve("a"), serve("b")];
        nodes[0].json(&["cluster", "settings", "--beat", "1s"]);
        let applied = nodes[0].fed(&["job", "apply", "-f", "-"], JOB);
        assert!(applied.status.success(), "{}", text(&applied.stderr));
        until("both have run some", || {
            let rows = nodes[0].json(&["run", "list", "--state", "succeeded", "--limit", "500"]);
            let on =
                |name: &str| rows.as_array().is_some_and(|rows| rows.iter().any(|row| row["node"] == name));
            (on("a") && on("b")).then_some(())
        });
        nodes[0].ok(&["job", "pause", "sent"]);
        at_rest(&nodes[0]);
        let ran = listed(&nodes[1], "sent", "succeeded");
        let [one, other] = [0, 1].map(|n: usize| by_job(&nodes[n]));
        assert_eq!(one, other);
        assert_eq!(count(&one["rows"][0]["counts"], "ran"), ran, "{one}");
        assert_eq!(one["missing"], json!([]));
    }
}
