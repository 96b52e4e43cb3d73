//! Nodes that keep a history each: whoever is asked knows what all of them know.

use std::collections::BTreeSet;

use crate::process::{Node, text, until};

const JOB: &str = "[[job]]\nname = \"sent\"\nplacement = \"dispatched\"\nschedule = \"* * * * * ?\"\n\
                   command = [\"/bin/sh\", \"-c\", \"echo I am $EVENKEEL_NODE\"]\n";

#[test]
fn any_node_lists_shows_waits_for_and_prints_what_another_ran() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |name: &str| {
        let history = format!("sqlite:{}", folder.path().join(format!("{name}-history")).display());
        // One of them stands still for a while, and still counts as living.
        Node::serve(folder.path(), name, &["--history", &history, "--ttl", "10m"])
    };
    let nodes = [serve("a"), serve("b")];
    nodes[0].json(&["cluster", "settings", "--beat", "1"]);
    let applied = nodes[0].fed(&["job", "apply", "-f", "-"], JOB);
    assert!(applied.status.success(), "{}", text(&applied.stderr));

    let names = ["a", "b"];
    let rows = until("both have run some", || {
        let rows = nodes[0].json(&["run", "list", "--state", "succeeded", "--limit", "500"]);
        let on = |name: &str| rows.as_array().is_some_and(|rows| rows.iter().any(|row| row["node"] == name));
        names.iter().all(|name| on(name)).then_some(rows)
    });
    let rows = rows.as_array().expect("a list");
    let runs: BTreeSet<&str> = rows.iter().filter_map(|row| row["run"].as_str()).collect();
    assert_eq!(runs.len(), rows.len(), "each once");
    for (here, there) in [(0, 1), (1, 0)] {
        let row = rows.iter().find(|row| row["node"] == names[there]).expect("it ran some");
        let run = row["run"].as_str().expect("an id");
        let shown = nodes[here].json(&["run", "show", run]);
        assert_eq!(shown["attempts"][0]["node"], names[there], "{shown}");
        assert_eq!(nodes[here].cli(&["run", "wait", run]).status.code(), Some(0));
        assert_eq!(nodes[here].ok(&["run", "logs", run]).trim(), format!("I am {}", names[there]));
        let told = nodes[here].json(&["explain", "run", run]);
        assert_eq!(told["facts"]["state"], "succeeded", "{told}");
    }
    for node in &nodes {
        let events = node.json(&["event", "list", "--kind", "joined"]);
        let joined: BTreeSet<&str> =
            events.as_array().expect("a list").iter().filter_map(|event| event["node"].as_str()).collect();
        assert!(names.iter().all(|name| joined.iter().any(|told| told.starts_with(name))), "{events}");
        let (_, page) = node.raw(&format!("GET / HTTP/1.1\nHost: {}", node.address), b"");
        assert!(names.iter().all(|name| page.contains(&format!("<td>{name}</td>"))), "{page}");
    }
    let (known, small) = (rows.len(), |before: &str| {
        let (status, answer) = get(&nodes[1], &format!("limit=2{before}"));
        assert_eq!(status, 200, "{answer}");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str::<serde_json::Value>(body).expect("it is JSON")
    });
    // Pages of two go through both histories, and no run is told twice.
    let (mut seen, mut page) = (BTreeSet::new(), small(""));
    while seen.len() < known {
        for row in page["runs"].as_array().expect("a list") {
            assert!(seen.insert(row["run"].to_string()), "told twice: {row}");
        }
        let Some(before) = page["before"].as_str() else { break };
        page = small(&format!("&before={before}"));
    }
    assert!(seen.len() >= known, "{} of {known}", seen.len());
    let nonsense = get(&nodes[0], "before=17");
    assert!(nonsense.0 == 400 && nonsense.1.contains("give what the page before named"), "{nonsense:?}");

    let [asked, gone] = nodes;
    gone.signal("STOP");
    // All at once, while it still counts as living.
    let (listed, told, page) = std::thread::scope(|scope| {
        let runs = scope.spawn(|| asked.cli(&["run", "list"]));
        let events = scope.spawn(|| asked.cli(&["event", "list"]));
        let (_, page) = asked.raw(&format!("GET / HTTP/1.1\nHost: {}", asked.address), b"");
        (runs.join().expect("an answer"), events.join().expect("an answer"), page)
    });
    gone.signal("CONT");
    assert!(told.status.success() && text(&told.stderr).contains("node b does not answer"));
    assert!(page.contains("b does not answer; what only"), "{page}");
    assert!(listed.status.success() && text(&listed.stderr).contains("node b does not answer"));
}

fn get(node: &Node, query: &str) -> (u16, String) {
    let host = node.address;
    node.raw(&format!("GET /api/v1/runs?{query} HTTP/1.1\nHost: {host}"), b"")
}
