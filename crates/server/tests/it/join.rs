//! Hosts that join a cluster with a token. Each has an identity file of its own.

use std::path::Path;
use std::process::Output;

use crate::process::{ServerProcess, text, until, write_private};

/// A node of another host of the same cluster.
fn host(folder: &Path, name: &str, more: &[&str]) -> ServerProcess {
    let identity = folder.join(format!("{name}.json")).display().to_string();
    ServerProcess::serve(folder, name, &[&["--identity", &identity], more].concat())
}

/// A node that does not start.
fn refused(folder: &Path, name: &str, token: &str) -> String {
    let identity = folder.join(format!("{name}.json"));
    let more = ["--identity", &identity.display().to_string(), "--join", token];
    let output: Output = ServerProcess::command(folder, name, &more).output().expect("evenkeel starts");
    assert!(!output.status.success() && !identity.exists(), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn token(node: &ServerProcess, more: &[&str]) -> String {
    node.ok(&[&["cluster", "join-token"], more].concat()).trim().to_owned()
}

#[test]
fn a_host_joins_with_a_token_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = host(folder.path(), "a", &[]);
    let made = token(&first, &[]);
    let second = host(folder.path(), "b", &["--join", &made]);
    until("both are members", || (second.living().len() == 2).then_some(()));
    let identity =
        |name: &str| std::fs::read(folder.path().join(format!("{name}.json"))).expect("an identity");
    assert_eq!(identity("a"), identity("b"));
    let said = refused(folder.path(), "c", &made);
    assert!(said.contains("it was used"), "{said}");

    // They talk to each other.
    let slow =
        "[[job]]\nname = \"slow\"\ncommand = [\"/bin/sleep\", \"3600\"]\nnode_selector = [\"name=b\"]\n";
    assert!(first.fed(&["job", "apply", "-f", "-"], slow).status.success());
    let run = first.json(&["job", "run", "slow"])["run"].as_str().expect("a run").to_owned();
    until("it runs on b", || {
        let last = &first.json(&["run", "show", &run])["attempts"][0];
        (last["state"] == "running" && last["node"] == "b").then_some(())
    });
    first.ok(&["run", "kill", &run]);

    // A host that has the identity starts with its old token, as a service does.
    drop(second);
    let again = host(folder.path(), "b", &["--join", &made]);
    until("b is back", || (again.living().len() == 2).then_some(()));
    let log = first.json(&["audit", "--node", "b"]).to_string();
    assert!(log.contains("\"join\"") && log.contains("got the cluster's identity with the token"), "{log}");
    assert!(first.json(&["audit"]).to_string().contains("join-token"));
    let secret = made.rsplit('/').next().expect("its secret");
    assert!(!first.json(&["audit"]).to_string().contains(secret), "the audit log has no secret");
}

#[test]
fn a_token_is_for_the_named_node_and_of_one_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = host(folder.path(), "a", &[]);
    let made = token(&first, &["--for", "b", "--ttl", "5m"]);
    let said = refused(folder.path(), "c", &made);
    assert!(said.contains("for another node"), "{said}");
    let parts: Vec<&str> = made.split('/').collect();
    let other = [parts[0], parts[1], &"0".repeat(64), parts[3]].join("/");
    let said = refused(folder.path(), "b", &other);
    assert!(said.contains("did not give") && said.contains("UnknownIssuer"), "another authority: {said}");
    let guess = [parts[0], parts[1], parts[2], &"0".repeat(32)].join("/");
    let said = refused(folder.path(), "b", &guess);
    assert!(said.contains("has not made that token"), "{said}");
    let plain = format!(
        "POST /api/v1/cluster/join HTTP/1.1\nHost: {}\nContent-Type: application/json",
        first.address
    );
    let body = format!("{{\"secret\":\"{}\",\"node\":\"b\"}}", parts[3]);
    let (status, answer) = first.raw(&plain, body.as_bytes());
    assert!(status == 400 && answer.contains("over https only"), "{answer}");
    let file = folder.path().join("token");
    write_private(&file, &format!("{made}\n"));
    let second = host(folder.path(), "b", &["--join", &file.display().to_string()]);
    until("both are members", || (second.living().len() == 2).then_some(()));
    let ca = |name: &str| {
        let identity = folder.path().join(format!("{name}.json")).display().to_string();
        text(&crate::process::run(&["cluster", "ca", "--identity", &identity]).stdout)
    };
    assert!(ca("a").starts_with("-----BEGIN CERTIFICATE-----") && ca("a") == ca("b"), "{}", ca("a"));
}
