//! Commands that fail and are attempted again, on real nodes.

use serde_json::Value;

use crate::process::{SHORT_LEASE, ServerProcess, text, until};

/// A job with manual runs only, with these lines of its own.
fn apply(node: &ServerProcess, name: &str, lines: &str) {
    let job = format!("[[job]]\nname = \"{name}\"\nshell = true\n{lines}\n");
    let applied = node.fed(&["job", "apply", "-f", "-"], &job);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
}

/// Runs it once; which run that is.
fn start(node: &ServerProcess, name: &str) -> String {
    until("it is accepted", || {
        let started = node.cli(&["job", "run", name, "-o", "json"]);
        let answer: Value = serde_json::from_slice(&started.stdout).ok()?;
        answer["run"].as_str().map(str::to_owned)
    })
}

/// The attempts of a run: number, state and exit code.
fn attempts(node: &ServerProcess, run: &str) -> Vec<(u64, String, Option<i64>)> {
    let shown = node.json(&["run", "show", run]);
    let list = |name: &str| shown[name].as_array().expect("a list").clone();
    let attempts = list("attempts").into_iter().zip(list("details")).map(|(attempt, detail)| {
        let state = attempt["state"].as_str().expect("a state").to_owned();
        (attempt["attempt"].as_u64().expect("a number"), state, detail["code"].as_i64())
    });
    attempts.collect()
}

/// Waits until the second attempt of a run waits for its moment.
fn wait_for_wait(node: &ServerProcess, run: &str) {
    until("it waits for its second attempt", || {
        let waiting = node.json(&["run", "list", "--state", "waiting"]);
        waiting.as_array()?.iter().any(|row| row["run"] == run && row["attempt"] == 2).then_some(())
    });
}

#[test]
fn a_command_that_fails_twice_succeeds_in_its_third_attempt_and_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.json(&["cluster", "settings", "--beat", "1s"]);
    let runs = ["claimed", "sharded", "dispatched"].map(|placement| {
        let job = format!(
            "placement = \"{placement}\"\ncommand = \"echo $EVENKEEL_ATTEMPT; test $EVENKEEL_ATTEMPT -ge 3 || exit 7\"\n\
             retry = {{ max_retries = 5, delay = \"1s\", max_delay = \"1s\" }}"
        );
        apply(&node, placement, &job);
        (placement, start(&node, placement))
    });
    for (placement, run) in runs {
        assert_eq!(node.cli(&["run", "wait", &run]).status.code(), Some(0), "{placement}");
        let failed = |number| (number, "failed".to_owned(), Some(7));
        let expected = [failed(1), failed(2), (3, "succeeded".to_owned(), Some(0))];
        assert_eq!(attempts(&node, &run), expected, "{placement}");
        assert_eq!(node.ok(&["run", "logs", &run]).trim(), "3");
    }
}

#[test]
fn only_the_codes_that_are_named_are_attempted_again_and_no_oftener_than_declared() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let retry = "retry = { max_retries = 1, delay = \"1s\", exit_codes = [75] }";
    apply(&node, "for-good", &format!("{retry}\ncommand = \"exit 3\""));
    apply(&node, "for-now", &format!("{retry}\ncommand = \"exit 75\""));
    for (job, code, times) in [("for-good", 3, 1), ("for-now", 75, 2)] {
        let run = start(&node, job);
        assert_eq!(node.cli(&["run", "wait", &run]).status.code(), Some(1), "{job}");
        let expected: Vec<_> = (1..=times).map(|n| (n, "failed".to_owned(), Some(code))).collect();
        assert_eq!(attempts(&node, &run), expected);
    }
}

#[test]
fn a_node_that_is_killed_between_two_attempts_leaves_no_doubt_to_its_next_life() {
    // Half of it is the least.
    attempt_after_a_kill("15s", "a");
}

#[test]
#[ignore = "soak: it waits for the end of a killed node's lease"]
fn a_node_that_is_killed_between_two_attempts_leaves_no_doubt_to_another_node() {
    // The lease ends before the second attempt is due.
    attempt_after_a_kill("30s", "b");
}

