//! Shadows: jobs that are scheduled, placed and recorded and execute nothing, and the comparison with another scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::collector::server;
use crate::process::{ServerProcess, text, until};

const REASON: &str = "shadow: nothing was executed";

/// A job of each placement and kind of work, with a fire each second.
fn jobs(marks: &Path, monitor: &str) -> String {
    let command = |name: &str, more: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\nschedule = \"* * * * * ?\"\nshadow = true\ncommand = [\"touch\", \"{}\"]\n{more}\n",
            marks.join(name).display()
        )
    };
    let beat = format!("notify = {{ heartbeat = \"http://{monitor}/ping\" }}");
    command("claimed", &beat)
        + &command("sharded", "placement = \"sharded\"\nshards = 2")
        + &command("broadcast", "placement = \"broadcast\"")
        + &command("dispatched", "placement = \"dispatched\"")
        + &format!(
            "[[job]]\nname = \"request\"\nschedule = \"* * * * * ?\"\nshadow = true\nhttp = {{ url = \"http://{monitor}/work\" }}\n"
        )
}

/// The states and reasons of the latest runs of a job that have started.
fn ended(node: &ServerProcess, job: &str) -> Vec<(String, String)> {
    let runs = node.json(&["run", "list", "--job", job]);
    let runs = runs.as_array().expect("runs").iter().filter(|run| run["ended"].is_string());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    runs.map(|run| (text(&run["state"]), text(&run["reason"]))).collect()
}

#[test]
fn a_shadow_of_each_placement_is_recorded_and_executes_nothing_until_it_is_made_real() {
    let folder = tempfile::tempdir().expect("a folder");
    let marks = tempfile::tempdir().expect("a folder");
    let (monitor, requests) = server();
    let node = ServerProcess::serve(folder.path(), "a", &["--http-allow", "127.0.0.1"]);
    let file = jobs(marks.path(), &monitor.to_string());
    let applied = node.fed(&["job", "apply", "-f", "-"], &file);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let names = ["claimed", "sharded", "broadcast", "dispatched", "request"];
    for job in names {
        until("it is due three times", || (ended(&node, job).len() >= 3).then_some(()));
        let found: BTreeSet<(String, String)> = ended(&node, job).into_iter().collect();
        assert_eq!(found, [("skipped".to_owned(), REASON.to_owned())].into(), "{job}");
    }
    let listed = node.json(&["job", "list"]);
    assert!(listed.as_array().expect("jobs").iter().all(|job| job["shadow"] == true), "{listed}");
    assert!(node.ok(&["job", "list"]).contains("(shadow)"));
    let asked = node.cli(&["job", "run", "claimed"]);
    assert!(text(&asked.stderr).contains("job claimed is a shadow"), "{}", text(&asked.stderr));
    let run = text(&asked.stdout).lines().next().expect("a run").to_owned();
    let waited = node.cli(&["run", "wait", &run]);
    assert!(!waited.status.success(), "it did not succeed");
    let shown = node.ok(&["run", "show", &run]);
    assert!(shown.contains("skipped") && shown.contains(REASON), "{shown}");
    let said = node.cli(&["report", "--since", "10m", "--all", "-o", "json"]);
    let report: Value = serde_json::from_slice(&said.stdout).expect("a report");
    assert_eq!((&report["counts"]["ran"], &report["counts"]["failed"]), (&0.into(), &0.into()), "{report}");
    assert_eq!(report["counts"]["unaccounted"], 0, "{report}");
    assert_eq!(std::fs::read_dir(marks.path()).expect("a folder").count(), 0, "a command ran");
    assert!(requests.try_recv().is_err(), "a request was made, or a heartbeat sent");
    let real = node.fed(&["job", "apply", "-f", "-"], &file.replace("shadow = true\n", ""));
    assert!(real.status.success(), "{}", text(&real.stderr));
    for job in &names[..4] {
        until("it runs", || marks.path().join(job).exists().then_some(()));
    }
}

/// When the fires of a job started here.
fn starts(node: &ServerProcess, job: &str) -> Vec<jiff::Timestamp> {
    let runs = node.json(&["run", "list", "--job", job, "--limit", "1000"]);
    let starts = runs.as_array().expect("runs").iter().filter(|run| run["ended"].is_string());
    let mut starts: Vec<jiff::Timestamp> =
        starts.map(|run| run["started"].as_str().expect("a start").parse().expect("a moment")).collect();
    starts.sort();
    starts
}

fn compared(node: &ServerProcess, file: &Path, more: &[&str]) -> (Value, i32, String) {
    let file = file.display().to_string();
    let words = ["report", "--against", &file, "--tolerance", "1s", "--timezone", "UTC", "-o", "json"];
    let said = node.cli(&[&words[..], more].concat());
    let found = serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
    (found, said.status.code().expect("it ends"), text(&said.stderr))
}

