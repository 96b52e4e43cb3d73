//! Sharded jobs as people have them in hand: two nodes, the command line, and switches that hold or go.

mod switches;

use std::path::Path;

use serde_json::{Value, json};

use crate::process::{PATIENCE, ServerProcess, text, until};

const METERS: &str = r#"
[[job]]
name = "meters"
placement = "sharded"
shards = 5
shard_parameters = "0=north,4=west"
parameter = "all"
description = "read by everyone"
command = ["/bin/sh", "-c", "echo $EVENKEEL_SHARD/$EVENKEEL_SHARDS $EVENKEEL_PARAMETER,$EVENKEEL_JOB_PARAMETER"]
"#;

const BEAT: &str = r#"
[[job]]
name = "beat"
schedule = "@every 1s"
placement = "sharded"
shards = 4
command = ["/bin/true"]
"#;

/// Two nodes, the first of which leads the jobs of this file.
fn two(folder: &Path, jobs: &str) -> (ServerProcess, ServerProcess) {
    let first = ServerProcess::serve(folder, "a", &[]);
    let applied = first.fed(&["job", "apply", "-f", "-"], jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    until("a leads", || {
        let jobs = first.json(&["job", "list"]);
        jobs.as_array()?.iter().all(|job| job["owner"] == "a").then_some(())
    });
    let second = ServerProcess::serve(folder, "b", &[]);
    both(&first, &second);
    (first, second)
}

fn both(first: &ServerProcess, second: &ServerProcess) {
    until("both see both", || {
        let two = |node: &ServerProcess| node.json(&["node", "list"]).as_array().map(Vec::len) == Some(2);
        (two(first) && two(second)).then_some(())
    });
}

/// A node's part in a job.
fn part(node: &ServerProcess, job: &str, name: &str) -> Value {
    let found = node.json(&["job", "show", job, "--details"]);
    let nodes = found["sharing"]["nodes"].as_array().expect("it is sharded");
    nodes.iter().find(|row| row["node"] == name).cloned().unwrap_or_default()
}

/// What this node and its shards are for a job, once it is so.
fn is(node: &ServerProcess, job: &str, name: &str, state: &str, shards: &str) {
    until(&format!("{name} is {state} with {shards:?}"), || {
        let row = part(node, job, name);
        (row["state"] == state && row["shards"] == shards).then_some(())
    });
}

/// Runs of a job that ended well.
fn runs(node: &ServerProcess, job: &str) -> Vec<Value> {
    let runs = node.json(&["run", "list", "--job", job, "--state", "succeeded", "--limit", "1000"]);
    runs.as_array().cloned().unwrap_or_default()
}

/// The shards that ran for a request, by the node that ran them.
fn ran(node: &ServerProcess, job: &str, request: &str) -> Vec<(String, u64)> {
    let of = |run: &Value| run["run"].as_str().is_some_and(|id| id.contains(&format!(":ask-{request}:")));
    let all = runs(node, job);
    let one = |run: &Value| Some((run["node"].as_str()?.to_owned(), run["shard"].as_u64()?));
    let mut ran: Vec<_> = all.iter().filter(|run| of(run)).filter_map(one).collect();
    ran.sort();
    ran
}

/// Runs of later fires than any there is: two whole fires of whoever fires.
fn later(node: &ServerProcess, job: &str) -> Vec<Value> {
    let newest =
        |runs: &[Value]| runs.iter().filter_map(|run| run["due"].as_str().map(ToOwned::to_owned)).max();
    let begun = newest(&runs(node, job)).unwrap_or_default();
    until("it has fired three times", || {
        let mut after = runs(node, job);
        after.retain(|run| run["due"].as_str() > Some(&begun));
        let mut fires: Vec<_> =
            after.iter().filter_map(|run| run["due"].as_str().map(ToOwned::to_owned)).collect();
        fires.sort();
        fires.dedup();
        // The first of them may have been claimed before, and the last one may still be going on.
        let (first, last) = (fires.first()?.clone(), fires.last()?.clone());
        after.retain(|run| run["due"] != *first && run["due"] != *last);
        (fires.len() >= 4).then_some(after)
    })
}

fn of_shard(runs: &[Value], shard: u64) -> usize {
    runs.iter().filter(|run| run["shard"] == shard).count()
}

fn by(runs: &[Value], node: &str) -> usize {
    runs.iter().filter(|run| run["node"] == node).count()
}

/// Moments as a mask of the same width.
fn masked(text: &str) -> String {
    let moment = |at: usize| {
        let piece = text.get(at..at + 19).unwrap_or_default();
        let digits = |c: char| c.is_ascii_digit();
        piece.len() == 19 && piece.replace(digits, "0") == "0000-00-00 00:00:00"
    };
    let mut out = String::new();
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if moment(at) {
            out.push_str("YYYY-MM-DD hh:mm:ss");
            at += 19;
        } else {
            out.push(c);
            at += c.len_utf8();
        }
    }
    out
}

