//! Files that a node and the command line write: for their owner alone, whatever the umask is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{EVENKEEL, STATE_HOME, ServerProcess};

/// Everything below a folder, with its mode.
fn modes(folder: &Path, found: &mut Vec<(PathBuf, u32)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let about = fs::symlink_metadata(&path).expect("it is there");
        found.push((path.clone(), about.permissions().mode() & 0o777));
        if about.is_dir() {
            modes(&path, found);
        }
    }
}

/// Runs the program with a umask that takes nothing away.
fn open_handed(command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh", EVENKEEL]).args(command.get_args()).env_clear();
    shell.env("PATH", "/usr/bin:/bin").env("TZ", "UTC").env("EVENKEEL_LOG", "error");
    shell.env("EVENKEEL_COMMAND_USERS", "own").env("XDG_STATE_HOME", STATE_HOME);
    shell
}

#[test]
fn nobody_else_reads_what_is_written_whatever_the_umask() {
    let folder = tempfile::tempdir().expect("a folder");
    let books = folder.path().join("books");
    fs::create_dir(&books).expect("a folder");
    let own = folder.path().join("deep/er");
    let registry = format!("sqlite:{}", books.join("r.db").display());
    let data = own.join("a").display().to_string();
    let mut command = Command::new(EVENKEEL);
    command.args(["serve", "--name", "a", "--port", "0", "--registry", &registry, "--data", &data]);
    let node = ServerProcess::start(&mut open_handed(&command));
    let jobs = "[[job]]\nname = \"a\"\ncommand = [\"/bin/echo\", \"x\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    node.ok(&["job", "run", "a", "--request", "r"]);
    node.ok(&["run", "wait", "a:ask-r:0"]);
    let mut written = own.join("cli").display().to_string();
    for (n, args) in
        [&["run", "logs", "a:ask-r:0", "--save"][..], &["cluster", "backup", "--registry", &registry]]
            .iter()
            .enumerate()
    {
        written.push_str(&n.to_string());
        let mut client = Command::new(EVENKEEL);
        client.args(*args).arg(&written);
        let mut client = open_handed(&client);
        let done =
            client.env("EVENKEEL_SERVER", format!("http://{}", node.address)).output().expect("it starts");
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    node.signal("TERM");
    assert_eq!(node.end(), 0);
    let mut found = Vec::new();
    modes(folder.path(), &mut found);
    assert!(found.len() > 8, "{found:?}");
    for (path, mode) in found.iter().filter(|(path, _)| *path != books) {
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

#[test]
fn a_trial_is_private_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(EVENKEEL);
    command.args(["dev", "--port", "0"]);
    let node = ServerProcess::start(open_handed(&command).current_dir(folder.path()));
    node.signal("TERM");
    assert_eq!(node.end(), 0);
    let mut found = Vec::new();
    modes(folder.path(), &mut found);
    for (path, mode) in &found {
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}
