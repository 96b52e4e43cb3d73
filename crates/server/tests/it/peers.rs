//! What nodes say to each other over the wire, and which callers a node takes for nodes.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::forged::{self, ForgedAuthority, ForgedLeaf, shared_identity};
use crate::process::{ServerProcess, text, until, write_private};
use crate::wire::NodeWire;

const KEY: &str = "correct-horse-battery-staple";
const SLOW: &str =
    "[[job]]\nname = \"slow\"\ncommand = [\"/bin/sh\", \"-c\", \"echo begun; exec sleep 3600\"]\n";

fn key_file(folder: &Path, name: &str, key: &str) -> String {
    let path = folder.join(name);
    write_private(&path, &format!("{key}\n"));
    path.display().to_string()
}

/// A node behind a wire with a run under way, and another node that sees it only by the registry.
struct NodePair {
    folder: tempfile::TempDir,
    key: String,
    wire: NodeWire,
    _near_wire: NodeWire,
    far: ServerProcess,
    near: ServerProcess,
}

impl NodePair {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (key, wire) = (key_file(folder.path(), "key", KEY), NodeWire::new());
        let far = Self::node(folder.path(), "far", &key, &wire);
        let more = ["-", "--cluster-key-file", &key];
        assert!(far.fed(&[&["job", "apply", "-f"], &more[..]].concat(), SLOW).status.success());
        until("far holds it", || {
            let jobs = far.json(&["job", "list", "--cluster-key-file", &key]);
            (jobs[0]["owner"] == "far").then_some(())
        });
        let near_wire = NodeWire::new();
        let near = Self::node(folder.path(), "near", &key, &near_wire);
        let pair = Self { folder, key, wire, _near_wire: near_wire, far, near };
        until("near sees both", || (pair.json(&["node", "list"]).as_array()?.len() == 2).then_some(()));
        pair
    }

    fn node(folder: &Path, name: &str, key: &str, wire: &NodeWire) -> ServerProcess {
        let advertised = wire.address.to_string();
        let node =
            ServerProcess::serve(folder, name, &["--cluster-key-file", key, "--advertise", &advertised]);
        wire.lead_to(node.address);
        node
    }

    /// What near says, with the key.
    fn json(&self, args: &[&str]) -> serde_json::Value {
        self.near.json(&[args, &["--cluster-key-file", &self.key]].concat())
    }

    /// A run that is under way on far.
    fn run(&self) -> String {
        let run = self.json(&["job", "run", "slow"])["run"].as_str().expect("a run").to_owned();
        until("it runs", || {
            (self.json(&["run", "show", &run])["attempts"][0]["state"] == "running").then_some(())
        });
        run
    }

    /// The incarnation of a node.
    fn incarnation(&self, name: &str) -> u64 {
        let key: String = forged::entry(
            self.folder.path(),
            &format!("SELECT key FROM entry WHERE key GLOB 'node/{name}@*'"),
        );
        key.split('@').nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }
}

/// Asks far as a node with this certificate does.
fn ask_far(
    pair: &NodePair,
    leaf: Option<&ForgedLeaf>,
    to: &str,
    asked: (&str, &[u8]),
) -> Result<(u16, String), String> {
    let (line, body) = asked;
    let far = pair.far.address;
    let head = format!("{line} HTTP/1.1\nHost: {far}\nContent-Type: application/json\nEvenkeel-To: {to}");
    let own = ForgedAuthority::of(&shared_identity());
    forged::ask((far, "node.evenkeel.internal"), &own.certificate, leaf, (&head, body))
}

/// proves: S0-17, S0-20, S0-55
#[test]
fn a_node_asks_another_one_on_its_port_and_nothing_of_it_can_be_read_on_the_wire() {
    let pair = NodePair::new();
    let run = pair.run();
    let with_key = ["--cluster-key-file", &pair.key];
    let logs = [&["run", "logs", &run], &with_key[..]].concat();
    until("its output is read through near", || (pair.near.ok(&logs) == "begun\n").then_some(()));
    let follow = [&["run", "logs", "--follow", &run], &with_key[..]].concat();
    let following = pair.near.client(&follow).stdout(Stdio::piped()).spawn().expect("evenkeel starts");
    pair.near.ok(&[&["run", "kill", &run], &with_key[..]].concat());
    let output = following.wait_with_output().expect("it ends with the run");
    assert_eq!((output.status.success(), text(&output.stdout)), (true, "begun\n".to_owned()));
    until("it was killed on far", || {
        let last = &pair.json(&["run", "show", &run])["attempts"][0];
        (last["state"] == "killed" && last["node"] == "far").then_some(())
    });

    let (asked, answered) = (pair.wire.asked(), pair.wire.answered());
    assert!(!asked.is_empty() && !answered.is_empty(), "it went over the wire");
    for secret in [KEY, "authorization", "Bearer", "HTTP/1.1", "/peer/", "begun", &run] {
        assert!(!asked.contains(secret) && !answered.contains(secret), "{secret} is on the wire: {asked}");
    }
}

