//! What a whole run may use, and its end: real processes in cgroups of the kernel's. Where this host lets nobody make any, they say so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::guard::{TestGuard, folder};
use crate::process::{lives, until};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("cgroups::a_run_over_its_memory_ends_and_says_so", a_run_over_its_memory_ends_and_says_so),
    ("cgroups::processes_share_one_memory", processes_share_one_memory),
    ("cgroups::a_run_has_no_more_processes_than_it_may", a_run_has_no_more_processes_than_it_may),
    ("cgroups::a_run_keeps_no_more_cores_busy_than_it_may", a_run_keeps_no_more_cores_busy_than_it_may),
    ("cgroups::who_hides_from_its_run_ends_with_it", who_hides_from_its_run_ends_with_it),
    (
        "cgroups::what_hid_from_a_killed_guard_is_ended_by_the_next",
        what_hid_from_a_killed_guard_is_ended_by_the_next,
    ),
    ("cgroups::a_limit_that_cannot_be_kept_is_no_run", a_limit_that_cannot_be_kept_is_no_run),
    ("cgroups::off_means_none_and_no_limit", off_means_none_and_no_limit),
    (
        "cgroups::where_they_are_taken_away_only_limits_are_missed",
        where_they_are_taken_away_only_limits_are_missed,
    ),
];

/// A guard that can bound whole runs, or `None`, said aloud.
fn able(data: &tempfile::TempDir, test: &str) -> Option<TestGuard> {
    let guard = TestGuard::start(data);
    let Some(lacking) = &guard.lacking else { return Some(guard) };
    eprintln!("SKIPPED {test}: {lacking}");
    None
}

fn together(value: Value) -> impl FnOnce(&mut Value) {
    move |start| start["setting"] = json!({"limits": {"together": value}})
}

