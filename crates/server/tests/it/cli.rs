//! What the command line prints is interface.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::process::{ServerProcess, evenkeel, repository, run, text};

const JOBS: &str = r#"
[[job]]
name = "far"
schedule = "at 2099-01-01T00:00:00"
timezone = "Europe/Berlin"
command = ["/bin/true"]
description = "far away"

[[job]]
name = "by-hand"
command = ["/bin/echo", "done"]

[[job]]
name = "fails"
command = ["/bin/sh", "-c", "echo oh; exit 3"]

[[job]]
name = "off"
schedule = "@every 1h"
command = ["/bin/true"]
enabled = false
"#;

fn node(folder: &std::path::Path) -> ServerProcess {
    let node = ServerProcess::serve(folder, "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    crate::process::until("all are held", || {
        let jobs = node.json(&["job", "list"]);
        let held = jobs.as_array()?.iter().filter(|job| job["owner"] == "a").count();
        (held == 3).then_some(())
    });
    node
}

fn fields(row: &Value) -> Vec<&str> {
    row.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// proves: S1-88
#[test]
fn jobs_are_declared_by_hand_and_shown_as_documented() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    insta::assert_snapshot!("job list", node.ok(&["job", "list"]));
    insta::assert_snapshot!("job list as json", node.ok(&["job", "list", "-o", "json"]));
    let shown = node.ok(&["job", "show", "far"]);
    insta::assert_snapshot!("job show", shown);
    let again = node.fed(&["job", "apply", "-f", "-"], JOBS);
    assert!(text(&again.stdout).ends_with("4 unchanged\n"), "{}", text(&again.stdout));
    let back = node.fed(&["job", "apply", "-f", "-"], &shown);
    assert_eq!(text(&back.stdout), "unchanged  far\n1 unchanged\n", "what is shown can be applied");
    assert_eq!(node.ok(&["job", "next", "far", "--tz", "UTC"]), "Wed 2098-12-31 23:00:00 +00:00 UTC\n");
    assert_eq!(node.ok(&["job", "next", "by-hand"]), "no further fire\n");
}

#[test]
fn fields_are_stable_for_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let run = node.json(&["job", "run", "fails"])["run"].as_str().expect("a run").to_owned();
    node.cli(&["run", "wait", &run]);
    let mut job = ["name", "schedule", "timezone", "placement", "owner", "nodes", "next", "runs", "paused"];
    let mut one =
        ["run", "job", "shard", "due", "node", "attempt", "state", "reason", "started", "ended", "killable"];
    let mut living = [
        "name",
        "held",
        "labels",
        "shards",
        "quota",
        "alarm",
        "draining",
        "drained",
        "cordoned",
        "score",
        "address",
        "offline",
        "cpu",
        "memory",
        "busy",
        "slots",
        "joined",
        "offline_since",
        "state",
        "version",
        "measured",
        "gone_since",
        "left",
        "history",
    ];
    for (list, wanted) in
        [(["job", "list"], &mut job[..]), (["run", "list"], &mut one), (["node", "list"], &mut living)]
    {
        wanted.sort_unstable();
        let rows = node.json(&list);
        assert_eq!(fields(&rows[0]), wanted, "{list:?}");
    }
}