/// proves: S0-55
#[test]
fn output_is_deleted_where_it_is_and_a_run_is_done_again_from_anywhere() {
    let pair = NodePair::new();
    let run = pair.run();
    let near = |args: &[&str]| pair.near.cli(&[args, &["--cluster-key-file", &pair.key]].concat());
    until("it wrote something", || (text(&near(&["run", "logs", &run]).stdout) == "begun\n").then_some(()));
    for verb in ["delete", "restart"] {
        let refused = near(&["run", verb, &run]);
        let said = text(&refused.stderr);
        assert!(
            refused.status.code() == Some(6) && said.contains("run kill"),
            "{verb} while it runs: {said}"
        );
    }
    assert!(near(&["run", "kill", &run]).status.success());
    assert!(text(&near(&["run", "wait", &run]).stdout).starts_with("killed"));
    let kept = pair.folder.path().join("far/logs/slow");
    assert_eq!(fs::read_dir(&kept).expect("a folder").count(), 1);
    assert!(near(&["run", "delete", &run]).status.success());
    assert_eq!(fs::read_dir(&kept).expect("a folder").count(), 0, "its output is gone from far's disk");
    assert_eq!(text(&near(&["run", "logs", &run]).stdout), "");
    assert_eq!(pair.json(&["run", "show", &run])["attempts"][0]["state"], "killed", "the history stays");
    assert!(near(&["run", "delete", &run]).status.success(), "it is gone already");

    let again = pair.json(&["run", "restart", &run])["run"].as_str().expect("a run").to_owned();
    assert_ne!(again, run);
    assert_eq!(pair.json(&["run", "restart", &run])["run"], *again, "asking twice asks once");
    until("it runs on far, whose job it is", || {
        let last = &pair.json(&["run", "show", &again])["attempts"][0];
        (last["state"] == "running" && last["node"] == "far").then_some(())
    });
    assert!(near(&["run", "kill", &again]).status.success());
    assert!(text(&near(&["run", "wait", &again]).stdout).starts_with("killed"));
    assert_eq!(pair.json(&["run", "restart", &run])["run"], *again, "also when it has ended");
    assert_eq!(pair.json(&["run", "list"]).as_array().map(Vec::len), Some(2));
    assert_ne!(pair.json(&["run", "restart", &again])["run"], *again);
}

/// proves: S0-17
#[test]
fn nodes_probe_each_other_and_run_what_the_other_has_planned() {
    let pair = NodePair::new();
    until("near has probed far", || (!pair.wire.answered().is_empty()).then_some(()));
    let tick = "[[job]]\nname = \"tick\"\nschedule = \"* * * * * *\"\nplacement = \"dispatched\"\n\
                command = [\"/bin/true\"]\n";
    let with_key = ["job", "apply", "-f", "-", "--cluster-key-file", &pair.key];
    assert!(pair.near.fed(&with_key, tick).status.success());
    until("both have run it", || {
        let runs = pair.json(&["run", "list", "--job", "tick", "--state", "succeeded"]);
        let on = |node: &str| runs.as_array().is_some_and(|runs| runs.iter().any(|run| run["node"] == node));
        (on("near") && on("far")).then_some(())
    });
}

