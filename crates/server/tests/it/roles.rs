//! Users, tokens and roles: who is let in, and what each may do in which namespace.

use serde_json::{Value, json};

use crate::process::{ServerProcess, run, text, until};

/// Two teams on one node, each with a job of the same name.
struct TwoTeams {
    node: ServerProcess,
    folder: tempfile::TempDir,
}

impl TwoTeams {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let node = ServerProcess::serve(folder.path(), "a", &[]);
        for team in ["blue", "red"] {
            node.ok(&["namespace", "create", team]);
            let job = format!("[[job]]\nname = \"{team}/j\"\ncommand = [\"/bin/true\"]\n");
            let calendar = format!("[[calendar]]\nname = \"{team}/c\"\ndays = [\"12-25\"]\n");
            assert!(node.fed(&["job", "apply", "-f", "-"], &format!("{job}{calendar}")).status.success());
            assert!(node.fed(&["-n", team, "secret", "set", "s"], "hunter2").status.success());
            node.ok(&["job", "run", &format!("{team}/j"), "--request", "r"]);
            node.ok(&["run", "wait", &format!("{team}/j:ask-r:0")]);
        }
        Self { node, folder }
    }

    /// Declares the team's job.
    fn declare(&self, team: &str) {
        let job = json!({ "name": format!("{team}/j"), "command": ["/bin/true"] });
        let head = format!(
            "PUT /api/v1/jobs/{team}%2Fj HTTP/1.1\nHost: {}\nContent-Type: application/json",
            self.node.address
        );
        let (status, answer) = self.node.raw(&head, job.to_string().as_bytes());
        assert_eq!(status, 200, "{answer}");
    }

    /// A token with these roles, as the line of a request's head.
    fn token(&self, name: &str, roles: &str) -> String {
        let token = self.node.ok(&["token", "create", name, "--role", roles]);
        format!("Authorization: Bearer {}", token.trim())
    }

    fn ask(&self, method: &str, path: &str, more: &str, body: &str) -> (u16, Value) {
        let kind = if method == "GET" { "" } else { "\nContent-Type: application/json" };
        let head = format!("{method} {path} HTTP/1.1\nHost: {}\n{more}{kind}", self.node.address);
        let (status, answer) = self.node.bare(&head, body.as_bytes());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

/// Every address of the API that has a role, from the program itself.
fn addresses() -> Vec<(String, String)> {
    let table = text(&run(&["docs", "roles"]).stdout);
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let all: Vec<_> = rows
        .map(|(request, _)| {
            request.split_once(' ').map(|(m, p)| (m.to_owned(), p.to_owned())).expect("two words")
        })
        .collect();
    assert!(all.len() > 50, "{table}");
    all
}

/// The address with names of a namespace, and a body that is whole enough to be refused for nothing but its sender.
fn filled(path: &str, team: &str) -> (String, String) {
    let body = match path {
        "/api/v1/jobs/apply" => {
            json!({ "jobs": [{ "name": format!("{team}/new"), "command": ["/bin/true"] }] })
        }
        "/api/v1/jobs/{name}" => json!({ "name": format!("{team}/j"), "command": ["/bin/true"] }),
        "/api/v1/plan" => json!({ "resume": [format!("{team}/j")] }),
        "/api/v1/bulk/jobs/{verb}" => json!({ "label": "x", "namespace": team }),
        "/api/v1/tokens" => json!({ "name": "new", "roles": ["viewer"] }),
        "/api/v1/secrets/{name}" => json!({ "value": "a-new-secret" }),
        "/api/v1/jobs/{name}/backfill" => json!({ "from": "1h" }),
        "/api/v1/jobs/{name}/rollback" => json!({ "version": 1 }),
        "/api/v1/calendars/{name}" => json!({ "name": format!("{team}/c"), "days": ["12-26"] }),
        _ => json!({}),
    };
    let object = match path {
        path if path.starts_with("/api/v1/jobs/{name}") => format!("{team}%2Fj"),
        path if path.starts_with("/api/v1/calendars/") => format!("{team}%2Fc"),
        path if path.starts_with("/api/v1/secrets/") => format!("{team}%2Fs"),
        path if path.starts_with("/api/v1/namespaces/") => team.to_owned(),
        path if path.starts_with("/api/v1/tokens/") => "t0".to_owned(),
        _ => "nothing".to_owned(),
    };
    let lists = [
        "jobs",
        "attention",
        "calendars",
        "secrets",
        "runs",
        "runs/running",
        "summary",
        "report",
        "events",
        "audit",
        "preview",
        "forecast",
    ]
    .map(|list| format!("/api/v1/{list}"));
    let mut path = path
        .replace("{name}", &object)
        .replace("{run}", &format!("{team}%2Fj:ask-r:0"))
        .replace("{set}", "0")
        .replace("{version}", "1")
        .replace("{id}", "b")
        .replace("{verb}", if path.contains("shards") { "disable" } else { "pause" });
    if lists.contains(&path) {
        path.push_str(&format!("?namespace={team}"));
    }
    if path.contains("/preview") {
        path.push_str("&schedule=@daily");
    }
    if path.ends_with("/logs") && path.contains("/jobs/") {
        path.push_str("?grep=x");
    }
    (path, body.to_string())
}

/// The matrix: every address, by every kind of caller, on what is its own team's and what is the other team's.
///
/// proves: I51
#[test]
fn no_role_reaches_beyond_its_namespace_or_above_itself() {
    let teams = TwoTeams::new();
    let callers: Vec<(&str, bool, String)> = [
        // The jobs have no labels: these may no more than a viewer.
        ("viewer:blue", "operator:blue:team=billing+!legacy"),
        ("viewer:blue", "author:blue:team=billing"),
        ("viewer:blue", "viewer:blue"),
        ("operator:blue", "operator:blue"),
        ("author:blue", "author:blue"),
        ("admin:blue", "admin:blue"),
        ("viewer", "viewer"),
        ("operator", "operator"),
        ("author", "author"),
    ]
    .into_iter()
    .enumerate()
    .map(|(n, (name, roles))| (name, roles.contains('='), teams.token(&format!("t{n}"), roles)))
    .collect();
    let whole = ["nodes", "service", "cluster", "users", "tokens", "claim"];
    for (method, path) in addresses() {
        // It has no end.
        if path.ends_with("/live") || path.contains("/whoami") || path.ends_with("/login-links") {
            continue;
        }
        // No role counts there: `hooks.rs`.
        if path.contains("/hooks") {
            continue;
        }
        // A caller before may have deleted it.
        if path.contains("/jobs/{name}") {
            teams.declare("blue");
        }
        for (caller, labelled, token) in &callers {
            // It answers for each job.
            if *labelled && path.contains("/bulk/") {
                continue;
            }
            let mut seen = Vec::new();
            for team in ["blue", "red"] {
                let (address, body) = filled(&path, team);
                let (status, answer) =
                    teams.ask(&method, &address, token, if method == "GET" { "" } else { &body });
                assert!(status != 401 && status < 500, "{caller}: {method} {address}: {status} {answer}");
                seen.push((
                    [403, 404].contains(&status) && answer["code"] != "not_found" || is_hidden(&answer),
                    address,
                    answer,
                ));
            }
            let [(own, ..), (foreign, address, answer)] = &seen[..] else { panic!("two teams") };
            let of_cluster =
                whole.iter().any(|word| path.starts_with(&format!("/api/v1/{word}")) || path.ends_with(word));
            let narrow = caller.ends_with(":blue");
            // These lists have what the caller may see.
            let of_caller =
                method == "GET" && ["/api/v1/namespaces", "/api/v1/tokens"].contains(&path.as_str());
            if narrow && !of_caller {
                assert!(*foreign, "{caller}: {method} {address} reaches beyond: {answer}");
                assert!(*own || !of_cluster, "{caller}: {method} {path} is the cluster's");
            }
            // What each role may not do, in words of its own and not of the table.
            let role = caller.split(':').next().expect("a role");
            // A plan is a question with a body.
            let changes = method != "GET" && path != "/api/v1/plan";
            let declares = changes
                && (["/apply", "/rollback"].iter().any(|end| path.ends_with(end))
                    // A backfill is runs: who may request them may end them.
                    || ["PUT", "DELETE"].contains(&method.as_str()) && !path.contains("/backfill/"));
            let secret = changes && path.contains("/secrets/");
            if changes && role == "viewer" || declares && role == "operator" || secret && role == "author" {
                assert!(*own, "{caller}: {method} {path} changes something");
            }
        }
    }
    let jobs = teams.node.json(&["job", "list", "-A"]);
    let names: Vec<&str> =
        jobs.as_array().expect("jobs").iter().filter_map(|job| job["name"].as_str()).collect();
    assert!(
        names.contains(&"red/j") && !names.contains(&"red/new") || names.contains(&"red/new"),
        "{names:?}"
    );
}

/// Whether an answer says that the namespace does not exist for the caller.
fn is_hidden(answer: &Value) -> bool {
    answer["detail"].as_str().is_some_and(|text| text.contains("or you have no role in it"))
}

#[test]
fn two_teams_on_one_cluster_do_not_see_each_other() {
    let teams = TwoTeams::new();
    let blue = teams.token("blue", "author:blue");
    let get = |path: &str| teams.ask("GET", path, &blue, "");
    let (status, jobs) = get("/api/v1/jobs");
    assert_eq!((status, &jobs["jobs"][0]["name"]), (200, &json!("blue/j")), "{jobs}");
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(1), "{jobs}");
    for list in [
        "attention",
        "runs",
        "summary",
        "summary?by=job",
        "report?all=true",
        "events",
        "audit",
        "calendars",
        "namespaces",
        "runs/running",
    ] {
        let (status, answer) = get(&format!("/api/v1/{list}"));
        assert!(status == 200 && !answer.to_string().contains("red"), "{list}: {answer}");
    }
    for hidden in [
        "jobs/red%2Fj",
        "jobs/red%2Fnone",
        "runs/red%2Fj:ask-r:0",
        "calendars/red%2Fc",
        "jobs?namespace=red",
        "runs?job=red/j",
        "audit?job=red/none",
        "summary?job=red/j",
        "report?job=red/j",
    ] {
        let (status, answer) = get(&format!("/api/v1/{hidden}"));
        assert!(status == 404 && is_hidden(&answer), "{hidden}: {answer}");
    }
    let (status, answer) = get("/api/v1/jobs/blue%2Fk");
    assert!(status == 404 && !answer.to_string().contains("red"), "{answer}");
    let apply = |name: &str| {
        let body = json!({ "jobs": [{ "name": "blue/k", "command": ["/bin/true"] }, { "name": name, "command": ["/bin/true"] }] });
        teams.ask("POST", "/api/v1/jobs/apply", &blue, &body.to_string()).0
    };
    assert_eq!(apply("red/k"), 404, "one job of another team refuses all");
    assert_eq!(get("/api/v1/jobs/blue%2Fk").0, 404, "nothing was applied");
    assert_eq!(apply("blue/l"), 200);
}

