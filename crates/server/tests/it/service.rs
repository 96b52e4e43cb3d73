//! Which node does what any could do: the least loaded one that can be reached, or the one that leads.

use std::path::Path;

use crate::process::{ServerProcess, text, until};
use crate::wire::NodeWire;

const JOBS: &str = "[[job]]\nname = \"slow\"\nplacement = \"dispatched\"\ncommand = [\"/bin/sleep\", \"3600\"]\n\
                    [[job]]\nname = \"quick\"\nplacement = \"dispatched\"\ncommand = [\"/bin/true\"]\n";

/// Two nodes with a beat of a second, the first one behind a wire.
fn two(folder: &Path, wire: &NodeWire, first: &[&str]) -> (ServerProcess, ServerProcess) {
    both(behind(folder, "a", wire, first), ServerProcess::serve(folder, "b", &[]))
}

/// A node behind a wire.
fn behind(folder: &Path, name: &str, wire: &NodeWire, more: &[&str]) -> ServerProcess {
    let advertised = wire.address.to_string();
    let node = ServerProcess::serve(folder, name, &[&["--advertise", &advertised], more].concat());
    wire.lead_to(node.address);
    node
}

fn both(first: ServerProcess, second: ServerProcess) -> (ServerProcess, ServerProcess) {
    let beat = second.json(&["cluster", "settings", "--beat", "1s"]);
    assert_eq!(beat[0]["beat"], "1s");
    until("both see both", || {
        let two = |node: &ServerProcess| node.json(&["node", "list"]).as_array().map(Vec::len) == Some(2);
        (two(&first) && two(&second)).then_some(())
    });
    (first, second)
}

fn least_loaded(node: &ServerProcess) -> String {
    node.json(&["node", "least-loaded"])[0]["node"].as_str().expect("a name").to_owned()
}

/// Waits until both nodes have heard that this one is the least loaded.
fn both_say(what: &str, nodes: [&ServerProcess; 2], name: &str) {
    until(what, || nodes.iter().all(|node| least_loaded(node) == name).then_some(()));
}

/// Asks for a run by hand; which node runs it.
fn run(node: &ServerProcess, job: &str) -> (String, String) {
    let run = node.json(&["job", "run", job])["run"].as_str().expect("a run").to_owned();
    let by = until("somebody runs it", || {
        let attempts = node.json(&["run", "show", &run]);
        attempts["attempts"][0]["node"].as_str().map(str::to_owned)
    });
    (run, by)
}

/// proves: S0-54
#[test]
fn what_any_node_could_do_is_done_by_the_least_loaded_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path(), &NodeWire::new(), &["--slots", "1"]);
    assert!(first.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    second.ok(&["node", "drain", "b"]);
    both_say("b takes nothing", [&first, &second], "a");
    assert_eq!(run(&second, "slow").1, "a", "who was asked is not who has least to do");
    second.ok(&["node", "undrain", "b"]);
    both_say("a has no slot any more", [&first, &second], "b");
    let least_loaded = second.json(&["node", "least-loaded"]);
    assert_eq!(least_loaded[0]["address"], second.address.to_string());
    for asked in [&first, &second] {
        let (done, by) = run(asked, "quick");
        assert_eq!(by, "b", "run now");
        second.ok(&["run", "wait", &done]);
        let again = asked.json(&["run", "restart", &done])["run"].as_str().expect("a run").to_owned();
        second.ok(&["run", "wait", &again]);
        assert_eq!(second.json(&["run", "show", &again])["attempts"][0]["node"], "b", "run again");
    }
}

/// proves: S0-50, S0-52, S0-56
#[test]
fn a_node_that_cannot_be_reached_is_left_alone_until_it_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let wire = NodeWire::new();
    let (first, second) = two(folder.path(), &wire, &[]);
    assert!(first.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    let offline = |node: &ServerProcess| {
        let row = node.json(&["node", "list"]);
        let row = row.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == "a"))?;
        let offline = row["offline"].as_bool()?;
        // The state and the time of the transition are shown with it.
        assert_eq!(
            (&row["state"] == "offline", row["offline_since"].is_string()),
            (offline, offline),
            "{row}"
        );
        Some(offline)
    };
    until("b has probed a, and has an answer", || {
        (!wire.answered().is_empty() && offline(&second) == Some(false)).then_some(())
    });
    wire.cut();
    until("it is taken for offline", || offline(&second).filter(|offline| *offline));
    until("a has heard of it too", || offline(&first).filter(|offline| *offline));
    both_say("a is passed over", [&first, &second], "b");
    assert_eq!(run(&first, "quick").1, "b", "it is asked for nothing");
    wire.lead_to(first.address);
    until("it is taken for online, and nobody had to say so", || {
        offline(&second).filter(|offline| !*offline)
    });
    second.ok(&["node", "drain", "b"]);
    assert_eq!(run(&second, "quick").1, "a", "it gets work again");
}

