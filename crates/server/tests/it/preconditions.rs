//! `ETag` and `If-Match`: of two who edit what they have read, the second reads it again.

use serde_json::{Value, json};

use crate::process::{ServerProcess, until};

/// A request; its status, its `ETag` and its body.
fn ask(node: &ServerProcess, request: &str, headers: &str, body: &Value) -> (u16, String, Value) {
    let head = format!("{request} HTTP/1.1\nHost: {}\nContent-Type: application/json{headers}", node.address);
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let (status, answer) = node.raw(&head, &body);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap_or_default();
    (status, tag.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn a_stale_edit_is_refused_with_both_versions_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = |description: &str| json!({"name": "j", "command": ["true"], "description": description});
    let calendar = |day: &str| json!({"days": [day], "name": "c"});
    let user = |role: &str| json!({"roles": [role]});
    let objects: [(&str, [Value; 3]); 4] = [
        ("jobs/j", ["one", "two", "three"].map(job)),
        ("calendars/c", ["12-24", "12-25", "12-26"].map(calendar)),
        ("namespaces/n", ["one", "two", "three"].map(|text| json!({"description": text}))),
        ("users/ann", ["viewer", "operator", "author"].map(user)),
    ];
    for (path, [first, second, third]) in &objects {
        let path = format!("/api/v1/{path}");
        let put = |condition: &str, body: &Value| ask(&node, &format!("PUT {path}"), condition, body);
        let get = || ask(&node, &format!("GET {path}"), "", &Value::Null);
        let (status, _, problem) = put("\nIf-Match: *", first);
        assert_eq!(
            (status, &problem["code"], &problem["version"]),
            (412, &json!("stale"), &json!(0)),
            "{path}"
        );
        assert_eq!(put("\nIf-None-Match: *", first).0, 200, "{path}");
        assert_eq!(put("\nIf-None-Match: *", second).0, 412, "{path}");
        let (status, tag, _) = get();
        assert_eq!((status, tag.as_str()), (200, "\"1\""), "{path}");

        assert_eq!(put(&format!("\nIf-Match: {tag}"), second).0, 200, "{path}");
        let (status, _, problem) = put(&format!("\nIf-Match: {tag}"), third);
        assert_eq!((status, &problem["version"]), (412, &json!(2)), "{path}: {problem}");
        let said = problem["detail"].as_str().expect("a text");
        assert!(said.contains("has version 2, and the request is for version 1"), "{said}");
        let (status, _, problem) = ask(&node, &format!("DELETE {path}"), "\nIf-Match: \"1\"", &Value::Null);
        assert_eq!((status, &problem["version"]), (412, &json!(2)), "{path}");
        assert_eq!(get().1, "\"2\"", "{path}: it is as it was");

        let (status, _, problem) = put("\nIf-Match: 2", third);
        assert_eq!((status, &problem["code"]), (400, &json!("invalid")), "{path}: what is not understood");
        assert_eq!(ask(&node, &format!("DELETE {path}"), "\nIf-Match: \"2\"", &Value::Null).0, 200, "{path}");
    }
}

#[test]
fn a_condition_on_what_has_no_version_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let condition = "\nIf-Match: \"1\"";
    let jobs = json!({"jobs": [{"name": "j", "command": ["true"]}]});
    let (status, _, problem) = ask(&node, "POST /api/v1/jobs/apply", condition, &jobs);
    assert_eq!(status, 400, "{problem}");
    assert!(
        problem["detail"].as_str().is_some_and(|text| text.contains("PUT /api/v1/jobs/NAME")),
        "{problem}"
    );
    assert_eq!(ask(&node, "POST /api/v1/nodes/a/drain", condition, &json!({})).0, 400);
    assert_eq!(node.json(&["node", "list"])[0]["draining"], false);
    assert_eq!(node.json(&["job", "list"]), json!([]));
}

#[test]
fn a_number_of_rows_out_of_range_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(
        node.fed(&["job", "apply", "-f", "-"], "[[job]]\nname = \"j\"\ncommand = [\"true\"]\n")
            .status
            .success()
    );
    for path in [
        "jobs?limit=0",
        "jobs?limit=1001",
        "runs?limit=1001",
        "events?limit=0",
        "audit?limit=1001",
        "jobs/j/next?n=1001",
        "jobs/j/logs?grep=x&runs=501",
        "nodes/a/load?limit=0",
    ] {
        let (status, _, problem) = ask(&node, &format!("GET /api/v1/{path}"), "", &Value::Null);
        assert_eq!((status, &problem["code"]), (400, &json!("invalid")), "{path}: {problem}");
        assert!(
            problem["detail"].as_str().is_some_and(|text| text.contains("allowed are 1 to")),
            "{path}: {problem}"
        );
    }
}

#[test]
fn a_repeated_request_with_an_idempotency_key_runs_the_job_once_whichever_node_gets_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b] = ["a", "b"].map(|name| ServerProcess::serve(folder.path(), name, &[]));
    let job = "[[job]]\nname = \"j\"\ncommand = [\"true\"]\n[[job]]\nname = \"k\"\ncommand = [\"true\"]\n";
    assert!(a.fed(&["job", "apply", "-f", "-"], job).status.success());
    until("both know the jobs", || (b.json(&["job", "list"]).as_array()?.len() == 2).then_some(()));
    let run = |node: &ServerProcess, job: &str, key: &str, body: &Value| {
        ask(node, &format!("POST /api/v1/jobs/{job}/run"), &format!("\nIdempotency-Key: {key}"), body)
    };
    let (status, _, first) = run(&a, "j", "order-7", &json!({}));
    assert_eq!((status, &first["applied"]), (200, &json!("created")), "{first}");
    for node in [&a, &b, &a] {
        let (status, _, again) = run(node, "j", "order-7", &json!({}));
        assert_eq!((status, &again["run"]), (200, &first["run"]), "{again}");
    }
    a.ok(&["run", "wait", first["run"].as_str().expect("a run")]);
    // The registry remembers 64 requests of a job; the history has its run for as long as it keeps any.
    for n in 0..70 {
        until("it is accepted", || (run(&a, "j", &format!("later-{n}"), &json!({})).0 == 200).then_some(()));
    }
    let (status, _, after) = run(&b, "j", "order-7", &json!({}));
    assert_eq!(
        (status, &after["run"], &after["applied"]),
        (200, &first["run"], &json!("unchanged")),
        "{after}"
    );
    let (_, _, other) = run(&a, "k", "order-7", &json!({}));
    assert_eq!(other["applied"], "created", "another job: {other}");
    let (_, _, other) = run(&a, "j", "order-8", &json!({}));
    assert_eq!(other["applied"], "created", "another key: {other}");

    assert_eq!(run(&a, "j", "x", &json!({ "request": "mine" })).0, 400, "two names for one request");
    assert_eq!(run(&a, "j", "", &json!({})).0, 400);
    let token = json!({ "name": "t", "roles": ["viewer"] });
    let (status, _, refused) = ask(&a, "POST /api/v1/tokens", "\nIdempotency-Key: x", &token);
    assert!(status == 400 && refused["detail"].to_string().contains("leave it out"), "{refused}");
    let many = json!({ "jobs": ["j"] });
    let (status, _, refused) = ask(&a, "POST /api/v1/bulk/jobs/pause", "\nIf-Match: \"1\"", &many);
    assert!(status == 400 && refused["detail"].to_string().contains("several jobs"), "{refused}");
}
