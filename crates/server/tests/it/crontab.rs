//! The main job on real input: a crontab is imported, listed with the right next times, and its due jobs run.

use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;
use serde_json::Value;

use crate::process::{Node, repository, text, until};

fn next(schedule: &str, zone: &str, after: Wall) -> String {
    let zone = if zone == "UTC" { "" } else { zone };
    let schedule = Schedule::parse(schedule, zone).expect("it is a schedule");
    schedule.next(after).expect("it has a next fire").to_string()
}

fn now() -> Wall {
    evenkeel::clock::now().wall
}

/// Every job's next fire is what its schedule says, whether a fire passed while the list was asked for or not.
fn check(jobs: &Value, before: Wall) {
    for job in jobs.as_array().expect("a list") {
        let word = |field: &str| job[field].as_str().unwrap_or_default().to_owned();
        let (schedule, zone) = (word("schedule"), word("zone"));
        let right = [next(&schedule, &zone, before), next(&schedule, &zone, now())];
        assert!(right.contains(&word("next")), "{job}: {right:?}");
    }
}

#[test]
fn both_forms_are_imported_and_listed_with_the_right_next_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::serve(folder.path(), "a", &[]);
    let system = repository("examples/crontab/system.crontab").display().to_string();
    let user = repository("examples/crontab/user.crontab").display().to_string();
    for (file, created, said) in [(system, 4, "cron runs it as"), (user, 19, "@reboot is left out")] {
        let import = ["import", "crontab", &file, "--zone", "Europe/Berlin"];
        let output = node.cli(&import);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).ends_with(&format!("{created} created\n")), "{}", text(&output.stdout));
        let remarks = text(&output.stderr);
        assert!(remarks.contains(said) || whoami() == "root", "{remarks}");
        let again = node.ok(&import);
        assert!(
            again.ends_with(&format!("{created} unchanged\n")),
            "importing twice changes nothing: {again}"
        );
    }
    let before = now();
    let jobs = node.json(&["job", "list"]);
    assert_eq!(jobs.as_array().map(Vec::len), Some(23));
    check(&jobs, before);
    let opens = &jobs.as_array().expect("a list").iter().find(|job| job["name"] == "user-market-opens");
    assert_eq!(opens.expect("it is there")["zone"], "America/New_York");
}

fn whoami() -> String {
    text(&std::process::Command::new("whoami").output().expect("whoami runs").stdout).trim().to_owned()
}

#[test]
fn a_due_entry_runs_with_its_environment_and_its_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::serve(folder.path(), "a", &[]);
    let out = folder.path().join("out");
    let out = out.display();
    let tab = format!(
        "GREETING = \"good  morning\"\nMAILTO=me\n* * * * * cat >> {out}; echo \"$GREETING\" >> {out}%one%two\n"
    );
    let output = node.fed(&["import", "crontab", "-", "--user", "--prefix", "tab"], &tab);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("line 2: MAILTO is left out"), "{}", text(&output.stderr));
    let name = node.json(&["job", "list"])[0]["name"].as_str().expect("a name").to_owned();
    // It is due within a minute; asking for it now runs the same command.
    let run = node.ok(&["job", "run", &name]);
    node.ok(&["run", "wait", run.lines().next().expect("the run")]);
    let written = until("it wrote", || std::fs::read_to_string(folder.path().join("out")).ok());
    assert!(written.starts_with("one\ntwo\ngood  morning\n"), "{written}");
}

#[test]
fn a_job_runs_when_it_is_due_and_knows_what_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::serve(folder.path(), "a", &[]);
    let jobs = "[[job]]\nname = \"tick\"\nschedule = \"* * * * * *\"\ncommand = [\"/usr/bin/env\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    let run = until("a fire has run", || {
        let runs = node.json(&["run", "list", "--job", "tick", "--state", "succeeded"]);
        runs.as_array().and_then(|runs| runs.first().cloned())
    });
    let (id, due) = (run["run"].as_str().expect("an id"), run["due"].as_str().expect("a moment"));
    let said = node.ok(&["run", "logs", id]);
    for (name, value) in [
        ("EVENKEEL_JOB", "tick"),
        ("EVENKEEL_RUN", id),
        ("EVENKEEL_DUE", due),
        ("EVENKEEL_SHARD", "0"),
        ("EVENKEEL_SHARDS", "1"),
        ("EVENKEEL_PARAMETER", ""),
        ("EVENKEEL_JOB_PARAMETER", ""),
        ("EVENKEEL_ATTEMPT", "1"),
        ("EVENKEEL_IDEMPOTENCY_KEY", id),
        ("EVENKEEL_NODE", "a"),
    ] {
        assert!(said.lines().any(|line| line == format!("{name}={value}")), "{name}: {said}");
    }
    let fence = said.lines().find_map(|line| line.strip_prefix("EVENKEEL_FENCE=")).expect("a token");
    assert!(fence.parse::<u64>().is_ok_and(|token| token > 0), "{fence}");
}
