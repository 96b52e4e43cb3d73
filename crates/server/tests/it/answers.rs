//! Answers say what happened: a switch that does not have its effect, a key that nobody reads, a request made before.

use std::process::Output;

use serde_json::{Value, json};

use crate::process::{SHORT_LEASE, ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "shared"
schedule = "@every 1h"
placement = "sharded"
shards = 2
command = ["/bin/true"]

[[job]]
name = "plain"
schedule = "@every 1h"
command = ["/bin/echo", "said"]

[[job]]
name = "by-hand"
command = ["/bin/true"]

[[job]]
name = "nowhere"
schedule = "@every 1h"
node_selector = ["gpu"]
command = ["/bin/true"]
"#;

fn node(folder: &std::path::Path) -> ServerProcess {
    let node = ServerProcess::serve(folder, "n1", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], JOBS);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    until("all are held", || {
        let jobs = node.json(&["job", "list"]);
        let held = jobs.as_array()?.iter().filter(|job| job["owner"] == "n1").count();
        (held == 3).then_some(())
    });
    node
}

/// The exit code, and all that was said.
fn exit_and_text(output: &Output) -> (i32, String) {
    (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn a_switch_that_does_not_let_a_job_fire_does_not_say_that_it_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let refused = |args: &[&str], code: i32, says: &str| {
        let (is, said) = exit_and_text(&node.cli(args));
        assert!(is == code && said.contains(says), "{args:?}: {is} {said}");
    };
    let done = |args: &[&str], says: &str, never: &str| {
        let (is, said) = exit_and_text(&node.cli(args));
        assert!(is == 0 && said.contains(says) && !said.contains(never), "{args:?}: {is} {said}");
    };
    done(&["job", "shutdown", "shared", "--node", "n1"], "shut down", "no living node");
    refused(&["job", "enable", "shared", "--node", "n1"], 6, "was shut down for job shared");
    done(&["job", "disable", "shared", "--node", "n1"], "disabled", "no living node");
    done(&["job", "enable", "shared", "--node", "n1"], "was shut down for job shared", "takes part from");
    done(
        &["job", "disable", "shared", "--node", "n99"],
        "no living node is called n99: did you mean n1?",
        "move",
    );
    refused(&["job", "resume", "shared", "--node", "n98"], 4, "no living node is called n98");

    done(&["job", "disable", "plain"], "disabled", "warning");
    refused(&["job", "resume", "plain"], 6, "evenkeel job enable plain");
    done(&["job", "pause", "plain"], "job plain is disabled: enable it", "only manual runs");
    done(&["job", "resume", "plain"], "job plain is disabled: enable it", "fires from now on");
    done(&["job", "pause", "plain"], "is disabled", "only manual runs");
    done(&["job", "enable", "plain"], "evenkeel job resume plain", "fires from now on");
    refused(&["job", "enable", "plain"], 6, "evenkeel job resume plain");
    done(&["job", "resume", "plain"], "fires from now on", "evenkeel:");
    done(&["job", "resume", "by-hand"], "has no schedule: it has only manual runs", "from now on");
    done(&["job", "resume", "nowhere"], "no living node fits job nowhere", "from now on");
    done(&["job", "run", "nowhere"], "no living node fits", "evenkeel: warning");
    done(&["node", "activate", "n1"], "online already: nothing was changed", "forgiven");
}

#[test]
fn what_was_asked_for_before_is_said_to_have_been() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let first = node.ok(&["job", "run", "plain", "--request", "r"]);
    assert!(!first.contains("before"), "{first}");
    node.ok(&["run", "wait", "plain:ask-r:0"]);
    let again = node.ok(&["job", "run", "plain", "--request", "r"]);
    assert!(
        again.contains("the same request was made before") && again.contains("no new run was requested"),
        "{again}"
    );
    let restarted = node.ok(&["run", "restart", "plain:ask-r:0"]);
    assert!(restarted.contains("is done again as plain:ask-again-"), "{restarted}");
    let twice = node.json(&["run", "restart", "plain:ask-r:0"]);
    assert_eq!(twice["applied"], "unchanged");
    let next = twice["run"].as_str().expect("a run").to_owned();
    node.ok(&["run", "wait", &next]);
    let later = node.ok(&["run", "restart", "plain:ask-r:0"]);
    assert!(later.contains("was restarted before, as") && !later.contains("done again"), "{later}");
    assert_eq!(node.ok(&["run", "delete", &next]), format!("the output of run {next} is deleted\n"));
    assert_eq!(
        node.ok(&["run", "delete", &next]),
        format!("run {next} has no output that could be deleted\n")
    );
}