#[test]
fn a_run_by_hand_is_waited_for_read_and_its_end_is_the_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let first = node.json(&["job", "run", "by-hand", "--request", "once"]);
    let twice = node.json(&["job", "run", "by-hand", "--request", "once"]);
    assert_eq!(first["run"], json!("by-hand:ask-once:0"));
    assert_eq!(first["run"], twice["run"], "the same request is one run");
    assert_eq!(node.ok(&["run", "wait", "by-hand:ask-once:0"]), "succeeded\n");
    assert_eq!(node.ok(&["run", "logs", "by-hand:ask-once:0", "--follow"]), "done\n");
    let failed = node.json(&["job", "run", "fails"])["run"].as_str().expect("a run").to_owned();
    let waited = node.cli(&["run", "wait", &failed]);
    assert_eq!(waited.status.code(), Some(1));
    assert_eq!(text(&waited.stdout), "failed: exit code 3\n");
    assert_eq!(node.json(&["run", "list", "--state", "failed"]).as_array().map(Vec::len), Some(1));
    assert_eq!(node.json(&["run", "list", "--job", "by-hand"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn switches_are_seen_and_exit_codes_are_as_documented() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let one = |name: &str| {
        let jobs = node.json(&["job", "list"]);
        jobs.as_array().expect("a list").iter().find(|job| job["name"] == name).cloned()
    };
    let next = one("far").expect("far")["next"].clone();
    node.ok(&["job", "pause", "far"]);
    let paused = one("far").expect("far");
    assert_eq!((&paused["paused"], &paused["next"]), (&json!(true), &Value::Null));
    node.ok(&["job", "resume", "far"]);
    assert_eq!(one("far").expect("far")["next"], next);
    node.ok(&["job", "enable", "off"]);
    node.ok(&["job", "disable", "off"]);
    assert_eq!(node.cli(&["job", "run", "off"]).status.code(), Some(6), "a disabled job is not run");
    node.ok(&["job", "delete", "off"]);
    assert_eq!(one("off"), None);
    for (code, args) in [
        (4, ["job", "show", "off"]),
        (4, ["job", "delete", "off"]),
        (4, ["job", "run", "off"]),
        (4, ["run", "show", "off"]),
        (5, ["run", "kill", "off"]),
        (4, ["run", "show", "off:1:0"]),
        (4, ["node", "drain", "nobody"]),
        (2, ["job", "list", "--colour"]),
        (2, ["node", "drain", "--help-me"]),
    ] {
        assert_eq!(node.cli(&args).status.code(), Some(code), "{args:?}");
    }
}

/// proves: S1-85
#[test]
fn a_person_can_have_everything_claimed() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    assert_eq!(
        node.json(&["job", "claim"]),
        json!({ "claims": 0, "left": 0, "reasons": [] }),
        "all is held already"
    );
    node.ok(&["node", "drain", "a", "--force"]);
    crate::process::until("nothing is held", || (node.json(&["node", "list"])[0]["held"] == 0).then_some(()));
    assert_eq!(node.json(&["node", "list"])[0]["draining"], true);
    node.ok(&["node", "undrain", "a"]);
    node.ok(&["job", "claim"]);
    crate::process::until("all is held again", || {
        (node.json(&["node", "list"])[0]["held"] == 3).then_some(())
    });
}

#[test]
fn the_reference_is_what_the_program_says() {
    let references = [
        ("cli", "docs/cli.md"),
        ("roles", "docs/roles.md"),
        ("openapi", "docs/reference/openapi.json"),
        ("job-schema", "docs/reference/job.schema.json"),
    ];
    for (reference, page) in references {
        let made = run(&["docs", reference]);
        assert!(made.status.success());
        let path = repository(page);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &made.stdout).expect("written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, text(&made.stdout), "{page} drifted: UPDATE=1 cargo test -p evenkeel-server");
    }
}

/// proves: S0-10
#[test]
fn the_page_about_installing_names_commands_and_flags_of_this_program() {
    let page = std::fs::read_to_string(repository("docs/install.md")).expect("the page");
    let reference = text(&run(&["docs", "cli"]).stdout);
    let chapters: Vec<(&str, &str)> = reference
        .split("\n## ")
        .flat_map(|part| part.split("\n### "))
        .filter_map(|part| part.split_once('\n'))
        .collect();
    let flags = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        words.filter(|word| word.len() > 2 && word.starts_with("--")).map(str::to_owned).collect()
    };
    let common =
        chapters.iter().find(|(title, _)| title.starts_with("What every verb takes")).expect("a chapter").1;
    let mut seen = 0;
    // A command line in a block or in a sentence, with the lines that continue it.
    let joined = page.replace("\\\n", " ");
    for line in joined.lines().flat_map(|line| line.split('`')).filter(|line| line.starts_with("evenkeel ")) {
        let verb: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('-')).collect();
        let (_, chapter) =
            chapters.iter().find(|(title, _)| *title == format!("`{}`", verb.join(" "))).expect(line);
        for flag in flags(line) {
            let known = [*chapter, common].iter().any(|text| flags(text).contains(&flag));
            assert!(known, "`{}` has no {flag}", verb.join(" "));
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} flags were found in command lines");
    let others = joined.lines().filter(|line| !line.contains("cargo ")).flat_map(flags);
    let known = flags(&reference);
    let unknown: Vec<String> = others.filter(|flag| !known.contains(flag)).collect();
    assert!(unknown.is_empty(), "the program has no {unknown:?}");
}

