//! The description of the API: what a node answers is what it says.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::process::{ServerProcess, own_key_line, text, until};

/// Why a value is not of this schema, in the words of the part of JSON Schema that the description uses; `None` if it is.
fn mismatch(document: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.strip_prefix('#')?).expect("it leads somewhere");
        return mismatch(document, schema, value, at);
    }
    if let Some(choices) = ["anyOf", "oneOf"].iter().find_map(|key| schema[*key].as_array()) {
        let faults: Option<Vec<String>> =
            choices.iter().map(|choice| mismatch(document, choice, value, at)).collect();
        return faults.map(|faults| faults.join(" and "));
    }
    if let Some(words) = schema["enum"].as_array() {
        return (!words.contains(value)).then(|| format!("{at}: {value} is none of {words:?}"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let is = |kind: &&str| match *kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{at}: unknown type {other}"),
    };
    if !kinds.iter().any(is) {
        return Some(format!("{at}: {value} is no {kinds:?}"));
    }
    if let Some(list) = value.as_array() {
        let items = &schema["items"];
        return list.iter().find_map(|item| mismatch(document, items, item, &format!("{at}[]")));
    }
    let map = value.as_object()?;
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(lacking) = required.into_iter().find(|key| !map.contains_key(*key)) {
        return Some(format!("{at}: {lacking} is missing"));
    }
    map.iter().find_map(|(key, value)| match schema["properties"].get(key) {
        Some(schema) => mismatch(document, schema, value, &format!("{at}.{key}")),
        None if schema["properties"].is_null() || schema["additionalProperties"].is_object() => None,
        None => Some(format!("{at}: {key} is not described")),
    })
}

/// The answer to a request, which is as the description says.
#[track_caller]
fn described(
    node: &ServerProcess,
    document: &Value,
    (method, path, template): (&str, &str, &str),
    body: &Value,
) -> Value {
    let head = format!("{method} {path} HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let (status, answer) = node.raw(&head, &body);
    assert_eq!(status, 200, "{method} {path}: {answer}");
    let answer = answer.split_once("\r\n\r\n").expect("a body").1;
    let answer: Value = serde_json::from_str(answer).expect("JSON");
    let operation = &document["paths"][template][method.to_ascii_lowercase()];
    let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    assert!(!schema.is_null(), "{method} {template} is not described");
    if let Some(fault) = mismatch(document, schema, &answer, template) {
        panic!("{method} {path}: {fault}: {answer}");
    }
    answer
}

/// Every address that answers with JSON is asked for once, and gives what the description says.
#[test]
fn what_a_node_answers_is_described() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let head = format!("GET /api/v1/openapi.json HTTP/1.1\nHost: {}", node.address);
    let (status, answer) = node.bare(&head, b"");
    assert_eq!(status, 200, "each caller that reaches the node may read it: {answer}");
    let document: Value =
        serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    let mut asked: BTreeSet<(String, String)> = BTreeSet::new();
    let mut ask = |method: &str, path: &str, template: &str, body: Value| {
        asked.insert((method.to_ascii_lowercase(), template.to_owned()));
        described(&node, &document, (method, path, template), &body)
    };
    let v1 = |path: &str| format!("/api/v1{path}");
    // What is created.
    for (path, kind, body) in [
        (
            "/namespaces/team-a",
            "/namespaces/{name}",
            json!({ "description": "x", "jobs_max": 5, "runs_max": 2 }),
        ),
        (
            "/calendars/c",
            "/calendars/{name}",
            json!({ "name": "c", "days": ["12-24"], "windows": ["mon 09:00..17:00"] }),
        ),
        ("/secrets/s", "/secrets/{name}", json!({ "value": "a secret" })),
        ("/users/ann", "/users/{name}", json!({ "roles": ["viewer"], "password": "correct horse battery" })),
    ] {
        ask("PUT", &v1(path), &v1(kind), body);
    }
    let all = json!({
        "name": "j", "schedule": "0 0 1 1 *", "command": ["sh", "-c", "echo hello"], "timeout": "90s", "run_timeout": "1h30m",
        "retry": { "max_retries": 1, "delay": "1s" }, "overlap": { "limit": 2 }, "catch_up": { "all": 3 },
        "exclude_calendars": ["c"], "limits": { "memory": "512M" }, "environment": { "A": "b" }, "pool": { "name": "p", "limit": 2 },
        "parameters": { "day": { "type": "date", "default": "2026-01-31" } }
    });
    ask("PUT", &v1("/jobs/j"), &v1("/jobs/{name}"), all);
    let newer = json!({ "name": "j", "schedule": "0 0 2 1 *", "command": ["sh", "-c", "echo hello"], "timeout": "90s" });
    ask("PUT", &v1("/jobs/j"), &v1("/jobs/{name}"), newer);
    for body in [json!({ "version": 1, "dry_run": true }), json!({ "version": 1 })] {
        ask("POST", &v1("/jobs/j/rollback"), &v1("/jobs/{name}/rollback"), body);
    }
    let span = json!({ "from": "2025-12-31T00:00:00Z", "to": "2026-01-02T00:00:00Z", "request": "b", "dry_run": true });
    let whole = json!({ "from": "2025-12-31T00:00:00Z", "to": "2026-01-02T00:00:00Z", "request": "b",
        "max_parallel": 2, "parameters": { "day": "2026-01-01" } });
    for body in [span, whole.clone(), whole] {
        ask("POST", &v1("/jobs/j/backfill"), &v1("/jobs/{name}/backfill"), body);
    }
    ask("DELETE", &v1("/jobs/j/backfill/b"), &v1("/jobs/{name}/backfill/{id}"), Value::Null);
    let sharded = json!({ "jobs": [{ "name": "s", "schedule": "0 0 1 1 *", "placement": "sharded", "shards": 3, "command": ["true"] },
        { "name": "web", "http": { "url": "http://127.0.0.1:9/", "success": ["200-299", 404] } }] });
    ask("POST", &v1("/jobs/apply"), &v1("/jobs/apply"), sharded);
    let edited = json!({
        "jobs": [{ "name": "j", "schedule": "0 1 1 1 *", "command": ["true"] }, { "name": "new", "schedule": "@dayly" }],
        "calendars": [{ "name": "c", "days": ["12-25"] }], "enable": ["s"]
    });
    ask("POST", &v1("/plan"), &v1("/plan"), edited);
    let token = ask("POST", &v1("/tokens"), &v1("/tokens"), json!({ "name": "t", "roles": ["viewer"] }));
    assert!(token["token"].is_string());
    ask("POST", &v1("/tokens/t/rotate"), &v1("/tokens/{name}/rotate"), json!({ "overlap": "1h" }));
    let hook = ask("POST", &v1("/tokens"), &v1("/tokens"), json!({ "name": "h", "trigger": "j" }));
    let hook = hook["token"].as_str().expect("a token").to_owned();
    ask("POST", &v1(&format!("/hooks/{hook}")), &v1("/hooks/{token}"), json!({}));
    // A run, and a fire of three shards.
    ask("POST", &v1("/jobs/claim"), &v1("/jobs/claim"), json!({}));
    let run = ask(
        "POST",
        &v1("/jobs/j/run"),
        &v1("/jobs/{name}/{verb}"),
        json!({ "parameters": { "day": "2026-02-28" } }),
    )["run"]
        .as_str()
        .expect("a run")
        .to_owned();
    until("the run has ended", || {
        let path = v1(&format!("/runs/{run}/wait"));
        let answer = ask("GET", &path, &v1("/runs/{run}/wait"), Value::Null);
        (answer["done"] == true).then_some(())
    });
    let fire = ask("POST", &v1("/jobs/s/run"), &v1("/jobs/{name}/{verb}"), json!({}))["run"]
        .as_str()
        .expect("a fire")
        .to_owned();
    until("the fire has ended", || {
        let path = v1(&format!("/runs/{fire}/wait"));
        let answer = ask("GET", &path, &v1("/runs/{run}/wait"), Value::Null);
        (answer["done"] == true).then_some(())
    });
    for run in [&run, &fire] {
        ask("GET", &v1(&format!("/runs/{run}")), &v1("/runs/{run}"), Value::Null);
    }
    ask("GET", &v1(&format!("/runs/{run}/explain")), &v1("/runs/{run}/explain"), Value::Null);
    ask("POST", &v1(&format!("/runs/{run}/restart")), &v1("/runs/{run}/restart"), json!({}));
    until("its output is there to be deleted", || {
        let head = format!("DELETE /api/v1/runs/{run}/logs HTTP/1.1\nHost: {}", node.address);
        (node.raw(&head, b"").0 == 200).then_some(())
    });
    for (path, template) in [
        ("/jobs?limit=2", "/jobs"),
        ("/jobs?with=runs", "/jobs"),
        ("/jobs/j", "/jobs/{name}"),
        ("/jobs/s", "/jobs/{name}"),
        ("/jobs/web", "/jobs/{name}"),
        ("/jobs/j/next?n=3&tz=Europe%2FBerlin", "/jobs/{name}/next"),
        ("/jobs/j/explain", "/jobs/{name}/explain"),
        ("/jobs/s/shards", "/jobs/{name}/shards"),
        ("/jobs/s/shards?fold=true", "/jobs/{name}/shards"),
        ("/jobs/j/versions?limit=2", "/jobs/{name}/versions"),
        ("/jobs/j/versions/1", "/jobs/{name}/versions/{version}"),
        ("/jobs/j/versions/2?diff=3", "/jobs/{name}/versions/{version}"),
        ("/preview?schedule=@daily&exclude_calendars=c&tz=Europe%2FParis", "/preview"),
        ("/forecast?step=hour&since=2099-01-01T00:00:00Z", "/forecast"),
        ("/namespaces", "/namespaces"),
        ("/namespaces/team-a", "/namespaces/{name}"),
        ("/calendars?namespace=default", "/calendars"),
        ("/calendars/c", "/calendars/{name}"),
        ("/secrets", "/secrets"),
        ("/runs", "/runs"),
        ("/runs?state=waiting", "/runs"),
        ("/runs/running", "/runs/running"),
        ("/health", "/health"),
        ("/ready", "/ready"),
        ("/attention", "/attention"),
        ("/attention?kind=failing,late&label=team&limit=5", "/attention"),
        ("/summary", "/summary"),
        ("/summary?by=job&since=2d&limit=5&label=a%3Db", "/summary"),
        ("/summary?by=day&job=j&since=7d&until=1d", "/summary"),
        ("/report", "/report"),
        ("/report?since=2d&until=1d&label=a%3Db&limit=5&all=true", "/report"),
        ("/nodes", "/nodes"),
        ("/service", "/service"),
        ("/nodes/balance", "/nodes/balance"),
        ("/nodes/balance?kill=a", "/nodes/balance"),
        ("/nodes/a/load", "/nodes/{name}/load"),
        ("/cluster/view?as=keeper", "/cluster/view"),
        ("/cluster/view?as=elasticjob-3&job=s", "/cluster/view"),
        ("/cluster/health", "/cluster/health"),
        ("/cluster/settings", "/cluster/settings"),
        ("/events", "/events"),
        ("/audit", "/audit"),
        ("/whoami", "/whoami"),
        ("/users", "/users"),
        ("/users/ann", "/users/{name}"),
        ("/tokens", "/tokens"),
        ("/unsealed", "/unsealed"),
    ] {
        ask("GET", &v1(path), &v1(template), Value::Null);
    }
    ask("POST", &v1("/cluster/settings"), &v1("/cluster/settings"), json!({ "beat": "1m" }));
    ask("POST", &v1("/cluster/finalize-upgrade"), &v1("/cluster/finalize-upgrade"), json!({}));
    ask("POST", &v1("/cluster/join-tokens"), &v1("/cluster/join-tokens"), json!({ "ttl": "1h" }));
    ask("POST", &v1("/login-links"), &v1("/login-links"), json!({}));
    ask("POST", &v1("/users/ann/logout"), &v1("/users/{name}/logout"), json!({}));
    let many = json!({ "jobs": ["j", "absent"] });
    ask("POST", &v1("/bulk/jobs/resume"), &v1("/bulk/jobs/{verb}"), many);
    ask("POST", &v1("/jobs/j/pause"), &v1("/jobs/{name}/{verb}"), json!({}));
    ask("POST", &v1("/jobs/s/shards/0-1/disable"), &v1("/jobs/{name}/shards/{set}/{verb}"), json!({}));
    ask("POST", &v1("/nodes/a/cordon"), &v1("/nodes/{name}/{verb}"), json!({}));
    for name in ["/jobs/j", "/tokens/t", "/users/ann", "/secrets/s", "/calendars/c", "/namespaces/team-a"] {
        let template = format!("{}/{{name}}", name.rsplit_once('/').expect("a path").0);
        ask("DELETE", &v1(name), &v1(&template), Value::Null);
    }
    // Those that end the test's own run, its output or its caller, and entries without a seal.
    let others = [
        "post /api/v1/runs/{run}/kill",
        "post /api/v1/jobs/{name}/accept",
        "post /api/v1/whoami/password",
        // It takes another token, as the one before in another place.
        "post /api/v1/hooks",
        "delete /api/v1/runs/{run}/logs",
    ];
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let json = operation["responses"]["200"]["content"].get("application/json").is_some();
            let known = asked.contains(&(method.clone(), path.clone()))
                || others.contains(&format!("{method} {path}").as_str());
            assert!(known || !json, "{method} {path} is not tried");
        }
    }
}