#[test]
fn a_query_key_that_nobody_reads_is_refused_with_those_that_are_known_and_nothing_is_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let ask = |method: &str, path: &str, body: &str| -> (u16, String) {
        let kind = if method == "GET" { "" } else { "\nContent-Type: application/json" };
        node.raw(&format!("{method} {path} HTTP/1.1\nHost: {}{kind}", node.address), body.as_bytes())
    };
    let declared = json!({ "jobs": [{ "name": "tried", "command": ["/bin/true"] }] }).to_string();
    let (status, answer) = ask("POST", "/api/v1/jobs/apply?dry_run=true", &declared);
    assert_eq!(status, 400, "{answer}");
    assert!(
        answer.contains("unknown query key \\\"dry_run\\\": this address takes no query keys"),
        "{answer}"
    );
    assert_eq!(node.cli(&["job", "show", "tried"]).status.code(), Some(4), "it was not applied");
    let changes = node.ok(&["docs", "changes"]);
    for change in changes.lines() {
        let (method, path) = change.split_once(' ').expect("a method and a path");
        // The keys of a webhook are parameters of its run.
        if path.starts_with("/api/v1/hooks") {
            continue;
        }
        let path = path.replace("{name}", "plain").replace("{verb}", "pause").replace("{set}", "0");
        let path = path.replace("{run}", "plain:1:0");
        let (status, answer) = ask(method, &format!("{path}?dry_run=1"), "{}");
        assert!(status == 400 && answer.contains("unknown query key"), "{change}: {answer}");
    }
    for path in [
        "/",
        "/console.css",
        "/api/v1/health",
        "/api/v1/jobs",
        "/api/v1/runs",
        "/api/v1/nodes",
        "/api/v1/live",
    ] {
        let (status, answer) = ask("GET", &format!("{path}?limits=1"), "");
        assert!(status == 400 && answer.contains("unknown query key"), "{path}: {answer}");
    }
    let (_, answer) = ask("GET", "/api/v1/jobs?limits=1", "");
    assert!(answer.contains("this address knows after, find, label, limit, namespace"), "{answer}");
    let paused: Value = node.json(&["job", "show", "plain", "--details"])["paused"].clone();
    assert_eq!(paused, false, "nothing was done");
}

#[test]
fn a_body_in_which_nobody_looks_for_anything_must_be_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let post = |path: &str, body: &str| {
        let head = format!("POST {path} HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
        node.raw(&head, body.as_bytes())
    };
    let place = "{\"node\": \"n1\"}";
    for path in [
        "/api/v1/jobs/shared/pause",
        "/api/v1/jobs/claim",
        "/api/v1/jobs/shared/shards/0/disable",
        "/api/v1/runs/plain:1:0/kill",
        "/api/v1/runs/plain:1:0/restart",
        "/api/v1/nodes/n1/undrain",
        "/api/v1/nodes/n1/activate",
        "/api/v1/cluster/finalize-upgrade",
    ] {
        let (status, answer) = post(path, place);
        let says = "unknown key \\\"node\\\": there are no keys here, leave it empty";
        assert!(status == 400 && answer.contains(says), "{path}: {status} {answer}");
    }
    assert_eq!(
        node.json(&["job", "show", "shared", "--details"])["paused"],
        false,
        "it was not paused everywhere"
    );
    assert_eq!(post("/api/v1/jobs/shared/pause?node=n1", "").0, 200);
}

#[test]
fn all_that_runs_is_counted_and_listed_however_much_has_run_since() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let long = "[[job]]\nname = \"long\"\ncommand = [\"/bin/sleep\", \"600\"]\n\
                [[job]]\nname = \"quick\"\ncommand = [\"/bin/true\"]\noverlap = \"allow\"\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], long).status.success());
    node.ok(&["job", "run", "long", "--request", "r"]);
    let running = || node.json(&["run", "running"]);
    until("it runs", || (running()["running"] == 1).then_some(()));
    // More than the console shows.
    for n in 0..60 {
        node.ok(&["job", "run", "quick", "--request", &format!("r{n}")]);
    }
    until("all of them have ended", || {
        let ended = node.json(&["run", "list", "--job", "quick", "--state", "succeeded", "--limit", "100"]);
        (ended.as_array().map(Vec::len) == Some(60)).then_some(())
    });
    assert_eq!(running()["runs"][0]["run"], "long:ask-r:0");
    assert!(node.ok(&["run", "running"]).ends_with("\n1 running now\n"));
    let listed = node.json(&["run", "list", "--state", "running"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let (_, page) = node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"");
    assert!(page.contains("<dd id=\"count-running\">1</dd>"), "{page}");
    assert!(page.contains(">long<"), "it is among the runs that are shown: {page}");
    node.ok(&["run", "kill", "long:ask-r:0"]);
    until("it has ended", || (running()["running"] == 0).then_some(()));
    assert_eq!(node.ok(&["run", "running"]), "nothing runs now\n");
}

