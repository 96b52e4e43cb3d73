//! What nodes say to each other over the wire, and what somebody on that wire can do with it.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::process::{ServerProcess, text, until, write_private};
use crate::wire::{CapturedRequest, NodeWire};

const KEY: &str = "correct-horse-battery-staple";
const SLOW: &str =
    "[[job]]\nname = \"slow\"\ncommand = [\"/bin/sh\", \"-c\", \"echo begun; exec sleep 3600\"]\n";

fn key_file(folder: &Path, name: &str, key: &str) -> String {
    let path = folder.join(name);
    write_private(&path, &format!("{key}\n"));
    path.display().to_string()
}

/// The wall clock, as nodes write it.
fn wall() -> i64 {
    evenkeel::clock::now().wall.0
}

/// A node behind a wire with a run under way, and another node that sees it only by the registry.
struct NodePair {
    folder: tempfile::TempDir,
    key: String,
    wire: NodeWire,
    near_wire: NodeWire,
    far: ServerProcess,
    near: ServerProcess,
}

impl NodePair {
    fn new(far_key: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (key, wire) = (key_file(folder.path(), "key", KEY), NodeWire::new());
        let far_key = key_file(folder.path(), "far-key", far_key);
        let far = Self::node(folder.path(), "far", &far_key, &wire);
        let more = ["-", "--cluster-key-file", &far_key];
        assert!(far.fed(&[&["job", "apply", "-f"], &more[..]].concat(), SLOW).status.success());
        until("far holds it", || {
            let jobs = far.json(&["job", "list", "--cluster-key-file", &far_key]);
            (jobs[0]["owner"] == "far").then_some(())
        });
        let near_wire = NodeWire::new();
        let near = Self::node(folder.path(), "near", &key, &near_wire);
        let pair = Self { folder, key, wire, near_wire, far, near };
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

    /// Which lives near and far have, by a request that near has sent.
    fn lives(&self, head: &str) -> (String, String) {
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        (header("evenkeel-from: ").expect("it says"), header("evenkeel-to: ").expect("it says"))
    }
}

/// proves: S0-17, S0-20, S0-55
#[test]
fn a_node_asks_another_one_on_its_port_and_the_key_is_never_on_the_wire() {
    let pair = NodePair::new(KEY);
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
    assert!(asked.contains(&format!("POST /peer/v1/runs/{run}/kill HTTP/1.1")), "{asked}");
    assert!(asked.contains(&format!("GET /peer/v1/runs/{run}/logs?")), "{asked}");
    let heads = asked.matches(" HTTP/1.1\r\n").count();
    assert_eq!(asked.matches("\r\nevenkeel-signature: ").count(), heads, "each is signed: {asked}");
    assert!(answered.contains("\r\nevenkeel-signature: "), "{answered}");
    for secret in [KEY, "authorization", "Bearer"] {
        assert!(!asked.contains(secret) && !answered.contains(secret), "{secret} is on the wire: {asked}");
    }
}

/// proves: S0-55
#[test]
fn output_is_deleted_where_it_is_and_a_run_is_done_again_from_anywhere() {
    let pair = NodePair::new(KEY);
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
    assert!(pair.wire.asked().contains(&format!("DELETE /peer/v1/runs/{run}/logs ")));
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
fn nodes_probe_each_other_and_offer_what_they_have_planned() {
    let pair = NodePair::new(KEY);
    until("near has asked far who it is", || {
        pair.wire.asked().contains("GET /peer/v1/role HTTP/1.1").then_some(())
    });
    let tick = "[[job]]\nname = \"tick\"\nschedule = \"* * * * * *\"\nplacement = \"dispatched\"\n\
                command = [\"/bin/true\"]\n";
    let with_key = ["job", "apply", "-f", "-", "--cluster-key-file", &pair.key];
    assert!(pair.near.fed(&with_key, tick).status.success());
    until("both have run it", || {
        let runs = pair.json(&["run", "list", "--job", "tick", "--state", "succeeded"]);
        let on = |node: &str| runs.as_array().is_some_and(|runs| runs.iter().any(|run| run["node"] == node));
        (on("near") && on("far")).then_some(())
    });
    until("whoever planned has offered the other one its runs", || {
        let wires = [&pair.wire, &pair.near_wire];
        let offers = wires.map(|wire| wire.captured("POST /peer/v1/offers HTTP/1.1"));
        offers.iter().flatten().any(|(_, body)| body.contains("\"run\":\"tick:")).then_some(())
    });
}

#[test]
fn what_was_heard_on_the_wire_is_of_no_use() {
    let pair = NodePair::new(KEY);
    let run = pair.run();
    pair.near.ok(&["run", "kill", &run, "--cluster-key-file", &pair.key]);
    let (head, body) = pair.wire.captured("POST /peer/v1/runs/").expect("it went over the wire");
    let head = head.replace("\r\n", "\n");
    assert!(
        body.contains("\"proof\":\"key\"") && body.contains('@'),
        "a kill says for whom it is asked: {body}"
    );
    let cut: String =
        head.lines().filter(|line| !line.starts_with("content-length")).collect::<Vec<_>>().join("\n");
    let send = |node: &ServerProcess, head: &str, body: &str| node.raw(head, body.as_bytes());

    let (status, answer) = send(&pair.far, &cut, &body);
    assert!(status == 403 && answer.contains("\"replayed\""), "{status} {answer}");
    let (status, answer) = send(&pair.far, &cut.replace(&run, "slow:ask-another:0"), &body);
    assert!(status == 401 && answer.contains("changed on its way"), "another run: {status} {answer}");
    let (status, answer) = send(&pair.far, &cut, "{}");
    assert!(
        status == 401 && answer.contains("not the one that was signed"),
        "another body: {status} {answer}"
    );
    let later = cut.replace("evenkeel-time: 1", "evenkeel-time: 2");
    assert_eq!(send(&pair.far, &later, &body).0, 401, "another time");
    let (_, to) = pair.lives(&cut);
    let redirected = cut.replace(&format!("evenkeel-to: {to}"), "evenkeel-to: near@1");
    assert_eq!(send(&pair.near, &redirected, &body).0, 401, "another node");
    assert_eq!(send(&pair.near, &cut, &body).0, 409, "as it is, but to another node");

    let NodePair { folder, key, wire, near_wire: _, far, near } = pair;
    drop(far);
    let again = NodePair::node(folder.path(), "far", &key, &wire);
    let (status, answer) = send(&again, &cut, &body);
    assert!(status == 409 && answer.contains("\"other_life\""), "its next life: {status} {answer}");
    drop((again, near));
}

#[test]
fn a_request_is_let_in_by_its_signature_its_life_and_its_time() {
    let pair = NodePair::new(KEY);
    let run = pair.run();
    pair.near.ok(&["run", "kill", &run, "--cluster-key-file", &pair.key]);
    let (head, _) = pair.wire.captured("POST /peer/v1/runs/").expect("it went over the wire");
    let (from, to) = pair.lives(&head.replace("\r\n", "\n"));
    let role = CapturedRequest {
        from,
        to: to.clone(),
        at: wall(),
        nonce: 1,
        line: "GET /peer/v1/role".to_owned(),
        body: String::new(),
    };
    let send = |letter: &CapturedRequest, key: &str| {
        pair.far.raw(&letter.head(key, pair.far.address), letter.body.as_bytes())
    };
    let (status, answer) = send(&role, KEY);
    assert!(status == 200 && answer.contains(&format!("evenkeel-from: {to}\r\n")), "{status} {answer}");
    assert!(answer.contains("evenkeel-signature: "), "{answer}");
    assert_eq!(send(&role, KEY).0, 403, "the same again");
    let next = CapturedRequest { nonce: 2, ..role.clone() };
    assert_eq!(send(&next, "correct-horse-battery-stapler").0, 401, "another key");
    let earlier = CapturedRequest { to: "far@0".to_owned(), ..next.clone() };
    let (status, answer) = send(&earlier, KEY);
    assert!(status == 409 && answer.contains(&to), "an earlier life is told who is there: {status} {answer}");
    for at in [wall() - 31_000, wall() + 3_600_000, 0] {
        let (status, answer) = send(&CapturedRequest { at, ..next.clone() }, KEY);
        assert!(status == 403 && answer.contains("\"stale\""), "{at}: {status} {answer}");
    }
    assert_eq!(send(&next, KEY).0, 200, "none of those has used it up");
    let bearer =
        format!("GET /peer/v1/role HTTP/1.1\nHost: {}\nAuthorization: Bearer {KEY}", pair.far.address);
    assert_eq!(pair.far.raw(&bearer, b"").0, 401, "people are no nodes");
    let large = CapturedRequest { nonce: 3, body: " ".repeat((1 << 20) + 1), ..role };
    assert_eq!(send(&large, KEY).0, 413);
}

#[test]
fn a_node_with_another_key_is_a_stranger() {
    let pair = NodePair::new("another-horse-battery-staple");
    let run = pair.run();
    let refused = pair.near.cli(&["run", "kill", &run, "--cluster-key-file", &pair.key]);
    let said = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(7) && said.contains("not signed with this cluster's key"),
        "{said}"
    );
    assert_eq!(pair.json(&["run", "show", &run])["attempts"][0]["state"], "running");
}
