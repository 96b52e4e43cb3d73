//! A cluster's books in other hands, with real nodes: moved from registry to registry, backed up, and restored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::process::{SHORT_LEASE, ServerProcess, evenkeel, run, text, until};
use crate::servers;

/// Each run writes down of which job, for which moment and shard it is, and its token, in one write.
const SCRIPT: &str = r#"printf '%s %s %s %s\n' "$EVENKEEL_JOB" "$EVENKEEL_DUE" "${EVENKEEL_SHARD:-0}" "$EVENKEEL_FENCE" >> "$0""#;
const NAMES: [&str; 2] = ["a", "b"];
/// Of each placement, and how many runs a fire has.
const JOBS: [(&str, &str, usize); 3] =
    [("held", "claimed", 1), ("sent", "dispatched", 1), ("dealt", "sharded", 3)];

/// A job file in which every fire counts, however late.
fn jobs(log: &Path) -> String {
    let argv = ["/bin/sh", "-c", SCRIPT, &log.display().to_string()].map(|arg| format!("{arg:?}")).join(", ");
    let one = |(name, placement, shards): &(&str, &str, usize)| {
        let shards = if *shards > 1 { format!("shards = {shards}\n") } else { String::new() };
        format!(
            "[[job]]\nname = {name:?}\nschedule = \"@every 1s\"\nplacement = {placement:?}\n{shards}misfire_grace = \"10m\"\n\
             catch_up = {{ all = 1000 }}\ncommand = [{argv}]\n"
        )
    };
    JOBS.iter().map(one).collect()
}

/// What ran: of which job, for which moment and shard, with which token.
type RunSet = (String, i64, u32, u64);

