//! The main job on real input: a crontab is imported, listed with the right next times, and its due jobs run.

use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;
use serde_json::Value;

use crate::process::{ServerProcess, repository, run, text, until};

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
        let (schedule, zone) = (word("schedule"), word("timezone"));
        let right = [next(&schedule, &zone, before), next(&schedule, &zone, now())];
        assert!(right.contains(&word("next")), "{job}: {right:?}");
    }
}

#[test]
fn both_forms_are_imported_and_listed_with_the_right_next_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let system = repository("examples/crontab/system.crontab").display().to_string();
    let user = repository("examples/crontab/user.crontab").display().to_string();
    for (file, created, said) in
        [(system, 4, "it runs as root, which takes"), (user, 19, "@reboot is left out")]
    {
        let import = ["import", "crontab", &file, "--timezone", "Europe/Berlin"];
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
    assert_eq!(opens.expect("it is there")["timezone"], "America/New_York");
}

fn whoami() -> String {
    text(&std::process::Command::new("whoami").output().expect("whoami runs").stdout).trim().to_owned()
}

#[test]
fn a_due_entry_runs_with_its_environment_and_its_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
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
fn twins_keep_their_names_and_what_left_the_crontab_is_said_and_pruned_when_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let play = |times: &[&str]| times.iter().map(|at| format!("{at} * * * true play\n")).collect::<String>();
    let import = |tab: &str, more: &[&str]| {
        let args = ["import", "crontab", "-", "--user", "--prefix", "tab", "--timezone", "UTC"];
        let output = node.fed(&[&args[..], more].concat(), tab);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let jobs = || {
        let jobs = node.json(&["job", "list"]);
        let word = |job: &Value, key: &str| job[key].as_str().unwrap_or_default().to_owned();
        let list = jobs.as_array().expect("a list").iter();
        list.map(|job| (word(job, "schedule"), word(job, "name")))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    import(&play(&["30 6", "0 19", "0 13"]), &[]);
    let three = jobs();
    assert_eq!(three.len(), 3);
    let said = import(&play(&["0 13", "0 19"]), &[]);
    let gone = &three["30 6 * * *"];
    assert!(said.contains(&format!("job {gone} was imported from this crontab before")), "{said}");
    assert_eq!(jobs(), three, "nothing is renamed, and nothing deleted that nobody asked for");
    let said = import(&play(&["0 19"]), &["--prune"]);
    assert!(said.contains(&format!("deleted: job {gone}")), "{said}");
    let one = jobs();
    assert_eq!(one.len(), 1);
    assert_eq!(one["0 19 * * *"], three["0 19 * * *"], "one that is left alone keeps its name as well");
    // A `crontab -l` that failed prints nothing, and an entry that never fires may be the one of a job.
    for (tab, said) in
        [("", "holds no entry"), ("0 19 30 2 * true play\n0 3 * * * true other\n", "an entry is left out")]
    {
        let args = ["import", "crontab", "-", "--user", "--prefix", "tab", "--timezone", "UTC", "--prune"];
        let refused = node.fed(&args, tab);
        assert_eq!(refused.status.code(), Some(6), "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(said), "{}", text(&refused.stderr));
        assert_eq!(jobs()["0 19 * * *"], one["0 19 * * *"], "it stays");
    }
    // Another crontab's jobs are none of this one's affair.
    let said = import("# nothing\n", &[]);
    assert!(said.contains(&one["0 19 * * *"]), "{said}");
    node.ok(&["job", "delete", &one["0 19 * * *"]]);
}

#[test]
fn a_crontab_without_entries_says_so_and_a_manifest_of_kubernetes_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "# nothing\n").expect("written");
    let output = run(&["import", "crontab", &empty.display().to_string(), "--dry-run"]);
    assert_eq!(text(&output.stdout), "the crontab holds no entry to import\n", "{}", text(&output.stderr));
    let manifest = folder.path().join("nightly.yaml");
    let yaml = "kind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: '0 3 * * 7'\n  timeZone: Europe/Berlin\n  \
                jobTemplate: {spec: {template: {spec: {containers: [{image: busybox, command: [date]}]}}}}\n";
    std::fs::write(&manifest, yaml).expect("written");
    let output = run(&["import", "k8s-cronjob", &manifest.display().to_string(), "--dry-run"]);
    let job = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(job.contains("name = \"nightly\"") && job.contains("timezone = \"Europe/Berlin\""), "{job}");
    assert!(
        text(&output.stderr).contains("lost     busybox: the command runs on the node itself"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_job_runs_when_it_is_due_and_knows_what_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
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