#[test]
fn a_schedule_is_tried_out_without_a_node() {
    let output = run(&["job", "next", "--schedule", "0 12 29 2 *", "--count", "1", "--tz", "UTC"]);
    let said = text(&output.stdout);
    assert!(said.contains("-02-29 12:00:00 +00:00 UTC"), "{said}");
    let output = run(&["job", "next", "--schedule", "0 0 31 4 *"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("never fires"), "{}", text(&output.stderr));
    let output = run(&["job", "next", "--schedule", "0 5 * * *", "--schedule", "1,61 * * * *"]);
    let said = text(&output.stderr);
    assert!(said.contains("61 is outside 0-59") && said.contains("1,61 * * * *\n  ^^"), "{said}");
}

#[test]
fn a_fire_at_a_clock_change_says_so() {
    let berlin = ["--timezone", "Europe/Berlin", "--tz", "Europe/Berlin", "--from", "2026-03-29T00:00:00Z"];
    let output = run(&[&["job", "next", "--schedule", "30 2 * * *", "--count", "2"][..], &berlin].concat());
    assert_eq!(
        text(&output.stdout),
        "Sun 2026-03-29 03:00:00 +02:00 CEST  # the clock goes forward and skips the time this stands for\n\
         Mon 2026-03-30 02:30:00 +02:00 CEST\n"
    );
    let json = ["job", "next", "--schedule", "30 2 * * *", "--count", "1", "--notes", "-o", "json"];
    let output = run(&[&json[..], &berlin].concat());
    let said: Value = serde_json::from_str(&text(&output.stdout)).expect("it is JSON");
    assert_eq!(said[0]["due"], "2026-03-29T03:00:00.000+02:00");
    assert!(said[0]["notes"][0].as_str().expect("a note").contains("skips the time"), "{said}");
}

#[test]
fn what_else_a_job_says_of_its_times_is_tried_out_with_its_schedule() {
    let berlin = ["--timezone", "Europe/Berlin", "--tz", "Europe/Berlin", "--from", "2026-03-29T00:00:00Z"];
    let tried = |schedule: &str, more: &[&str]| {
        run(&[&["job", "next", "--schedule", schedule], &berlin[..], more].concat())
    };
    let said = |schedule: &str, more: &[&str]| text(&tried(schedule, more).stdout);
    let shifted = said("30 2 * * *", &["--dst", "shift", "--end-at", "2026-03-31"]);
    assert_eq!(
        shifted,
        "Sun 2026-03-29 03:30:00 +02:00 CEST  # the clock goes forward and skips the time this stands for\n\
         Mon 2026-03-30 02:30:00 +02:00 CEST  # the last one before end_at\n"
    );
    let skipped = said("30 2 * * *", &["--dst", "skip", "--count", "1"]);
    assert_eq!(skipped, "Mon 2026-03-30 02:30:00 +02:00 CEST\n");
    let moved = said("0 5 * * *", &["--name", "report", "--jitter", "10m", "--count", "1"]);
    assert_eq!(
        moved,
        "Sun 2026-03-29 05:09:57 +02:00 CEST  # jitter: 597s later than 2026-03-29T03:00:00.000Z\n"
    );
    let hashed = said("H H(1-4) * * *", &["--name", "sweep", "--count", "1"]);
    assert_eq!(hashed, "Sun 2026-03-29 01:55:00 +01:00 CET\n");
    // As a node does it for a job of that name.
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = "[[job]]\nname = \"sweep\"\nschedule = \"H H(1-4) * * *\"\ntimezone = \"Europe/Berlin\"\n\
               jitter = \"90s\"\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], job).status.success());
    let asked = ["job", "next", "sweep", "--from", "2026-03-29T00:00:00Z", "--tz", "Europe/Berlin"];
    assert_eq!(said("H H(1-4) * * *", &["--name", "sweep", "--jitter", "90s"]), node.ok(&asked));

    for (schedule, more, says) in [
        ("0 5,H * * *", &[][..], "`H` goes by the job's name: say which it is to be with --name"),
        ("0 5 * * *", &["--jitter", "5m"], "--name <JOB>"),
        (
            "0 5 * * *",
            &["--dst", "never"],
            "the value is \"never\": it takes one of \"skip\", \"shift\", \"once\", \"twice\"",
        ),
    ] {
        let refused = tried(schedule, more);
        assert_eq!(refused.status.code(), Some(2), "{schedule} {more:?}");
        assert!(text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
    assert!(tried("@hourly", &["--count", "1"]).status.success(), "no `H` stands in a name");
    let over = tried("0 5 * * *", &["--end-at", "soon"]);
    assert!(text(&over.stderr).contains("end_at `soon`: write a time such as"), "{}", text(&over.stderr));
}

#[test]
fn the_examples_are_job_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let said = node.ok(&["job", "apply", "-f", &repository("examples/jobs").display().to_string()]);
    assert!(said.ends_with("31 created\n"), "{said}");
    // What is shown of a job is a job file of it.
    for name in ["words", "keys", "disk-report", "refresh-prices", "wake-cache", "nightly-report"] {
        let shown = node.ok(&["job", "show", name]);
        let again = node.fed(&["job", "apply", "-f", "-"], &shown);
        let said = text(&again.stdout);
        assert!(said.ends_with("1 unchanged\n"), "{shown}\n{said}{}", text(&again.stderr));
    }
}

#[test]
fn nothing_is_said_to_who_has_read_enough() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut next = evenkeel(&["job", "next", "--schedule", "* * * * *"]);
    let output = next.stdout(writer).output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));

    let folder = tempfile::tempdir().expect("a folder");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut unheard = ServerProcess::command(folder.path(), "a", &[]);
    unheard.env("EVENKEEL_LOG", "warn").stdout(writer).stderr(Stdio::piped());
    let mut unheard = unheard.spawn().expect("it starts");
    let said = BufReader::new(unheard.stderr.take().expect("it is piped"));
    let mut said = said.lines().map_while(Result::ok);
    let greeted = said.any(|line| line.contains("nobody reads standard output"));
    assert!(greeted, "a node that nobody listens to says so");
    let ended = Command::new("kill").args(["-TERM", &unheard.id().to_string()]).status();
    assert!(ended.expect("kill starts").success());
    assert_eq!(unheard.wait().expect("it ends").code(), Some(0), "and is up until it is ended");
}