fn ran(log: &Path) -> Vec<RunSet> {
    let lines = std::fs::read_to_string(log).unwrap_or_default();
    let of = |line: &str| {
        let mut words = line.split(' ');
        let (job, due) = (words.next()?.to_owned(), words.next()?.parse::<jiff::Timestamp>().ok()?);
        Some((job, due.as_millisecond(), words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    lines.lines().map(|line| of(line).unwrap_or_else(|| panic!("a broken line: {line}"))).collect()
}

/// Waits until each job has run for three more moments than it had.
fn run_on(log: &Path) {
    let moments = || {
        let mut moments: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        ran(log).into_iter().for_each(|(job, due, ..)| _ = moments.entry(job).or_default().insert(due));
        moments
    };
    let before = moments();
    let had = |job: &str| before.get(job).map_or(0, BTreeSet::len);
    until("each job goes on", || {
        let now = moments();
        JOBS.iter().all(|(job, ..)| now.get(*job).is_some_and(|it| it.len() >= had(job) + 3)).then_some(())
    });
}

fn start(folder: &Path, registry: &str) -> Vec<ServerProcess> {
    NAMES.map(|name| ServerProcess::serve(folder, name, &["--registry", registry])).into()
}

/// Stops nodes the polite way.
fn stop(nodes: Vec<ServerProcess>) {
    nodes.iter().for_each(|node| node.signal("TERM"));
    for node in nodes {
        assert_eq!(node.end(), 0, "it ends its runs and gives its jobs back");
    }
}

fn done(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn refused(output: &Output, code: i32, says: &str) {
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
    let why = text(&output.stderr);
    assert!(why.contains(says), "{why}");
}

fn moved(from: &str, to: &str) -> Output {
    run(&["cluster", "move", "--registry", from, "--to", to, "-o", "json"])
}

/// Takes a cluster from each of these registries to the next one, and lets it work at each.
fn journey(stations: &[String]) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("witness.log");
    let mut nodes = start(folder.path(), &stations[0]);
    let applied = nodes[0].fed(&["job", "apply", "-f", "-"], &jobs(&log));
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    run_on(&log);
    let (mut parts, mut generation) = (Vec::new(), 0);
    for leg in stations.windows(2) {
        let (from, to) = (&leg[0], &leg[1]);
        refused(&moved(from, to), 6, "living nodes: a, b");
        stop(nodes);
        parts.push(ran(&log).len());
        let told = done(&moved(from, to));
        let before = std::mem::replace(&mut generation, told["generation"].as_u64().expect("a number"));
        assert!(told["already"] == false && generation > before, "{told}");
        assert_eq!(
            (told["carried"]["jobs"].as_u64(), told["carried"]["open"].as_u64()),
            (Some(3), Some(0)),
            "{told}"
        );
        let mut late = ServerProcess::command(folder.path(), "a", &["--registry", from]);
        refused(&late.output().expect("evenkeel starts"), 1, "this cluster was moved to ");
        assert_eq!(done(&moved(from, to))["already"], true, "moving again changes nothing");
        nodes = start(folder.path(), to);
        run_on(&log);
    }
    let last = ran(&log).into_iter().map(|it| it.1).max().expect("they ran");
    // A node that is behind may have an earlier fire than the others; a fire that it has when it stops is not run before
    // it is started again.
    until("every fire so far has run", || missing(&ran(&log), last).is_empty().then_some(()));
    stop(nodes);
    judge(&ran(&log), &parts);
}

/// What should have run by this moment and has not, from the first moment on of which all is known.
fn missing(ran: &[RunSet], last: i64) -> Vec<(&'static str, i64, u32)> {
    let done: BTreeSet<(&str, i64, u32)> = ran.iter().map(|it| (it.0.as_str(), it.1, it.2)).collect();
    let mut missing = Vec::new();
    for (job, _, shards) in JOBS {
        let first = ran.iter().filter(|it| it.0 == job).map(|it| it.1).min().expect("it ran");
        for due in (first..=last).step_by(1_000) {
            let all = (0..shards as u32).map(|shard| (job, due, shard));
            missing.extend(all.filter(|run| !done.contains(run)));
        }
    }
    missing
}

/// No fire ran twice, and tokens rise from registry to registry.
fn judge(ran: &[RunSet], parts: &[usize]) {
    for (job, ..) in JOBS {
        let of = |ran: &[RunSet]| ran.iter().filter(|it| it.0 == job).cloned().collect::<Vec<_>>();
        let all = of(ran);
        let runs: BTreeSet<(i64, u32)> = all.iter().map(|(_, due, shard, _)| (*due, *shard)).collect();
        assert_eq!(runs.len(), all.len(), "{job}: a fire ran twice: {all:?}");
        for at in parts {
            let tokens = |ran: &[RunSet]| of(ran).into_iter().map(|it| it.3).collect::<Vec<_>>();
            let (before, after) = (tokens(&ran[..*at]), tokens(&ran[*at..]));
            assert!(before.iter().max() < after.iter().min(), "{job}: tokens rise with a move");
        }
    }
}

/// proves: I1, I14
#[test]
fn a_cluster_moves_from_file_to_file_and_every_fire_runs_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    journey(&[file("one.db"), file("two.db"), file("three.db")]);
}

/// proves: I1, I14
#[test]
fn a_cluster_moves_from_engine_to_engine_and_every_fire_runs_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut stations = vec![format!("sqlite:{}", folder.path().join("first.db").display())];
    for engine in ["POSTGRES", "REDIS", "ETCD", "MYSQL", "ZOOKEEPER"] {
        let station = servers::find(engine).map(|url| format!("{url}/move-{}", std::process::id()));
        stations.extend(station);
    }
    stations.push(format!("sqlite:{}", folder.path().join("last.db").display()));
    if stations.len() > 2 {
        journey(&stations);
    }
}

fn restore(registry: &str, file: &Path, more: &[&str]) -> Output {
    let mut command = evenkeel(&["cluster", "restore", "--registry", registry, "-o", "json"]);
    command.arg(file).args(more).output().expect("evenkeel starts")
}

/// Many jobs that never fire.
fn many() -> String {
    (0..1_200).map(|n| format!("[[job]]\nname = \"j{n}\"\ncommand = [\"/bin/true\"]\n")).collect()
}

#[test]
fn a_backup_of_a_cluster_at_work_is_refused_when_it_is_not_whole_and_restored_where_nothing_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, path) = (|name: &str| folder.path().join(name), folder.path());
    let url = |name: &str| format!("sqlite:{}", file(name).display());
    let node = ServerProcess::serve(path, "a", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], &many());
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let backup = file("books.backup");
    let shown = backup.display().to_string();
    let back_up = |more: &[&str]| {
        let mut command =
            evenkeel(&["cluster", "backup", "--registry", &url("registry.db"), "-o", "json", &shown]);
        command.args(more).output().expect("evenkeel starts")
    };
    let told = done(&back_up(&[]));
    assert_eq!(
        (told["carried"]["jobs"].as_u64(), told["generation"].as_u64()),
        (Some(1_200), Some(0)),
        "{told}"
    );
    refused(&back_up(&[]), 6, "--force");
    done(&back_up(&["--force"]));

    let whole = std::fs::read(&backup).expect("it was written");
    std::fs::write(file("half"), &whole[..whole.len() / 2]).expect("written");
    refused(&restore(&url("new.db"), &file("half"), &["--may-repeat-runs"]), 5, "is not whole");
    for says in [
        "--may-repeat-runs",
        "at_least_once: fires run again",
        "at_most_once (the default): nothing of it runs",
    ] {
        refused(&restore(&url("new.db"), &backup, &[]), 6, says);
    }
    refused(&restore(&url("registry.db"), &backup, &["--may-repeat-runs"]), 6, "is not empty");
    assert!(!file("new.db").exists(), "nothing was made of what was refused");

    kill_midway(&url("new.db"), &file("new.db"), &shown);
    let told = done(&restore(&url("new.db"), &backup, &["--may-repeat-runs"]));
    assert_eq!(
        (told["carried"]["jobs"].as_u64(), told["generation"].as_u64()),
        (Some(1_200), Some(1)),
        "{told}"
    );
    let restored = ServerProcess::serve(path, "b", &["--registry", &url("new.db")]);
    assert_eq!(restored.json(&["job", "list"]).as_array().map(Vec::len), Some(1_200));

    let printed = run(&["cluster", "backup", "--registry", &url("new.db"), "-"]);
    assert!(text(&printed.stdout).starts_with("{\"evenkeel_backup\":1,"), "{}", text(&printed.stderr));
    assert!(text(&printed.stderr).contains("is backed up, generation 1"), "{}", text(&printed.stderr));
}

