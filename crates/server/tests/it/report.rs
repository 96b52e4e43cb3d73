//! Reports: each fire that was due is accounted for, and one without a record is found.

use std::time::Duration;

use evenkeel_core::time::{Millis, Wall};
use serde_json::{Value, json};

use crate::process::{ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "good"
schedule = "*/3 * * * * ?"
command = ["true"]
misfire_grace = "2s"
catch_up = "skip"
labels = { team = "billing" }

[[job]]
name = "bad"
schedule = "*/3 * * * * ?"
command = ["sh", "-c", "exit 3"]

[[job]]
name = "slow"
schedule = "* * * * * ?"
command = ["sleep", "2.5"]
overlap = "skip"

[[job]]
name = "follows"
schedule = "@after 1s"
command = ["true"]

[[job]]
name = "manual"
command = ["true"]
"#;

/// How many fires a job with a fire every three seconds has after one moment and before another.
fn thirds(after: i64, before: i64) -> u64 {
    u64::try_from((before - 1).div_euclid(3_000) - after.div_euclid(3_000)).expect("a span")
}

fn now() -> Wall {
    evenkeel::clock::now().wall
}

/// A report up to this moment, with everything that ran, and its exit code.
fn report(node: &ServerProcess, until: Wall, more: &[&str]) -> (Value, i32) {
    let end = until.to_string();
    let begin = (until - Millis::secs(600)).to_string();
    let args = ["report", "--since", &begin, "--until", &end, "--all", "-o", "json"];
    let said = node.cli(&[&args[..], more].concat());
    let found = serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
    (found, said.status.code().expect("it ends"))
}

/// The same once every fire has an outcome.
fn settled(node: &ServerProcess, end: Wall, more: &[&str]) -> (Value, i32) {
    until("every fire has an outcome", || {
        let (found, code) = report(node, end, more);
        let open = ["running", "waiting"].iter().map(|state| count(&found["counts"], state)).sum::<u64>();
        (open == 0).then_some((found, code))
    })
}

fn count(counts: &Value, state: &str) -> u64 {
    counts[state].as_u64().unwrap_or_else(|| panic!("{state}: {counts}"))
}

fn job<'a>(report: &'a Value, name: &str) -> &'a Value {
    let jobs = report["jobs"].as_array().expect("jobs");
    jobs.iter().find(|job| job["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

/// How many fires of a job are in rows of this state, and the reasons of these rows.
fn rows(job: &Value, state: &str) -> (u64, String) {
    let rows = job["rows"].as_array().expect("rows").iter().filter(|row| row["state"] == state);
    let (fires, reasons): (Vec<u64>, Vec<String>) =
        rows.map(|row| (count(row, "fires"), row["reason"].as_str().unwrap_or_default().to_owned())).unzip();
    (fires.iter().sum(), reasons.join("; "))
}

/// Waits for the next run of a job in this state: its next fire is seconds away then.
fn next_run(node: &ServerProcess, job: &str, state: &str) {
    let of = || node.json(&["run", "list", "--job", job, "--state", state, "--limit", "1000"]);
    let ended = |rows: Value| rows.as_array().map_or(0, Vec::len);
    let before = ended(of());
    until("it ran once more", || (ended(of()) > before).then_some(()));
}

/// When the versions of a job were declared, the latest first.
fn declared(node: &ServerProcess, job: &str) -> Vec<i64> {
    let versions = node.json(&["job", "history", job]);
    let at = |version: &Value| {
        let at: jiff::Timestamp = version["at"].as_str().expect("a moment").parse().expect("a moment");
        at.as_millisecond()
    };
    versions.as_array().expect("versions").iter().map(at).collect()
}

#[test]
fn each_fire_is_accounted_for_whatever_became_of_it_and_one_that_lost_its_record_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    next_run(&node, "good", "succeeded");
    node.ok(&["job", "pause", "good"]);
    std::thread::sleep(Duration::from_secs(4));
    node.ok(&["job", "resume", "good"]);
    next_run(&node, "bad", "failed");
    let edited = JOBS.replacen("name = \"bad\"\nschedule = \"*/3", "name = \"bad\"\nschedule = \"*/2", 1);
    assert!(node.fed(&["job", "apply", "-f", "-"], &edited).status.success());
    next_run(&node, "good", "succeeded");
    node.signal("TERM");
    node.end();
    // Longer than the grace of the job.
    std::thread::sleep(Duration::from_secs(9));
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    next_run(&node, "good", "succeeded");
    next_run(&node, "slow", "succeeded");
    let end = now();
    let (found, code) = settled(&node, end, &[]);
    assert_eq!(code, 0, "{found}");
    let (good, bad, slow) = (job(&found, "good"), job(&found, "bad"), job(&found, "slow"));
    let counts = &good["counts"];
    let all = thirds(*declared(&node, "good").last().expect("it was created"), end.0);
    assert_eq!(count(counts, "fires") + count(counts, "not_expected"), all, "{good}");
    assert!(count(counts, "not_expected") >= 1 && rows(good, "not_expected").1.contains("paused"), "{good}");
    assert!(count(counts, "missed") >= 1 && rows(good, "missed").1.contains("grace"), "{good}");
    let listed = node.json(&["run", "list", "--job", "good", "--state", "succeeded", "--limit", "1000"]);
    let until_end = |row: &&Value| row["due"].as_str().expect("a moment") < end.to_string().as_str();
    let ran = listed.as_array().expect("rows").iter().filter(until_end).count() as u64;
    assert_eq!((count(counts, "ran"), rows(good, "ran").0), (ran, ran), "{good}");
    assert!(count(&bad["counts"], "failed") >= 2 && rows(bad, "failed").1.contains('3'), "{bad}");
    assert!(bad["notes"].to_string().contains("its schedule changed at"), "{bad}");
    assert!(count(&slow["counts"], "skipped") >= 1 && rows(slow, "skipped").1.contains("going on"), "{slow}");
    let follows = job(&found, "follows");
    assert!(follows["notes"].to_string().contains("follow its runs"), "{follows}");
    assert!(count(&follows["counts"], "ran") >= 1, "{follows}");
    assert!(job(&found, "manual")["notes"].to_string().contains("no schedule"), "{found}");
    let totals = &found["counts"];
    assert_eq!((count(totals, "unaccounted"), count(totals, "unknown")), (0, 0), "{found}");
    assert_eq!(report(&node, end, &["--strict"]).1, 1, "some failed");
    let labelled = report(&node, end, &["-l", "team=billing"]).0;
    assert_eq!(labelled["jobs"].as_array().map(Vec::len), Some(1), "{labelled}");

    let history = rusqlite::Connection::open(folder.path().join("registry.db-history")).expect("the history");
    let rows_of_job = "SELECT run FROM attempt WHERE job = 'good' AND state = 1 ORDER BY due";
    let run: String = history.query_row(rows_of_job, [], |row| row.get(0)).expect("a row");
    assert_eq!(history.execute("DELETE FROM attempt WHERE run = ?", [&run]).expect("deleted"), 1);
    let (found, code) = report(&node, end, &[]);
    let (fires, why) = rows(job(&found, "good"), "unaccounted");
    assert_eq!((code, fires, count(&found["counts"], "unaccounted")), (1, 1, 1), "{found}");
    assert!(why.starts_with("no record"), "{why}");
    let shown = node.cli(&[
        "report",
        "--job",
        "good",
        "--since",
        "10m",
        "--until",
        &end.to_string(),
        "--time",
        "iso",
    ]);
    let (out, err) = (text(&shown.stdout), text(&shown.stderr));
    let due: i64 = run.split(':').nth(1).and_then(|due| due.parse().ok()).expect("a moment");
    let line = out.lines().find(|line| line.contains("unaccounted  ")).unwrap_or_else(|| panic!("{out}"));
    assert!(line.contains(&Wall(due).to_string()), "{out}");
    assert!(
        out.lines()
            .last()
            .is_some_and(|line| line.ends_with("1 unaccounted") || line.contains("1 unaccounted;")),
        "{out}"
    );
    assert!(err.contains("1 fire is unaccounted for"), "{err}");
}

#[test]
fn what_only_a_node_knows_that_does_not_answer_is_unknown() {
    const JOB: &str = "[[job]]\nname = \"sent\"\nplacement = \"dispatched\"\nschedule = \"* * * * * ?\"\n\
                       command = [\"true\"]\n";
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |name: &str| {
        let history = format!("sqlite:{}", folder.path().join(format!("{name}-history")).display());
        ServerProcess::serve(folder.path(), name, &["--history", &history, "--ttl", "10m"])
    };
    let nodes = [serve("a"), serve("b")];
    nodes[0].json(&["cluster", "settings", "--beat", "1s"]);
    assert!(nodes[0].fed(&["job", "apply", "-f", "-"], JOB).status.success());
    until("both have run some", || {
        let rows = nodes[0].json(&["run", "list", "--state", "succeeded", "--limit", "500"]);
        let on = |name: &str| rows.as_array().is_some_and(|rows| rows.iter().any(|row| row["node"] == name));
        (on("a") && on("b")).then_some(())
    });
    let end = now();
    let (found, code) = settled(&nodes[0], end, &[]);
    assert_eq!((code, count(&found["counts"], "unknown")), (0, 0), "{found}");
    // Until then a fire without a record is taken to be on its way.
    until("the last fire is old", || (now() - end > Millis::secs(10)).then_some(()));
    nodes[1].signal("STOP");
    let (silent, code) = report(&nodes[0], end, &[]);
    nodes[1].signal("CONT");
    let counts = &silent["counts"];
    assert!(count(counts, "unknown") > 0 && code == 1, "{silent}");
    assert_eq!(count(counts, "fires"), count(&found["counts"], "fires"), "{silent}");
    assert!(silent["missing"].to_string().contains("b: "), "{silent}");
    assert!(rows(job(&silent, "sent"), "unknown").1.contains("was not read"), "{silent}");
    until("it answers again", || (report(&nodes[0], end, &[]) == (found.clone(), 0)).then_some(()));
}

#[test]
fn a_report_has_pages_and_refuses_what_makes_no_sense() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let empty = node.ok(&["report"]);
    assert_eq!(empty, "0 fires of 0 jobs: 0 ran, 0 failed, 0 missed, 0 unaccounted\n");
    let jobs =
        |n: usize| format!("[[job]]\nname = \"j{n}\"\nschedule = \"0 0 1 1 *\"\ncommand = [\"true\"]\n");
    assert!(node.fed(&["job", "apply", "-f", "-"], &(0..3).map(jobs).collect::<String>()).status.success());
    let get = |query: &str| {
        let (status, answer) =
            node.raw(&format!("GET /api/v1/report{query} HTTP/1.1\nHost: {}", node.address), b"");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        (status, serde_json::from_str::<Value>(body).unwrap_or(Value::Null))
    };
    let (_, page) = get("?limit=2");
    assert_eq!((page["jobs"].as_array().map(Vec::len), &page["after"]), (Some(2), &json!("j1")), "{page}");
    let (_, page) = get("?limit=2&after=j1");
    assert_eq!((&page["jobs"][0]["name"], &page["after"]), (&json!("j2"), &Value::Null), "{page}");
    assert_eq!(page["jobs"][0]["notes"], json!(["the job did not exist yet"]), "{page}");
    for (query, status, says) in [
        ("?since=8d", 400, "7 days"),
        ("?since=1h&until=2h", 400, "empty"),
        ("?job=none", 404, "none"),
        ("?limit=501", 400, "500"),
        ("?day=today", 400, "day"),
    ] {
        let (got, answer) = get(query);
        assert!(got == status && answer.to_string().contains(says), "{query}: {got} {answer}");
    }
    for (args, code) in [
        (&["--day", "2026-02-30"][..], 2),
        (&["--timezone", "UTC"], 2),
        (&["--day", "today", "--timezone", "Mars"], 2),
        (&["--since", "9d"], 5),
        (&["--job", "none"], 4),
    ] {
        assert_eq!(node.cli(&[&["report"], args].concat()).status.code(), Some(code), "{args:?}");
    }
}