/// The cgroup in which a process is bounded so, on a host that mounts them where every host does.
fn cgroup(pid: i32, controller: &str) -> PathBuf {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let path = |names: &str| {
        own.lines().find_map(|line| {
            let (found, path) = line.split_once(':')?.1.split_once(':')?;
            found.split(',').any(|name| name == names).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    match path(controller) {
        Some(path) => Path::new("/sys/fs/cgroup").join(controller).join(path),
        None => Path::new("/sys/fs/cgroup").join(path("").unwrap()),
    }
}

/// The number in a file of a cgroup behind this word.
fn number(dir: &Path, file: &str, word: &str) -> Option<u64> {
    let text = fs::read_to_string(dir.join(file)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

fn processes(dir: &Path) -> Vec<i32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap();
    text.lines().map(|pid| pid.parse().unwrap()).collect()
}

fn stop(guard: &mut TestGuard, run: &str) -> Value {
    guard.send(&json!({"stop": {"run": run, "reason": "killed"}}));
    guard.ended()
}

fn a_run_over_its_memory_ends_and_says_so() {
    let data = folder();
    let Some(mut guard) = able(&data, "memory") else { return };
    let hog = ["dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"];
    guard.launch(&hog, together(json!({"memory": "32M"})));
    let end = guard.ended();
    assert_eq!(
        (&end["reason"], &end["code"], &end["stopped"]),
        (&json!("out of memory: over its limit of 32 MiB"), &Value::Null, &Value::Null)
    );
    // Who kills itself was not ended for want of memory, and who has enough just ends.
    guard.launch(&["sh", "-c", "kill -KILL $$"], together(json!({"memory": "32M"})));
    assert_eq!(guard.ended()["reason"], "ended by signal 9 (KILL)");
    guard.launch(&["head", "-c", "1000000", "/dev/zero"], together(json!({"memory": "32M"})));
    assert_eq!((&guard.ended()["code"]), &json!(0));
}

fn processes_share_one_memory() {
    let data = folder();
    let Some(mut guard) = able(&data, "shared memory") else { return };
    // Each of four keeps less than the limit, until no more comes, which is never.
    let script = "for i in 1 2 3 4; do \
                  (head -c 15000000 /dev/zero; exec sleep 600) | (tail -c 15000000; echo ended > $DATA/ended) & done; \
                  while ! test -e $DATA/ended; do sleep 0.01; done; exit 7";
    guard.launch(&["sh", "-c", script], together(json!({"memory": "40M"})));
    let reason = guard.ended()["reason"].as_str().unwrap().to_owned();
    // Version 1 ends one process, and the run goes on as it likes; version 2 ends all.
    let told = "out of memory: over its limit of 40 MiB";
    assert!(reason == told || reason == format!("exit code 7, {told}"), "{reason}");
}

fn a_run_has_no_more_processes_than_it_may() {
    let data = folder();
    let Some(mut guard) = able(&data, "processes") else { return };
    // Each has two more, up to 500: also without a limit no harm is done. A shell that may have no more ends, so the run's
    // first process asks for one only, while it is alone.
    let script = "f() { [ $1 -gt 7 ] && exec sleep 600; f $(($1+1)) & f $(($1+1)) & wait; sleep 600; }; f 0 & wait; exec sleep 600";
    let run = guard.launch(&["sh", "-c", script], together(json!({"processes": 20})));
    let first = guard.started();
    let dir = cgroup(first, "pids");
    until("it wants more than it may", || number(&dir, "pids.events", "max ").filter(|n| *n > 0));
    let all = processes(&dir);
    assert!(all.len() <= 20 && number(&dir, "pids.current", "").unwrap() <= 20, "{all:?}");
    assert_eq!(stop(&mut guard, &run)["stopped"], "killed");
    assert!(all.into_iter().all(|pid| !lives(pid)));
    until("its cgroup is taken away", || (!dir.exists()).then_some(()));
}

fn a_run_keeps_no_more_cores_busy_than_it_may() {
    let data = folder();
    let Some(mut guard) = able(&data, "cores") else { return };
    let busy = ["sh", "-c", "while :; do :; done & while :; do :; done"];
    let run = guard.launch(&busy, together(json!({"cores": 0.2})));
    let dir = cgroup(guard.started(), "cpu");
    until("it was made to wait ten times", || number(&dir, "cpu.stat", "nr_throttled ").filter(|n| *n >= 10));
    let used = number(&dir, "cpu.stat", "usage_usec ").unwrap_or_else(|| {
        let stat = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ticks = |stat: String| -> u64 {
            let fields = stat.rsplit_once(')').map(|(_, fields)| fields.to_owned()).unwrap_or_default();
            fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
        };
        processes(&dir).into_iter().map(|pid| ticks(stat(pid)) * 10_000).sum()
    });
    // Read after what was used: of each tenth of a second, a fifth. What one period borrows of the next is a few milliseconds.
    let periods = number(&dir, "cpu.stat", "nr_periods ").unwrap() + 1;
    assert!(used > 0 && used <= periods * 30_000, "{used} µs in {periods} periods");
    assert_eq!(stop(&mut guard, &run)["stopped"], "killed");
}

/// A session of its own that forked twice, deaf to TERM, of which nothing tells whose it is.
fn hidden(data: &tempfile::TempDir) -> String {
    let pids = data.path().join("pids");
    format!(
        "(env -i setsid sh -c 'exec <&- >&- 2>&-; trap \"\" TERM; echo $$ >> {}; sleep 600; sleep 600' &)",
        pids.display()
    )
}

/// proves: I25, I26
fn who_hides_from_its_run_ends_with_it() {
    let data = folder();
    let Some(mut guard) = able(&data, "hiding") else { return };
    // Two runs that began before the daemons, so that each of these could be of either.
    let script =
        format!("echo up; until test -e $DATA/both; do sleep 0.01; done; {}; exec sleep 600", hidden(&data));
    let one = guard.launch(&["sh", "-c", &script], |_| {});
    guard.started();
    let other = guard.launch(&["sh", "-c", "exec sleep 600"], |_| {});
    guard.started();
    fs::write(data.path().join("both"), "").unwrap();
    let daemon = guard.pids(1)[0];
    assert_eq!(stop(&mut guard, &one)["stopped"], "killed");
    assert!(!lives(daemon), "its run has ended, though another could have started it");
    assert_eq!(stop(&mut guard, &other)["stopped"], "killed");
}

/// proves: I2, I25
fn what_hid_from_a_killed_guard_is_ended_by_the_next() {
    let data = folder();
    let Some(mut guard) = able(&data, "a killed guard") else { return };
    guard.sh(&format!("{}; exec sleep 600", hidden(&data)));
    let daemon = guard.pids(1)[0];
    let own = fs::read_to_string(format!("/proc/{daemon}/cgroup")).unwrap();
    assert!(own.contains("/evenkeel-"), "{own}");
    guard.process.kill().unwrap();
    guard.process.wait().unwrap();
    assert!(lives(daemon), "the kernel ends the run's first process alone");
    let _next = TestGuard::start(&data);
    assert!(!lives(daemon), "before it is ready");
}

fn a_limit_that_cannot_be_kept_is_no_run() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!(
            "SKIPPED a limit that cannot be kept: only root can start a node that may make no cgroups"
        );
    }
    let data = folder();
    fs::set_permissions(data.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut guard = TestGuard::start_with(&data, |command| {
        command.uid(65_534).gid(65_534);
    });
    let lacking = guard.lacking.clone().unwrap();
    assert!(lacking.starts_with("no cgroup for pids, memory, cpu (pids: "), "{lacking}");
    guard.launch(&["true"], together(json!({"memory": "64M"})));
    let end = guard.ended();
    let reason = end["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("limits.together.memory cannot be kept on this node: no cgroup for memory"),
        "{reason}"
    );
    assert!(reason.contains("--cgroups off"), "{reason}");
    assert_eq!((&end["code"], &end["stopped"]), (&Value::Null, &Value::Null));
    guard.launch(&["true"], |_| {});
    assert_eq!(guard.ended()["code"], 0, "who asks for nothing is not held up");
}

/// All cgroups of a process that a guard made, on a host that mounts them where every host does.
fn all_cgroups(pid: i32) -> Vec<PathBuf> {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let ours = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let ours = ours.filter(|(_, path)| path.contains("/evenkeel-"));
    let root = Path::new("/sys/fs/cgroup");
    ours.map(|(names, path)| match names {
        "" if root.join("unified").exists() => root.join("unified").join(&path[1..]),
        names => root.join(names).join(&path[1..]),
    })
    .collect()
}

/// Removes a guard's folder in a tree, with the shims that stand by there.
fn take_away(folder: &Path) {
    until("the folder is taken away", || {
        for dir in fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
            if dir.is_dir() {
                // It may have ended meanwhile.
                let all = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
                for pid in all.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                let _ = fs::remove_dir(dir);
            }
        }
        (fs::remove_dir(folder).is_ok() || !folder.exists()).then_some(())
    });
}

fn where_they_are_taken_away_only_limits_are_missed() {
    let data = folder();
    let Some(mut guard) = able(&data, "cgroups that are gone") else { return };
    let limits = || together(json!({"memory": "64M", "cores": 1, "processes": 50}));
    let run = guard.launch(&["sleep", "600"], limits());
    let all = all_cgroups(guard.started());
    assert!(!all.is_empty());
    assert_eq!(stop(&mut guard, &run)["stopped"], "killed");
    for dir in &all {
        until("the run's own is taken away", || (!dir.exists()).then_some(()));
        take_away(dir.parent().unwrap());
    }
    guard.launch(&["true"], |_| {});
    assert_eq!(guard.ended()["code"], 0, "who asks for nothing is not held up");
    guard.launch(&["true"], limits());
    let end = guard.ended();
    let reason = end["reason"].as_str().unwrap();
    assert!(reason.starts_with("limits.together cannot be set: "), "{reason}");
    assert_eq!(end["code"], Value::Null, "it did not run");
}

fn off_means_none_and_no_limit() {
    let data = folder();
    let mut guard = TestGuard::start_with(&data, |command| {
        command.arg("no-cgroups");
    });
    assert_eq!(guard.lacking, None, "nothing is promised");
    let run = guard.launch(&["cat", "/proc/self/cgroup"], together(json!({"processes": 1, "memory": "1M"})));
    assert_eq!(guard.ended()["code"], 0);
    assert_eq!(guard.output(&run), fs::read_to_string("/proc/self/cgroup").unwrap());
}
