//! Versions of jobs: who changed a job, what exactly, and back again.

use serde_json::{Value, json};

use crate::process::{SHORT_LEASE, ServerProcess, text, until};

/// What can be asked for of job x, which was created as version 1 and deleted as version 2: the rest of the address, the body, and
/// what the audit log says of it.
pub(crate) const ROLLBACKS: &[(&str, &str, &str)] = &[
    ("jobs/x/rollback", r#"{"version":1,"dry_run":true}"#, "unchanged"),
    ("jobs/x/rollback", r#"{"version":1}"#, "applied"),
    ("jobs/x/rollback", r#"{"version":1}"#, "unchanged"),
    ("jobs/x/rollback", r#"{"version":2}"#, "refused"),
    ("jobs/x/rollback", r#"{"version":99}"#, "refused"),
    ("jobs/x/rollback", r#"{"version":1,"force":true}"#, "refused"),
    ("jobs/nothing/rollback", r#"{"version":1}"#, "refused"),
];

/// A request; its status and its body.
fn ask(node: &ServerProcess, request: &str, headers: &str, body: &Value) -> (u16, Value) {
    let (method, path) = request.split_once(' ').expect("a method");
    let kind = if method == "GET" { "" } else { "\nContent-Type: application/json" };
    let head = format!("{method} /api/v1/jobs/{path} HTTP/1.1\nHost: {}{kind}{headers}", node.address);
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let (status, answer) = node.raw(&head, &body);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn get(node: &ServerProcess, path: &str) -> Value {
    let (status, answer) = ask(node, &format!("GET {path}"), "", &Value::Null);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

fn declare(node: &ServerProcess, job: &Value) {
    let path = format!("PUT {}", job["name"].as_str().expect("a name"));
    let (status, answer) = ask(node, &path, "", job);
    assert_eq!(status, 200, "{answer}");
}

fn rollback(node: &ServerProcess, job: &str, version: u64) -> (u16, Value) {
    ask(node, &format!("POST {job}/rollback"), "", &json!({ "version": version }))
}

/// Number, change and keys of each version of a job, as the API lists them.
fn listed(node: &ServerProcess, job: &str) -> Vec<String> {
    let page = get(node, &format!("{job}/versions"));
    let row = |row: &Value| {
        let fields = match row["fields"].as_array() {
            None => "?".to_owned(),
            Some(fields) => fields.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("+"),
        };
        let now = if row["current"] == true { "*" } else { "" };
        format!("{}{now} {} {fields}", row["version"], row["change"].as_str().expect("a word"))
    };
    page["versions"].as_array().expect("a list").iter().map(row).collect()
}

fn job(schedule: &str) -> Value {
    json!({ "name": "j", "schedule": schedule, "command": ["/bin/true"] })
}

/// Two edits of a job that was created, and a pause.
fn edited(node: &ServerProcess) -> Value {
    declare(node, &job("0 5 1 1 *"));
    declare(node, &job("0 6 1 1 *"));
    let mut third = job("0 6 1 1 *");
    third["command"] = json!(["/bin/false"]);
    third["retry"] = json!({ "max_retries": 2, "delay": "7s" });
    declare(node, &third);
    node.ok(&["job", "pause", "j"]);
    third
}

#[test]
fn a_job_shows_who_changed_it_and_what_and_goes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let third = edited(&node);
    let list = ["3* changed command+retry", "2 changed schedule", "1 created "];
    assert_eq!(listed(&node, "j"), list, "a pause is none");
    let page = get(&node, "j/versions?limit=2");
    assert_eq!((page["versions"].as_array().map(Vec::len), &page["after"]), (Some(2), &json!(2)));
    let first = &page["versions"][0];
    assert_eq!(first["who"], "key", "{first}");
    assert!(first["at"].as_str().is_some_and(|at| at.contains('T')), "{first}");
    let rest = get(&node, "j/versions?limit=2&after=2");
    assert_eq!((&rest["versions"][0]["version"], &rest["after"]), (&json!(1), &Value::Null), "{rest}");

    let shown = get(&node, "j/versions/3");
    assert_eq!((&shown["compared_with"], &shown["job"]["retry"]), (&json!(2), &third["retry"]), "{shown}");
    let change = |field: &str, old: Value, new: Value| json!({ "field": field, "old": old, "new": new });
    assert_eq!(
        shown["changes"],
        json!([
            change("command", json!(["/bin/true"]), json!(["/bin/false"])),
            change("retry.delay", Value::Null, json!("7s")),
            change("retry.max_retries", Value::Null, json!(2)),
        ])
    );
    let back = get(&node, "j/versions/1?diff=2");
    assert_eq!(back["changes"], json!([change("schedule", json!("0 6 1 1 *"), json!("0 5 1 1 *"))]));

    // Only shown.
    let dry = json!({ "version": 1, "dry_run": true });
    let (status, would) = ask(&node, "POST j/rollback", "", &dry);
    assert_eq!((status, &would["applied"], &would["from"]), (200, &Value::Null, &json!(3)), "{would}");
    assert_eq!(would["changes"].as_array().map(Vec::len), Some(4), "{would}");
    assert_eq!(ask(&node, "POST j/rollback", "\nIf-Match: \"3\"", &dry).0, 412, "the pause is version 4");
    assert_eq!(listed(&node, "j"), list);

    // And done, unless somebody changed it meanwhile.
    let wanted = json!({ "version": 1 });
    let (status, stale) = ask(&node, "POST j/rollback", "\nIf-Match: \"3\"", &wanted);
    assert_eq!((status, &stale["version"]), (412, &json!(4)), "{stale}");
    let (status, done) = ask(&node, "POST j/rollback", "\nIf-Match: \"4\"", &wanted);
    assert_eq!((status, &done["applied"], &done["changes"]), (200, &json!("updated"), &would["changes"]));
    assert_eq!(done["switches"][0]["switch"], "paused", "an operator's switch stays: {done}");
    let list = ["5* rolled_back command+retry+schedule", list[0], list[1], list[2]]
        .map(|row| row.replace("3*", "3"));
    assert_eq!(listed(&node, "j"), list);
    assert_eq!(get(&node, "j/versions")["versions"][0]["restored"], 1);
    let now = get(&node, "j");
    assert_eq!((&now["job"]["schedule"], &now["paused"]), (&json!("0 5 1 1 *"), &json!(true)), "{now}");
    assert_eq!(rollback(&node, "j", 1).1["applied"], "unchanged");
    let entries = node.json(&["audit", "--job", "j", "--limit", "2"]);
    let entry = &entries[1];
    assert_eq!(
        (&entry["verb"], &entry["outcome"], &entry["after"]),
        (&json!("rollback"), &json!("applied"), &json!(5))
    );
    assert!(
        entry["what"].as_str().is_some_and(|what| what.starts_with("to version 1; command changed")),
        "{entry}"
    );
}

#[test]
fn what_cannot_be_declared_is_not_restored() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    edited(&node);
    let list = listed(&node, "j");
    let base =
        rusqlite::Connection::open(folder.path().join("registry.db-history")).expect("the history opens");
    let tamper = |declared: &str| {
        let changed =
            base.execute("UPDATE job_version SET declared = ?1 WHERE job = 'j' AND version = 1", [declared]);
        assert_eq!(changed.expect("it is written"), 1);
    };
    for (declared, why) in [
        (r#"{"name":"j","schedule":"never","command":["/bin/true"]}"#, "a schedule has 5 fields"),
        (r#"{"name":"j","comand":["/bin/true"]}"#, "version 1 makes no sense to this program"),
        (r#"{"name":"other","command":["/bin/true"]}"#, "version 1 is of job other"),
        (r#"{"name":"team/j","command":["/bin/true"]}"#, "team"),
        ("{", "version 1 makes no sense to this program"),
    ] {
        tamper(declared);
        for dry_run in [true, false] {
            let body = json!({ "version": 1, "dry_run": dry_run });
            let (status, refused) = ask(&node, "POST j/rollback", "", &body);
            assert_eq!(status, 400, "{declared}: {refused}");
            assert!(refused["detail"].as_str().is_some_and(|text| text.contains(why)), "{refused}");
        }
    }
    assert_eq!(get(&node, "j")["version"], 4, "nothing was declared");
    assert_eq!(listed(&node, "j").len(), list.len());
    for version in [0, 4, 99] {
        let (status, refused) = rollback(&node, "j", version);
        assert_eq!(status, 404, "{refused}");
    }
    assert_eq!(ask(&node, "GET j/versions/9", "", &Value::Null).0, 404);
    assert_eq!(ask(&node, "GET j/versions/1?diff=9", "", &Value::Null).0, 404);
    assert_eq!(ask(&node, "GET j/versions/one", "", &Value::Null).0, 400);
    assert_eq!(ask(&node, "GET nothing/versions", "", &Value::Null).0, 404);
    assert_eq!(rollback(&node, "nothing", 1).0, 404);
}

#[test]
fn a_dry_run_is_refused_where_the_rollback_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let files = "[[calendar]]\nname = \"free\"\ndays = [\"12-26\"]\n[[job]]\nname = \"j\"\nschedule = \"@daily\"\n\
                 exclude_calendars = [\"free\"]\ncommand = [\"/bin/true\"]\n";
    let applied = node.fed(&["job", "apply", "-f", "-"], files);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    declare(&node, &json!({ "name": "j", "command": ["/bin/true"] }));
    node.ok(&["calendar", "delete", "free"]);
    let asked = |dry_run: bool| {
        let (status, refused) =
            ask(&node, "POST j/rollback", "", &json!({ "version": 1, "dry_run": dry_run }));
        assert!(refused["detail"].as_str().is_some_and(|it| it.contains("calendar free")), "{refused}");
        (status, refused["code"].clone())
    };
    assert_eq!(asked(true), asked(false));
}

#[test]
fn a_deleted_job_is_restored_by_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    edited(&node);
    let shown = node.ok(&["job", "diff", "j", "1", "2"]);
    assert_eq!(shown, "job j, version 1 → 2:\n  schedule: \"0 5 1 1 *\" → \"0 6 1 1 *\"\n");
    let latest = node.ok(&["job", "diff", "j"]);
    assert!(
        latest.starts_with("job j, version 2 → 3:\n  command: [\"/bin/true\"] → [\"/bin/false\"]\n"),
        "{latest}"
    );
    assert!(latest.contains("  retry.delay: unset → \"7s\"\n"), "{latest}");
    assert!(node.ok(&["job", "diff", "j", "1"]).starts_with("job j, version 1 → 3:\n"));
    assert_eq!(node.ok(&["job", "diff", "j", "1", "1"]), "versions 1 and 1 of job j declare the same\n");

    node.ok(&["job", "delete", "j"]);
    assert_eq!(listed(&node, "j")[0], "5 deleted ");
    assert_eq!(rollback(&node, "j", 5).0, 409, "it declares nothing");
    let would = node.ok(&["job", "rollback", "j", "--dry-run"]);
    assert!(would.starts_with("job j would be rolled back to version 3:\n"), "{would}");
    assert_eq!(node.json(&["job", "list"]), json!([]));
    let done = node.ok(&["job", "rollback", "j"]);
    assert!(done.starts_with("job j is rolled back to version 3:\n"), "{done}");
    let now = get(&node, "j");
    assert_eq!((&now["job"]["command"], &now["paused"]), (&json!(["/bin/false"]), &json!(false)), "{now}");
    assert_eq!(listed(&node, "j")[..2], ["6* rolled_back ", "5 deleted "]);
    let table = node.ok(&["job", "history", "j"]);
    assert!(table.starts_with("VERSION"), "{table}");
    assert!(table.contains("6 (now)") && table.contains("rolled back to 3"), "{table}");
    // Once more, to what was declared before the deletion.
    assert_eq!(node.ok(&["job", "rollback", "j"]), "job j is as version 3 declares it: nothing changes\n");
    assert!(
        node.ok(&["job", "rollback", "j", "--to", "1"]).contains("schedule: \"0 6 1 1 *\" → \"0 5 1 1 *\"")
    );
    let none = node.cli(&["job", "rollback", "j", "--to", "77"]);
    assert!(
        !none.status.success() && text(&none.stderr).contains("has no version 77"),
        "{}",
        text(&none.stderr)
    );
}

#[test]
fn a_version_that_only_a_lost_history_had_is_found_in_the_registry() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |name: &str, ttl: &str| {
        let history = format!("sqlite:{}", folder.path().join(format!("{name}-history")).display());
        ServerProcess::serve(folder.path(), name, &["--history", &history, "--ttl", ttl])
    };
    let a = serve("a", SHORT_LEASE[1]);
    let b = serve("b", "10m");
    declare(&a, &job("0 5 1 1 *"));
    declare(&a, &job("0 6 1 1 *"));
    until("b knows both versions", || (get_or_null(&b, "j")["version"] == 2).then_some(()));
    assert_eq!(listed(&b, "j"), ["2* changed schedule", "1 created "], "a has them");
    b.signal("STOP");
    let page = get(&a, "j/versions");
    assert_eq!(
        (&page["missing"], page["versions"].as_array().map(Vec::len)),
        (&json!(["b"]), Some(2)),
        "{page}"
    );
    b.signal("CONT");

    a.lose_power();
    until("a is gone", || (b.living().len() == 1).then_some(()));
    assert_eq!(listed(&b, "j"), ["2* found ?"], "by whom is not known");
    let found = get(&b, "j/versions/2");
    assert_eq!((&found["who"], &found["at"]), (&Value::Null, &Value::Null), "{found}");
    declare(&b, &job("0 7 1 1 *"));
    assert_eq!(listed(&b, "j"), ["3* changed schedule", "2 found ?"]);
    let (status, done) = rollback(&b, "j", 2);
    assert_eq!((status, &done["changes"][0]["new"]), (200, &json!("0 6 1 1 *")), "{done}");
    assert_eq!(get(&b, "j")["job"]["schedule"], "0 6 1 1 *");

    // Its history comes back, and says who it was.
    let a = serve("a", "30s");
    let list = ["4* rolled_back schedule", "3 changed schedule", "2 changed schedule", "1 created "];
    until("a has answered", || (listed(&a, "j") == list).then_some(()));
    assert_eq!(listed(&b, "j"), list);
}

fn get_or_null(node: &ServerProcess, path: &str) -> Value {
    ask(node, &format!("GET {path}"), "", &Value::Null).1
}

#[test]
fn many_jobs_that_are_applied_together_have_a_version_each_if_they_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let apply = |changed: usize| {
        let job = |n: usize| {
            let hour = if n < changed { 6 } else { 5 };
            json!({ "name": format!("j{n}"), "schedule": format!("0 {hour} 1 1 *"), "command": ["/bin/true"] })
        };
        let jobs: Vec<Value> = (0..400).map(job).collect();
        let (status, answer) = ask(&node, "POST apply", "", &json!({ "jobs": jobs }));
        assert_eq!(status, 200, "{answer}");
    };
    apply(0);
    apply(0);
    apply(200);
    for n in [0, 199] {
        assert_eq!(listed(&node, &format!("j{n}")), ["2* changed schedule", "1 created "]);
    }
    for n in [200, 399] {
        assert_eq!(listed(&node, &format!("j{n}")), ["1* created "]);
    }
    let base =
        rusqlite::Connection::open(folder.path().join("registry.db-history")).expect("the history opens");
    let rows: i64 =
        base.query_row("SELECT count(*) FROM job_version", [], |row| row.get(0)).expect("a number");
    assert_eq!(rows, 600, "one for each change");
}

#[test]
fn a_rollback_is_for_authors_and_versions_are_for_those_who_see_the_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    edited(&node);
    let token = |name: &str, role: &str| {
        let token = node.ok(&["token", "create", name, "--role", role]);
        format!("\nAuthorization: Bearer {}", token.trim())
    };
    let other = token("t0", "admin:team");
    node.ok(&["namespace", "create", "team"]);
    for path in ["GET j/versions", "GET j/versions/1"] {
        assert_eq!(ask(&node, path, &other, &Value::Null).0, 404, "{path}");
    }
    let body = json!({ "version": 1 });
    assert_eq!(ask(&node, "POST j/rollback", &other, &body).0, 404);
    for (n, (role, status)) in [("viewer", 403), ("operator", 403), ("author", 200)].into_iter().enumerate() {
        let caller = token(&format!("u{n}"), role);
        assert_eq!(ask(&node, "GET j/versions", &caller, &Value::Null).0, 200, "{role}");
        let dry = json!({ "version": 1, "dry_run": true });
        assert_eq!(ask(&node, "POST j/rollback", &caller, &dry).0, status, "{role}");
        assert_eq!(ask(&node, "POST j/rollback", &caller, &body).0, status, "{role}");
    }
    let page = get(&node, "j/versions");
    assert_eq!(page["versions"][0]["who"], "token:u2", "{page}");
}
