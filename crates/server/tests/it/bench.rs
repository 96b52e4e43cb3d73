//! `evenkeel bench`: its figures are whole, and it leaves nothing behind.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::process::{evenkeel, text, until};

/// Runs it with a temporary folder of its own.
fn bench(temporary: &Path, args: &[&str]) -> Output {
    let mut command = evenkeel(&[&["bench"], args].concat());
    command.env("TMPDIR", temporary).output().expect("evenkeel starts")
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn figure(report: &Value, name: &str) -> f64 {
    let figures = report["figures"].as_array().expect("a list");
    let found = figures.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"));
    found["value"].as_f64().expect("a number")
}

fn entries(folder: &Path) -> Vec<String> {
    let found = std::fs::read_dir(folder).expect("a folder");
    found.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_fire_is_counted_once_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    for nodes in ["1", "3"] {
        let args = ["lateness", "--for", "3s", "--jobs", "5", "--nodes", nodes, "-o", "json"];
        let report = report(&bench(folder.path(), &args));
        assert_eq!(
            (&report["measure"], &report["engine"], &report["class"]),
            (&"lateness".into(), &"sqlite".into(), &"A".into())
        );
        assert!(report["processors"].as_u64().is_some_and(|n| n > 0) && report["at"].is_string(), "{report}");
        let row = &report["spreads"][0];
        assert_eq!(
            (&row["count"], &row["lost"], &row["doubled"]),
            (&15.into(), &0.into(), &0.into()),
            "{report}"
        );
        let [p50, p90, p99, max] =
            ["p50", "p90", "p99", "max"].map(|name| row[name].as_f64().expect("a number"));
        assert!(0.0 < p50 && p50 <= p90 && p90 <= p99 && p99 <= max, "{report}");
        assert_eq!(figure(&report, "fires"), 15.0);
        assert_eq!(entries(folder.path()), [""; 0]);
    }
    let table = bench(folder.path(), &["lateness", "--for", "1s", "--jobs", "1"]);
    let table = text(&table.stdout);
    assert!(
        table.contains("lateness on sqlite (class A): 1 node, 1 job;") && table.contains("P99 MS"),
        "{table}"
    );
}

#[test]
fn a_registry_that_is_named_is_not_touched() {
    let (temporary, named) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let file = named.path().join("registry.db");
    std::fs::write(&file, "of another program").expect("a file");
    let registry = format!("sqlite:{}", file.display());
    let args = ["--registry", &registry, "burst", "--jobs", "20", "-o", "json"];
    let report = report(&bench(temporary.path(), &args));
    let row = &report["spreads"][0];
    assert_eq!(
        (&row["count"], &row["lost"], &row["doubled"]),
        (&20.into(), &0.into(), &0.into()),
        "{report}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "of another program");
    assert_eq!((entries(named.path()), entries(temporary.path())), (vec!["registry.db".to_owned()], vec![]));
}

#[test]
fn a_killed_node_loses_its_jobs_to_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["takeover", "--nodes", "2", "--jobs", "2", "--rounds", "1", "-o", "json"];
    let report = report(&bench(folder.path(), &args));
    let [jobs, rounds] = [0, 1].map(|row| report["spreads"][row]["count"].as_u64());
    assert!(jobs >= Some(1) && rounds == Some(1), "{report}");
    assert_eq!(report["spreads"][0]["doubled"], 0, "{report}");
    assert_eq!(entries(folder.path()), [""; 0]);
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, says) in [
        (&["lateness", "--nodes", "0"][..], "from 1 to 200"),
        (&["burst", "--jobs", "9999999"], "from 1 to 1000000"),
        (&["lateness", "--jobs", "100000", "--for", "1h"], "fewer --jobs or a shorter --for"),
        (&["lateness", "--for", "1500ms"], "whole seconds"),
        (&["lateness", "--for", "soon"], "90s"),
        (&["lateness", "--registry", "oracle://h/x"], "sqlite:PATH"),
        (&["lateness", "--registry", "postgres://u@h"], "postgres://HOST/DATABASE"),
        (&["lateness", "--registry", "sqlite:/no/such/folder/registry.db"], "a folder that you may write to"),
        (&["takeover", "--registry", "memory:"], "several processes"),
        (&["nonsense"], "--help"),
    ] {
        let refused = bench(folder.path(), args);
        let said = text(&refused.stderr);
        assert!(said.contains(says), "{args:?}: {said}");
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {said}");
    }
    // No server listens at port 1.
    let away = bench(folder.path(), &["lateness", "--registry", "redis://127.0.0.1:1/0", "-o", "json"]);
    assert_eq!(away.status.code(), Some(7), "{}", text(&away.stderr));
    assert_eq!(entries(folder.path()), [""; 0]);
}

#[test]
fn an_interrupted_measurement_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = evenkeel(&["bench", "lateness", "--for", "1h"]);
    let mut child = command.env("TMPDIR", folder.path()).spawn().expect("evenkeel starts");
    // Two levels below: the registry in a folder of its own, and a node's data.
    let made = || {
        let all = entries(folder.path());
        let inside = all.first().map_or_else(Vec::new, |first| entries(&folder.path().join(first)));
        (inside.len() >= 2).then_some(())
    };
    until("a registry and a node are there", made);
    let id = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it is ours");
    let ended = until("it ends", || child.try_wait().expect("it is ours"));
    assert_eq!((ended.code(), entries(folder.path())), (Some(1), vec![]));
}
