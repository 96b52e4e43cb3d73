//! Output of runs: searched from any node, saved as a file, and kept no faster than it may come.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::process::{SHORT_LEASE, ServerProcess, millis, text, until};

/// A job that writes two lines that can be found, and much between them.
const TALK: &str = "[[job]]\nname = \"talk\"\ncommand = [\"/bin/sh\", \"-c\", \
                    \"echo one; echo a needle; head -c 200000 /dev/zero | tr '\\\\0' x; echo; printf 'last needle'\"]\n";

/// Runs a job by hand to its end.
fn run(node: &ServerProcess, job: &str) -> String {
    let run = node.json(&["job", "run", job])["run"].as_str().expect("a run").to_owned();
    node.ok(&["run", "wait", &run]);
    run
}

#[test]
fn lines_are_found_from_any_node_in_one_run_and_in_a_jobs_latest() {
    let folder = tempfile::tempdir().expect("a folder");
    let far = ServerProcess::serve(folder.path(), "far", &SHORT_LEASE);
    assert!(far.fed(&["job", "apply", "-f", "-"], TALK).status.success());
    until("far holds it", || (far.json(&["job", "list"])[0]["owner"] == "far").then_some(()));
    let (first, second) = (run(&far, "talk"), run(&far, "talk"));
    let near = ServerProcess::serve(folder.path(), "near", &[]);
    until("near sees both", || (near.json(&["node", "list"]).as_array()?.len() == 2).then_some(()));
    for node in [&far, &near] {
        assert_eq!(node.ok(&["run", "logs", &first, "--grep", "needle"]), "a needle\nlast needle\n");
        assert_eq!(node.ok(&["run", "logs", &first, "--grep", "nothing"]), "");
        let of = |run: &str| format!("{run}#1: a needle\n{run}#1: last needle\n");
        let latest = node.ok(&["job", "logs", "talk", "--grep", "needle", "--runs", "1"]);
        assert_eq!(latest, of(&second), "the latest first");
        let both = node.ok(&["job", "logs", "talk", "--grep", "needle"]);
        assert_eq!(both, of(&second) + &of(&first));
    }
    for (args, code, why) in [
        (&["run", "logs", &first, "--grep", ""][..], 5, "grep is 0 bytes"),
        (&["run", "logs", &first, "--tail", "0"], 5, "tail is 0, allowed are 1 to 10000"),
        (&["run", "logs", &first, "--tail", "10001"], 5, "tail is 10001, allowed are 1 to 10000"),
        (&["job", "logs", "talk", "--grep", "a\nb"], 5, "of one line"),
        (&["job", "logs", "nobody", "--grep", "a"], 4, "nobody"),
    ] {
        let refused = near.cli(args);
        let said = text(&refused.stderr);
        assert!(
            refused.status.code() == Some(code) && said.contains(why),
            "{args:?}: {:?} {said}",
            refused.status
        );
    }
    // What only a node has that is away is not taken for empty.
    drop(far);
    until("far is gone", || (near.living().len() == 1).then_some(()));
    let away = near.ok(&["job", "logs", "talk", "--grep", "needle", "--runs", "1"]);
    assert_eq!(away, format!("{second}#1: [its output cannot be read: node far is away]\n"));
}