#[test]
fn a_node_that_is_gone_stays_in_the_list_with_since_when_and_what_became_of_its_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = node(folder.path());
    let second = ServerProcess::serve(folder.path(), "n2", &SHORT_LEASE);
    until("both hold some", || {
        let nodes = first.living();
        (nodes.len() == 2 && nodes.iter().all(|node| node["held"].as_u64() >= Some(1))).then_some(())
    });
    let living = first.living();
    assert_eq!(
        (&living[0]["state"], &living[0]["version"]),
        (&json!("online"), &json!(env!("CARGO_PKG_VERSION")))
    );
    until("it says when it measured", || first.living()[0]["measured"].as_str().map(drop));
    let held = living[1]["held"].as_u64().expect("a number");
    drop(second);
    let gone =
        || first.json(&["node", "list"]).as_array()?.iter().find(|node| node["state"] == "gone").cloned();
    let row = until("it is gone and its jobs are another node's", || gone().filter(|row| row["held"] == 0));
    assert_eq!(row["name"], "n2");
    let left = row["left"].as_str().expect("a text");
    assert!(
        left.starts_with(&format!("it held {held} job"))
            && left.ends_with("none of them waits for another node"),
        "{left}"
    );
    let told = first.json(&["event", "list", "--kind", "node.left", "--node", "n2"]);
    assert_eq!(told[0]["at"], row["gone_since"]);
    assert!(
        told[0]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("n2@") && text.contains(" left; it held")),
        "{told}"
    );
    let table = first.ok(&["node", "list"]);
    assert!(table.contains("VERSION") && table.contains("AS OF") && table.contains("gone since"), "{table}");
    let _back = ServerProcess::serve(folder.path(), "n2", &[]);
    until("it is back and listed once", || {
        (first.json(&["node", "list"]).as_array()?.len() == 2 && gone().is_none()).then_some(())
    });
}

#[test]
fn a_long_answer_is_compressed_and_one_that_the_caller_has_is_not_sent_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let jobs: Vec<Value> = (0..200)
        .map(|n| json!({ "name": format!("j{n}"), "command": ["true"], "schedule": "@daily" }))
        .collect();
    let body = json!({ "jobs": jobs }).to_string();
    let head =
        format!("POST /api/v1/jobs/apply HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    assert_eq!(node.raw(&head, body.as_bytes()).0, 200);
    let get = |path: &str, more: &str| {
        let (status, answer) = node.raw(&format!("GET {path} HTTP/1.1\nHost: {}{more}", node.address), b"");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        (status, head.to_ascii_lowercase(), body.len())
    };
    let list = "/api/v1/jobs?limit=200";
    let (_, head, plain) = get(list, "");
    assert!(!head.contains("content-encoding"), "the caller has not said that it takes it: {head}");
    let (status, head, packed) = get(list, "\nAccept-Encoding: gzip");
    assert!(
        status == 200 && head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"),
        "{head}"
    );
    assert!(packed * 3 < plain, "{packed} of {plain}");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").replace("w/", "W/");
    let (status, head, length) = get(list, &format!("\nIf-None-Match: {tag}"));
    assert_eq!((status, length), (304, 0), "{head}");
    assert_eq!(get(list, "\nIf-None-Match: W/\"another\"").0, 200);
    node.ok(&["job", "pause", "j7"]);
    assert_eq!(get(list, &format!("\nIf-None-Match: {tag}")).0, 200, "it has changed");
    // The tag of one object is its version, by which it is edited.
    let (_, head, _) = get("/api/v1/jobs/j8", "");
    assert!(head.contains("etag: \"1\""), "{head}");
    // Who takes no answer as it is gets one all the same, and not a refusal of what was done.
    for odd in ["identity;q=0", "*;q=0", "gzip;q=0, identity;q=0"] {
        assert_eq!(get(list, &format!("\nAccept-Encoding: {odd}")).0, 200, "{odd}");
    }
    // Output is sent as it comes.
    let run = node.json(&["job", "run", "j9"])["run"].as_str().expect("a run").to_owned();
    node.ok(&["run", "wait", &run]);
    let path = format!("/api/v1/runs/{run}/logs");
    assert!(!get(&path, "\nAccept-Encoding: gzip").1.contains("content-encoding"));
    assert!(get("/console.css", "\nAccept-Encoding: gzip").1.contains("content-encoding: gzip"));
}
