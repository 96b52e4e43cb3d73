//! Webhooks: programs outside run one job each, with a token that may do nothing else.

use std::path::Path;

use serde_json::{Value, json};

use crate::process::{ServerProcess, millis, run, text, until};

/// A node with two jobs of a team.
struct HookedJobs {
    node: ServerProcess,
    folder: tempfile::TempDir,
}

const JOBS: &str = r#"
[[job]]
name = "blue/j"
command = ["/bin/true"]
labels = { team = "billing" }

[[job]]
name = "blue/other"
command = ["/bin/true"]
"#;

impl HookedJobs {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let node = ServerProcess::serve(folder.path(), "a", &[]);
        node.ok(&["namespace", "create", "blue"]);
        let applied = node.fed(&["job", "apply", "-f", "-"], JOBS);
        assert!(applied.status.success(), "{}", text(&applied.stderr));
        Self { node, folder }
    }

    /// The text of a trigger token for `blue/j`.
    fn token(&self, name: &str) -> String {
        self.node.ok(&["token", "create", name, "--trigger", "j", "-n", "blue"]).trim().to_owned()
    }

    /// A request with this line in its head and this body, as a sender without a word of Evenkeel would make it.
    fn post(&self, path: &str, more: &str, body: &[u8]) -> (u16, Value) {
        let head = format!("POST {path} HTTP/1.1\nHost: {}\n{more}", self.node.address);
        let (status, answer) = self.node.bare(&head, body);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// A request of the API as the holder of this token.
    fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let head = format!(
            "{method} {path} HTTP/1.1\nHost: {}\nAuthorization: Bearer {token}\nContent-Type: application/json",
            self.node.address
        );
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (status, answer) = self.node.bare(&head, &body);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// The address forgets wrong tokens once a right key comes from it.
    fn forgive(&self) {
        assert_eq!(
            self.node.raw(&format!("GET /api/v1/whoami HTTP/1.1\nHost: {}", self.node.address), b"").0,
            200
        );
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn a_sender_runs_the_job_of_its_token_whatever_it_sends() {
    let hooked = HookedJobs::new();
    let made = hooked.node.cli(&["token", "create", "ci-hook", "--trigger", "j", "-n", "blue"]);
    let (token, said) = (text(&made.stdout).trim().to_owned(), text(&made.stderr));
    assert!(token.starts_with("evk1."), "{said}");
    let url = format!("POST http://{}/api/v1/hooks", hooked.node.address);
    assert!(said.contains("It runs job blue/j") && said.contains(&url) && !said.contains(&token), "{said}");
    let in_path = format!("/api/v1/hooks/{token}");
    let most = vec![b'x'; 64 << 10];
    for (path, more, body) in [
        ("/api/v1/hooks", bearer(&token), &b""[..]),
        ("/api/v1/hooks", format!("{}\nContent-Type: text/plain", bearer(&token)), b"not { json"),
        (&in_path, String::new(), b"{\"ref\": \"main\", \"request\": \"theirs\"}"),
        (&in_path, "Content-Type: application/x-www-form-urlencoded".to_owned(), b"payload=%7B%7D"),
        // What a proxy or a browser adds does not count here.
        (&in_path, "Authorization: Basic eDp5".to_owned(), &most),
    ] {
        let (status, answer) = hooked.post(path, &more, body);
        assert_eq!((status, &answer["applied"]), (200, &json!("created")), "{answer}");
        let run = answer["run"].as_str().expect("a run").to_owned();
        assert!(run.starts_with("blue/j:ask-"), "{run}");
        hooked.node.ok(&["run", "wait", &run]);
    }
    assert_eq!(hooked.post(&in_path, "", &vec![b'x'; (64 << 10) + 1]).0, 413);
    assert_eq!(hooked.post(&format!("{in_path}?node=a"), "", b"").0, 400, "it is no parameter");
    assert_eq!(hooked.post(&in_path, "Host: elsewhere.example", b"").0, 400);
    let log = hooked.node.json(&["audit", "--who", "token:ci-hook"]);
    let runs: Vec<&Value> =
        log.as_array().expect("entries").iter().filter(|one| one["outcome"] == "applied").collect();
    assert_eq!(runs.len(), 5, "{log}");
    assert!(runs.iter().all(|one| one["verb"] == "run" && one["job"] == "blue/j"), "{log}");
    let row = || hooked.node.json(&["token", "list"])[0].clone();
    until("its use is noted", || row()["last_used"].is_string().then_some(()));
    assert_eq!((&row()["trigger"], &row()["roles"]), (&json!("blue/j"), &json!([])));
}

#[test]
fn query_keys_are_parameters_of_the_run() {
    let hooked = HookedJobs::new();
    let job = r#"
[[job]]
name = "blue/j"
command = ["/bin/sh", "-c", "echo $day"]
parameters = { day = { type = "date", default = "2026-01-01" } }
"#;
    assert!(hooked.node.fed(&["job", "apply", "-f", "-"], job).status.success());
    let path = format!("/api/v1/hooks/{}", hooked.token("t"));
    for (query, said) in [("", "2026-01-01"), ("?day=2026-01-31", "2026-01-31")] {
        let (status, answer) = hooked.post(&format!("{path}{query}"), "", b"{}");
        assert_eq!(status, 200, "{answer}");
        let run = answer["run"].as_str().expect("a run");
        hooked.node.ok(&["run", "wait", run]);
        assert_eq!(hooked.node.ok(&["run", "logs", run]).trim(), said);
    }
    for (query, why) in [
        ("?day=tomorrow", "day"),
        ("?dai=2026-01-31", "did you mean \"day\""),
        ("?day=2026-01-31&day=2026-01-31", "given twice"),
    ] {
        let (status, answer) = hooked.post(&format!("{path}{query}"), "", b"{}");
        assert_eq!(status, 400, "{answer}");
        assert!(answer["detail"].as_str().is_some_and(|detail| detail.contains(why)), "{answer}");
    }
}

#[test]
fn what_is_sent_again_runs_once() {
    let hooked = HookedJobs::new();
    let path = format!("/api/v1/hooks/{}", hooked.token("t"));
    let mut runs = Vec::new();
    for header in ["Idempotency-Key", "X-GitHub-Delivery"] {
        let send = || hooked.post(&path, &format!("{header}: 72d3162e-cc78"), b"{}");
        let (first, again) = (send(), send());
        assert_eq!((first.0, again.0), (200, 200), "{again:?}");
        assert_eq!(first.1["run"], again.1["run"]);
        assert_eq!(again.1["applied"], "unchanged", "{again:?}");
        runs.push(first.1["run"].clone());
    }
    assert_ne!(runs[0], runs[1], "a delivery is no key");
    assert_eq!(hooked.post(&path, "X-GitHub-Delivery: a\nX-GitHub-Delivery: b", b"").0, 400);
}

#[test]
fn a_webhook_follows_the_rules_of_a_manual_run() {
    let hooked = HookedJobs::new();
    let path = format!("/api/v1/hooks/{}", hooked.token("t"));
    hooked.node.ok(&["job", "pause", "blue/j"]);
    assert_eq!(hooked.post(&path, "", b"").0, 200, "a paused job runs when it is triggered");
    hooked.node.ok(&["job", "disable", "blue/j"]);
    assert_eq!(hooked.post(&path, "", b"").0, 409);
    let log = hooked.node.json(&["audit", "--who", "token:t"]);
    assert_eq!((&log[0]["outcome"], &log[0]["job"]), (&json!("refused"), &json!("blue/j")), "{log}");
    hooked.node.ok(&["job", "delete", "blue/j"]);
    assert_eq!(hooked.post(&path, "", b"").0, 404);
}

/// The matrix: whatever address of the API, whatever the method, a trigger token is none there.
///
/// proves: I51
#[test]
fn a_trigger_token_does_nothing_else_on_any_address() {
    let hooked = HookedJobs::new();
    let token = hooked.token("t");
    let table = text(&run(&["docs", "roles"]).stdout);
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`')?.0.split_once(' '))
        .filter(|(_, path)| !path.starts_with("/api/v1/hooks"))
        .collect();
    assert!(rows.len() > 50, "{table}");
    for (method, path) in rows {
        let path = path
            .replace("{name}", "blue%2Fj")
            .replace("{run}", "blue%2Fj:ask-r:0")
            .replace("{set}", "0")
            .replace("{verb}", "run");
        let (status, answer) = hooked.ask(&token, method, &path, &json!({}));
        assert_eq!(status, 401, "{method} {path}: {answer}");
        hooked.forgive();
    }
    let run_itself = hooked.ask(&token, "POST", "/api/v1/jobs/blue%2Fj/run", &json!({}));
    assert_eq!(run_itself.0, 401, "{run_itself:?}");
    for method in ["GET", "PUT", "DELETE"] {
        let (status, answer) = hooked.ask(&token, method, "/api/v1/hooks", &Value::Null);
        assert!([401, 405].contains(&status), "{method}: {status} {answer}");
        hooked.forgive();
    }
    let runs = hooked.node.json(&["run", "list", "--job", "blue/j"]);
    assert_eq!(runs, json!([]), "nothing has run");
}

#[test]
fn a_token_that_is_wrong_replaced_or_deleted_is_refused_in_the_same_words() {
    let hooked = HookedJobs::new();
    let node = &hooked.node;
    let token = hooked.token("t");
    let in_path = |token: &str| {
        hooked.forgive();
        hooked.post(&format!("/api/v1/hooks/{token}"), "", b"")
    };
    let rotated = node.ok(&["token", "rotate", "t"]).trim().to_owned();
    assert_eq!(in_path(&rotated).0, 200);
    let (status, refusal) = in_path(&token);
    assert_eq!(status, 401, "{refusal}");
    let admin = node.ok(&["token", "create", "all", "--role", "admin"]).trim().to_owned();
    let other = rotated.replace(".t", ".u");
    for wrong in ["x", "evk1.", "%ff", &admin, &other] {
        assert_eq!(in_path(wrong), (401, refusal.clone()), "{wrong}");
        hooked.forgive();
        let by_header = hooked.post("/api/v1/hooks", &bearer(wrong), b"");
        assert_eq!(by_header, (401, refusal.clone()), "{wrong}");
    }
    hooked.forgive();
    let head = format!("POST /api/v1/hooks HTTP/1.1\nHost: {}", node.address);
    assert_eq!(node.raw(&head, b"{}").0, 401, "the cluster's key runs no webhook");
    node.ok(&["token", "delete", "t"]);
    assert_eq!(in_path(&rotated), (401, refusal));
    // Guesses are slowed as those of keys are: by a second each, on loopback.
    hooked.forgive();
    let began = millis();
    for _ in 0..6 {
        assert_eq!(hooked.post("/api/v1/hooks/evk1.00.t", "", b"").0, 401);
    }
    assert!(millis() - began >= 1_000, "{} ms", millis() - began);
    let lacking = node.json(&["audit", "--limit", "1000"]).to_string();
    assert!(lacking.contains("/api/v1/hooks/***"), "{lacking}");
    for secret in [&token, &rotated, &admin] {
        let secret = secret.split('.').nth(1).expect("a secret");
        assert!(!lacking.contains(secret), "{lacking}");
        assert_eq!(holding(hooked.folder.path(), secret), Vec::<String>::new());
    }
}

/// The files below a folder that contain a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if std::fs::read(&path)
            .is_ok_and(|data| data.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Operators make, replace and delete trigger tokens of their jobs, which end with the rights of the users they belong to.
///
/// proves: I51
#[test]
fn an_operator_makes_a_token_for_its_job_that_ends_with_its_rights() {
    let hooked = HookedJobs::new();
    let node = &hooked.node;
    node.ok(&["user", "create", "ann", "--role", "operator:blue:team=billing"]);
    let ann =
        node.ok(&["token", "create", "anns", "--role", "operator:blue", "--owner", "ann"]).trim().to_owned();
    let create = |body: Value| hooked.ask(&ann, "POST", "/api/v1/tokens", &body);
    let (status, made) = create(json!({ "name": "hook", "trigger": "blue/j" }));
    assert_eq!((status, &made["trigger"]), (200, &json!("blue/j")), "{made}");
    for (body, status) in [
        (json!({ "name": "no", "trigger": "blue/other" }), 403),
        (json!({ "name": "no", "roles": ["viewer:blue"] }), 403),
        (json!({ "name": "no", "trigger": "blue/j", "roles": [] }), 400),
        (json!({ "name": "no", "trigger": "blue/none" }), 404),
        (json!({ "name": "no", "trigger": "red/j" }), 404),
        (json!({ "name": "no", "trigger": "blue/j", "owner": "bob" }), 403),
        (json!({ "name": "no" }), 403),
    ] {
        let answer = create(body);
        assert_eq!(answer.0, status, "{answer:?}");
    }
    let loose = node.ok(&["token", "create", "loose", "--role", "operator:blue"]).trim().to_owned();
    let (status, answer) =
        hooked.ask(&loose, "POST", "/api/v1/tokens", &json!({ "name": "no", "trigger": "blue/j" }));
    assert!(
        status == 403 && answer["detail"].as_str().expect("why").contains("ask an administrator"),
        "{answer}"
    );
    node.ok(&["token", "create", "theirs", "--trigger", "blue/other"]);
    let list = hooked.ask(&ann, "GET", "/api/v1/tokens", &Value::Null).1;
    let names: Vec<&Value> =
        list["tokens"].as_array().expect("tokens").iter().map(|row| &row["name"]).collect();
    assert_eq!(names, [&json!("hook")], "{list}");
    assert_eq!(list["tokens"][0]["owner"], "ann");
    node.ok(&["token", "create", "unowned", "--trigger", "blue/j"]);
    let (status, answer) = hooked.ask(&ann, "POST", "/api/v1/tokens/unowned/rotate", &json!({}));
    assert!(status == 403 && answer["detail"].as_str().expect("why").contains("is not yours"), "{answer}");
    assert_eq!(hooked.ask(&ann, "DELETE", "/api/v1/tokens/unowned", &Value::Null).0, 200);
    for name in ["theirs", "anns", "loose"] {
        assert_eq!(hooked.ask(&ann, "DELETE", &format!("/api/v1/tokens/{name}"), &Value::Null).0, 403);
        assert_eq!(hooked.ask(&ann, "POST", &format!("/api/v1/tokens/{name}/rotate"), &json!({})).0, 403);
    }
    let (status, rotated) = hooked.ask(&ann, "POST", "/api/v1/tokens/hook/rotate", &json!({}));
    assert_eq!(status, 200, "{rotated}");
    let path = format!("/api/v1/hooks/{}", rotated["token"].as_str().expect("a token"));
    let fire = || {
        hooked.forgive();
        hooked.post(&path, "", b"").0
    };
    assert_eq!(fire(), 200);
    for (roles, status) in [("viewer:blue", 401), ("operator:blue:team=core", 401), ("author:blue", 200)] {
        node.ok(&["user", "set", "ann", "--role", roles]);
        assert_eq!(fire(), status, "{roles}");
    }
    assert_eq!(hooked.ask(&ann, "DELETE", "/api/v1/tokens/hook", &Value::Null).0, 200);
    assert_eq!(fire(), 401);
}
