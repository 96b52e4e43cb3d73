//! Entries that were written to the registry around the nodes: no command of theirs runs, and an administrator decides.

use std::path::Path;

use serde_json::Value;

use crate::process::{ServerProcess, run, text};

fn doctor(folder: &Path) -> Value {
    let registry = format!("sqlite:{}", folder.join("registry.db").display());
    let printed = run(&["cluster", "doctor", "--registry", &registry, "-o", "json"]);
    let found: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    let finding = found.as_array().expect("a list").iter().find(|finding| finding["check"] == "seals");
    finding.expect("there are seals").clone()
}

/// Changes the entry of job `j` while no node runs, and starts the node again.
fn changed(node: ServerProcess, folder: &Path, change: impl FnOnce(&str) -> String) -> ServerProcess {
    node.signal("INT");
    assert_eq!(node.end(), 0);
    let registry = rusqlite::Connection::open(folder.join("registry.db")).expect("the registry");
    let select = "SELECT value FROM entry WHERE key = 'job/j/spec'";
    let value: Vec<u8> = registry.query_row(select, [], |row| row.get(0)).expect("an entry");
    let value = change(&text(&value)).into_bytes();
    let done = registry.execute("UPDATE entry SET value = ?1 WHERE key = 'job/j/spec'", [value]);
    assert_eq!(done.expect("it is written"), 1);
    drop(registry);
    ServerProcess::serve(folder, "a", &[])
}

/// A node with job `j`, which creates a file each second.
fn with_job(folder: &Path) -> ServerProcess {
    let node = ServerProcess::serve(folder, "a", &[]);
    let job = format!(
        "[[job]]\nname = \"j\"\nschedule = \"@every 1s\"\ncommand = [\"/usr/bin/touch\", \"{}\"]\n",
        folder.join("good").display()
    );
    assert!(node.fed(&["job", "apply", "-f", "-"], &job).status.success());
    node
}

#[test]
fn a_command_that_was_written_around_the_nodes_never_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = with_job(folder.path());
    assert_eq!(doctor(folder.path())["ok"], true, "{}", doctor(folder.path()));
    let node = changed(node, folder.path(), |entry| {
        assert!(entry.lines().count() == 2 && entry.contains("/good\""), "{entry}");
        entry.replace("/good\"", "/evil\"")
    });
    let shown = node.cli(&["job", "show", "j"]);
    assert_eq!(shown.status.code(), Some(4), "{}", text(&shown.stderr));
    assert!(
        text(&shown.stderr).contains("no node of this cluster wrote its entry"),
        "{}",
        text(&shown.stderr)
    );
    assert_eq!(node.json(&["job", "list"]), Value::Array(Vec::new()));
    assert_ne!(node.cli(&["job", "run", "j"]).status.code(), Some(0));
    let said = node.ok(&["event", "list"]);
    assert!(said.contains("job.unsealed") && said.contains("job j does not run"), "{said}");
    let audit = node.json(&["audit", "--job", "j"]);
    let refused =
        |row: &Value| row["verb"] == "write" && row["outcome"] == "refused" && row["who"] == "nobody";
    assert!(audit.as_array().is_some_and(|rows| rows.iter().any(refused)), "{audit}");
    let found = doctor(folder.path());
    assert!(
        found["ok"] == false && found["found"].as_str().is_some_and(|it| it.contains("job/j/spec")),
        "{found}"
    );
    let unsealed = node.ok(&["job", "unsealed"]);
    assert!(unsealed.contains("/evil"), "{unsealed}");
    // The file that declares the job is applied again, as programs do.
    node.signal("INT");
    assert_eq!(node.end(), 0);
    let node = with_job(folder.path());
    assert_eq!(node.json(&["job", "list"])[0]["name"], "j");
    assert!(node.ok(&["job", "unsealed", "-o", "json"]).contains("\"jobs\": []"));
    assert!(!folder.path().join("evil").exists(), "it never ran");
    assert_eq!(doctor(folder.path())["ok"], true);
}

#[test]
fn an_administrator_accepts_jobs_of_a_version_without_seals() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = with_job(folder.path());
    let node = changed(node, folder.path(), |entry| entry.lines().next().expect("a record").to_owned());
    let page: Value = serde_json::from_str(&node.ok(&["job", "unsealed", "-o", "json"])).expect("JSON");
    let revision = page["jobs"][0]["revision"].as_u64().expect("a number");
    let stale = (revision - 1).to_string();
    let refused = node.cli(&["job", "accept", "j", "--revision", &stale]);
    assert!(text(&refused.stderr).contains("written again since you looked"), "{}", text(&refused.stderr));
    assert!(node.ok(&["job", "accept", "--all"]).contains("accepted 1 job"));
    let wrong = format!("sqlite:{}", folder.path().join("nowhere.db").display());
    let identity = folder.path().join("identity.json").display().to_string();
    let step = |args: &[&str]| {
        run(&[&["cluster", "rotate-identity", "--identity", &identity, "--step"], args].concat())
    };
    assert!(step(&["trust"]).status.code() == Some(2), "there is no such identity yet");
    let other =
        ServerProcess::serve(folder.path(), "other", &["--identity", &identity, "--registry", "memory:"]);
    assert!(step(&["trust"]).status.success() && step(&["sign"]).status.success());
    for (registry, why) in [
        (&wrong, "there is no registry"),
        (&format!("sqlite:{}", folder.path().join("registry.db").display()), "no cluster with this identity"),
    ] {
        let refused = step(&["finish", "--registry", registry]);
        assert!(
            !refused.status.success() && text(&refused.stderr).contains(why),
            "{}",
            text(&refused.stderr)
        );
    }
    drop(other);
    assert!(!folder.path().join("nowhere.db").exists());
    let fires = node.json(&["job", "list"]);
    assert!(fires[0]["next"].is_string(), "{fires}");
    assert_eq!(doctor(folder.path())["ok"], true);
    let again = node.cli(&["job", "accept", "j", "--revision", &revision.to_string()]);
    assert!(again.status.success(), "it was accepted already: {}", text(&again.stderr));
}