#[test]
fn a_request_is_let_in_by_its_certificate_and_its_life() {
    let pair = NodePair::new();
    let run = pair.run();
    let (own, cluster) = (ForgedAuthority::of(&shared_identity()), forged::cluster_id(pair.folder.path()));
    let (near, far) = (pair.incarnation("near"), pair.incarnation("far"));
    let life = |node: &str, incarnation: u64| format!("evenkeel://{cluster}/node/{node}/{incarnation}");
    let to = format!("far@{far}");
    let role = ("GET /peer/v1/role", &b""[..]);
    let leaf = own.leaf(&life("near", near), (-1, 7));
    let ask = |leaf: Option<&ForgedLeaf>, to: &str, asked| ask_far(&pair, leaf, to, asked);
    let (status, answer) = ask(Some(&leaf), &to, role).expect("an answer");
    assert!(status == 200 && answer.contains(&format!("evenkeel-from: {to}\r\n")), "{status} {answer}");
    let (status, answer) =
        ask(Some(&leaf), &to, ("POST /peer/v1/offers", b"{\"runs\":[]}")).expect("an answer");
    assert!(status == 200 && answer.ends_with("{\"busy\":[]}"), "{status} {answer}");

    // What no authority of the cluster has signed, or not for now, is refused before a request is read.
    let stranger = ForgedAuthority::stranger(&shared_identity());
    for (leaf, why) in [
        (stranger.leaf(&life("near", near), (-1, 7)), "another authority"),
        (own.leaf(&life("near", near), (-9, -1)), "it has ended"),
        (own.leaf(&life("near", near), (1, 9)), "it has not begun"),
    ] {
        let refused = ask(Some(&leaf), &to, role).expect_err(why);
        assert!(refused.contains("alert"), "{why}: {refused}");
    }
    for (leaf, why) in [
        (None, "no certificate"),
        (Some(own.leaf("https://near/1", (-1, 7))), "no life"),
        (Some(own.leaf(&format!("evenkeel://other/node/near/{near}"), (-1, 7))), "another cluster"),
        (Some(own.leaf(&life("near", near - 1), (-1, 7))), "an earlier life"),
    ] {
        let (status, answer) = ask(leaf.as_ref(), &to, role).expect("an answer");
        assert!(status == 401 && answer.contains("\"unauthorized\""), "{why}: {status} {answer}");
    }
    for earlier in ["far@0", "near@1", "far", ""] {
        let (status, answer) = ask(Some(&leaf), earlier, role).expect("an answer");
        assert!(status == 409 && answer.contains(&to), "{earlier}: {status} {answer}");
    }
    let bearer = format!(
        "GET /peer/v1/role HTTP/1.1\nHost: {}\nAuthorization: Bearer {KEY}\nEvenkeel-To: {to}",
        pair.far.address
    );
    assert_eq!(pair.far.raw(&bearer, b"").0, 401, "people are no nodes");
    let large = vec![b' '; (1 << 20) + 1];
    assert_eq!(ask(Some(&leaf), &to, ("POST /peer/v1/offers", &large)).expect("an answer").0, 413);

    // A node is what its certificate says, whatever else it says of itself.
    let asker = br#"{"proof":"key","from":"10.0.0.7","claims":"ann@ops1"}"#;
    let (status, answer) =
        ask(Some(&leaf), &to, (&format!("POST /peer/v1/runs/{run}/kill"), asker)).expect("an answer");
    assert_eq!(status, 200, "{answer}");
    let log = until("it is in the audit log", || {
        let log = pair.json(&["audit", "--job", "slow"]);
        log.as_array()?.iter().find(|entry| entry["verb"] == "kill").cloned()
    });
    let log = log.to_string();
    assert!(log.contains(&format!("via near@{near}, claims key from 10.0.0.7")), "{log}");

    let NodePair { folder, key, wire, _near_wire, far, near: near_process } = pair;
    drop(far);
    let again = NodePair::node(folder.path(), "far", &key, &wire);
    let head = format!("GET /peer/v1/role HTTP/1.1\nHost: {}\nEvenkeel-To: {to}", again.address);
    let answer =
        forged::ask((again.address, "node.evenkeel.internal"), &own.certificate, Some(&leaf), (&head, b""));
    let (status, answer) = answer.expect("an answer");
    assert!(status == 409 && answer.contains("\"other_life\""), "its next life: {status} {answer}");
    drop((again, near_process));
}

#[test]
fn a_node_with_another_identity_does_not_join() {
    let folder = tempfile::tempdir().expect("a folder");
    let near = ServerProcess::serve(folder.path(), "near", &[]);
    let other = folder.path().join("other.json").display().to_string();
    let started = ServerProcess::command(folder.path(), "far", &["--identity", &other]).output();
    let started = started.expect("evenkeel starts");
    let said = text(&started.stderr);
    assert!(!started.status.success() && said.contains("cluster join-token"), "{said}");
    assert_eq!(near.living().len(), 1);
}