/// proves: S2-11, S2-19, S2-28, S2-29
#[test]
fn a_sharded_job_is_run_by_everyone_and_shown_as_documented() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path(), METERS);
    let books = rusqlite::Connection::open(folder.path().join("registry.db")).expect("the registry");
    let places =
        books.query_row("SELECT count(*) FROM entry WHERE key = 'job/meters/assignment'", [], |row| {
            row.get(0)
        });
    assert_eq!(places, Ok(1), "it has a place under its name");

    let asked = second.json(&["job", "run", "meters", "--request", "r1"]);
    assert_eq!(asked["run"], "meters:ask-r1");
    let everyone =
        [("a", 0), ("a", 1), ("a", 4), ("b", 2), ("b", 3)].map(|(node, shard)| (node.to_owned(), shard));
    until("all shards have run, each where it belongs", || {
        (ran(&first, "meters", "r1") == everyone).then_some(())
    });
    for (shard, said) in [(0, "0/5 north,all\n"), (3, "3/5 ,all\n"), (4, "4/5 west,all\n")] {
        assert_eq!(first.ok(&["run", "logs", &format!("meters:ask-r1:{shard}")]), said);
    }
    assert_eq!(first.ok(&["run", "wait", "meters:ask-r1:3"]), "succeeded\n");
    let gone = first.cli(&["run", "wait", "meters:ask-r1:5", "--timeout", "1s"]);
    assert_eq!(gone.status.code(), Some(4), "there is no such shard: {}", text(&gone.stderr));

    until("nothing of it is open", || {
        let shards = second.json(&["shard", "list", "meters"]);
        shards.as_array()?.iter().all(|shard| shard["state"] == "idle").then_some(())
    });
    insta::assert_snapshot!("shard list", masked(&second.ok(&["shard", "list", "meters"])));
    insta::assert_snapshot!("job show of a sharded job", second.ok(&["job", "show", "meters"]));
    let list = until("its outcome is in the history", || {
        let list = second.ok(&["job", "list"]);
        list.contains("succeeded").then_some(list)
    });
    insta::assert_snapshot!("job list with a sharded job", list);
    let back = first.fed(&["job", "apply", "-f", "-"], &second.ok(&["job", "show", "meters"]));
    assert_eq!(text(&back.stdout), "unchanged  meters\n1 unchanged\n", "what is shown can be applied");
    let found = first.json(&["job", "show", "meters", "--details"]);
    assert_eq!(found["job"]["description"], "read by everyone");
    assert_eq!(
        (&found["sharing"]["leader"], &found["sharing"]["reshard_pending"]),
        (&json!("a"), &Value::Null)
    );
    let nodes = first.json(&["node", "list"]);
    assert_eq!((&nodes[0]["shards"], &nodes[1]["shards"]), (&json!(3), &json!(2)));
    let mut wanted =
        ["shard", "run", "node", "state", "fire", "due", "attempt", "failed_over", "parameter", "began"];
    wanted.sort_unstable();
    let shards = first.json(&["shard", "list", "meters"]);
    assert_eq!(shards.as_array().map(Vec::len), Some(5));
    let fields: Vec<_> = shards[4].as_object().expect("an object").keys().collect();
    assert_eq!(fields, wanted, "fields are stable");
    assert_eq!((&shards[4]["node"], &shards[4]["parameter"]), (&json!("a"), &json!("west")));

    let (status, page) = first.raw(&format!("GET /plain?job=meters HTTP/1.1\nHost: {}", first.address), b"");
    assert_eq!(status, 200);
    assert!(page.contains("5 shards on 2 nodes, led by a") && page.contains(">0-1,4<"), "{page}");
}

