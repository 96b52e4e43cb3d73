//! Jobs whose next fire comes due while a run goes on, on a real node.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

/// What history has of a job.
fn rows(node: &ServerProcess, job: &str) -> Vec<Value> {
    node.json(&["run", "list", "--job", job]).as_array().cloned().unwrap_or_default()
}

/// The reasons of rows in this state.
fn reasons(node: &ServerProcess, job: &str, state: &str) -> Vec<String> {
    let of_state = rows(node, job).into_iter().filter(|row| row["state"] == state);
    of_state.filter_map(|row| row["reason"].as_str().map(str::to_owned)).collect()
}

const PLACEMENTS: [&str; 2] = ["claimed", "dispatched"];

/// A node with a job of each placement, called like it, that is due each second and takes long.
fn busy(folder: &std::path::Path, lines: impl Fn(&str) -> String) -> ServerProcess {
    let node = ServerProcess::serve(folder, "a", &[]);
    node.json(&["cluster", "settings", "--beat", "1s"]);
    let job = |placement: &str| {
        format!(
            "[[job]]\nname = \"{placement}\"\nschedule = \"@every 1s\"\nplacement = \"{placement}\"\n{}\n",
            lines(placement)
        )
    };
    let applied = node.fed(&["job", "apply", "-f", "-"], &PLACEMENTS.map(job).concat());
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    node
}

#[test]
fn what_comes_due_while_a_run_goes_on_is_skipped_aloud() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = busy(folder.path(), |_| "overlap = \"skip\"\ncommand = [\"sleep\", \"2.5\"]".to_owned());
    for job in PLACEMENTS {
        until("three runs have ended", || {
            let ended = rows(&node, job).into_iter().filter(|row| row["state"] == "succeeded");
            (ended.count() >= 3).then_some(())
        });
        let skipped = reasons(&node, job, "skipped");
        assert!(!skipped.is_empty(), "{job}");
        for reason in skipped {
            assert!(reason.contains("came due while the run before was going on"), "{job}: {reason}");
        }
    }
}

#[test]
fn a_run_that_is_replaced_is_ended_with_all_it_started_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let pids = |job: &str| folder.path().join(format!("{job}-pids"));
    let node = busy(folder.path(), |job| {
        let command = format!("echo $$ >> {}; sleep 3600 & wait", pids(job).display());
        format!("overlap = \"replace\"\nshell = true\ncommand = \"{command}\"")
    });
    for job in PLACEMENTS {
        until("three runs were replaced", || (reasons(&node, job, "killed").len() >= 3).then_some(()));
        for reason in reasons(&node, job, "killed") {
            assert!(reason.contains("a later fire took its place"), "{job}: {reason}");
            assert!(!reason.trim_end().ends_with(':'), "{job}: {reason}");
        }
        let running = rows(&node, job).into_iter().filter(|row| row["state"] == "running").count();
        assert!(running <= 1, "{job}");
        let listed = std::fs::read_to_string(pids(job)).expect("the runs wrote their numbers");
        let groups: BTreeSet<&str> = listed.lines().collect();
        let alive = |pid: &&&str| std::path::Path::new(&format!("/proc/{pid}")).exists();
        assert!(groups.len() >= 3 && groups.iter().filter(alive).count() <= 1, "{job}: {listed}");
    }
}

#[test]
fn runs_go_on_beside_each_other_up_to_what_the_job_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = busy(folder.path(), |_| "overlap = { limit = 3 }\ncommand = [\"sleep\", \"3600\"]".to_owned());
    let running = |job: &str| {
        let rows = rows(&node, job).into_iter().filter(|row| row["state"] == "running");
        rows.filter_map(|row| row["run"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    for job in PLACEMENTS {
        until("three runs go on", || (running(job).len() == 3).then_some(()));
    }
    // Another job of the node fires on: a fourth fire has come due twice over.
    let ticks = "[[job]]\nname = \"ticks\"\nschedule = \"@every 1s\"\ncommand = [\"true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], ticks).status.success());
    until("two more seconds were fired on", || (rows(&node, "ticks").len() >= 2).then_some(()));
    for job in PLACEMENTS {
        let all = running(job);
        assert_eq!(all.len(), 3, "{job}: a fourth would be one too many");
        let why = node.json(&["explain", "job", job]);
        let told = why.to_string();
        assert!(all.iter().all(|run| told.contains(run.as_str())), "{job}: {told}");
        // The one in the middle is killed, and only that: the next fire takes its place.
        node.ok(&["run", "kill", &all[1]]);
        until("another one goes on", || {
            let now = running(job);
            (now.len() == 3 && !now.contains(&all[1])).then_some(())
        });
        assert!([&all[0], &all[2]].into_iter().all(|run| running(job).contains(run)), "{job}");
    }
}

#[test]
fn a_job_that_follows_its_runs_rests_between_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = "[[job]]\nname = \"rests\"\nschedule = \"@after 2s\"\ncommand = [\"sleep\", \"1.5\"]\n";
    let applied = node.fed(&["job", "apply", "-f", "-"], job);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let ended = until("three runs have ended", || {
        let ended: Vec<Value> =
            rows(&node, "rests").into_iter().filter(|row| row["state"] == "succeeded").collect();
        (ended.len() >= 3).then_some(ended)
    });
    let at = |row: &Value, what: &str| -> i64 {
        let moment: jiff::Timestamp = row[what].as_str().and_then(|at| at.parse().ok()).expect("a moment");
        moment.as_millisecond()
    };
    let mut runs = ended
        .iter()
        .map(|row| ["due", "started", "ended"].map(|what| at(row, what)))
        .collect::<Vec<[i64; 3]>>();
    runs.sort_unstable();
    for pair in runs.windows(2) {
        let ([.., ended], [due, started, _]) = (pair[0], pair[1]);
        assert!((1_900..2_100).contains(&(due - ended)), "two seconds after the end: {runs:?}");
        assert!(started - ended >= 1_900, "and not before: {runs:?}");
    }
    let next = node.ok(&["job", "next", "rests", "--count", "1"]);
    assert!(next.contains("counted from the end of the run before"), "{next}");
}

#[test]
fn what_makes_no_sense_together_is_refused_with_what_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    for (lines, says) in [
        (
            "placement = \"sharded\"\noverlap = \"skip\"",
            "what a shard misses while it runs is settled as catch_up says",
        ),
        ("overlap = { queue = 0 }", "\"skip\" lets nothing wait"),
        ("overlap = { queue = 2 }\ncatch_up = \"skip\"", "leave catch_up out"),
        ("overlap = { limit = 1 }", "one at a time is \"forbid\""),
        (
            "overlap = \"sometimes\"",
            "it takes \"forbid\", \"skip\", \"replace\", \"allow\", { queue = 2 } or { limit = 4 }",
        ),
    ] {
        let job = format!("[[job]]\nname = \"j\"\nschedule = \"@hourly\"\ncommand = [\"true\"]\n{lines}\n");
        let refused = node.fed(&["job", "apply", "-f", "-"], &job);
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.contains(says), "{lines}: {said}");
    }
}
