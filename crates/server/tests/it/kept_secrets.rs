//! Secrets that the registry keeps, encrypted: who gets them, and that they are of no use elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::process::{SHORT_LEASE, ServerProcess, evenkeel, text};

const FIRST: &str = "canary-first-91ab";
const SECOND: &str = "canary-second-2f0e";
const FOLDER: &str = "canary-folder-c7d3";

/// A job in each namespace that writes down what it was given.
const JOBS: &str = r#"
[[job]]
name = "j"
shell = true
secrets = { PASS = "db" }
secret_files = { KEY = "db" }
command = 'printf "%s %s" "$PASS" "$(cat $KEY)" > given; echo "this is $PASS"'

[[job]]
name = "team-a/j"
secrets = { PASS = "db" }
command = ["/usr/bin/env"]
"#;

fn set(node: &ServerProcess, name: &str, value: &str) -> String {
    let output = node.fed(&["secret", "set", name], value);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs a job; how its run ended, as `run show` and `run logs` say.
fn run(node: &ServerProcess, job: &str, request: &str) -> String {
    node.ok(&["job", "run", job, "--request", request]);
    let run = format!("{job}:ask-{request}:0");
    node.cli(&["run", "wait", &run]);
    node.ok(&["run", "show", &run]) + &node.ok(&["run", "logs", &run])
}

fn stop(node: ServerProcess) {
    node.signal("TERM");
    assert_eq!(node.end(), 0);
}

/// Whether a text is in any file of a folder.
fn holds(folder: &Path, text: &str) -> bool {
    let entries: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().collect();
    entries.iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => holds(&entry.path(), text),
        _ => {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        }
    })
}

/// proves: I52
#[test]
fn a_secret_in_the_registry_is_given_to_the_jobs_of_its_namespace_and_shown_to_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("cluster");
    fs::create_dir(&at).expect("a folder");
    let given = || fs::read_to_string(at.join("given")).unwrap_or_default();
    let log = fs::File::create(at.join("log")).expect("a file");
    let mut command = ServerProcess::command(&at, "a", &["--secrets", "secrets"]);
    fs::create_dir(at.join("secrets")).expect("a folder");
    fs::set_permissions(at.join("secrets"), fs::Permissions::from_mode(0o700)).expect("its mode");
    let node = ServerProcess::start(command.current_dir(&at).env("EVENKEEL_LOG", "trace").stderr(log));
    node.ok(&["namespace", "create", "team-a"]);
    let applied = node.fed(&["job", "apply", "-f", "-"], JOBS);
    let warned = text(&applied.stderr);
    assert!(applied.status.success() && warned.contains("`evenkeel secret set team-a/db`"), "{warned}");
    assert!(run(&node, "j", "none").contains("secrets, PASS: the secret db: there is no file secrets/db"));

    assert!(set(&node, "db", &format!("{FIRST}\n")).contains("secret db is created"));
    let shown = run(&node, "j", "first");
    assert!(shown.contains("this is ***"), "{shown}");
    assert_eq!(given(), format!("{FIRST} {FIRST}"));
    let other = run(&node, "team-a/j", "first");
    assert!(other.contains("`evenkeel secret set team-a/db`") && other.contains("failed"), "{other}");
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());

    // A new value counts from the next run on.
    assert!(set(&node, "db", SECOND).contains("secret db is updated"));
    assert!(run(&node, "j", "second").contains("this is ***"));
    assert_eq!(given(), format!("{SECOND} {SECOND}"));

    let rows = node.json(&["secret", "list"]);
    let row = &rows.as_array().expect("rows")[0];
    assert_eq!(
        (&row["name"], &row["version"], &row["good"]),
        (&"db".into(), &2.into(), &true.into()),
        "{rows}"
    );
    assert!(row["by"].as_str().is_some_and(|by| !by.is_empty()) && row["since"].is_string(), "{rows}");
    set(&node, "team-a/db", "of team a");
    assert!(node.ok(&["-n", "team-a", "secret", "list"]).contains("team-a/db"));
    let log = node.json(&["audit"]);
    let verbs: Vec<(&Value, &Value)> =
        log.as_array().expect("entries").iter().map(|entry| (&entry["verb"], &entry["what"])).collect();
    assert!(verbs.contains(&(&"set".into(), &"created".into())), "{log}");
    assert!(verbs.contains(&(&"set".into(), &"set anew".into())), "{log}");

    // A file of the node goes before it.
    let file = at.join("secrets").join("db");
    fs::write(&file, FOLDER).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    run(&node, "j", "folder");
    assert_eq!(given(), format!("{FOLDER} {FOLDER}"));
    fs::remove_file(&file).expect("removed");

    for (refused, why) in [("", "is empty"), (&*"x".repeat(65_537), "longer than 65536")] {
        let refused = node.fed(&["secret", "set", "db"], refused);
        assert!(
            !refused.status.success() && text(&refused.stderr).contains(why),
            "{}",
            text(&refused.stderr)
        );
    }
    let held = node.cli(&["namespace", "delete", "team-a"]);
    assert!(text(&held.stderr).contains("holds 1 job and 1 secret"), "{}", text(&held.stderr));
    node.ok(&["secret", "delete", "db"]);
    assert_eq!(node.json(&["secret", "list"]), serde_json::json!([]));
    assert!(run(&node, "j", "gone").contains("`evenkeel secret set db`"));
    fs::remove_file(at.join("given")).expect("removed");
    stop(node);
    for canary in [FIRST, SECOND] {
        assert!(!holds(&at, canary), "{canary}");
    }
}

