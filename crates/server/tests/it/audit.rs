//! The audit log: each change, asked for over HTTP at any address that takes one, is told once, and so is each refusal.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::audit_requests::requests;
use crate::forged::{self, ForgedAuthority, shared_identity};
use crate::process::{ServerProcess, millis, run, text, until, until_told, write_private};

/// The whole log, the first entry first.
fn log(node: &ServerProcess) -> Vec<Value> {
    let found = node.json(&["audit", "--limit", "100000"]);
    let mut entries = found.as_array().expect("a list").clone();
    entries.reverse();
    entries
}

/// The same, once every entry has an outcome.
fn settled(node: &ServerProcess) -> Vec<Value> {
    until("every entry has an outcome", || {
        Some(log(node)).filter(|entries| entries.iter().all(|entry| entry_field(entry, "outcome") != "asked"))
    })
}

fn entry_field<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry[field].as_str().unwrap_or_default()
}

/// One request; its status.
fn ask(node: &ServerProcess, method: &str, path: &str, body: &str) -> u16 {
    let kind = if method == "DELETE" { "" } else { "\nContent-Type: application/json" };
    let head = format!("{method} /api/v1/{path} HTTP/1.1\nHost: {}{kind}", node.address);
    node.raw(&head, body.as_bytes()).0
}

const JOBS: &str = "[[job]]\nname = \"j\"\ncommand = [\"/bin/true\"]\n\
                    [[job]]\nname = \"long\"\nschedule = \"0 0 1 1 *\"\ncommand = [\"/bin/sleep\", \"600\"]\n\
                    [[job]]\nname = \"s\"\nplacement = \"sharded\"\nshards = 2\ncommand = [\"/bin/true\"]\n";

