//! Nodes that keep a history each: whoever is asked knows what all of them know.

use std::collections::BTreeSet;

use crate::process::{SHORT_LEASE, ServerProcess, text, until};

const JOB: &str = "[[job]]\nname = \"sent\"\nplacement = \"dispatched\"\nschedule = \"* * * * * ?\"\n\
                   command = [\"/bin/sh\", \"-c\", \"echo I am $EVENKEEL_NODE\"]\n";

#[test]
fn any_node_lists_shows_waits_for_and_prints_what_another_ran() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |name: &str| {
        let history = format!("sqlite:{}", folder.path().join(format!("{name}-history")).display());
        // One of them stands still for a while, and still counts as living.
        ServerProcess::serve(folder.path(), name, &["--history", &history, "--ttl", "10m"])
    };
    let nodes = [serve("a"), serve("b")];
    nodes[0].json(&["cluster", "settings", "--beat", "1s"]);
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
        let (_, page) = node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"");
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
        let (_, page) = asked.raw(&format!("GET /plain HTTP/1.1\nHost: {}", asked.address), b"");
        (runs.join().expect("an answer"), events.join().expect("an answer"), page)
    });
    gone.signal("CONT");
    assert!(told.status.success() && text(&told.stderr).contains("node b does not answer"));
    assert!(page.contains("b does not answer; what only"), "{page}");
    assert!(listed.status.success() && text(&listed.stderr).contains("node b does not answer"));
}

const LEFT: &str = "[[job]]\nname = \"holds\"\ndelivery = \"at_most_once\"\ncommand = [\"/bin/sleep\", \"600\"]\n\
                    [[job]]\nname = \"fails\"\nretry = { max_retries = 1, delay = \"1h\" }\ncommand = [\"/bin/false\"]\n";

/// The runs of a list in this state, or of all, each with its state; read in pages of one.
fn listed(node: &ServerProcess, state: &str) -> Vec<(String, String)> {
    let (mut rows, mut before) = (Vec::new(), String::new());
    loop {
        let (status, answer) = get(node, &format!("limit=1{state}{before}"));
        assert_eq!(status, 200, "{answer}");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        let page: serde_json::Value = serde_json::from_str(body).expect("it is JSON");
        for row in page["runs"].as_array().expect("a list") {
            let word = |key: &str| row[key].as_str().expect("a text").to_owned();
            rows.push((format!("{}#{}", word("job"), row["attempt"]), word("state")));
        }
        match page["before"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => return rows,
        }
    }
}

/// proves: I22
#[test]
fn what_a_killed_node_ran_is_listed_once_and_only_in_the_state_that_stands() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |name: &str| {
        let history = format!("sqlite:{}", folder.path().join(format!("{name}-history")).display());
        ServerProcess::serve(folder.path(), name, &[&["--history", &history], &SHORT_LEASE[..]].concat())
    };
    let killed = serve("b");
    let applied = killed.fed(&["job", "apply", "-f", "-"], LEFT);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    for job in ["holds", "fails"] {
        killed.ok(&["job", "run", job]);
    }
    let row = |job: &str, state: &str| (job.to_owned(), state.to_owned());
    until("one runs and one waits", || {
        let rows = listed(&killed, "");
        (rows.contains(&row("holds#1", "running")) && rows.contains(&row("fails#2", "waiting"))).then_some(())
    });
    let a = serve("a");
    until("both live", || (a.living().len() == 2).then_some(()));
    drop(killed);
    until("a says what became of it", || {
        listed(&a, "&state=lost").contains(&row("holds#1", "lost")).then_some(())
    });
    let b = serve("b");
    until("both live again", || (a.living().len() == 2 && b.living().len() == 2).then_some(()));
    let fails = a.json(&["run", "list", "--state", "waiting"]);
    let fails = fails[0]["run"].as_str().expect("it still waits").to_owned();
    until("it waits no more", || a.cli(&["run", "kill", &fails]).status.success().then_some(()));
    // The node that knows the end writes it a little later.
    until("a history has its end", || {
        let last = a.json(&["run", "show", &fails])["attempts"][1]["state"].clone();
        (last != "waiting").then_some(())
    });
    for node in [&a, &b] {
        let mut all = listed(node, "");
        all.sort();
        let names: Vec<_> = all.iter().map(|(job, _)| job.as_str()).collect();
        assert_eq!(names, ["fails#1", "fails#2", "holds#1"], "each once: {all:?}");
        assert_eq!(all[2], row("holds#1", "lost"));
        for state in ["running", "waiting"] {
            let rows = listed(node, &format!("&state={state}"));
            assert!(rows.is_empty(), "{state}: {rows:?}");
            assert_eq!(node.json(&["run", "list", "--state", state]), serde_json::json!([]));
        }
        assert_eq!(listed(node, "&state=lost"), [row("holds#1", "lost")]);
        assert_eq!(node.json(&["run", "running"])["running"], 0);
        let (_, page) = node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"");
        assert!(page.contains("<dd id=\"count-running\">0</dd>"), "{page}");
        assert!(
            !page.contains("data-state=\"running\"") && !page.contains("data-state=\"waiting\""),
            "{page}"
        );
    }
}

fn get(node: &ServerProcess, query: &str) -> (u16, String) {
    let host = node.address;
    node.raw(&format!("GET /api/v1/runs?{query} HTTP/1.1\nHost: {host}"), b"")
}