#[test]
fn the_last_lines_come_from_any_node_and_what_follows_them_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let far = ServerProcess::serve(folder.path(), "far", &SHORT_LEASE);
    let count = "[[job]]\nname = \"count\"\ncommand = [\"/bin/sh\", \"-c\", \
                 \"seq 40000; while [ ! -e go ]; do sleep 0.1; done; echo end\"]\n";
    let declared = format!("{TALK}{count}directory = \"{}\"\n", folder.path().display());
    assert!(far.fed(&["job", "apply", "-f", "-"], &declared).status.success());
    until("far holds both", || {
        let jobs = far.json(&["job", "list"]);
        jobs.as_array()?.iter().all(|job| job["owner"] == "far").then_some(())
    });
    let talked = run(&far, "talk");
    let counting = far.json(&["job", "run", "count"])["run"].as_str().expect("a run").to_owned();
    let near = ServerProcess::serve(folder.path(), "near", &[]);
    until("near sees both", || (near.json(&["node", "list"]).as_array()?.len() == 2).then_some(()));
    until("it has counted", || far.ok(&["run", "logs", &counting]).ends_with("\n40000\n").then_some(()));
    let long = format!("a needle\n{}\nlast needle", "x".repeat(200_000));
    for node in [&far, &near] {
        let tail = |run: &str, lines: &str| node.ok(&["run", "logs", run, "--tail", lines]);
        assert_eq!(tail(&talked, "1"), "last needle");
        assert_eq!(tail(&talked, "3"), long);
        assert_eq!(tail(&talked, "10000"), format!("one\n{long}"));
        assert_eq!(node.ok(&["run", "logs", &talked, "--tail", "2", "--grep", "needle"]), "last needle\n");
        assert_eq!(tail(&counting, "2"), "39999\n40000\n");
        assert_eq!(tail(&counting, "10000").lines().next(), Some("30001"));
        let path = format!("/api/v1/runs/{talked}/logs?tail=1&offset=0");
        let (status, answer) = node.raw(&format!("GET {path} HTTP/1.1\nHost: {}", node.address), b"");
        assert!(status == 400 && answer.contains("exclude each other"), "{answer}");
    }
    let follow = |node: &ServerProcess| {
        let mut client = node.client(&["run", "logs", &counting, "--tail", "1", "--follow"]);
        let mut client = client.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut printed = BufReader::new(client.stdout.take().expect("it is piped"));
        let mut first = String::new();
        printed.read_line(&mut first).expect("a line");
        assert_eq!(first, "40000\n");
        (client, printed)
    };
    let following = [follow(&far), follow(&near)];
    fs::write(folder.path().join("go"), "").expect("written");
    for (mut client, mut printed) in following {
        let mut rest = String::new();
        printed.read_to_string(&mut rest).expect("the rest");
        assert_eq!(rest, "end\n");
        assert!(client.wait().expect("it ends").success());
    }
}

#[test]
fn output_is_saved_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], TALK).status.success());
    let run = run(&node, "talk");
    let file = folder.path().join("saved.log");
    let path = file.display().to_string();
    assert_eq!(node.ok(&["run", "logs", &run, "--save", &path]), "");
    let whole = format!("one\na needle\n{}\nlast needle", "x".repeat(200_000));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), whole);
    let (status, answer) =
        node.raw(&format!("GET /api/v1/runs/{run}/logs?download=true HTTP/1.1\nHost: {}", node.address), b"");
    let name = format!("content-disposition: attachment; filename=\"{}.1.log\"\r\n", run.replace(':', "_"));
    assert!(
        status == 200 && answer.contains(&name),
        "{}",
        answer.split("\r\n\r\n").next().unwrap_or_default()
    );

    let none = folder.path().join("none.log").display().to_string();
    assert!(!node.cli(&["run", "logs", "talk:1:0", "--save", &none]).status.success());
    assert!(!node.cli(&["run", "logs", &run, "--save", "/nowhere/file"]).status.success());
    let left: Vec<String> = fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains(".log"))
        .collect();
    assert_eq!(left, ["saved.log"]);
}

/// proves: I47
#[test]
fn a_node_keeps_output_no_faster_and_no_more_of_it_than_it_is_told() {
    let said = |more: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        let node = ServerProcess::serve(folder.path(), "a", more);
        assert!(node.fed(&["job", "apply", "-f", "-"], TALK).status.success());
        node.ok(&["run", "logs", &run(&node, "talk")])
    };
    let most = said(&["--output-rate", "100", "--output-max", "600"]);
    let (first, last) = most.split_once("\n[").expect("a mark where it is cut");
    assert_eq!(first, format!("one\na needle\n{}", "x".repeat(300 - 13)));
    let (mark, last) = last.split_once("]\n").expect("a mark");
    assert!(mark.ends_with(" bytes in the middle are not kept"), "{most}");
    assert!(last.ends_with("\nlast needle") && last.len() <= 300, "{last}");
    let begun = millis();
    let slow = said(&["--output-rate", "100"]);
    let most = 1_000 + usize::try_from((millis() - begun) / 10).expect("a clock that does not step");
    let (slow, last) = slow.rsplit_once("]\n").expect("a mark where it is cut");
    assert!(last.ends_with("last needle"), "the end is kept");
    let kept = slow.matches('x').count();
    assert!((1000 - 13..=most).contains(&kept), "ten seconds' worth, and what came meanwhile: {kept}");
    assert!(slow.ends_with(" bytes came faster than 100 a second and are not kept"), "{slow}");
}
