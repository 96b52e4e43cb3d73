//! The node's socket: the kernel says who calls.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::process::{EVENKEEL, ServerProcess, evenkeel, own_key_line, run, text, until};

/// A user of the host that has no rights here.
const STRANGER: u32 = 65_534;

fn serve(folder: &Path, more: &[&str]) -> (ServerProcess, PathBuf) {
    let path = folder.join("node.sock");
    let shown = path.display().to_string();
    (ServerProcess::serve(folder, "a", &[&["--socket", &shown], more].concat()), path)
}

/// The command line over the socket, of a user without any key.
fn cli(folder: &Path, path: &Path, args: &[&str]) -> (bool, String) {
    let server = format!("unix:{}", path.display());
    let output =
        evenkeel(args).args(["--server", &server]).env("XDG_STATE_HOME", folder.join("state")).output();
    let output = output.expect("evenkeel starts");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// One request over the socket; the answer.
fn ask(path: &Path, head: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("it listens");
    let head =
        format!("{}\r\nConnection: close\r\n\r\n", head.trim().lines().collect::<Vec<_>>().join("\r\n"));
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    text(&answer)
}

#[test]
fn the_nodes_own_user_comes_in_by_the_socket_without_a_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, path) = serve(
        folder.path(),
        &["--tls", "on", "--trusted-proxy", "0.0.0.0/0", "--proxy-user-header", "X-User"],
    );
    let meta = fs::symlink_metadata(&path).expect("a file");
    assert!(meta.file_type().is_socket() && meta.permissions().mode() & 0o777 == 0o600, "{meta:?}");
    let own = format!("uid:{}", rustix::process::geteuid().as_raw());
    let (done, said) = cli(folder.path(), &path, &["whoami"]);
    assert!(done && said.contains(&format!("{own}: admin")), "{said}");
    let (done, said) = cli(folder.path(), &path, &["namespace", "create", "team-a"]);
    assert!(done, "{said}");
    let (done, said) = cli(folder.path(), &path, &["audit"]);
    assert!(done && said.contains(&own) && said.contains("the node's socket"), "{said}");

    let whoami = |more: &str| ask(&path, &format!("GET /api/v1/whoami HTTP/1.1\nHost: localhost\n{more}"));
    assert!(whoami("").contains(&own));
    let as_proxy = whoami("X-User: ann\nX-Forwarded-For: 192.0.2.7");
    assert!(as_proxy.contains(&own), "it is no proxy: {as_proxy}");
    assert!(whoami(&own_key_line()).contains(r#""who":"key""#), "a key counts before it");
    assert!(whoami("Authorization: Bearer incorrect-horse-battery").starts_with("HTTP/1.1 401"));
    let evil = ask(&path, "GET /api/v1/whoami HTTP/1.1\nHost: evil.example");
    assert!(evil.starts_with("HTTP/1.1 403"), "{evil}");
    let twice = ask(&path, "GET /api/v1/whoami HTTP/1.1\nHost: localhost\nHost: localhost");
    assert!(twice.starts_with("HTTP/1.1 400"), "{twice}");

    // It is gone with the node, and one that was killed leaves nothing in the way.
    node.signal("INT");
    assert_eq!(node.end(), 0);
    assert!(!path.exists());
    let (node, _) = serve(folder.path(), &[]);
    node.signal("KILL");
    node.end();
    assert!(path.exists());
    let (_node, _) = serve(folder.path(), &[]);
    assert!(cli(folder.path(), &path, &["job", "list"]).0);
}

#[test]
fn another_user_of_the_host_needs_a_key_on_the_socket_too() {
    if !rustix::process::geteuid().is_root() {
        return crate::host::skip("only root can call as another user");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (_node, path) = serve(folder.path(), &[]);
    let client = || {
        let mut command = evenkeel(&["whoami", "--server", &format!("unix:{}", path.display())]);
        command.uid(STRANGER).env("XDG_STATE_HOME", "/nonexistent");
        command
    };
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let program = folder.path().join("evenkeel");
    fs::copy(EVENKEEL, &program).expect("a copy that everybody can run");
    let say = || {
        let output = std::process::Command::new(&program).args(client().get_args()).uid(STRANGER).output();
        let output = output.expect("it starts");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = say();
    assert!(code != Some(0) && said.contains("Permission denied"), "the file's mode: {said}");
    fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("it is ours");
    let (code, said) = say();
    assert!(code == Some(8) && said.contains(&format!("user {STRANGER} of this host")), "{said}");
}

#[test]
fn a_socket_goes_on_in_the_new_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, path) = serve(folder.path(), &[]);
    node.ok(&["node", "upgrade", "a"]);
    until("the new program answers on the socket", || {
        let (done, said) = cli(folder.path(), &path, &["event", "list"]);
        (done && said.contains(" upgraded ")).then_some(())
    });
    node.signal("INT");
    assert_eq!(node.end(), 0);
    assert!(!path.exists());
}

#[test]
fn an_address_of_a_socket_is_a_whole_path() {
    for bad in ["unix:node.sock", "unix:", "unix://", "socket:/run/node.sock"] {
        let output = run(&["job", "list", "--server", bad]);
        assert_eq!(output.status.code(), Some(2), "{bad}: {}", text(&output.stderr));
    }
    let output = run(&["job", "list", "--server", "unix:/nonexistent/node.sock"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
