//! What if: whether the others have room for what a node holds, asked of living nodes.

use std::path::Path;

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

/// Nodes that see each other, with jobs that nobody runs but all of which are held.
fn fleet(folder: &Path, names: &[&str], jobs: usize) -> Vec<ServerProcess> {
    let nodes: Vec<ServerProcess> =
        names.iter().map(|name| ServerProcess::serve(folder, name, &[])).collect();
    until("all see all", || {
        let all =
            |node: &ServerProcess| node.json(&["node", "list"]).as_array().map(Vec::len) == Some(names.len());
        nodes.iter().all(all).then_some(())
    });
    let job = |n| format!("[[job]]\nname = \"j{n}\"\ncommand = [\"/bin/true\"]\n");
    let declared: String = (0..jobs).map(job).collect();
    assert!(nodes[0].fed(&["job", "apply", "-f", "-"], &declared).status.success());
    let are_even = |node: &ServerProcess| {
        let found = node.json(&["node", "balance"]);
        let fair = jobs.div_ceil(names.len()) as u64;
        let rows = found["rows"].as_array().expect("rows");
        let even = rows.iter().all(|row| row["held"].as_u64().is_some_and(|held| held <= fair));
        found["jobs"] == jobs && found["free"] == 0 && even
    };
    until("all nodes say that all jobs are held evenly", || nodes.iter().all(are_even).then_some(()));
    nodes
}

fn row<'a>(found: &'a Value, name: &str) -> &'a Value {
    let rows = found["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).expect("its row")
}

/// proves: S1-54, S1-63, S1-64
#[test]
fn a_drain_that_the_others_have_no_room_for_is_refused_unless_forced() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = fleet(folder.path(), &["a", "b", "c"], 19);
    let first = nodes[0].cli(&["node", "drain", "c"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert_eq!(text(&first.stderr), "", "three nodes, none of which drains: nothing to warn about");
    until("c drains", || {
        (row(&nodes[0].json(&["node", "balance"]), "c")["part"] == "draining").then_some(())
    });

    // K = 19, S = 3, n = 1: each may hold ten, and one of them is not enough.
    let second = nodes[0].cli(&["node", "drain", "b"]);
    assert_eq!(second.status.code(), Some(6));
    let said = text(&second.stderr);
    assert!(
        said.contains("leaves room for 10 of 19 jobs") && said.contains("node drain b --force"),
        "{said}"
    );
    let why = "the other nodes that it may run on have room for 10 of 19 such jobs: a at most 10";
    assert!(said.contains("in the way: job j") && said.contains(why), "{said}");
    assert_eq!(row(&nodes[0].json(&["node", "balance"]), "b")["part"], "working");
    let again = nodes[0].cli(&["node", "drain", "c"]);
    assert!(again.status.success(), "what drains already may be asked to again: {}", text(&again.stderr));

    let forced = nodes[0].cli(&["node", "drain", "b", "--force"]);
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    assert!(
        text(&forced.stderr).contains("c drains already: one after another is safer"),
        "{}",
        text(&forced.stderr)
    );
    let found = until("b drains too", || {
        let found = nodes[2].json(&["node", "balance"]);
        (row(&found, "b")["part"] == "draining").then_some(found)
    });
    assert_eq!((found["room"].as_u64(), found["covers"].as_bool()), (Some(10), Some(false)));
}

/// proves: S1-63
#[test]
fn a_loss_is_simulated_in_numbers_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = fleet(folder.path(), &["a", "b", "c"], 18);
    let found = nodes[1].json(&["node", "balance", "--simulate", "kill=c"]);
    assert_eq!(row(&found, "c")["part"], "lost");
    assert_eq!(row(&found, "c")["then"], Value::Null);
    for name in ["a", "b"] {
        let row = row(&found, name);
        assert_eq!((row["held"].as_u64(), row["quota"].as_u64()), (Some(6), Some(10)), "{row}");
        assert_eq!(
            (row["then"]["held"].as_u64(), row["then"]["quota"].as_u64()),
            (Some(9), Some(19)),
            "{row}"
        );
    }
    let then = &found["then"];
    assert_eq!((then["moved"].as_u64(), then["room_at_once"].as_u64()), (Some(6), Some(20)), "{then}");
    assert_eq!((then["covers_at_once"].as_bool(), then["free"].as_u64()), (Some(true), Some(0)));
    let both = nodes[1].ok(&["node", "balance", "--simulate", "kill=b,c"]);
    assert!(both.contains("without b, c: 12 jobs move, the others have room for only 10 of 18"), "{both}");
    let drained = nodes[1].ok(&["node", "balance", "--simulate", "kill=b", "--simulate", "drain=c"]);
    assert!(drained.contains("without b and with c drained"), "{drained}");
    let shown = nodes[1].ok(&["node", "balance"]);
    assert!(shown.ends_with("room for 30, 18 jobs: all are held\n"), "{shown}");
    assert_eq!(nodes[1].json(&["node", "list"]).as_array().map(Vec::len), Some(3));

    assert_eq!(nodes[0].cli(&["node", "balance", "--simulate", "kill=nobody"]).status.code(), Some(4));
    assert_eq!(nodes[0].cli(&["node", "balance", "--simulate", "crash=a"]).status.code(), Some(2));
}

