//! What happened to nodes, listed.

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

fn kinds(found: &Value) -> Vec<&str> {
    found.as_array().expect("a list").iter().filter_map(|event| event["kind"].as_str()).collect()
}

#[test]
fn events_are_listed_by_any_node_and_shown_in_the_console() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = ServerProcess::serve(folder.path(), "a", &["--alarm", "1"]);
    let second = ServerProcess::serve(folder.path(), "b", &[]);
    let jobs = |n: u32| format!("[[job]]\nname = \"j{n}\"\ncommand = [\"/bin/true\"]\n");
    let jobs: String = (0..4).map(jobs).collect();
    assert!(first.fed(&["job", "apply", "-f", "-"], &jobs).status.success());
    let alarm = until("the alarm is told", || {
        let found = second.json(&["event", "list", "--kind", "alarm"]);
        found.get(0).cloned()
    });
    assert_eq!((alarm["node"].as_str(), alarm["kind"].as_str()), (Some("a"), Some("alarm")));
    assert!(alarm["text"].as_str().is_some_and(|text| text.contains("threshold is 1")), "{alarm}");
    assert!(alarm["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{alarm}");

    let joined = until("b has joined, and is listed first", || {
        let joined = second.json(&["event", "list", "--kind", "joined", "--limit", "1"]);
        (joined[0]["node"] == "b").then_some(joined)
    });
    assert_eq!(kinds(&joined), ["joined"]);
    let of_b = first.json(&["event", "list", "--node", "b", "--since", "1h"]);
    assert!(
        !kinds(&of_b).is_empty() && of_b.as_array().expect("a list").iter().all(|event| event["node"] == "b")
    );
    let none = first.ok(&["event", "list", "--since", "2200-01-01T00:00:00Z"]);
    assert_eq!(none, "nothing of the kind has happened\n");
    let wrong = first.cli(&["event", "list", "--since", "yesterday"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("like 10m or 2d"), "{}", text(&wrong.stderr));

    let (_, page) = first.raw(&format!("GET /plain HTTP/1.1\nHost: {}", first.address), b"");
    assert!(page.contains("Latest events") && page.contains("data-state=\"alarm\""), "{page}");
}
