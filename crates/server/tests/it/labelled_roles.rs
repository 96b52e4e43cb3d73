//! Roles on jobs with certain labels: what their holders may change, and that they may see the rest.

use serde_json::{Value, json};

use crate::process::{ServerProcess, text, until};

/// A node with a namespace of two teams, whose jobs have labels.
struct LabelledTeams {
    node: ServerProcess,
    _folder: tempfile::TempDir,
}

const JOBS: &str = r#"
[[job]]
name = "blue/ours"
command = ["/bin/true"]
labels = { team = "billing" }

[[job]]
name = "blue/theirs"
command = ["/bin/true"]
labels = { team = "core" }

[[job]]
name = "blue/bare"
command = ["/bin/true"]

[[job]]
name = "red/ours"
command = ["/bin/true"]
labels = { team = "billing" }
"#;

impl LabelledTeams {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let node = ServerProcess::serve(folder.path(), "a", &[]);
        for team in ["blue", "red"] {
            node.ok(&["namespace", "create", team]);
        }
        let applied = node.fed(&["job", "apply", "-f", "-"], JOBS);
        assert!(applied.status.success(), "{}", text(&applied.stderr));
        Self { node, _folder: folder }
    }

    /// A token with these roles, as the line of a request's head.
    fn token(&self, name: &str, roles: &str) -> String {
        format!("Authorization: Bearer {}", self.node.ok(&["token", "create", name, "--role", roles]).trim())
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let head = format!(
            "{method} /api/v1/{path} HTTP/1.1\nHost: {}\n{token}\nContent-Type: application/json",
            self.node.address
        );
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (status, answer) = self.node.bare(&head, &body);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Asserts that a caller lacks the role, and returns the reason.
    #[track_caller]
    fn refused(&self, token: &str, method: &str, path: &str, body: &Value) -> String {
        let (status, answer) = self.ask(token, method, path, body);
        assert_eq!((status, &answer["code"]), (403, &json!("role")), "{method} {path}: {answer}");
        answer["detail"].as_str().expect("a reason").to_owned()
    }

    #[track_caller]
    fn allowed(&self, token: &str, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(token, method, path, body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }
}

/// An operator by label sees the namespace, and changes what has the label.
///
/// proves: I51
#[test]
fn an_operator_by_label_reads_all_and_changes_the_jobs_with_the_label() {
    let teams = LabelledTeams::new();
    let token = teams.token("t", "operator:blue:team=billing");
    let verbs = ["pause", "resume", "disable", "enable", "run"];
    for verb in verbs {
        teams.allowed(&token, "POST", &format!("jobs/blue%2Fours/{verb}"), &json!({}));
    }
    for verb in verbs {
        let why = teams.refused(&token, "POST", &format!("jobs/blue%2Ftheirs/{verb}"), &json!({}));
        let text =
            "the role operator on job blue/theirs, which has team=core: you have operator:blue:team=billing";
        assert!(why.contains(text), "{why}");
        teams.refused(&token, "POST", &format!("jobs/blue%2Fbare/{verb}"), &json!({}));
        assert_eq!(teams.ask(&token, "POST", &format!("jobs/red%2Fours/{verb}"), &json!({})).0, 404);
        assert_eq!(teams.ask(&token, "POST", &format!("jobs/blue%2Fnone/{verb}"), &json!({})).0, 404);
    }
    for read in ["jobs/blue%2Ftheirs", "jobs?namespace=blue", "runs", "calendars", "audit", "events"] {
        teams.allowed(&token, "GET", read, &Value::Null);
    }
    let declared = json!({ "name": "blue/ours", "command": ["/bin/false"], "labels": { "team": "billing" } });
    teams.refused(&token, "PUT", "jobs/blue%2Fours", &declared);
    teams.refused(&token, "DELETE", "jobs/blue%2Fours", &Value::Null);
    // What is no job takes the role for the namespace.
    let calendar = json!({ "name": "blue/c", "days": ["12-26"] });
    let author = teams.token("u", "author:blue:team=billing");
    teams.refused(&author, "PUT", "calendars/blue%2Fc", &calendar);
    teams.refused(&author, "PUT", "secrets/blue%2Fs", &json!({ "value": "a-new-secret" }));
    teams.refused(&author, "POST", "jobs/claim", &json!({}));
    assert_eq!(
        teams.allowed(&token, "GET", "whoami", &Value::Null)["roles"],
        json!(["operator:blue:team=billing"])
    );
}

#[test]
fn runs_count_by_the_present_labels_of_their_job() {
    let teams = LabelledTeams::new();
    let token = teams.token("t", "operator:blue:team=billing");
    for job in ["ours", "theirs"] {
        teams.node.ok(&["job", "run", &format!("blue/{job}"), "--request", "r"]);
        teams.node.ok(&["run", "wait", &format!("blue/{job}:ask-r:0")]);
    }
    teams.allowed(&token, "POST", "runs/blue%2Fours:ask-r:0/restart", &json!({}));
    for verb in ["restart", "kill"] {
        teams.refused(&token, "POST", &format!("runs/blue%2Ftheirs:ask-r:0/{verb}"), &json!({}));
    }
    teams.node.ok(&["job", "delete", "blue/ours"]);
    for verb in ["restart", "kill"] {
        let why = teams.refused(&token, "POST", &format!("runs/blue%2Fours:ask-r:0/{verb}"), &json!({}));
        assert!(why.contains("job blue/ours, whose labels are not known"), "{why}");
    }
}

#[test]
fn an_author_by_label_cannot_take_over_a_job_or_give_one_away() {
    let teams = LabelledTeams::new();
    let token = teams.token("t", "author:blue:team=billing");
    let job = |name: &str, team: &str| {
        let labels = if team.is_empty() { json!({}) } else { json!({ "team": team }) };
        json!({ "name": name, "command": ["/bin/false"], "labels": labels })
    };
    let put = |name: &str, team: &str| {
        let path = format!("jobs/{}", name.replace('/', "%2F"));
        teams.ask(&token, "PUT", &path, &job(name, team)).0
    };
    assert_eq!(put("blue/ours", "billing"), 200);
    assert_eq!(put("blue/new", "billing"), 200);
    for (name, team) in [
        ("blue/ours", "core"),
        ("blue/ours", ""),
        ("blue/theirs", "billing"),
        ("blue/theirs", "core"),
        ("blue/bare", "billing"),
        ("blue/other", "core"),
        ("blue/other", ""),
    ] {
        assert_eq!(put(name, team), 403, "{name} {team}");
    }
    let apply = |jobs: Value| teams.ask(&token, "POST", "jobs/apply", &json!({ "jobs": jobs })).0;
    assert_eq!(apply(json!([job("blue/two", "billing"), job("blue/theirs", "billing")])), 403);
    assert_eq!(teams.ask(&token, "GET", "jobs/blue%2Ftwo", &Value::Null).0, 404, "nothing was applied");
    assert_eq!(apply(json!([job("blue/two", "billing"), job("red/two", "billing")])), 404);
    assert_eq!(apply(json!([job("blue/two", "billing"), job("blue/new", "billing")])), 200);
    // The same text again is found by the registry's own.
    assert_eq!(apply(json!([job("blue/two", "billing"), job("blue/new", "billing")])), 200);
    teams.refused(&token, "DELETE", "jobs/blue%2Ftheirs", &Value::Null);
    teams.allowed(&token, "DELETE", "jobs/blue%2Ftwo", &Value::Null);
    let labels = teams.node.json(&["job", "show", "blue/theirs", "--details"])["job"]["labels"].clone();
    assert_eq!(labels, json!({ "team": "core" }));
}

#[test]
fn an_author_by_label_rolls_back_as_any_author_does() {
    let teams = LabelledTeams::new();
    let token = teams.token("t", "author:blue:team=billing");
    let rollback = |version: u64, dry_run: bool| {
        let body = json!({ "version": version, "dry_run": dry_run });
        teams.ask(&token, "POST", "jobs/blue%2Fours/rollback", &body).0
    };
    let key = teams.token("all", "admin");
    let put = |more: Value| {
        let mut job =
            json!({ "name": "blue/ours", "command": ["/bin/false"], "labels": { "team": "billing" } });
        job.as_object_mut().expect("a job").extend(more.as_object().expect("keys").clone());
        assert_eq!(teams.ask(&key, "PUT", "jobs/blue%2Fours", &job).0, 200);
    };
    put(json!({}));
    put(json!({ "labels": { "team": "core" } }));
    put(json!({ "labels": { "team": "billing" }, "command": ["/bin/true"] }));
    for dry_run in [true, false] {
        assert_eq!(rollback(3, dry_run), 403, "it would give the job away");
        assert_eq!(rollback(2, dry_run), 200);
    }
    let versions = teams.allowed(&token, "GET", "jobs/blue%2Fours/versions", &Value::Null);
    let latest = &versions["versions"][0];
    assert_eq!((&latest["change"], &latest["restored"]), (&json!("rolled_back"), &json!(2)), "{latest}");
    let log = teams.node.json(&["audit", "--who", "token:t"]);
    let what = log.as_array().expect("entries").iter().filter_map(|entry| entry["what"].as_str());
    assert!(what.clone().any(|what| what.starts_with("to version 2")), "{log}");
}

#[test]
fn a_verb_on_many_jobs_is_refused_job_by_job() {
    let teams = LabelledTeams::new();
    let token = teams.token("t", "operator:blue:team=billing");
    let all = json!({ "jobs": ["blue/ours", "blue/theirs", "blue/bare", "red/ours"] });
    let answer = teams.allowed(&token, "POST", "bulk/jobs/pause", &all);
    let items = answer["items"].as_array().expect("items");
    let codes: Vec<&str> = items.iter().map(|item| item["code"].as_str().unwrap_or("done")).collect();
    assert_eq!(codes, ["done", "role", "role", "not_found"], "{answer}");
    assert!(items[1]["detail"].as_str().expect("a reason").contains("which has team=core"), "{answer}");
    let labelled = json!({ "label": "team=billing|core", "namespace": "blue" });
    let answer = teams.allowed(&token, "POST", "bulk/jobs/resume", &labelled);
    assert_eq!((&answer["done"], &answer["failed"]), (&json!(1), &json!(1)), "{answer}");
    let log = teams.node.json(&["audit", "--who", "token:t", "--job", "blue/theirs"]);
    assert_eq!(log[0]["outcome"], "refused", "{log}");
}

#[test]
fn a_token_may_on_a_job_what_it_and_its_owner_may() {
    let teams = LabelledTeams::new();
    let node = &teams.node;
    node.ok(&["user", "create", "ann", "--role", "author:blue:team=billing"]);
    assert_eq!(node.json(&["user", "show", "ann"])["roles"], json!(["author:blue:team=billing"]));
    let owned = node.ok(&["token", "create", "anns", "--role", "operator:blue", "--owner", "ann"]);
    let owned = format!("Authorization: Bearer {}", owned.trim());
    let roles = || teams.ask(&owned, "GET", "whoami", &Value::Null).1["roles"].clone();
    assert_eq!(roles(), json!(["operator:blue:team=billing"]));
    teams.allowed(&owned, "POST", "jobs/blue%2Fours/pause", &json!({}));
    teams.refused(&owned, "POST", "jobs/blue%2Ftheirs/pause", &json!({}));
    node.ok(&["user", "set", "ann", "--role", "operator:blue:team=core,viewer:red"]);
    teams.refused(&owned, "POST", "jobs/blue%2Fours/pause", &json!({}));
    teams.allowed(&owned, "POST", "jobs/blue%2Ftheirs/pause", &json!({}));
    for wrong in ["viewer:blue:team=x", "operator:blue:", "operator:blue:team=x,tier=1"] {
        let made = node.cli(&["user", "set", "ann", "--role", wrong]);
        assert!(!made.status.success(), "{wrong}: {}", text(&made.stdout));
    }
}

/// A role for all namespaces, and a job that gets another label while its operator works.
#[test]
fn labels_count_in_all_namespaces_and_as_they_are_now() {
    let teams = LabelledTeams::new();
    let token = teams.token("t", "operator:*:!core+team=billing");
    for job in ["blue%2Fours", "red%2Fours"] {
        teams.allowed(&token, "POST", &format!("jobs/{job}/pause"), &json!({}));
    }
    teams.allowed(&token, "GET", "nodes", &Value::Null);
    teams.refused(&token, "POST", "nodes/a/drain", &json!({}));
    let answer = teams.allowed(&token, "POST", "bulk/jobs/resume", &json!({ "label": "team=billing" }));
    assert_eq!(answer["done"], 2, "{answer}");
    let moved = JOBS.replacen("team = \"billing\"", "team = \"core\"", 1);
    assert!(teams.node.fed(&["job", "apply", "-f", "-"], &moved).status.success());
    until("the label has changed", || {
        (teams.ask(&token, "POST", "jobs/blue%2Fours/pause", &json!({})).0 == 403).then_some(())
    });
}
