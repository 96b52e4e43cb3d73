//! `evenkeel cluster doctor`, next to a node that is at work and on registries that are no good.

use std::cell::RefCell;

use serde_json::Value;

use crate::process::{ServerProcess, evenkeel, text, until_told};

fn doctor(registry: &str, more: &[&str]) -> std::process::Output {
    let mut command = evenkeel(&["cluster", "doctor", "--registry", registry]);
    command.args(more).output().expect("evenkeel starts")
}

fn finding<'a>(found: &'a Value, check: &str) -> &'a Value {
    let all = found.as_array().expect("a list");
    all.iter().find(|it| it["check"] == check).unwrap_or_else(|| panic!("{check} is missing: {found}"))
}

#[test]
fn a_sound_registry_is_told_to_be_sound_while_a_node_works_on_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let registry = format!("sqlite:{}", folder.path().join("registry.db").display());
    assert!(folder.path().join("registry.db").exists());
    // On a machine that stands still for a moment it rightly finds the registry slow.
    let said = RefCell::new(String::new());
    let ask = || {
        let told = doctor(&registry, &["-o", "json"]);
        said.replace(text(&told.stdout) + &text(&told.stderr));
        told.status.success().then_some(told)
    };
    let told = until_told("it is found sound", ask, || said.take());
    let found: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    for check in [
        "engine",
        "guarantee",
        "feed",
        "lease",
        "limits",
        "generation",
        "durability",
        "disk",
        "space",
        "clock",
        "reading",
        "writing",
        "news",
    ] {
        assert_eq!(finding(&found, check)["ok"], true, "{found}");
        assert_eq!(finding(&found, check)["fix"], Value::Null);
    }
    let engine = finding(&found, "engine")["found"].as_str().expect("a text");
    assert!(engine.starts_with("sqlite 3."), "{engine}");
    assert!(finding(&found, "guarantee")["found"].as_str().is_some_and(|it| it.starts_with("class A")));

    let table = doctor(&registry, &[]);
    assert!(text(&table.stdout).contains("WHAT TO DO"), "{}", text(&table.stdout));
    // The node has not noticed, and nothing is left behind.
    assert_eq!(node.json(&["node", "list"]).as_array().map(Vec::len), Some(1));
    let file = rusqlite::Connection::open(folder.path().join("registry.db")).expect("the file");
    let left: i64 = file
        .query_row("SELECT count(*) FROM entry WHERE key LIKE 'doctor/%'", (), |row| row.get(0))
        .expect("a count");
    assert_eq!(left, 0);
}

#[test]
fn nodes_that_cannot_bound_a_run_are_told_and_whether_a_job_asks_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--cgroups", "off"]);
    let registry = format!("sqlite:{}", folder.path().join("registry.db").display());
    let found = || -> Value {
        let told = doctor(&registry, &["-o", "json"]);
        finding(&serde_json::from_slice(&told.stdout).expect("JSON"), "cgroups").clone()
    };
    let said = |found: &Value| found["found"].as_str().expect("a text").to_owned();
    let first = found();
    assert_eq!(first["ok"], true, "{first}");
    assert!(
        said(&first).contains("a for one: cgroups are off")
            && said(&first).ends_with("no job there asks for any")
    );
    let job = |nodes: &str| {
        format!(
            "[[job]]\nname = \"j\"\ncommand = [\"true\"]\n{nodes}limits = {{ together = {{ cores = 1.5 }} }}\n"
        )
    };
    // A job that may not run there is not hit.
    assert!(node.fed(&["job", "apply", "-f", "-"], &job("node_selector = [\"gpu\"]\n")).status.success());
    assert_eq!(found()["ok"], true);
    assert!(node.fed(&["job", "apply", "-f", "-"], &job("")).status.success());
    let hit = found();
    assert_eq!(hit["ok"], false, "{hit}");
    assert!(said(&hit).contains("job j asks for some"), "{hit}");
    assert!(hit["fix"].as_str().is_some_and(|fix| fix.contains("Delegate=yes")), "{hit}");
    // It runs all the same, since its node was told so.
    let run = node.json(&["job", "run", "j"])["run"].as_str().expect("a run").to_owned();
    node.ok(&["run", "wait", &run]);
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    let told = doctor("memory:", &["-o", "json"]);
    assert_eq!(told.status.code(), Some(1), "{}", text(&told.stdout));
    let found: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let guarantee = finding(&found, "guarantee");
    assert_eq!(guarantee["ok"], false);
    assert!(guarantee["fix"].as_str().is_some_and(|fix| fix.contains("sqlite:PATH")), "{guarantee}");
    assert!(text(&told.stderr).contains("guarantee"), "{}", text(&told.stderr));
    let table = doctor("memory:", &[]);
    assert!(text(&table.stdout).contains("WRONG"), "{}", text(&table.stdout));
}