#[test]
fn pages_hold_everything_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let many: String =
        (0..25).map(|n| format!("[[job]]\nname = \"job-{n:02}\"\ncommand = [\"/bin/true\"]\n")).collect();
    assert!(node.fed(&["job", "apply", "-f", "-"], &many).status.success());
    let get = |path: &str| -> Value {
        let (status, answer) = node.raw(&format!("GET /api/v1/{path} HTTP/1.1\nHost: {}", node.address), b"");
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("it is JSON")
    };
    let pages = |list: &str, turn: &str| {
        let (mut ids, mut path) = (Vec::new(), format!("{list}?limit=10"));
        loop {
            let page = get(&path);
            let rows = page[list].as_array().expect("rows");
            ids.extend(rows.iter().map(|row| row.get("run").unwrap_or(&row["name"]).to_string()));
            let Some(at) = page[turn].as_str() else { return ids };
            assert_eq!(rows.len(), 10, "only the last page is short");
            path = format!("{list}?limit=10&{turn}={at}");
        }
    };
    let mut jobs = pages("jobs", "after");
    assert!(jobs.is_sorted(), "in the order of their names");
    jobs.dedup();
    assert_eq!(jobs.len(), 25);
    for n in 0..25 {
        node.ok(&["job", "run", "job-00", "--request", &format!("r{n}")]);
    }
    let mut runs = crate::process::until("all have run", || {
        let runs = pages("runs", "before");
        (runs.len() == 25).then_some(runs)
    });
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 25);
}