#[test]
fn a_token_ends_when_it_expires_is_rotated_or_deleted_or_its_owner_may_no_more() {
    let teams = TwoTeams::new();
    let node = &teams.node;
    let status = |token: &str| teams.ask("GET", "/api/v1/jobs?namespace=blue", token, "").0;
    let token = teams.token("ci", "viewer");
    assert_eq!(status(&token), 200);
    let row = || node.json(&["token", "list"])[0].clone();
    until("its use is noted", || row()["last_used"].is_string().then_some(()));
    assert!(row()["expires"].is_string() && !row().to_string().contains("evk1"), "{}", row());
    let rotated = format!("Authorization: Bearer {}", node.ok(&["token", "rotate", "ci"]).trim());
    assert_eq!((status(&token), status(&rotated)), (401, 200));
    node.ok(&["token", "delete", "ci"]);
    assert_eq!(status(&rotated), 401);
    assert_eq!(
        node.cli(&["token", "create", "x", "--role", "viewer", "--lasts", "1s"]).status.code(),
        Some(5)
    );

    node.ok(&["user", "create", "ann", "--role", "author:blue"]);
    let owned = node.ok(&["token", "create", "anns", "--role", "admin", "--owner", "ann"]);
    let owned = format!("Authorization: Bearer {}", owned.trim());
    let roles = || teams.ask("GET", "/api/v1/whoami", &owned, "").1["roles"].clone();
    assert_eq!(roles(), json!(["author:blue"]), "not more than its owner has");
    node.ok(&["user", "set", "ann", "--role", "viewer:blue"]);
    assert_eq!(roles(), json!(["viewer:blue"]));
    node.ok(&["user", "set", "ann", "--disabled", "true"]);
    assert_eq!(status(&owned), 401);
    node.ok(&["user", "set", "ann", "--disabled", "false"]);
    assert_eq!(status(&owned), 200);
    node.ok(&["user", "delete", "ann"]);
    assert_eq!(status(&owned), 401);
    node.ok(&["user", "create", "ann", "--role", "admin"]);
    assert_eq!(status(&owned), 401, "it was of another user of this name");
}