/// Kills a restore as soon as it has written anything, and sees that nobody can join at what it left.
fn kill_midway(url: &str, file: &Path, backup: &str) {
    let mut command = evenkeel(&["cluster", "restore", "--registry", url, "--may-repeat-runs", backup]);
    let mut child = command.stdout(Stdio::null()).spawn().expect("evenkeel starts");
    let entries = || {
        let found =
            rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
        found.query_row("SELECT count(*) FROM entry", (), |row| row.get::<_, i64>(0)).ok()
    };
    while entries().unwrap_or(0) == 0 && child.try_wait().expect("it is ours").is_none() {
        std::thread::yield_now();
    }
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    let left = entries().expect("a file");
    assert!(left > 0);
    if left < 1_200 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut early = ServerProcess::command(folder.path(), "b", &["--registry", url]);
        refused(&early.output().expect("evenkeel starts"), 1, "not all of it is there");
    }
}

/// Jobs that name calendars: one closed, one inside.
const UNDER: &str = r#"
[[calendar]]
name = "freeze"
windows = ["2020-01-01T00:00..2098-01-01T00:00"]

[[calendar]]
name = "weekend"
weekdays = ["sat"]

[[job]]
name = "tick"
schedule = "@every 1s"
exclude_calendars = ["freeze"]
command = ["/bin/true"]

[[job]]
name = "rest"
schedule = "0 12 * * *"
timezone = "Europe/Berlin"
require_calendars = ["weekend"]
exclude_calendars = ["freeze"]
command = ["/bin/true"]
"#;