#[test]
fn room_for_some_jobs_is_not_told_as_room_for_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = fleet(folder.path(), &["a"], 2);
    let job = "[[job]]\nname = \"far\"\nnode_selector = [\"gpu\"]\ncommand = [\"/bin/true\"]\n";
    assert!(nodes[0].fed(&["job", "apply", "-f", "-"], job).status.success());
    let found = nodes[0].json(&["node", "balance"]);
    let numbers = ["jobs", "room", "short"].map(|word| found[word].as_u64());
    assert_eq!(numbers, [Some(3), Some(3), Some(1)], "{found}");
    let said = nodes[0].ok(&["node", "balance"]);
    assert!(said.contains("room for only 2 of 3 jobs: the others are for nodes with labels"), "{said}");
}

/// proves: S1-93
#[test]
fn fewer_than_three_nodes_are_warned_about_and_the_last_one_does_not_drain() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = fleet(folder.path(), &["a", "b"], 2);
    let list = nodes[0].cli(&["node", "list"]);
    assert!(text(&list.stderr).contains("there are 2 nodes: start 3 or more"), "{}", text(&list.stderr));
    let drained = nodes[0].cli(&["node", "drain", "a"]);
    assert!(drained.status.success() && text(&drained.stderr).contains("there are 2 nodes"));
    until("a drains", || {
        (row(&nodes[1].json(&["node", "balance"]), "a")["part"] == "draining").then_some(())
    });
    let last = nodes[1].cli(&["node", "drain", "b"]);
    assert_eq!(last.status.code(), Some(6));
    assert!(text(&last.stderr).contains("leaves no node that works"), "{}", text(&last.stderr));
}

/// proves: S0-56
#[test]
fn the_list_of_nodes_says_where_each_is_how_it_does_and_since_when() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--advertise", "127.0.0.2:7700", "--slots", "5"]);
    let row = until("its load is known", || {
        let row = node.json(&["node", "list"])[0].clone();
        (row["score"].is_f64() && row["joined"].is_string()).then_some(row)
    });
    let wanted = serde_json::json!(["a", "127.0.0.2:7700", false, 5, 0]);
    let told = ["name", "address", "offline", "slots", "busy"].map(|field| row[field].clone());
    assert_eq!(Value::from(told.to_vec()), wanted, "{row}");
    let percent = |field: &str| row[field].as_f64().is_some_and(|part| (0.0..=100.0).contains(&part));
    // A processor's use is what changed since the sample before.
    assert!((percent("cpu") || row["cpu"].is_null()) && percent("memory") && percent("score"), "{row}");
    assert_eq!(row["offline_since"], Value::Null);
    let shown = node.ok(&["node", "list"]);
    assert!(shown.contains("0 of 5") && shown.contains("127.0.0.2:7700"), "{shown}");
    let past = until("it is in the history", || {
        let past = node.json(&["node", "load", "a"]);
        past[0]["score"].is_f64().then_some(past)
    });
    assert_eq!((&past[0]["busy"], &past[0]["slots"]), (&0.into(), &5.into()), "{past}");
    assert!(node.ok(&["node", "load", "a", "--since", "10m"]).contains("0 of 5"));
    let unknown = node.cli(&["node", "load", "b"]);
    assert!(text(&unknown.stderr).contains("no living node is called b"), "{}", text(&unknown.stderr));
}

#[test]
fn a_dispatched_job_keeps_the_last_node_from_draining() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = "[[job]]\nname = \"sent\"\nplacement = \"dispatched\"\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], job).status.success());
    until("it is there", || {
        let drained = node.cli(&["node", "drain", "a"]);
        let undrained = drained.status.success().then(|| node.ok(&["node", "undrain", "a"]));
        (undrained.is_none() && drained.status.code() == Some(6)).then_some(())
    });
}