#[test]
fn a_comparison_finds_what_the_other_scheduler_missed_and_what_it_ran_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = |name: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\nschedule = \"*/3 * * * * ?\"\nshadow = true\ncommand = [\"false\"]\n"
        )
    };
    let applied = node.fed(&["job", "apply", "-f", "-"], &(job("one") + &job("two")));
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    until("both are due some times", || {
        (starts(&node, "one").len() >= 4 && starts(&node, "two").len() >= 4).then_some(())
    });
    let (one, two) = (starts(&node, "one"), starts(&node, "two"));
    let rows = |fires: &[(&str, jiff::Timestamp)]| {
        let lines = fires.iter().map(|(job, at)| format!("{job},{at}\n"));
        std::iter::once("job,time\n".to_owned()).chain(lines).collect::<String>()
    };
    let span = |from: jiff::Timestamp, to: jiff::Timestamp| {
        let millis = jiff::SignedDuration::from_millis(500);
        [(from - millis).to_string(), (to + millis).to_string()]
    };
    let [since, until] = span(one[0].min(two[0]), one[3].max(two[3]));
    let between = ["--since", &since, "--until", &until];
    let same: Vec<(&str, jiff::Timestamp)> =
        one[..4].iter().map(|at| ("one", *at)).chain(two[..4].iter().map(|at| ("two", *at))).collect();
    let file = folder.path().join("rival.csv");
    std::fs::write(&file, rows(&same)).expect("written");
    let (found, code, said) = compared(&node, &file, &between);
    assert_eq!((code, &found["counts"]["both"]), (0, &8.into()), "{found} {said}");
    assert_eq!(found["counts"]["worst_ms"], 0, "{found}");

    let mut other = same.clone();
    other.remove(1);
    other.insert(3, ("one", one[3] + jiff::SignedDuration::from_millis(200)));
    other.push(("gone", one[2]));
    std::fs::write(&file, rows(&other) + "two,never\n").expect("written");
    let (found, code, said) = compared(&node, &file, &between);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("line 11: ") && said.contains("never"), "{said}");
    assert!(said.contains("1 fire is only here, 2 fires are only there, 1 record cannot be read"), "{said}");
    let jobs: BTreeMap<String, &Value> = found["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| (job["there"][0].as_str().expect("a name").to_owned(), job))
        .collect();
    let sides = |job: &str| {
        let fires = jobs[job]["fires"].as_array().expect("fires");
        fires.iter().map(|fire| fire["side"].as_str().expect("a side")).collect::<Vec<_>>()
    };
    assert_eq!(sides("one"), ["only_here", "only_there"], "{found}");
    let missed = jobs["one"]["fires"][0]["here"].as_str().expect("a moment");
    assert_eq!(missed.parse::<jiff::Timestamp>().expect("a moment"), one[1], "{found}");
    assert_eq!(jobs["one"]["fires"][0]["outcome_here"], "shadow", "{found}");
    assert_eq!((sides("two"), sides("gone")), (Vec::new(), vec!["only_there"]), "{found}");
    let (found, code, _) = compared(&node, &file, &[&between[..], &["--job", "two", "--all"]].concat());
    assert_eq!((code, found["counts"]["both"].as_u64()), (1, Some(4)), "the bad record counts: {found}");
    assert_eq!(found["jobs"].as_array().map(Vec::len), Some(1), "{found}");

    let table = node.cli(&["report", "--against", &file.display().to_string(), "--since", &since]);
    let table = text(&table.stdout);
    assert!(table.contains("only here") && table.contains("3 jobs from "), "{table}");
    let wrong = node.cli(&["report", "--against", &file.display().to_string(), "--job", "none"]);
    assert_eq!(wrong.status.code(), Some(4), "{}", text(&wrong.stderr));
}

#[test]
fn jobs_are_imported_as_shadows_and_the_same_import_makes_them_real() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let mark = folder.path().join("mark");
    let crontab = folder.path().join("nightly");
    std::fs::write(&crontab, format!("* * * * * * touch {}\n", mark.display())).expect("written");
    let crontab = crontab.display().to_string();
    let import = ["import", "crontab", &crontab, "--user", "--seconds", "--timezone", "UTC"];
    let shadow = [&import[..], &["--shadow"]].concat();
    node.ok(&shadow);
    let name = node.json(&["job", "list"])[0]["name"].as_str().expect("a job").to_owned();
    until("it is due", || (!ended(&node, &name).is_empty()).then_some(()));
    assert!(node.ok(&shadow).contains("1 unchanged"));
    assert!(node.ok(&["job", "show", &name, "-o", "toml"]).contains("shadow = true"));
    assert!(!mark.exists(), "the command ran");

    // Another scheduler runs the command at the same moments, and logs it as cron does.
    let began = starts(&node, &name);
    let line = |at: &jiff::Timestamp| format!("{at} host CRON[7]: (root) CMD (touch {})\n", mark.display());
    let log = folder.path().join("syslog");
    std::fs::write(&log, began.iter().map(line).collect::<String>()).expect("written");
    let (found, _, said) =
        compared(&node, &log, &["--since", &(began[0] - jiff::SignedDuration::from_millis(500)).to_string()]);
    assert_eq!(found["jobs"][0]["names"][0], name.as_str(), "{found} {said}");
    assert_eq!(found["counts"]["only_there"], 0, "{found}");
    assert_eq!(found["counts"]["both"].as_u64(), Some(began.len() as u64), "{found}");

    node.ok(&import);
    until("it runs", || mark.exists().then_some(()));
    let rows = folder.path().join("rows.sql");
    std::fs::write(&rows, "INSERT INTO xxl_job_info (id, job_desc, schedule_type, schedule_conf, glue_type, glue_source) VALUES (5, 'd', 'CRON', '0 0 0 * * ?', 'GLUE_SHELL', 'exit 1');").expect("written");
    node.ok(&["import", "xxl-job", &rows.display().to_string(), "--timezone", "UTC", "--shadow"]);
    assert_eq!(node.json(&["job", "show", "xxl-job-5"])["job"][0]["shadow"], true);
}