/// A node is killed while a run waits so long for its second attempt; this one makes it.
fn attempt_after_a_kill(wait: &str, next: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &SHORT_LEASE);
    let job = format!(
        "command = \"test $EVENKEEL_ATTEMPT -ge 2\"\nretry = {{ max_retries = 1, delay = \"{wait}\", max_delay = \"{wait}\" }}"
    );
    apply(&node, "patient", &job);
    let run = start(&node, "patient");
    wait_for_wait(&node, &run);
    node.signal("KILL");
    node.end();
    let node = ServerProcess::serve(folder.path(), next, &[]);
    assert_eq!(node.cli(&["run", "wait", &run]).status.code(), Some(0));
    let expected = [(1, "failed".to_owned(), Some(1)), (2, "succeeded".to_owned(), Some(0))];
    assert_eq!(attempts(&node, &run), expected);
}

#[test]
fn what_waits_is_skipped_aloud_when_its_job_is_disabled() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    apply(
        &node,
        "hopeless",
        "command = \"exit 1\"\nretry = { max_retries = 9, delay = \"1h\", max_delay = \"1h\" }",
    );
    let run = start(&node, "hopeless");
    wait_for_wait(&node, &run);
    let told = node.json(&["explain", "job", "hopeless"]);
    assert!(told.to_string().contains("failed, and its attempt 2 follows from"), "{told}");
    node.ok(&["job", "disable", "hopeless"]);
    node.cli(&["run", "wait", &run]);
    assert_eq!(attempts(&node, &run)[1].1, "skipped");
    let shown = node.ok(&["run", "show", &run]);
    assert!(shown.contains("not attempted again: its job was disabled"), "{shown}");
}

#[test]
fn what_waits_is_ended_by_hand_through_any_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = ["a", "b"].map(|name| ServerProcess::serve(folder.path(), name, &[]));
    let [a, b] = &nodes;
    a.json(&["cluster", "settings", "--beat", "1s"]);
    for placement in ["claimed", "sharded", "dispatched"] {
        let job = format!(
            "placement = \"{placement}\"\ncommand = \"exit 1\"\nretry = {{ max_retries = 9, delay = \"1h\", max_delay = \"1h\" }}"
        );
        apply(a, placement, &job);
        let run = start(a, placement);
        wait_for_wait(a, &run);
        until("it is said to wait", || {
            (a.json(&["explain", "run", &run])["facts"]["state"] == "waiting").then_some(())
        });
        let shown = a.json(&["run", "show", &run]);
        let on_a = shown["attempts"][1]["node"].as_str().expect("a node").starts_with("a@");
        let other = if on_a { b } else { a };
        wait_for_wait(other, &run);
        let said = other.ok(&["run", "kill", &run]);
        assert!(said.contains("is being ended"), "{said}");
        assert_eq!(other.cli(&["run", "wait", &run]).status.code(), Some(1), "{placement}");
        let shown = other.json(&["run", "show", &run]);
        let last = &shown["attempts"][1];
        assert_eq!(last["state"], "skipped", "{placement}: {shown}");
        assert_eq!(last["reason"], "not attempted again: ended by an operator", "{placement}");
        let again = other.cli(&["run", "kill", &run]);
        assert_eq!(again.status.code(), Some(6), "{placement}: {}", text(&again.stderr));
        assert!(text(&again.stderr).contains("has ended already: it is skipped"), "{}", text(&again.stderr));
    }
}

#[test]
fn a_run_that_took_all_its_time_is_not_attempted_again_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.json(&["cluster", "settings", "--beat", "1s"]);
    let placements = ["claimed", "dispatched", "sharded"];
    for placement in placements {
        apply(
            &node,
            placement,
            &format!(
                "placement = \"{placement}\"\nrun_timeout = \"20s\"\n\
                 retry = {{ max_retries = 9, delay = \"1s\", max_delay = \"1s\" }}\n\
                 command = \"test $EVENKEEL_ATTEMPT = 1 || sleep 3600; exit 3\""
            ),
        );
        start(&node, placement);
    }
    for placement in placements {
        let rows = || node.json(&["run", "list", "--job", placement]).as_array().cloned().unwrap_or_default();
        let of = |attempt: u64| rows().into_iter().find(|row| row["attempt"] == attempt);
        let skipped =
            until("the third attempt is given up", || of(3).filter(|row| row["state"] == "skipped"));
        assert_eq!(skipped["reason"], "not attempted again: its run_timeout of 20 s is over", "{placement}");
        let second = of(2).expect("there was a second attempt");
        assert_eq!(second["state"], "timed_out", "{placement}: {second}");
        assert_eq!(of(1).expect("there was a first one")["state"], "failed", "{placement}");
    }
}
