//! Shims that stand by: each start takes one, whatever becomes of it, and none is left behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::guard::{TestGuard, folder};
use crate::process::{lives, signal, until};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("standby::a_run_takes_a_shim_and_its_cgroup", a_run_takes_a_shim_and_its_cgroup),
    (
        "standby::one_that_has_ended_is_replaced_and_starts_nothing",
        one_that_has_ended_is_replaced_and_starts_nothing,
    ),
    ("standby::one_that_ends_with_its_order_is_a_failed_run", one_that_ends_with_its_order_is_a_failed_run),
    ("standby::a_killed_guard_leaves_none_even_with_an_order", a_killed_guard_leaves_none_even_with_an_order),
    ("standby::none_is_left_by_a_guard_that_ends", none_is_left_by_a_guard_that_ends),
    ("standby::an_end_of_a_run_touches_none", an_end_of_a_run_touches_none),
    ("standby::a_long_order_arrives_whole", a_long_order_arrives_whole),
    ("standby::the_files_of_runs_are_not_held_open", the_files_of_runs_are_not_held_open),
    ("standby::a_copy_of_the_guard_writes_no_output", a_copy_of_the_guard_writes_no_output),
];

/// How many stand by.
const READY: usize = 8;

/// Where the unified tree of cgroups is mounted on this host.
fn unified() -> Option<&'static Path> {
    ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .map(Path::new)
        .find(|path| path.join("cgroup.controllers").exists())
}

/// The cgroup of a process in the unified tree.
fn cgroup(pid: i32) -> Option<PathBuf> {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(unified()?.join(path))
}