/// proves: S2-40
#[test]
fn a_run_by_hand_is_for_all_or_for_one_node_and_never_beside_another_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = "[[job]]\nname = \"slow\"\nplacement = \"sharded\"\nshards = 2\n\
                command = [\"/bin/sh\", \"-c\", \"while [ ! -e go ]; do sleep 0.05; done\"]\n";
    let (first, _second) = two(folder.path(), &[METERS, slow].concat());
    first.ok(&["job", "run", "meters", "--request", "r1"]);
    until("all shards have run", || (ran(&first, "meters", "r1").len() == 5).then_some(()));
    let asked = first.json(&["job", "run", "meters", "--request", "r2", "--node", "b"]);
    assert_eq!((&asked["run"], &asked["shards"]), (&json!("meters:ask-r2"), &json!("2-3")));
    let theirs = [("b".to_owned(), 2), ("b".to_owned(), 3)];
    until("b's shards have run", || (ran(&first, "meters", "r2") == theirs).then_some(()));
    // Each node answers requests in their order, so what a would run for the second one it would have run by then.
    first.ok(&["job", "run", "meters", "--request", "r3"]);
    until("all shards have run", || (ran(&first, "meters", "r3").len() == 5).then_some(()));
    assert_eq!(ran(&first, "meters", "r2"), theirs, "the others had no part in it");

    first.ok(&["job", "run", "slow", "--request", "s1"]);
    until("both shards run", || {
        let shards = first.json(&["shard", "list", "slow"]);
        let runs = |shard: &Value| shard["state"] == "running" && shard["fire"] == "ask-s1";
        (runs(&shards[0]) && runs(&shards[1]) && shards[1]["run"] == "slow:ask-s1:1").then_some(())
    });
    first.ok(&["job", "run", "slow", "--request", "s2"]);
    let refused = until("it is rejected", || {
        let runs = first.json(&["run", "list", "--job", "slow", "--state", "skipped"]);
        (runs.as_array().map(Vec::len) == Some(2)).then_some(runs)
    });
    assert_eq!(refused[0]["reason"], "asked for while the run before was going on: ask again after it");
    std::fs::write(folder.path().join("go"), "").expect("written");
    until("the first one ends", || (ran(&first, "slow", "s1").len() == 2).then_some(()));
    first.ok(&["job", "run", "slow", "--request", "s3"]);
    until("another one may run", || (ran(&first, "slow", "s3").len() == 2).then_some(()));
    assert_eq!(ran(&first, "slow", "s2"), [], "the request was used up");
}

/// proves: S2-12, S2-16, S2-17
#[test]
fn a_declaration_is_changed_at_the_next_fire_and_another_name_is_another_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path(), METERS);
    first.ok(&["job", "run", "meters", "--request", "r1"]);
    until("all shards have run", || (ran(&first, "meters", "r1").len() == 5).then_some(()));
    let more = METERS.replace("shards = 5", "shards = 7");
    assert!(second.fed(&["job", "apply", "-f", "-"], &more).status.success());
    first.ok(&["job", "run", "meters", "--request", "r2"]);
    let shards = until("seven shards run", || {
        let ran = ran(&first, "meters", "r2");
        (ran.len() == 7).then_some(ran)
    });
    let of = |name: &str| {
        shards.iter().filter(|(node, _)| node == name).map(|(_, shard)| *shard).collect::<Vec<_>>()
    };
    assert_eq!((of("a"), of("b")), (vec![0, 1, 2, 6], vec![3, 4, 5]));
    let fewer = METERS.replace("shards = 5", "shards = 2").replace(",4=west", "");
    let often = fewer.replace("placement", "schedule = \"@every 1s\"\nplacement");
    assert!(second.fed(&["job", "apply", "-f", "-"], &often).status.success());
    let after = until("it fires by its new schedule", || {
        let mut runs = runs(&first, "meters");
        runs.retain(|run| !run["run"].as_str().is_some_and(|id| id.contains(":ask-")));
        (runs.len() > 2).then_some(runs)
    });
    assert!(after.iter().all(|run| run["shard"].as_u64() < Some(2)), "{after:?}");

    let other = METERS.replace("\"meters\"", "\"gauges\"");
    let said = second.fed(&["job", "apply", "-f", "-"], &other);
    assert_eq!(text(&said.stdout), "created    gauges\n1 created\n");
    until("the other node hears of it", || {
        let names = first.json(&["job", "list"]);
        (names[0]["name"] == "gauges" && names[1]["name"] == "meters").then_some(())
    });
    let head = |verb: &str| {
        format!(
            "{verb} /api/v1/jobs/meters HTTP/1.1\nHost: {}\nContent-Type: application/json",
            first.address
        )
    };
    for (verb, refused) in [("PUT", 400), ("PATCH", 405), ("POST", 405)] {
        let (status, answer) = first.raw(&head(verb), br#"{"name":"renamed","command":["/bin/true"]}"#);
        assert_eq!(status, refused, "nothing renames a job: {answer}");
    }
    let claimed = METERS.lines().filter(|line| !line.starts_with("placement") && !line.starts_with("shards"));
    let claimed = claimed.collect::<Vec<_>>().join("\n").replace("0=north,4=west", "0=north");
    let refused = first.fed(&["job", "apply", "-f", "-"], &claimed);
    assert_eq!(refused.status.code(), Some(6), "its placement is fixed");
    assert!(text(&refused.stderr).contains("another name"), "{}", text(&refused.stderr));
}