/// proves: I52
#[test]
fn an_entry_that_was_written_around_the_nodes_is_given_to_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let serve = || ServerProcess::serve(at, "a", &[]);
    let node = serve();
    set(&node, "db", FIRST);
    set(&node, "other", SECOND);
    assert!(node.fed(&["job", "apply", "-f", "-"], &JOBS.replace("team-a/j", "k")).status.success());
    run(&node, "j", "good");
    assert_eq!(fs::read_to_string(at.join("given")).expect("it ran"), format!("{FIRST} {FIRST}"));
    stop(node);
    // The text of one secret under the name of another.
    let registry = rusqlite::Connection::open(at.join("registry.db")).expect("the registry");
    let entry = |key: &str| -> String {
        let read = "SELECT CAST(value AS TEXT) FROM entry WHERE key = ?1";
        registry.query_row(read, [key], |row| row.get(0)).expect("an entry")
    };
    let put = |key: &str, value: &str| {
        let update = "UPDATE entry SET value = CAST(?2 AS BLOB) WHERE key = ?1";
        assert_eq!(registry.execute(update, [key, value]).expect("it is written"), 1);
    };
    let (own, other) = (entry("secret/db"), entry("secret/other"));
    for forged in
        [other.replace("\"other\"", "\"db\""), other.clone(), own.replace("\"version\":1", "\"version\":2")]
    {
        assert_ne!(forged, own);
        put("secret/db", &forged);
        let node = serve();
        let shown = run(&node, "j", "forged");
        assert!(
            shown.contains("no node of this cluster wrote its entry") && shown.contains("failed"),
            "{shown}"
        );
        node.ok(&["run", "logs", "j:ask-good:0"]);
        // It can be set anew.
        stop(node);
        put("secret/db", &own);
        fs::remove_file(at.join("history.db")).ok();
        let cleared =
            registry.execute("DELETE FROM entry WHERE key = 'job/j/triggers'", []).expect("it is written");
        assert!(cleared <= 1);
    }
    put("secret/db", &other);
    let node = serve();
    assert!(node.ok(&["secret", "list"]).contains("not of this cluster"));
    set(&node, "db", FIRST);
    run(&node, "j", "anew");
    assert_eq!(fs::read_to_string(at.join("given")).expect("it ran"), format!("{FIRST} {FIRST}"));
    stop(node);
}

/// proves: I52
#[test]
fn secrets_go_along_with_a_backup_and_are_read_with_the_clusters_identity_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let identity = at.join("identity.json").display().to_string();
    let own = ["--identity", &identity];
    let node = ServerProcess::serve(at, "a", &own);
    set(&node, "db", FIRST);
    assert!(node.fed(&["job", "apply", "-f", "-"], &JOBS.replace("team-a/j", "k")).status.success());
    let registry = |name: &str| format!("sqlite:{}", at.join(name).display());
    let backup = at.join("backup").display().to_string();
    let done = |args: &[&str], registry: &str| {
        let output = evenkeel(args).env("EVENKEEL_REGISTRY", registry).output().expect("evenkeel starts");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    };
    done(&["cluster", "backup", &backup], &registry("registry.db"));
    stop(node);
    assert!(!fs::read_to_string(&backup).unwrap_or_default().contains(FIRST));
    for (name, identity, works) in [("same", "identity.json", true), ("other", "other.json", false)] {
        let restored = &format!("{name}.db");
        done(&["cluster", "restore", "--may-repeat-runs", &backup], &registry(restored));
        let identity = at.join(identity).display().to_string();
        let more = ["--identity", &identity, "--registry", &registry(restored)];
        let node = ServerProcess::serve(at, "b", &[&more[..], &SHORT_LEASE].concat());
        // Jobs are known to the nodes of the same identity only, too.
        let accepted = node.ok(&["job", "accept", "--all"]);
        assert_eq!(accepted.contains("accepted 0 jobs"), works, "{accepted}");
        let shown = run(&node, "j", name);
        assert_eq!(shown.contains("this is ***"), works, "{shown}");
        assert_eq!(shown.contains("no node of this cluster wrote its entry"), !works, "{shown}");
        stop(node);
    }
}