fn children(guard: &TestGuard) -> Vec<i32> {
    let pid = guard.process.id();
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The children of a guard without these, once there are enough of them and each is in a cgroup that the guard created.
fn shims(guard: &TestGuard, runs: &[i32]) -> Vec<i32> {
    let is_in = |pid: &i32| cgroup(*pid).is_some_and(|dir| dir.display().to_string().contains("/evenkeel-"));
    until("shims stand by", || {
        let all: Vec<i32> = children(guard).into_iter().filter(|pid| !runs.contains(pid)).collect();
        (all.len() == READY && all.iter().all(is_in)).then_some(all)
    })
}

/// A guard that has shims stand by, or `None`, said aloud.
fn able(data: &tempfile::TempDir, test: &str) -> Option<TestGuard> {
    let guard = TestGuard::start(data);
    if let (Some(_), None) = (unified(), &guard.lacking) {
        return Some(guard);
    }
    eprintln!("SKIPPED {test}: no cgroup of version 2 can be created here");
    None
}

/// Stops the shims, and has the guard send an order to one of them.
fn with_an_order(guard: &mut TestGuard) -> Vec<i32> {
    let all = shims(guard, &[]);
    all.iter().for_each(|pid| signal(*pid, Signal::STOP));
    guard.sh("touch $DATA/ran");
    // It answers in the order of its requests.
    guard.trust(600_000, 600_000);
    all
}

fn a_run_takes_a_shim_and_its_cgroup() {
    let data = folder();
    let Some(mut guard) = able(&data, "shims that stand by") else { return };
    let before = shims(&guard, &[]);
    let dirs: BTreeSet<PathBuf> = before.iter().filter_map(|pid| cgroup(*pid)).collect();
    assert_eq!(dirs.len(), READY, "each has a cgroup of its own: {dirs:?}");
    let limit = |start: &mut Value| start["setting"] = json!({"limits": {"together": {"processes": 7}}});
    guard.launch(&["sleep", "600"], limit);
    let one = guard.started();
    guard.launch(&["sleep", "600"], |_| {});
    let other = guard.started();
    assert_eq!([one, other], before[..2], "the one that has stood by longest");
    assert!([one, other].iter().all(|run| dirs.contains(&cgroup(*run).unwrap())));
    let after = shims(&guard, &[one, other]);
    assert!(after.iter().filter(|pid| before.contains(pid)).count() == READY - 2, "two were forked");
    let fresh: BTreeSet<PathBuf> = after.iter().filter_map(|pid| cgroup(*pid)).collect();
    assert!(
        [one, other].iter().all(|run| !fresh.contains(&cgroup(*run).unwrap())),
        "none has a run's cgroup"
    );
}

fn one_that_has_ended_is_replaced_and_starts_nothing() {
    let data = folder();
    let Some(mut guard) = able(&data, "shims that have ended") else { return };
    let all = shims(&guard, &[]);
    // The guard finds the order first, and only then that no shim is there to take it.
    let pid = i32::try_from(guard.process.id()).unwrap();
    signal(pid, Signal::STOP);
    all.iter().for_each(|pid| signal(*pid, Signal::KILL));
    let run = guard.sh("echo once");
    until("they have ended", || all.iter().all(|pid| !lives(*pid)).then_some(()));
    signal(pid, Signal::CONT);
    assert_eq!(guard.ended()["code"], 0);
    assert_eq!(guard.output(&run), "once\n");
    let next = shims(&guard, &[]);
    assert!(next.iter().all(|pid| !all.contains(pid)));
}

fn one_that_ends_with_its_order_is_a_failed_run() {
    let data = folder();
    let Some(mut guard) = able(&data, "shims that end with an order") else { return };
    let all = with_an_order(&mut guard);
    all.iter().for_each(|pid| signal(*pid, Signal::KILL));
    let end = guard.ended();
    assert_eq!((&end["reason"], &end["code"]), (&json!("ended by signal 9 (KILL)"), &Value::Null));
    // One that is still dying could be given the next order, and would fail that run too.
    until("they have ended", || all.iter().all(|pid| !lives(*pid)).then_some(()));
    guard.launch(&["true"], |_| {});
    assert_eq!(guard.ended()["code"], 0, "the other run is answered once, and no other shim did it");
    assert!(!data.path().join("ran").exists());
}

/// proves: I2
fn a_killed_guard_leaves_none_even_with_an_order() {
    let data = folder();
    let Some(mut guard) = able(&data, "a killed guard's shims") else { return };
    let all = with_an_order(&mut guard);
    let dirs: Vec<PathBuf> = all.iter().filter_map(|pid| cgroup(*pid)).collect();
    guard.process.kill().unwrap();
    guard.process.wait().unwrap();
    until("the kernel ends them with their guard", || all.iter().all(|pid| !lives(*pid)).then_some(()));
    assert!(!data.path().join("ran").exists());
    let _next = TestGuard::start(&data);
    assert!(dirs.iter().all(|dir| !dir.exists()), "the next guard removes what they were in");
}

fn none_is_left_by_a_guard_that_ends() {
    let data = folder();
    let Some(mut guard) = able(&data, "shims of a guard that ends") else { return };
    let all = shims(&guard, &[]);
    let dirs: Vec<PathBuf> = all.iter().filter_map(|pid| cgroup(*pid)).collect();
    guard.leave();
    assert!(guard.process.wait().unwrap().success());
    assert!(all.iter().all(|pid| !lives(*pid)));
    assert!(dirs.iter().all(|dir| !dir.exists()));
}

fn an_end_of_a_run_touches_none() {
    let data = folder();
    let Some(mut guard) = able(&data, "shims and orphan processes") else { return };
    guard.sh("until test -e $DATA/go; do sleep 0.01; done; (env -i setsid sleep 600 &)");
    let run = guard.started();
    // Some of them began after the run, and none names another one in its environment.
    let all = shims(&guard, &[run]);
    fs::write(data.path().join("go"), "").unwrap();
    assert_eq!(guard.ended()["code"], 0);
    assert!(all.iter().all(|pid| lives(*pid)));
    guard.launch(&["sleep", "600"], |_| {});
    assert_eq!(guard.started(), all[0]);
}

fn a_long_order_arrives_whole() {
    let data = folder();
    let Some(mut guard) = able(&data, "long orders") else { return };
    // More than a pipe holds, and more than a pipe may be made to hold by a user with few rights.
    for (count, size) in [(1, 100_000), (15, 100_000)] {
        shims(&guard, &[]);
        let run = guard.launch(&["sh", "-c", "env | grep ^LONG | wc -c"], |start| {
            (0..count).for_each(|n| start["environment"][format!("LONG{n:02}")] = json!("x".repeat(size)));
        });
        assert_eq!(guard.ended()["code"], 0);
        let whole = count * (size + "LONG00=\n".len());
        assert_eq!(guard.output(&run).trim(), whole.to_string());
    }
}

fn the_files_of_runs_are_not_held_open() {
    let data = folder();
    let Some(mut guard) = able(&data, "the files of shims") else { return };
    let run = guard.launch(&["sleep", "600"], |_| {});
    let first = guard.started();
    let held = |pid: i32| -> Vec<PathBuf> {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).collect()
    };
    let own = i32::try_from(guard.process.id()).unwrap();
    assert!(held(own).contains(&guard.log(&run)), "the guard writes it");
    for pid in shims(&guard, &[first]) {
        let held = held(pid);
        assert!(!held.iter().any(|file| file.starts_with(data.path())), "{held:?}");
    }
}

fn a_copy_of_the_guard_writes_no_output() {
    let data = folder();
    let Some(mut guard) = able(&data, "shims and output") else { return };
    // More than the guard may keep, so it has to say how much it left out when the run ends.
    let script = "head -c 5000 /dev/zero; until test -e $DATA/go; do sleep 0.01; done";
    let run = guard.launch(&["sh", "-c", script], |start| start["rate"] = json!(100));
    let first = guard.started();
    until("the guard has read it", || (fs::metadata(guard.log(&run)).ok()?.len() >= 1_000).then_some(()));
    for _ in 0..READY {
        guard.launch(&["true"], |_| {});
        assert_eq!(guard.ended()["code"], 0);
    }
    shims(&guard, &[first]);
    fs::write(data.path().join("go"), "").unwrap();
    assert_eq!(guard.ended()["code"], 0);
    let said = guard.output(&run);
    let left_out = said.split('[').filter_map(|note| note.split_once(" bytes came")?.0.parse::<usize>().ok());
    assert_eq!(
        said.matches('\0').count() + left_out.sum::<usize>(),
        5_000,
        "each byte is kept or counted once"
    );
}