/// proves: I51
#[test]
fn every_change_that_can_be_asked_for_leaves_one_entry_and_so_does_each_refusal() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    node.ok(&["job", "run", "j", "--request", "done"]);
    let ended = "j:ask-done:0";
    node.ok(&["run", "wait", ended]);
    node.ok(&["job", "run", "long", "--request", "now"]);
    let running = "long:ask-now:0";
    until("it runs", || {
        let shown = node.cli(&["run", "show", running, "-o", "json"]);
        text(&shown.stdout).contains("\"running\"").then_some(())
    });
    let mut known = settled(&node).len();
    assert_eq!(known, 5, "three jobs and two runs: {:?}", log(&node));

    let changes = text(&run(&["docs", "changes"]).stdout);
    assert!(changes.lines().count() > 10, "{changes}");
    for change in changes.lines() {
        let method = change.split(' ').next().expect("a method");
        for (path, body, outcome) in requests(change, ended, running) {
            let status = ask(&node, method, &path, body);
            let well = outcome != "refused";
            assert_eq!((200..300).contains(&status), well, "{method} {path}: {status}");
            known += 1;
            let entries = until_told(
                &format!("{method} {path} left an entry"),
                || Some(settled(&node)).filter(|entries| entries.len() >= known),
                || format!("{:?}", log(&node).last()),
            );
            let last = entries.last().expect("there is one");
            assert_eq!(
                (entries.len(), entry_field(last, "outcome")),
                (known, outcome),
                "{method} {path}: {last}"
            );
            assert_eq!((entry_field(last, "who"), entry_field(last, "node")), ("key", "a"), "{last}");
            assert_eq!(entry_field(last, "from"), "127.0.0.1", "{last}");
            assert!(well || !entry_field(last, "what").is_empty(), "a refusal says why: {last}");
        }
    }
    // Asked twice under one request it is one run, and one entry.
    assert_eq!(ask(&node, "POST", "jobs/j/run", r#"{"request":"once"}"#), 200);
    assert_eq!(ask(&node, "POST", "jobs/j/pause", ""), 200);
    known += 1;
    until("the pause is told", || {
        settled(&node).last().is_some_and(|last| entry_field(last, "verb") == "pause").then_some(())
    });
    assert_eq!(log(&node).len(), known, "{:?}", log(&node).last());
    // Whoever asks what there is leaves nothing, and neither does who asks what nobody takes.
    assert_eq!(ask(&node, "PUT", "calendars", "{}"), 405);
    assert_eq!(ask(&node, "POST", "events", "{}"), 405);
    assert_eq!(log(&node).len(), known);
}

/// proves: I51
#[test]
fn what_the_log_says_was_applied_is_what_the_registry_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes =
        [ServerProcess::serve(folder.path(), "a", &[]), ServerProcess::serve(folder.path(), "b", &[])];
    let names = ["x", "y", "z"];
    let declared = |n: usize| {
        let job = |name: &&str| {
            format!(
                "[[job]]\nname = \"{name}\"\nschedule = \"{n} 4 1 1 *\"\ncommand = [\"/bin/echo\", \"hunter{n}\"]\n"
            )
        };
        // Some of them are as they were.
        names.iter().take(1 + n % 3).map(job).collect::<String>()
    };
    for n in 0..6 {
        let (node, other) = (&nodes[n % 2], &nodes[(n + 1) % 2]);
        assert!(node.fed(&["job", "apply", "-f", "-"], &declared(n)).status.success());
        let name = names[n % 2];
        for verb in ["pause", "resume", "disable", "enable"] {
            other.cli(&["job", verb, name]);
        }
        if n == 3 {
            node.ok(&["job", "delete", "y"]);
            other.fed(&["job", "apply", "-f", "-"], &declared(1));
        }
    }
    let node = &nodes[0];
    let mut versions: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let mut applied = settled(node);
    applied.retain(|entry| entry_field(entry, "outcome") == "applied");
    // Versions tell the order in which changes were made; the log is in that in which it heard of them.
    applied.sort_by_key(|entry| entry["after"].as_u64());
    for entry in &applied {
        assert!(!entry.to_string().contains("hunter"), "a command is nobody's business: {entry}");
        let (Some(job), Some(after)) = (entry["job"].as_str(), entry["after"].as_u64()) else {
            panic!("each change here is one of a job: {entry}");
        };
        let known = versions.entry(job.to_owned()).or_default();
        if !entry_field(entry, "what").contains("created") {
            assert_eq!(entry["before"].as_u64(), *known, "none is missing before {entry}");
        }
        assert!(known.is_none_or(|known| known + 1 == after), "none is missing before {entry}");
        *known = Some(after);
    }
    for name in names {
        until("it has heard of the last change", || {
            (node.json(&["job", "show", name, "--details"])["version"].as_u64() == versions[name])
                .then_some(())
        });
        let of_job = node.json(&["audit", "--job", name, "--limit", "1000"]);
        let of_job = of_job.as_array().expect("a list");
        let last = of_job.iter().filter_map(|entry| entry["after"].as_u64()).max();
        assert!(
            last == versions[name] && of_job.iter().all(|entry| entry["job"] == name),
            "{name}: {of_job:?}"
        );
    }
    let of_b = node.json(&["audit", "--node", "b"]);
    assert!(
        of_b.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(|entry| entry["node"] == "b"))
    );
    let claims = entry_field(&of_b[0], "claims").to_owned();
    assert!(claims.contains('@'), "{claims}");
    assert_eq!(
        node.json(&["audit", "--who", &claims, "--node", "b", "--limit", "1000"]).as_array().map(Vec::len),
        node.json(&["audit", "--node", "b", "--limit", "1000"]).as_array().map(Vec::len)
    );
    assert_eq!(node.json(&["audit", "--until", "1h"]), serde_json::json!([]));
    assert_eq!(node.ok(&["audit", "--who", "nobody"]), "no such request is in the audit log\n");
    let (_, page) = node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"");
    assert!(page.contains("Latest changes") && page.contains("enabled: "), "{page}");
}

/// proves: I51
#[test]
fn who_is_not_let_in_is_told_of_and_fills_no_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    write_private(&key, "correct-horse-battery\n");
    let key = key.display().to_string();
    let node = ServerProcess::serve(folder.path(), "a", &["--cluster-key-file", &key]);
    let begun = millis();
    for n in 0..40 {
        let more = if n % 2 == 0 { "" } else { "\nAuthorization: Bearer incorrect-horse-battery" };
        let head = format!(
            "POST /api/v1/jobs/x{n}/pause HTTP/1.1\nHost: {}{more}\nContent-Type: application/json",
            node.address
        );
        assert_eq!(node.raw(&head, b"").0, 401);
    }
    // A request that claims to be a node's, too.
    let head = format!(
        "POST /peer/v1/runs/x:1:0/kill HTTP/1.1\nHost: {}\nContent-Type: application/json",
        node.address
    );
    assert_eq!(node.raw(&head, b"").0, 401);
    // Ten in each minute; all of it is over in a moment, unless the machine stands still.
    let minutes = 1 + usize::try_from((millis() - begun) / 60_000).expect("a clock that does not step");
    let mut command = node.client(&["job", "apply", "-f", "-", "--cluster-key-file", &key]);
    let done = command.stdin(fs::File::open(jobs(folder.path())).expect("it is there")).output();
    assert!(done.expect("evenkeel starts").status.success());
    let list = || {
        let out = node.ok(&["audit", "-o", "json", "--cluster-key-file", &key]);
        let found: Value = serde_json::from_str(&out).expect("it is JSON");
        found.as_array().expect("a list").clone()
    };
    let entries = until("the change is told", || {
        Some(list()).filter(|list| list.iter().any(|entry| entry_field(entry, "outcome") == "applied"))
    });
    let denied: Vec<_> = entries.iter().filter(|entry| entry_field(entry, "outcome") == "denied").collect();
    assert!((10..=10 * minutes).contains(&denied.len()), "however many there were: {denied:?}");
    assert!(
        denied
            .iter()
            .all(|entry| entry_field(entry, "who") == "nobody" && !entry_field(entry, "what").is_empty())
    );
    let applied: Vec<_> = entries.iter().filter(|entry| entry_field(entry, "outcome") == "applied").collect();
    assert!(applied.iter().all(|entry| entry_field(entry, "who") == "key"), "{applied:?}");
    assert!(!text(format!("{entries:?}").as_bytes()).contains("horse"), "{entries:?}");
}

