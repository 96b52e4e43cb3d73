//! Nodes that keep one history in a database: what a node ran is known without the node.

use std::collections::BTreeSet;
use std::path::Path;

use crate::process::{EVENKEEL, SHORT_LEASE, ServerProcess, text, until, until_told};
use crate::servers;

const JOB: &str = "[[job]]\nname = \"sent\"\nplacement = \"dispatched\"\nschedule = \"* * * * * ?\"\n\
                   command = [\"/bin/sh\", \"-c\", \"echo I am $EVENKEEL_NODE\"]\n";

#[test]
fn runs_of_a_node_that_is_gone_with_its_disk_are_listed_from_postgres() {
    play("POSTGRES");
}

#[test]
fn runs_of_a_node_that_is_gone_with_its_disk_are_listed_from_mysql() {
    play("MYSQL");
}

/// A namespace in the database at `EVENKEEL_TEST_<engine>` that nobody has used, where there is one.
fn history(engine: &str) -> Option<String> {
    let url = servers::find(engine)?;
    Some(format!("{url}/it{}-{}", evenkeel::clock::now().wall.0, std::process::id()))
}

fn play(engine: &str) {
    let Some(history) = history(engine) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // Both at once: whichever comes first makes the tables.
    let (gone, left) = std::thread::scope(|scope| {
        let start = |name| {
            let (folder, history) = (folder.path(), history.as_str());
            scope.spawn(move || {
                ServerProcess::serve(folder, name, &[&["--history", history][..], &SHORT_LEASE].concat())
            })
        };
        let (a, b) = (start("a"), start("b"));
        (a.join().expect("it starts"), b.join().expect("it starts"))
    });
    left.json(&["cluster", "settings", "--beat", "1s"]);
    let applied = left.fed(&["job", "apply", "-f", "-"], JOB);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let ran_on = |name: &str| {
        let rows = left.json(&["run", "list", "--state", "succeeded", "--limit", "500"]);
        let rows = rows.as_array().expect("a list").iter();
        rows.filter(|row| row["node"] == name)
            .filter_map(|row| row["run"].as_str().map(str::to_owned))
            .collect::<BTreeSet<String>>()
    };
    until("both have run some", || (!ran_on("a").is_empty() && !ran_on("b").is_empty()).then_some(()));
    let told = listed(&gone);
    assert!(listed(&left).is_superset(&told), "both tell the same");

    turn_pages([&gone, &left]);

    gone.signal("KILL");
    gone.end();
    let known = ran_on("a");
    std::fs::remove_dir_all(folder.path().join("a")).expect("its disk is gone too");
    let nodes = || left.ok(&["node", "list"]);
    until_told("it is not a member any more", || (left.living().len() == 1).then_some(()), nodes);
    assert!(!known.is_empty() && ran_on("a").is_superset(&known));
    let run = known.first().expect("it ran some");
    let shown = left.json(&["run", "show", run]);
    assert_eq!(shown["attempts"][0]["node"], "a", "{shown}");
    assert_eq!(left.cli(&["run", "wait", run]).status.code(), Some(0));
    assert_eq!(left.json(&["explain", "run", run])["facts"]["state"], "succeeded");
    let joined = left.json(&["event", "list", "--kind", "joined"]);
    let joined: BTreeSet<&str> =
        joined.as_array().expect("a list").iter().filter_map(|event| event["node"].as_str()).collect();
    assert_eq!(joined.iter().filter(|node| node.starts_with('a')).count(), 1, "{joined:?}");
    refuses_without_its_password(folder.path(), &history);
}

/// The runs that a node lists, each of which must be there once.
fn listed(node: &ServerProcess) -> BTreeSet<String> {
    let rows = node.json(&["run", "list", "--limit", "500"]);
    let rows = rows.as_array().expect("a list");
    let runs: BTreeSet<String> =
        rows.iter().filter_map(|row| row["run"].as_str().map(str::to_owned)).collect();
    assert_eq!(runs.len(), rows.len(), "each once");
    runs
}

/// Asks for a list page by page, each of another node: whichever is asked, it goes on where the page before ended.
fn turn_pages(nodes: [&ServerProcess; 2]) {
    let mut seen = Vec::new();
    let mut before = String::new();
    for n in 0..4 {
        let node = nodes[n % 2];
        let host = node.address;
        let (status, answer) =
            node.raw(&format!("GET /api/v1/events?limit=1{before} HTTP/1.1\nHost: {host}"), b"");
        assert_eq!(status, 200, "{answer}");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        let page: serde_json::Value = serde_json::from_str(body).expect("it is JSON");
        let events = page["events"].as_array().expect("a list");
        seen.extend(events.iter().filter_map(|event| event["seq"].as_u64()));
        let Some(next) = page["before"].as_str() else { break };
        before = format!("&before={next}");
    }
    assert!(seen.len() > 1 && seen.is_sorted_by(|one, next| one > next), "each page goes on: {seen:?}");
}

/// A node whose database does not let it in says what to do, and shows nobody its password.
fn refuses_without_its_password(folder: &Path, history: &str) {
    let host = history.rsplit_once('@').map_or(history, |(_, rest)| rest);
    let scheme = history.split_once(':').expect("a URL").0;
    let wrong = format!("{scheme}://nobody:hunter2@{host}");
    let mut refused = ServerProcess::command(folder, "c", &["--history", &wrong]);
    let output = refused.output().unwrap_or_else(|error| panic!("{EVENKEEL} starts: {error}"));
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success());
    assert!(said.contains("nobody:***@") && said.contains("mend its URL"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
