//! Verbs of jobs and runs: declarations as files, runs that are followed, many jobs at once, and jobs that a person makes,
//! edits and renames.

use crate::process::{ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "far"
schedule = ["0 3 * * *", "at 2099-01-01T00:00:00"]
timezone = "Europe/Berlin"
command = ["/bin/echo", "it's \"quoted\"", "two\nlines"]
labels = { team = "a" }
retry = { max_retries = 2, delay = "5s" }
enabled = false

[[job]]
name = "near"
command = ["/bin/true"]
"#;

fn node(folder: &std::path::Path) -> ServerProcess {
    let node = ServerProcess::serve(folder, "a", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], JOBS);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    until("all are held", || {
        let jobs = node.json(&["job", "list"]);
        let held = jobs.as_array()?.iter().filter(|job| job["owner"] == "a").count();
        (held == 1).then_some(())
    });
    node
}

#[test]
fn a_shown_declaration_is_applied_as_unchanged_in_each_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    for (format, file) in [("toml", "job.toml"), ("yaml", "job.yaml"), ("json", "job.json")] {
        let shown = node.ok(&["job", "show", "far", "-o", format]);
        assert!(!shown.contains("version"), "only the declaration: {shown}");
        let path = folder.path().join(file).display().to_string();
        std::fs::write(&path, &shown).expect("written");
        assert_eq!(node.ok(&["job", "apply", "-f", &path]), "unchanged  far\n1 unchanged\n", "{shown}");
    }
    let toml = node.ok(&["job", "show", "far", "-o", "toml"]);
    let applied = node.fed(&["job", "apply", "-f", "-"], &toml);
    assert_eq!(text(&applied.stdout), "unchanged  far\n1 unchanged\n");
    assert_eq!(node.json(&["job", "show", "far", "--details"])["version"], 1);
    assert_eq!(node.cli(&["job", "show", "far", "--details"]).status.code(), Some(2), "for programs only");
    let refused = node.cli(&["job", "delete", "far", "-o", "toml"]);
    assert_eq!(refused.status.code(), Some(2), "its answer is no declaration");
    assert_eq!(node.json(&["job", "list"]).as_array().map(Vec::len), Some(2), "nothing was deleted");
}