fn jobs(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("jobs.toml");
    fs::write(&path, JOBS).expect("written");
    path
}

/// proves: I51
#[test]
fn a_run_that_another_node_ends_is_told_of_once_by_that_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |name: &str| {
        let history = format!("sqlite:{}", folder.path().join(format!("{name}-history")).display());
        ServerProcess::serve(folder.path(), name, &["--history", &history])
    };
    let nodes = [serve("a"), serve("b")];
    assert!(nodes[0].fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    nodes[0].ok(&["job", "run", "long", "--request", "now"]);
    let running = "long:ask-now:0";
    let holder = until("it runs", || {
        let shown = nodes[0].json(&["run", "list", "--job", "long"]);
        (shown[0]["state"] == "running").then(|| shown[0]["node"].as_str().map(str::to_owned))?
    });
    let (here, there) = if holder.starts_with('a') { (1, 0) } else { (0, 1) };
    until("the other node has heard of it", || {
        nodes[here].cli(&["run", "show", running]).status.success().then_some(())
    });
    nodes[here].ok(&["run", "kill", running]);
    for node in &nodes {
        let kills = until("the end is told", || {
            let list = log(node);
            let kills: Vec<_> =
                list.into_iter().filter(|entry| entry_field(entry, "verb") == "kill").collect();
            kills.iter().any(|kill| entry_field(kill, "outcome") == "applied").then_some(kills)
        });
        assert_eq!(kills.len(), 1, "{kills:?}");
        assert_eq!(entry_field(&kills[0], "node"), ["a", "b"][there], "{kills:?}");
        let from = entry_field(&kills[0], "from").strip_prefix("via ").expect("by way of another");
        assert!(from.starts_with(["a@", "b@"][here]), "{kills:?}");
        assert!(from.ends_with(", claims key from 127.0.0.1"), "{kills:?}");
        assert!(
            entry_field(&kills[0], "who") == "node" && entry_field(&kills[0], "claims").contains('@'),
            "{kills:?}"
        );
    }
}

/// A request as a node's, whose body names a caller that nobody authenticated.
///
/// proves: I51
#[test]
fn a_caller_that_a_peer_names_in_its_body_is_recorded_as_its_claim() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    node.ok(&["job", "run", "long", "--request", "now"]);
    let running = "long:ask-now:0";
    until("it runs", || {
        (node.json(&["run", "list", "--job", "long"])[0]["state"] == "running").then_some(())
    });
    let body = r#"{"proof":"process","from":"","claims":"root@a"}"#;
    let own = ForgedAuthority::of(&shared_identity());
    let leaf = own.leaf(&format!("evenkeel://{}/node/mallory/7", forged::cluster_id(folder.path())), (-1, 7));
    let head = format!(
        "POST /peer/v1/runs/{running}/kill HTTP/1.1\nHost: {}\nContent-Type: application/json\n\
         evenkeel-from: a@1\nevenkeel-to: a@1",
        node.address
    );
    let host = (node.address, "node.evenkeel.internal");
    let answered = forged::ask(host, &own.certificate, Some(&leaf), (&head, body.as_bytes()));
    let (status, said_back) = answered.expect("an answer");
    assert_eq!(status, 200, "{said_back}");
    let kill = until("the end is told", || {
        settled(&node).into_iter().find(|entry| entry_field(entry, "verb") == "kill")
    });
    assert_eq!(entry_field(&kill, "who"), "node", "its certificate proves which one: {kill}");
    assert_eq!(entry_field(&kill, "from"), "via mallory@7, claims process", "{kill}");
    assert_eq!(entry_field(&kill, "claims"), "root@a", "{kill}");
    let shown = node.ok(&["audit", "--job", "long"]);
    assert!(shown.contains("node via mallory@7, claims process, says root@a"), "{shown}");
    assert_eq!(node.json(&["audit", "--who", "process"]), serde_json::json!([]));
}
