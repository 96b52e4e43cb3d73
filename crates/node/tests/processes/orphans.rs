//! Processes that leave their run's group: whatever they do, they end with their run.

use evenkeel::AttemptState;
use evenkeel::core::job::Delivery;
use rustix::process::Signal;
use serde_json::json;

use crate::guard::{TestGuard, folder};
use crate::node::{LEASE, cluster, config, parent, runtime, sleeper, wait_for};
use crate::process::{lives, pids, signal, until};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("strays::after_a_kill_no_process_of_the_run_is_left", after_a_kill_no_process_of_the_run_is_left),
    ("strays::a_daemon_is_asked_first_and_ends_with_its_run", a_daemon_is_asked_first_and_ends_with_its_run),
    ("strays::who_wipes_its_environment_is_found", who_wipes_its_environment_is_found),
    ("strays::they_end_at_the_deadline_too", they_end_at_the_deadline_too),
    ("strays::the_strays_of_a_killed_guard_are_ended", the_strays_of_a_killed_guard_are_ended),
];

/// A session of its own, forked twice, every pipe closed, deaf to TERM, with a child.
const DAEMON: &str = "(setsid sh -c 'exec <&- >&- 2>&-; trap \"\" TERM; echo $$ >> $DATA/pids; \
                      sleep 600 & echo $! >> $DATA/pids; sleep 600' &)";

/// The processes of a guard that have not been reaped.
fn children(guard: &TestGuard) -> String {
    let pid = guard.process.id();
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}

/// A guard that finds strays by what it sees of them, as where nobody can make cgroups.
fn alone(data: &tempfile::TempDir) -> TestGuard {
    TestGuard::start_with(data, |command| {
        command.arg("no-cgroups");
    })
}

fn stop(guard: &mut TestGuard, run: &str) {
    guard.send(&json!({"stop": {"run": run, "reason": "killed"}}));
}

/// proves: I25, I26
fn after_a_kill_no_process_of_the_run_is_left() {
    let data = folder();
    let mut guard = alone(&data);
    let script = format!(
        "{DAEMON}; setsid sh -c 'echo $$ >> $DATA/pids; exec sleep 600' & \
         sh -c 'echo $$ >> $DATA/pids; exec sleep 600' <&- & \
         sh -c 'trap \"\" TERM; echo $$ >> $DATA/pids; sleep 600; sleep 600' & \
         echo $$ >> $DATA/pids; sleep 600"
    );
    let run = guard.sh(&script);
    guard.started();
    let all = guard.pids(6);
    // Another run has strays of its own, which live as long as it does.
    let other = guard.sh("(setsid sh -c 'echo $$ >> $DATA/other; exec sleep 600' &); sleep 600");
    let group = guard.started();
    let stray = pids(&data.path().join("other"), 1)[0];
    stop(&mut guard, &run);
    assert_eq!(guard.ended()["stopped"], "killed");
    assert!(all.iter().all(|pid| !lives(*pid)), "{all:?}");
    assert!(lives(group) && lives(stray), "nothing of another run is touched");
    stop(&mut guard, &other);
    assert_eq!(guard.ended()["stopped"], "killed");
    assert!(!lives(group) && !lives(stray));
    assert_eq!(children(&guard), "", "every child belongs to a run, and there is none");
}

/// proves: I26
fn a_daemon_is_asked_first_and_ends_with_its_run() {
    let data = folder();
    let mut guard = alone(&data);
    let polite = "(setsid sh -c 'trap \"echo asked > $DATA/asked; exit 0\" TERM; echo $$ >> $DATA/pids; \
                  while :; do sleep 0.01; done' &)";
    guard.sh(&format!("{polite}; while ! test -s $DATA/pids; do sleep 0.01; done"));
    let daemon = guard.pids(1)[0];
    let end = guard.ended();
    assert_eq!(
        (&end["code"], &end["stopped"]),
        (&json!(0), &serde_json::Value::Null),
        "the run itself succeeded"
    );
    assert!(!lives(daemon) && data.path().join("asked").exists());
    assert_eq!(children(&guard), "");
}

/// proves: I25, I26
fn who_wipes_its_environment_is_found() {
    let data = folder();
    let mut guard = alone(&data);
    let wiped = "(env -i DATA=$DATA setsid sh -c 'echo $$ >> $DATA/pids; exec sleep 600' &); sleep 600";
    let run = guard.sh(wiped);
    guard.started();
    let stray = guard.pids(1)[0];
    stop(&mut guard, &run);
    assert_eq!(guard.ended()["stopped"], "killed");
    assert!(!lives(stray));
    // Where several runs may be meant it ends with the last of them.
    let first = guard.sh("sleep 600");
    guard.started();
    let second = guard.sh(wiped);
    guard.started();
    let stray = guard.pids(2)[1];
    stop(&mut guard, &second);
    assert_eq!(guard.ended()["stopped"], "killed");
    assert!(lives(stray), "it may be the other run's");
    stop(&mut guard, &first);
    assert_eq!(guard.ended()["stopped"], "killed");
    assert!(!lives(stray));
    assert_eq!(children(&guard), "");
}

/// proves: I2
fn they_end_at_the_deadline_too() {
    let data = folder();
    let mut guard = alone(&data);
    guard.sh(&format!("{DAEMON}; sleep 600"));
    guard.started();
    let orphans = guard.pids(2);
    guard.trust(100, 300);
    assert_eq!(guard.ended()["stopped"], "fenced");
    assert!(orphans.iter().all(|pid| !lives(*pid)));
    assert_eq!(children(&guard), "");
}

/// proves: I26
fn the_strays_of_a_killed_guard_are_ended() {
    let (folder, file) = cluster();
    runtime().block_on(async {
        let node = evenkeel::open(config(folder.path(), "a", LEASE)).await.unwrap();
        let mut job = sleeper(&file, Delivery::AtMostOnce);
        let daemon = format!("(setsid sh -c 'echo $$ >> {}; exec sleep 600' &)", file.display());
        job.command =
            evenkeel::Program::Argv(["sh", "-c", &format!("{daemon}; sleep 600")].map(String::from).to_vec());
        node.apply(vec![job]).await.unwrap();
        let daemon = pids(&file, 1)[0];
        let guard = until("its parent is gone, so the guard is", || {
            let name = std::fs::read(format!("/proc/{}/cmdline", parent(daemon))).unwrap_or_default();
            name.starts_with(b"evenkeel-guard\0").then(|| parent(daemon))
        });
        let run = wait_for(&node, AttemptState::Running).await.run.to_string();
        // As another cluster on this host may have the same job, with a run of the same name.
        let names =
            [("EVENKEEL_RUN", run.as_str()), ("EVENKEEL_ATTEMPT", "1"), ("EVENKEEL_DATA", "/elsewhere")];
        let mut namesake = std::process::Command::new("sleep").arg("600").envs(names).spawn().unwrap();
        signal(guard, Signal::KILL);
        until("the daemon is ended", || (!lives(daemon)).then_some(()));
        wait_for(&node, AttemptState::Fenced).await;
        assert!(namesake.try_wait().unwrap().is_none(), "what is another node's is left alone");
        namesake.kill().unwrap();
        namesake.wait().unwrap();
        node.stop_now().await;
    });
}