#[test]
fn a_registry_that_cannot_be_opened_is_told_with_the_fix_and_without_the_password() {
    for (registry, says) in [
        ("etcd://evenkeel:hunter2@127.0.0.1:1/x", "check that it runs"),
        ("nosuch://evenkeel:hunter2@h/x", "sqlite:PATH"),
        ("sqlite:/nosuch/folder/r.db", "there is no registry at sqlite:/nosuch/folder/r.db"),
    ] {
        let told = doctor(registry, &[]);
        assert_eq!(told.status.code(), Some(1));
        let why = text(&told.stderr);
        assert!(why.contains(says) && !why.contains("hunter2"), "{registry}: {why}");
    }
    let told = evenkeel(&["cluster", "doctor"]).output();
    assert_eq!(told.expect("evenkeel starts").status.code(), Some(2));
}

#[test]
fn a_registry_that_is_not_there_is_not_made_by_looking() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = format!("sqlite:{}", folder.path().join("mistyped.db").display());
    let told = doctor(&registry, &[]);
    assert_eq!(told.status.code(), Some(1), "{}", text(&told.stdout));
    let why = text(&told.stderr);
    assert!(why.contains(&format!("there is no registry at {registry}")), "{why}");
    let file = folder.path().join("backup").display().to_string();
    let backup = evenkeel(&["cluster", "backup", "--registry", &registry, &file]).output();
    assert!(!backup.expect("evenkeel starts").status.success());
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing was made");
}

#[test]
fn the_settings_file_of_a_node_is_understood() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("evenkeel.toml");
    let registry = format!("registry = \"sqlite:{}\"\nname = \"a\"\n", folder.path().join("r.db").display());
    std::fs::write(&settings, registry).expect("written");
    let _node = ServerProcess::serve(
        folder.path(),
        "a",
        &["--registry", &format!("sqlite:{}", folder.path().join("r.db").display())],
    );
    // On a machine that stands still for a moment it rightly finds the registry slow.
    let said = RefCell::new(String::new());
    let ask = || {
        let told = evenkeel(&["cluster", "doctor", "--config"]).arg(&settings).output();
        let told = told.expect("evenkeel starts");
        said.replace(text(&told.stdout) + &text(&told.stderr));
        told.status.success().then_some(())
    };
    until_told("it is found sound", ask, || said.take());
}

#[test]
fn a_job_that_asks_for_more_than_the_registry_gives_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--registry", "memory:guarantee"]);
    let job = |guarantee: &str| {
        format!("[[job]]\nname = \"pay\"\ncommand = [\"true\"]\nmin_durability = \"{guarantee}\"\n")
    };
    let refused = node.fed(&["job", "apply", "-f", "-"], &job("A"));
    let why = text(&refused.stderr);
    assert!(
        !refused.status.success() && why.contains("is of class C: see `evenkeel cluster doctor`"),
        "{why}"
    );
    assert_eq!(node.json(&["job", "list"]).as_array().map(Vec::len), Some(0));
    let taken = node.fed(&["job", "apply", "-f", "-"], &job("C"));
    assert!(taken.status.success(), "{}", text(&taken.stderr));
}