#[test]
fn a_user_logs_in_by_a_password_and_is_named_in_the_audit_log() {
    let teams = TwoTeams::new();
    let node = &teams.node;
    let create = ["user", "create", "ann@example.org", "--role", "operator:blue", "--password-stdin"];
    assert!(node.fed(&create, "correct horse battery\n").status.success());
    assert_eq!(node.fed(&create, "correct horse battery\n").status.code(), Some(6), "there is one already");
    let log_in = |name: &str, password: &str| {
        let form = format!("name={}&key={}", name.replace('@', "%40"), password.replace(' ', "+"));
        let head = format!(
            "POST /login HTTP/1.1\nHost: {0}\nOrigin: http://{0}\nContent-Type: application/x-www-form-urlencoded",
            node.address
        );
        let (status, answer) = node.bare(&head, form.as_bytes());
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
        (status, cookie.map(|pair| format!("Cookie: {pair}\nSec-Fetch-Site: same-origin")))
    };
    assert_eq!(log_in("ann@example.org", "incorrect horse").0, 401);
    assert_eq!(log_in("bob", "correct horse battery").0, 401);
    let (status, session) = log_in("ann@example.org", "correct horse battery");
    let session = session.expect("a session");
    assert_eq!(status, 200);
    let ask = |method: &str, path: &str| {
        teams.ask(method, path, &session, if method == "GET" { "" } else { "{}" }).0
    };
    assert_eq!(ask("POST", "/api/v1/jobs/blue%2Fj/pause"), 200);
    assert_eq!(ask("DELETE", "/api/v1/jobs/blue%2Fj"), 403);
    assert_eq!(ask("POST", "/api/v1/jobs/red%2Fj/pause"), 404);
    let (_, page) = node.bare(&format!("GET /plain HTTP/1.1\nHost: {}\n{session}", node.address), b"");
    assert!(page.contains("blue/j") && !page.contains("red/j"), "{page}");
    let log = node.json(&["audit", "--who", "user:ann@example.org"]);
    let entries: Vec<(&str, &str)> = log
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| {
            (entry["verb"].as_str().expect("a verb"), entry["outcome"].as_str().expect("an outcome"))
        })
        .collect();
    assert_eq!(
        entries,
        [("pause", "refused"), ("delete", "refused"), ("pause", "applied"), ("login", "applied")]
    );
    assert!(!node.json(&["audit"]).to_string().contains("horse"), "no password is in the log");
    let by = node.json(&["job", "show", "blue/j", "--details"])["switches"][0]["by"].clone();
    assert_eq!(by, "user:ann@example.org", "the switch is the user's");

    node.ok(&["user", "logout", "ann@example.org"]);
    assert_eq!(ask("GET", "/api/v1/jobs?namespace=blue"), 401, "the session has ended");
    let again = log_in("ann@example.org", "correct horse battery").1.expect("a session");
    assert_eq!(teams.ask("GET", "/api/v1/whoami", &again, "").1["who"], "user:ann@example.org");
    assert!(
        node.fed(&["user", "set", "ann@example.org", "--password-stdin"], "staple staple\n").status.success()
    );
    assert_eq!(
        teams.ask("GET", "/api/v1/whoami", &again, "").0,
        401,
        "a new password ends the sessions of the old one"
    );
}