/// What ends the caller, the node or the test itself is left out.
const LEFT_OUT: [&str; 4] =
    ["/api/v1/live", "/api/v1/nodes/{name}/{verb}", "/api/v1/users/{name}/logout", "/api/v1/whoami/password"];

/// What every answer must be.
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// Whatever is sent, with any role: no address fails within, and none answers what is not described. `cargo xtask soak contract`
/// installs the program.
#[test]
#[ignore = "soak: it needs a program from PyPI, and takes minutes"]
fn schemathesis_finds_no_answer_that_is_not_described() {
    let Ok(program) = std::env::var("EVENKEEL_TEST_SCHEMATHESIS") else {
        println!("SKIPPED schemathesis: `cargo xtask soak contract` installs and names it");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.ok(&["namespace", "create", "team-a"]);
    node.fed(
        &["job", "apply", "-f", "-"],
        "[[job]]\nname = \"j\"\nschedule = \"@daily\"\ncommand = [\"true\"]\n",
    );
    for role in ["viewer", "operator", "author", "author:team-a", "admin"] {
        let authorization = if role == "admin" {
            // An admin that tries everything deletes its own token, too; nothing can delete the cluster's key.
            own_key_line()
        } else {
            let made = node.json(&["token", "create", &role.replace(':', "-"), "--role", role]);
            format!("Authorization: Bearer {}", made["token"].as_str().expect("a token"))
        };
        let url = format!("http://{}", node.address);
        let mut run = std::process::Command::new(&program);
        run.args(["run", &format!("{url}/api/v1/openapi.json"), "--url", &url, "--no-color", "--no-shrink"])
            .args(["-H", &authorization, "-H", "Content-Type: application/json"])
            .args(["--phases", "examples,coverage,fuzzing", "-n", "20", "--request-timeout", "60"])
            .args(["--checks", CHECKS, "--continue-on-failure", "--generation-database", "none"])
            .current_dir(folder.path());
        for path in LEFT_OUT {
            run.args(["--exclude-path", path]);
        }
        let out = run.output().expect("it starts");
        assert!(out.status.success(), "{role}: {}", text(&out.stdout));
    }
}