/// proves: S4-33, S4-39
#[test]
fn a_node_on_standby_refuses_orders_and_says_who_leads() {
    let folder = tempfile::tempdir().expect("a folder");
    let wire = NodeWire::new();
    let (first, second) = two(folder.path(), &wire, &[]);
    first.ok(&["cluster", "settings", "--planner", "leader"]);
    let order = |node: &ServerProcess| {
        let head = format!(
            "POST /api/v1/jobs/apply HTTP/1.1\nHost: {}\nContent-Type: application/json",
            node.address
        );
        node.raw(&head, br#"{"jobs":[{"name":"ordered","command":["/bin/true"]}]}"#)
    };
    let (leader, standby) = until("one leads", || {
        let leader = first.json(&["cluster", "settings"])[0]["leader"].as_str().map(str::to_owned)?;
        let (leader, standby) = if leader == "a" { (&first, &second) } else { (&second, &first) };
        let refused = order(standby);
        let has_heard = refused.0 == 503 && refused.1.contains("evenkeel-leader");
        (order(leader).0 == 200 && has_heard).then_some((leader, standby))
    });
    let (_, answer) = order(standby);
    assert!(answer.contains("\"standby\""), "{answer}");
    let at = if std::ptr::eq(leader, &first) { wire.address } else { second.address };
    assert!(answer.contains(&format!("evenkeel-leader: http://{at}\r\n")), "{answer}");
    let calendar = |verb: &str, body: &[u8]| {
        let head = format!(
            "{verb} /api/v1/calendars/freeze HTTP/1.1\nHost: {}\nContent-Type: application/json",
            standby.address
        );
        standby.raw(&head, body)
    };
    for (status, answer) in [calendar("PUT", br#"{"name":"freeze"}"#), calendar("DELETE", b"")] {
        assert!(status == 503 && answer.contains("\"standby\""), "{status} {answer}");
    }
    for node in [leader, standby] {
        let applied = node.fed(&["job", "apply", "-f", "-"], JOBS);
        assert!(applied.status.success(), "the command line follows: {}", text(&applied.stderr));
        let name = if std::ptr::eq(node, leader) { "first" } else { "second" };
        let applied =
            node.fed(&["calendar", "apply", "-f", "-"], &format!("[[calendar]]\nname = {name:?}\n"));
        assert_eq!(text(&applied.stdout), format!("created    {name}\n"), "{}", text(&applied.stderr));
    }
    let (_, health) = standby.raw(&format!("GET /api/v1/health HTTP/1.1\nHost: {}", standby.address), b"");
    assert!(health.contains("member"), "it answers for its health: {health}");
}

/// proves: S0-19
#[test]
fn with_all_http_between_nodes_cut_every_fire_still_happens_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (wire, other) = (NodeWire::new(), NodeWire::new());
    let (first, second) =
        both(behind(folder.path(), "a", &wire, &[]), behind(folder.path(), "b", &other, &[]));
    // One refuses, the other one says nothing at all.
    wire.cut();
    other.silence();
    let ticked = folder.path().join("ticked");
    let tick = format!(
        "[[job]]\nname = \"tick\"\nschedule = \"* * * * * *\"\nplacement = \"dispatched\"\n\
         command = [\"/bin/sh\", \"-c\", \"echo $EVENKEEL_DUE >> {}\"]\n",
        ticked.display()
    );
    assert!(first.fed(&["job", "apply", "-f", "-"], &tick).status.success());
    // What was executed, by whomever: the history would show a fire once even if it had happened twice.
    let ticks = || -> Vec<String> {
        let text = std::fs::read_to_string(&ticked).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let offline = || {
        let nodes = second.json(&["node", "list"]);
        nodes.as_array().expect("a list").iter().filter(|node| node["offline"] == true).count()
    };
    until("each takes the other for offline", || (offline() == 2).then_some(()));
    let so_far = ticks().len();
    until("fires go on", || (ticks().len() > so_far + 5).then_some(()));
    let mut dues = ticks();
    let all = dues.len();
    dues.sort();
    dues.dedup();
    assert_eq!(dues.len(), all, "none twice");
}