/// Who can write to the registry makes nobody an administrator.
///
/// proves: I51
#[test]
fn roles_that_allow_nothing_yet_are_made_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let said = |args: &[&str]| {
        let made = node.cli(args);
        assert!(made.status.success(), "{args:?}: {}", text(&made.stderr));
        text(&made.stderr)
    };
    let none = "there is no namespace nope";
    assert!(said(&["user", "create", "ann", "--role", "author:nope,viewer"]).contains(none));
    assert!(said(&["token", "create", "ci", "--role", "viewer:nope"]).contains(none));
    assert!(said(&["user", "set", "ann", "--role", "none"]).contains("may do nothing"));
    node.ok(&["namespace", "create", "nope"]);
    assert_eq!(said(&["user", "set", "ann", "--role", "author:nope"]), "");
}

#[test]
fn a_principal_that_was_written_around_the_nodes_is_not_let_in() {
    let TwoTeams { node, folder } = TwoTeams::new();
    let token = node.ok(&["token", "create", "ci", "--role", "viewer:blue"]);
    let token = format!("Authorization: Bearer {}", token.trim());
    let status = |node: &ServerProcess| {
        node.bare(&format!("GET /api/v1/whoami HTTP/1.1\nHost: {}\n{token}", node.address), b"").0
    };
    assert_eq!(status(&node), 200);
    node.signal("INT");
    assert_eq!(node.end(), 0);
    let write = |from: &str, to: &str| {
        let registry = rusqlite::Connection::open(folder.path().join("registry.db")).expect("the registry");
        let update = "UPDATE entry SET value = CAST(replace(CAST(value AS TEXT), ?1, ?2) AS BLOB) WHERE key = 'token/ci'";
        assert_eq!(registry.execute(update, [from, to]).expect("it is written"), 1);
    };
    write("viewer:blue", "admin");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert_eq!(status(&node), 401);
    node.signal("INT");
    assert_eq!(node.end(), 0);
    write("admin", "viewer:blue");
    assert_eq!(status(&ServerProcess::serve(folder.path(), "a", &[])), 200, "as a node wrote it");
}