#[test]
fn calendars_are_carried_with_their_versions_and_still_close_the_jobs_that_name_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, path) = (|name: &str| folder.path().join(name), folder.path());
    let url = |name: &str| format!("sqlite:{}", file(name).display());
    let node = ServerProcess::serve(path, "a", &[]);
    for declared in [UNDER, "[[calendar]]\nname = \"weekend\"\nweekdays = [\"sat\", \"sun\"]\n"] {
        let verb = if declared == UNDER { "job" } else { "calendar" };
        let applied = node.fed(&[verb, "apply", "-f", "-"], declared);
        assert!(applied.status.success(), "{}", text(&applied.stderr));
    }
    // All that is to be seen of them, when each is due, and that nothing ran.
    let seen = |node: &ServerProcess| {
        let calendars = ["freeze", "weekend"].map(|name| node.json(&["calendar", "show", name]));
        let jobs = ["tick", "rest"].map(|name| {
            let shown = node.json(&["job", "show", name, "--details"]);
            (shown["job"].clone(), shown["version"].clone(), node.json(&["job", "next", name]))
        });
        (calendars, jobs, node.json(&["run", "list"]))
    };
    let before = seen(&node);
    assert_eq!(before.0[1]["version"], 2, "{:?}", before.0);
    assert_eq!(before.1[0].2[0], "2098-01-01T00:00:00.000Z", "{:?}", before.1);
    assert_eq!(before.2, Value::Array(Vec::new()));
    let backup = file("books.backup").display().to_string();
    let from = url("registry.db");
    done(&run(&["cluster", "backup", "--registry", &from, "-o", "json", &backup]));
    stop(vec![node]);

    done(&restore(&url("restored.db"), &file("books.backup"), &["--may-repeat-runs"]));
    let restored = ServerProcess::serve(path, "b", &["--registry", &url("restored.db")]);
    assert_eq!(seen(&restored), before, "restored");
    stop(vec![restored]);

    done(&moved(&url("restored.db"), &url("moved.db")));
    let elsewhere = ServerProcess::serve(path, "c", &["--registry", &url("moved.db")]);
    assert_eq!(seen(&elsewhere), before, "moved");
    // They go on from the versions they had, and a calendar that is named is kept.
    let changed = "[[calendar]]\nname = \"weekend\"\nweekdays = [\"sun\"]\n";
    assert_eq!(
        text(&elsewhere.fed(&["calendar", "apply", "-f", "-"], changed).stdout),
        "updated    weekend\n"
    );
    assert_eq!(elsewhere.json(&["calendar", "show", "weekend"])["version"], 3);
    refused(&elsewhere.cli(&["calendar", "delete", "freeze"]), 6, "calendar freeze is named by ");
    stop(vec![elsewhere]);

    // What somebody takes out of the registry by hand is missed.
    let base = rusqlite::Connection::open(file("moved.db")).expect("the registry opens");
    let gone = base.execute("DELETE FROM entry WHERE key = 'calendar/freeze'", []).expect("it is deleted");
    assert_eq!(gone, 1);
    drop(base);
    let told = run(&["cluster", "doctor", "--registry", &url("moved.db"), "-o", "json"]);
    let found: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let finding = found.as_array().expect("a list").iter().find(|it| it["check"] == "calendars");
    let finding = finding.unwrap_or_else(|| panic!("{found:#}"));
    let says = |key: &str, what: &str| finding[key].as_str().is_some_and(|text| text.contains(what));
    assert!(
        finding["ok"] == false && says("found", "freeze by ") && says("fix", "calendar apply"),
        "{finding}"
    );
}

/// A node whose host lost power does not say that it goes, and its lease ends only while another process looks.
#[test]
fn a_cluster_whose_nodes_were_killed_is_moved_once_their_leases_have_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let (from, to) = (url("old.db"), url("new.db"));
    let serve = |name| {
        ServerProcess::serve(folder.path(), name, &[&["--registry", &from][..], &SHORT_LEASE].concat())
    };
    NAMES.map(serve).into_iter().for_each(ServerProcess::lose_power);
    let refused_now = moved(&from, &to);
    refused(&refused_now, 6, "living nodes: a, b");
    refused(&refused_now, 6, "say --wait 1m");
    let waited = ["cluster", "move", "--registry", &from, "--to", &to, "--wait", "1m", "-o", "json"];
    assert_eq!(done(&run(&waited))["done"], "move");
    refused(&run(&["cluster", "move", "--registry", &from, "--to", &to, "--wait", "soon"]), 2, "--wait");
}

#[test]
fn what_ran_before_a_move_is_shown_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let node = ServerProcess::serve(folder.path(), "a", &["--registry", &url("old.db")]);
    let job = "[[job]]\nname = \"says\"\ncommand = [\"/bin/echo\", \"said\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], job).status.success());
    node.ok(&["job", "run", "says", "--request", "r"]);
    node.ok(&["run", "wait", "says:ask-r:0"]);
    stop(vec![node]);
    let told = run(&["cluster", "move", "--registry", &url("old.db"), "--to", &url("new.db")]);
    let said = text(&told.stdout);
    let kept = folder.path().join("new.db-history").display().to_string();
    assert!(told.status.success() && said.contains(&format!("history was copied to {kept}")), "{said}");
    let node = ServerProcess::serve(folder.path(), "a", &["--registry", &url("new.db")]);
    let runs = node.json(&["run", "list"]);
    assert_eq!((&runs[0]["run"], &runs[0]["state"]), (&"says:ask-r:0".into(), &"succeeded".into()), "{runs}");
    assert_eq!(node.ok(&["run", "logs", "says:ask-r:0"]), "said\n");
}
