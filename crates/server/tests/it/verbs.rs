//! Verbs of jobs and runs: declarations as files, runs that are followed, many jobs at once, and jobs that a person makes,
//! edits and renames.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::process::{ServerProcess, text};

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
    ServerProcess::with_jobs(folder, JOBS, 1)
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

const RUNS: &str = r#"
[[job]]
name = "greets"
command = ["/bin/sh", "-c", "echo hello $WHO; sleep 0.3; echo $WHO is gone; test $WHO = world || exit 7"]
parameters = { WHO = { type = "string", default = "world" } }

[[job]]
name = "parts"
command = ["/bin/sh", "-c", "echo part $EVENKEEL_SHARD; test $EVENKEEL_SHARD != 1 || exit 4"]
placement = "sharded"
shards = 3

[[job]]
name = "again"
command = ["/bin/sh", "-c", "echo try $EVENKEEL_ATTEMPT; exit $EVENKEEL_ATTEMPT"]
retry = { max_retries = 1, delay = "1s" }

[[job]]
name = "long"
command = ["/bin/sh", "-c", "echo begun; sleep 60"]
"#;

#[test]
fn a_followed_run_prints_its_output_alone_and_ends_with_its_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], RUNS).status.success());
    let followed = |args: &[&str]| {
        let output = node.cli(&[&["job", "run"], args, &["--follow"]].concat());
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (code, out, err) = followed(&["greets"]);
    assert_eq!((code, out.as_str()), (Some(0), "hello world\nworld is gone\n"), "{err}");
    assert!(err.contains("run greets:ask-") && err.contains("has ended: succeeded"), "{err}");
    let (code, out, err) = followed(&["greets", "--param", "WHO=you", "--request", "r", "-o", "json"]);
    assert_eq!((code, out.as_str()), (Some(7), "hello you\nyou is gone\n"), "{err}");
    let last: serde_json::Value = serde_json::from_str(err.lines().last().expect("an error")).expect("JSON");
    assert_eq!((&last["error"]["code"], &last["error"]["exit"]), (&"failed".into(), &7.into()));
    let (code, out, err) = followed(&["greets", "--request", "r"]);
    assert_eq!((code, out.as_str()), (Some(7), "hello you\nyou is gone\n"), "the same run: {err}");
    assert!(err.contains("no new run was requested"), "{err}");
    let (code, out, err) = followed(&["again"]);
    assert_eq!((code, out.as_str()), (Some(2), "try 1\ntry 2\n"), "all attempts: {err}");
    let (code, out, err) = followed(&["parts"]);
    assert_eq!(code, Some(4), "{err}");
    for shard in 0..3 {
        assert_eq!(out.matches(&format!("part {shard}\n")).count(), 1, "{out}");
        assert!(out.contains(&format!(":{shard} <==\n")), "{out}");
    }
    assert_eq!(followed(&["nope"]).0, Some(4), "there is no such job");
}

#[test]
fn ctrl_c_leaves_a_followed_run_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], RUNS).status.success());
    let mut follow = node
        .client(&["job", "run", "long", "--request", "r", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("evenkeel starts");
    let mut begun = [0; 6];
    follow.stdout.as_mut().expect("piped").read_exact(&mut begun).expect("it prints");
    assert_eq!(&begun, b"begun\n");
    let pid = follow.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill starts").success());
    let ended = follow.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130));
    let said = text(&ended.stderr);
    assert!(
        said.contains("run long:ask-r:0 goes on") && said.contains("evenkeel run kill long:ask-r:0"),
        "{said}"
    );
    assert_eq!(node.json(&["run", "running"])["running"], 1);
    node.ok(&["run", "kill", "long:ask-r:0"]);
}