/// proves: S2-15, S2-20
#[test]
fn what_is_not_monitored_is_in_no_books_and_what_nobody_knows_is_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = |name: &str, more: &str| {
        format!("[[job]]\nname = \"{name}\"\nplacement = \"sharded\"\nshards = 2\n{more}\n")
    };
    let sleep = "command = [\"/bin/sleep\", \"3600\"]";
    let jobs = [
        job("seen", sleep),
        job("unseen", &format!("monitor_execution = false\n{sleep}")),
        job("unknown", "function = \"nowhere\""),
    ];
    let (first, _second) = two(folder.path(), &jobs.concat());
    for name in ["seen", "unseen", "unknown"] {
        first.ok(&["job", "run", name, "--request", "r"]);
    }
    let under_way = |name: &str| {
        let runs = first.json(&["run", "list", "--job", name, "--state", "running"]);
        runs.as_array().map_or(0, Vec::len)
    };
    until("both run", || (under_way("seen") == 2 && under_way("unseen") == 2).then_some(()));
    let states = |name: &str| {
        let shards = first.json(&["shard", "list", name]);
        [0, 1].map(|at| shards[at]["state"].as_str().unwrap_or_default().to_owned())
    };
    until("the registry says nothing of it", || (states("unseen") == ["idle", "idle"]).then_some(()));
    assert_eq!(under_way("unseen"), 2, "and it goes on");
    assert_eq!(states("seen"), ["running", "running"]);
    let failed = until("the unknown one has failed", || {
        let runs = first.json(&["run", "list", "--job", "unknown", "--state", "failed"]);
        (runs.as_array().map(Vec::len) == Some(2)).then_some(runs)
    });
    assert!(
        failed[0]["reason"].as_str().is_some_and(|why| why.contains("no function \"nowhere\"")),
        "{failed}"
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let plain = "[[job]]\nname = \"plain\"\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], &[METERS, plain].concat()).status.success());
    for (code, args, says) in [
        (4, &["shard", "list", "nope"][..], "no job is called nope"),
        (5, &["shard", "list", "plain"], "is not sharded"),
        (4, &["shard", "disable", "nope", "0"], "no job is called nope"),
        (5, &["shard", "disable", "plain", "0"], "is not sharded"),
        (5, &["shard", "disable", "meters", "3-9"], "has no shards 5-9: they go from 0 to 4"),
        (5, &["shard", "disable", "meters", "3-"], "write them as 0,2 or 0-3,7"),
        (5, &["shard", "enable", "meters", ""], "write them as 0,2 or 0-3,7"),
        (5, &["shard", "enable", "meters", "../4"], "write them as 0,2 or 0-3,7"),
        (5, &["job", "pause", "plain", "--node", "a"], "is not sharded"),
        (4, &["job", "pause", "nope", "--node", "a"], "no job is called nope"),
        (5, &["job", "pause", "meters", "--node", "a b"], "is not allowed"),
        (5, &["job", "run", "plain", "--node", "a"], "is not sharded"),
        (4, &["job", "run", "meters", "--node", "z"], "no living node is called z"),
        (4, &["job", "shutdown", "meters", "--node", "z"], "no living node is called z"),
        (4, &["job", "shutdown", "nope"], "no job is called nope"),
        (5, &["job", "shutdown", "plain"], "is not sharded"),
        (2, &["shard", "disable", "meters"], "SHARDS"),
    ] {
        let output = node.cli(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
    let post = |path: &str| {
        let head =
            format!("POST /api/v1/{path} HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
        node.raw(&head, b"{}").0
    };
    for (path, status) in [
        ("jobs/meters/shards/0/toggle", 404),
        ("jobs/meters/shards/x0g/enable", 400),
        ("jobs/meters/pause?nod=a", 400),
        ("jobs/meters/shards", 405),
        ("jobs/meters/stop?node=a", 404),
        ("jobs/meters/pause?node=not-here-yet", 200),
    ] {
        assert_eq!(post(path), status, "{path}");
    }
    assert_eq!(part(&node, "meters", "not-here-yet")["state"], "gone", "it may be switched before it comes");
    for path in ["jobs/meters/shutdown", "jobs/meters/shards/0/disable"] {
        let (status, _) = node.raw(&format!("GET /api/v1/{path} HTTP/1.1\nHost: {}", node.address), b"");
        assert_eq!(status, 405, "nothing is done by GET: {path}");
    }
}

const EVERYWHERE: &str = r#"
[[job]]
name = "tidy"
schedule = "@every 1s"
placement = "broadcast"
catch_up = { all = 100 }
command = ["/bin/sh", "-c", "echo $EVENKEEL_SHARD/$EVENKEEL_SHARDS"]
"#;

#[test]
fn a_job_on_every_node_runs_once_on_each_and_follows_who_comes_and_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = two(folder.path(), EVERYWHERE);
    is(&a, "tidy", "a", "active", "0");
    is(&a, "tidy", "b", "active", "1");
    let mut runs = later(&a, "tidy");
    // One of them may be a fire behind.
    let newest = |node: &str| {
        let of_node = runs.iter().filter(|run| run["node"] == node);
        of_node.filter_map(|run| run["due"].as_str().map(ToOwned::to_owned)).max()
    };
    let both = newest("a").min(newest("b"));
    runs.retain(|run| run["due"].as_str() <= both.as_deref());
    assert!(by(&runs, "a") == by(&runs, "b") && by(&runs, "a") > 0, "{runs:?}");
    assert_eq!(by(&runs, "a") + by(&runs, "b"), runs.len());
    // Asked for by hand it runs on each, or on the one that is named.
    a.ok(&["job", "pause", "tidy"]);
    a.ok(&["job", "run", "tidy", "--request", "all"]);
    for shard in 0..2 {
        assert_eq!(a.ok(&["run", "wait", &format!("tidy:ask-all:{shard}")]), "succeeded\n");
    }
    assert_eq!(ran(&a, "tidy", "all"), [("a".to_owned(), 0), ("b".to_owned(), 1)]);
    b.ok(&["job", "run", "tidy", "--request", "one", "--node", "b"]);
    assert_eq!(a.ok(&["run", "wait", "tidy:ask-one:1"]), "succeeded\n");
    assert_eq!(ran(&a, "tidy", "one"), [("b".to_owned(), 1)]);
    assert_eq!(a.ok(&["run", "logs", "tidy:ask-one:1"]), "1/2\n");
    let listed = a.json(&["shard", "list", "tidy"]);
    let rows = listed.as_array().into_iter().flatten().map(|row| (&row["shard"], &row["node"]));
    assert_eq!(rows.collect::<Vec<_>>(), [(&json!(0), &json!("a")), (&json!(1), &json!("b"))]);
    a.ok(&["job", "resume", "tidy"]);
    // Who takes part no more leaves no gap.
    a.ok(&["job", "disable", "tidy", "--node", "a"]);
    is(&b, "tidy", "a", "disabled", "");
    is(&b, "tidy", "b", "active", "0");
    let runs = later(&b, "tidy");
    assert_eq!((by(&runs, "a"), by(&runs, "b")), (0, runs.len()));
    let why = text(&a.cli(&["shard", "disable", "tidy", "0"]).stderr);
    assert!(why.contains("job disable tidy --node NODE"), "{why}");
    let explained = a.ok(&["explain", "job", "tidy"]);
    assert!(explained.contains("gave one shard to each of b"), "{explained}");
}
