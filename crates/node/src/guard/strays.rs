//! Processes of runs that have left their run's group: found as orphans, for the guard is their subreaper.
//!
//! Whoever leaves the group, with `setsid` or as a daemon, stays the descendant of its run. When its parent ends it becomes the
//! guard's own child, and so the guard needs to look at no other process of the host. It leaves the list of the guard's
//! children only by being reaped, which the guard does itself: none is overlooked.

use std::fs;
use std::path::Path;

use evenkeel_core::time::Mono;
use procfs::process::{Process, Stat};
use rustix::process::{Pid, Signal};

use super::wire::Attempt;

/// How much earlier than its run a stray may seem to have begun: the kernel counts starts in hundredths of a second.
const SLACK: i64 = 20;

/// A run, as far as its strays are concerned.
#[derive(Debug)]
pub(super) struct Family<'a> {
    pub(super) id: &'a Attempt,
    pub(super) first: Pid,
    pub(super) started: Mono,
}

/// The strays of each run, in the order of the runs.
pub(super) fn find(families: &[Family<'_>]) -> Vec<Vec<Pid>> {
    let mut found = vec![Vec::new(); families.len()];
    let me = std::process::id();
    for pid in children(me).into_iter().filter(|pid| families.iter().all(|run| run.first != *pid)) {
        // One that has ended is about to be reaped; one that may not be signalled is nothing the guard can end.
        if has_ended(pid) || rustix::process::test_kill_process(pid).is_err() {
            continue;
        }
        if let Some(index) = owner(families, &environment(pid), || started(pid)) {
            found[index].push(pid);
        }
    }
    found
}

/// Which run a stray is of: the one its environment names. One that has wiped that is of any run that began before it, and
/// so is left until one of them only is there.
fn owner(
    families: &[Family<'_>],
    environment: &[u8],
    started: impl FnOnce() -> Option<Mono>,
) -> Option<usize> {
    let named = families.iter().position(|run| is_named(run.id, environment));
    named.or_else(|| {
        let started = started();
        let before = |run: &Family<'_>| started.is_none_or(|at| run.started.0 <= at.0 + SLACK);
        let mut may = families.iter().enumerate().filter(|(_, run)| before(run));
        may.next().filter(|_| may.next().is_none()).map(|(index, _)| index)
    })
}

/// Kills whatever names one of these attempts, of a guard that is gone and can look for nothing any more.
pub(super) fn kill_everywhere(runs: &[Attempt]) {
    let is_of_them = |pid: &Pid| {
        let environment = environment(*pid);
        runs.iter().any(|id| is_named(id, &environment))
    };
    // What forked while it was looked for is found at another look; three of them bound what this may take.
    for _ in 0..3 {
        let strays: Vec<Pid> = all().into_iter().filter(|pid| !has_ended(*pid)).filter(is_of_them).collect();
        if strays.is_empty() {
            return;
        }
        for stray in strays {
            let _ = rustix::process::kill_process(stray, Signal::KILL);
        }
    }
}

/// Whether a process's environment says that it is of this attempt.
fn is_named(id: &Attempt, environment: &[u8]) -> bool {
    let says =
        |text: String| environment.split(|byte| *byte == 0).any(|variable| variable == text.as_bytes());
    says(format!("EVENKEEL_RUN={}", id.run)) && says(format!("EVENKEEL_ATTEMPT={}", id.attempt))
}

/// The processes whose parent is this process of one thread.
fn children(pid: u32) -> Vec<Pid> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(list) => list.split_whitespace().filter_map(number).collect(),
        // A kernel that keeps no such list: every process says who its parent is.
        Err(_) => all().into_iter().filter(|child| parent(*child) == Some(pid)).collect(),
    }
}

/// Every process of this host that can be seen from here.
fn all() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)).collect()
}

/// What a process was started with, variables ended by NUL; nothing when it may not be read.
fn environment(pid: Pid) -> Vec<u8> {
    fs::read(Path::new("/proc").join(pid.as_raw_nonzero().to_string()).join("environ")).unwrap_or_default()
}

fn number(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

fn stat(pid: Pid) -> Option<Stat> {
    Process::new(pid.as_raw_nonzero().get()).and_then(|process| process.stat()).ok()
}

fn has_ended(pid: Pid) -> bool {
    stat(pid).is_none_or(|stat| matches!(stat.state, 'Z' | 'X'))
}

fn parent(pid: Pid) -> Option<u32> {
    stat(pid)?.ppid.try_into().ok()
}

/// When a process began, on the clock that counts suspend.
fn started(pid: Pid) -> Option<Mono> {
    let ticks = stat(pid)?.starttime;
    let a_second = procfs::ticks_per_second().max(1);
    i64::try_from(ticks.saturating_mul(1000) / a_second).ok().map(Mono)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(run: &str, attempt: u32) -> Attempt {
        Attempt { run: run.parse().unwrap(), attempt }
    }

    #[test]
    fn a_stray_is_of_the_run_it_names_or_of_the_only_one_that_can_be_meant() {
        let ids = [attempt("j:1:0", 1), attempt("j:1:0", 11), attempt("k:2:0", 1)];
        let family = |(index, id)| Family { id, first: Pid::INIT, started: Mono(1_000 * index) };
        let families: Vec<Family<'_>> = (0_i64..).zip(&ids).map(family).collect();
        let named = |text: &str| owner(&families, text.as_bytes(), || Some(Mono(5_000)));
        assert_eq!(named("A=1\0EVENKEEL_RUN=j:1:0\0EVENKEEL_ATTEMPT=1\0"), Some(0));
        assert_eq!(named("EVENKEEL_ATTEMPT=11\0EVENKEEL_RUN=j:1:0\0"), Some(1));
        assert_eq!(named("EVENKEEL_RUN=k:2:0\0EVENKEEL_ATTEMPT=1\0"), Some(2));
        // Of a run that is not here, by half a name, or by none.
        for wiped in
            ["EVENKEEL_RUN=j:1:0\0EVENKEEL_ATTEMPT=2\0", "EVENKEEL_RUN=j:1:0\0", "", "XEVENKEEL_RUN=k:2:0\0"]
        {
            assert_eq!(named(wiped), None, "each of three may be meant");
            assert_eq!(owner(&families, wiped.as_bytes(), || Some(Mono(500))), Some(0), "only one was there");
            assert_eq!(owner(&families[1..2], wiped.as_bytes(), || None), Some(0), "only one is there");
        }
    }

    #[test]
    fn a_process_is_told_by_the_kernel() {
        let me = rustix::process::getpid();
        assert!(!has_ended(me) && all().contains(&me));
        assert_eq!(
            parent(me),
            rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
        );
        let now = crate::clock::now().mono;
        assert!(
            started(me).is_some_and(|at| at <= now && now - at < evenkeel_core::time::Millis::secs(3_600))
        );
        assert!(has_ended(Pid::from_raw(i32::MAX).unwrap()));
    }
}
