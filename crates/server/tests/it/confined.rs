//! What commands may do on a node: as whom they run, and what they may not gain.

use crate::process::{ServerProcess, text};

/// A job that says what it may do, and one of another user.
const JOBS: &str = "[[job]]\nname = \"says\"\nshell = true\n\
                    command = \"umask; grep NoNewPrivs: /proc/self/status; grep CapAmb: /proc/self/status\"\n\
                    [[job]]\nname = \"other\"\nuser = \"daemon\"\nshell = true\ncommand = \"id -un; umask\"\n";

/// A node with these settings instead of what the other tests use.
fn node(folder: &std::path::Path, name: &str, more: &[&str]) -> ServerProcess {
    let mut command = ServerProcess::command(folder, name, more);
    let node = ServerProcess::start(command.env_remove("EVENKEEL_COMMAND_USERS"));
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    node
}

/// The end of a run of this job: its state, its reason and its output.
fn run(node: &ServerProcess, job: &str) -> (String, String, String) {
    let run = node.json(&["job", "run", job])["run"].as_str().expect("a run").to_owned();
    node.cli(&["run", "wait", &run]);
    let shown = node.json(&["run", "show", &run]);
    let last = shown["attempts"].as_array().and_then(|all| all.last()).cloned().unwrap_or(shown);
    let part = |key: &str| last[key].as_str().unwrap_or_default().to_owned();
    (part("state"), part("reason"), text(&node.cli(&["run", "logs", &run]).stdout))
}

#[test]
fn a_command_runs_as_no_other_user_than_the_node_allows_and_never_as_root_unless_it_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let is_root = rustix::process::geteuid().is_root();
    let careful = node(folder.path(), "careful", &[]);
    let (state, reason, said) = run(&careful, "says");
    if is_root {
        assert!(state == "failed" && reason.contains("start the node with --command-users root"), "{reason}");
        assert_eq!(said, "");
    } else {
        assert_eq!(state, "succeeded", "{reason}");
    }
    let (state, reason, _) = run(&careful, "other");
    assert!(state == "failed" && reason.contains("start it with --command-users daemon"), "{reason}");
    drop(careful);
    if is_root {
        let folder = tempfile::tempdir().expect("a folder");
        let open = node(folder.path(), "open", &["--command-users", "daemon"]);
        let (state, reason, said) = run(&open, "other");
        assert_eq!((state.as_str(), said.as_str()), ("succeeded", "daemon\n0077\n"), "{reason}");
        assert_eq!(run(&open, "says").0, "failed", "root is not among them");
    }
}

#[test]
fn a_command_gains_no_privileges_and_its_files_are_private_unless_the_node_says_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let confined = node(folder.path(), "confined", &["--command-users", "own"]);
    let (state, reason, said) = run(&confined, "says");
    assert_eq!(state, "succeeded", "{reason}");
    assert_eq!(said, "0077\nNoNewPrivs:\t1\nCapAmb:\t0000000000000000\n");
    drop(confined);
    let folder = tempfile::tempdir().expect("a folder");
    let more = ["--command-users", "own", "--command-umask", "022", "--no-new-privileges", "off"];
    let (state, reason, said) = run(&node(folder.path(), "open", &more), "says");
    assert_eq!(state, "succeeded", "{reason}");
    assert!(said.starts_with("0022\nNoNewPrivs:\t0\n"), "{said}");
}
