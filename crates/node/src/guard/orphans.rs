//! Finds orphan processes: those of a run that have left its group. They become children of the guard, their subreaper.
//!
//! A process that leaves the group, with `setsid` or as a daemon, stays a descendant of its run. When its parent ends
//! it becomes the guard's own child, so the guard needs to check no other process of the host. It leaves the list of
//! the guard's children only by being reaped, which the guard does itself, and the list is read until it has no new
//! process: a child that ends while it is checked leaves its own children there. While a child cannot be matched, as it
//! is just ending or becoming another program, no run that it may belong to counts as over.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

use evenkeel_core::time::{Millis, Mono};
use procfs::process::{Process, Stat, StatFlags};
use rustix::process::{Pid, RawPid, Signal, WaitId, WaitIdOptions};

use super::wire::{AttemptId, DATA};

/// How much earlier than its run an orphan may seem to have started: the kernel's starts are in hundredths of a second.
const SLACK: i64 = 20;

/// How often the list of children is read for one answer: a run that makes orphans without end must not keep the guard
/// from ending it.
const READINGS: usize = 16;

/// How long an orphan may be between two programs, or between its last instruction and its end. One without an
/// environment for longer has wiped it, on a kernel that does not show the difference.
const UNSURE: Millis = Millis::secs(1);

/// A run, as the search for its orphans needs it.
#[derive(Debug)]
pub(super) struct RunRoot<'a> {
    pub(super) id: &'a AttemptId,
    pub(super) first: Pid,
    pub(super) started: Mono,
}

/// The orphans found of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunOrphans {
    /// Its orphans' process numbers.
    pub(super) pids: Vec<Pid>,
    /// Whether there is a process that may belong to it, and can be matched a moment later.
    pub(super) unsure: bool,
}

/// The match of a child of the guard.
#[derive(Debug)]
enum OrphanMatch {
    /// It is about to be reaped, and its children are the guard's children by now.
    Ended,
    /// It may belong to any of these runs; a moment later more is known.
    Unsure(Vec<usize>),
    /// It belongs to no known run, or may not be signalled.
    Unrelated,
    /// It belongs to the run at this index.
    Run(usize),
}

/// Searches for orphan processes.
#[derive(Debug, Default)]
pub(super) struct OrphanScan {
    /// The attempt of each matched child: one that is ending cannot be matched any more.
    known: BTreeMap<RawPid, AttemptId>,
    /// Since when a child could not be matched.
    unsure: BTreeMap<RawPid, Mono>,
}

impl OrphanScan {
    /// The orphans of each run, in the order of the runs. The children `own` are of no run.
    pub(super) fn find(&mut self, families: &[RunRoot<'_>], own: &[Pid]) -> Vec<RunOrphans> {
        let me = std::process::id();
        let is_other = |pid: &Pid| !own.contains(pid) && families.iter().all(|run| run.first != *pid);
        let others = || Ok(children(me)?.into_iter().filter(is_other).collect());
        gather(families.len(), others, |pid| self.match_child(pid, families))
    }

    /// Forgets a reaped child: its number may be reused from now on.
    pub(super) fn reaped(&mut self, pid: Pid) {
        self.known.remove(&pid.as_raw_nonzero().get());
        self.unsure.remove(&pid.as_raw_nonzero().get());
    }

    fn match_child(&mut self, pid: Pid, families: &[RunRoot<'_>]) -> OrphanMatch {
        if can_be_reaped(pid) {
            return OrphanMatch::Ended;
        }
        // A process that may not be signalled cannot be ended by the guard.
        if rustix::process::test_kill_process(pid).is_err() {
            return OrphanMatch::Unrelated;
        }
        let raw = pid.as_raw_nonzero().get();
        if let Some(id) = self.known.get(&raw)
            && let Some(index) = families.iter().position(|run| run.id == id)
        {
            return OrphanMatch::Run(index);
        }
        let environment = if let Some(told) = environment(pid) {
            self.unsure.remove(&raw);
            told
        } else {
            let now = crate::clock::now().mono;
            if now - *self.unsure.entry(raw).or_insert(now) < UNSURE {
                return OrphanMatch::Unsure(before(families, started(pid)).collect());
            }
            Vec::new()
        };
        match owner(families, &environment, || started(pid)) {
            Some(index) => {
                self.known.insert(raw, families[index].id.clone());
                OrphanMatch::Run(index)
            }
            None => OrphanMatch::Unrelated,
        }
    }
}

/// Sorts the children by their runs; reads the list of children until it has no new process.
fn gather(
    runs: usize,
    mut children: impl FnMut() -> io::Result<Vec<Pid>>,
    mut look: impl FnMut(Pid) -> OrphanMatch,
) -> Vec<RunOrphans> {
    let mut orphans = vec![RunOrphans::default(); runs];
    let mut seen = BTreeSet::new();
    for reading in 1..=READINGS {
        let Ok(mut fresh) = children() else {
            // A guard without a free descriptor sees no process, which does not mean that there is none.
            orphans.iter_mut().for_each(|run| run.unsure = true);
            break;
        };
        fresh.retain(|pid| seen.insert(pid.as_raw_nonzero()));
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            match look(pid) {
                OrphanMatch::Run(run) => orphans[run].pids.push(pid),
                OrphanMatch::Unsure(runs) => runs.into_iter().for_each(|run| orphans[run].unsure = true),
                // The children of this one are not searched any more.
                OrphanMatch::Ended if reading == READINGS => {
                    orphans.iter_mut().for_each(|run| run.unsure = true)
                }
                OrphanMatch::Ended | OrphanMatch::Unrelated => {}
            }
        }
    }
    orphans
}

/// The run of an orphan: the one that its environment names. One that has wiped its environment may belong to any run
/// that started before it, and stays until only one such run is left.
fn owner(
    families: &[RunRoot<'_>],
    environment: &[u8],
    started: impl FnOnce() -> Option<Mono>,
) -> Option<usize> {
    let named = families.iter().position(|run| is_named(run.id, environment));
    named.or_else(|| {
        let mut may = before(families, started());
        may.next().filter(|_| may.next().is_none())
    })
}

/// The runs that started before an orphan did.
fn before(families: &[RunRoot<'_>], started: Option<Mono>) -> impl Iterator<Item = usize> {
    let began = move |run: &RunRoot<'_>| started.is_none_or(|at| run.started.0 <= at.0 + SLACK);
    families.iter().enumerate().filter(move |(_, run)| began(run)).map(|(index, _)| index)
}

/// Kills every process that names one of these attempts, of a guard that is gone and cannot search any more. Attempts
/// of another node may have the same id, as of another cluster on this host; those name another data folder.
///
/// # Errors
/// The host's processes cannot be listed, so none was killed.
pub(super) fn kill_everywhere(runs: &[AttemptId], data: &str) -> io::Result<()> {
    let is_ours = |environment: &[u8]| {
        has_variable(environment, &format!("{DATA}={data}"))
            && runs.iter().any(|id| is_named(id, environment))
    };
    // A process that forked, or became another program, during the search is found in the next one; three of them bound
    // the time.
    for _ in 0..3 {
        let mut again = false;
        for pid in all()?.into_iter().filter(|pid| !has_ended(*pid)) {
            match environment(pid) {
                None => again = true,
                Some(environment) if is_ours(&environment) => {
                    again = true;
                    // A process that has ended meanwhile needs no kill.
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
                Some(_) => {}
            }
        }
        if !again {
            break;
        }
    }
    Ok(())
}

/// Whether a process's environment names this attempt.
fn is_named(id: &AttemptId, environment: &[u8]) -> bool {
    has_variable(environment, &format!("EVENKEEL_RUN={}", id.run))
        && has_variable(environment, &format!("EVENKEEL_ATTEMPT={}", id.attempt))
}

fn has_variable(environment: &[u8], text: &str) -> bool {
    environment.split(|byte| *byte == 0).any(|variable| variable == text.as_bytes())
}

/// The children of this process, which has one thread.
fn children(pid: u32) -> io::Result<Vec<Pid>> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(list) => Ok(list.split_whitespace().filter_map(number).collect()),
        // A kernel without this list: read the parent of every process.
        Err(e) if e.kind() == ErrorKind::NotFound => {
            Ok(all()?.into_iter().filter(|child| parent(*child) == Some(pid)).collect())
        }
        Err(e) => Err(e),
    }
}

/// Every process of this host that is visible.
fn all() -> io::Result<Vec<Pid>> {
    Ok(numbered(Path::new("/proc"))?.collect())
}

/// The numbers among the names in a folder of the kernel.
fn numbered(folder: &Path) -> io::Result<impl Iterator<Item = Pid>> {
    Ok(fs::read_dir(folder)?.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)))
}

fn folder(pid: Pid) -> PathBuf {
    Path::new("/proc").join(pid.as_raw_nonzero().to_string())
}

/// A process's initial environment, variables ended by NUL: empty where it may not be read. `None` for the moment in
/// which a process has none, as it is ending or becoming another program.
fn environment(pid: Pid) -> Option<Vec<u8>> {
    match fs::read(folder(pid).join("environ")) {
        Ok(environment) if !environment.is_empty() => Some(environment),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Some(Vec::new()),
        Ok(_) | Err(_) => {
            let stat = stat(pid)?;
            if is_corpse(&stat) {
                return of_threads(pid);
            }
            // Kernel threads never have one.
            if StatFlags::from_bits_truncate(stat.flags).contains(StatFlags::PF_KTHREAD) {
                return Some(Vec::new());
            }
            // The kernel has the address of an empty environment, once the program is loaded.
            let is_loaded = stat.endcode != 0 && stat.env_start.is_some_and(|at| at != 0);
            (is_loaded && stat.env_start == stat.env_end).then(Vec::new)
        }
    }
}

/// The environment of a process whose first thread has ended, read from another thread.
fn of_threads(pid: Pid) -> Option<Vec<u8>> {
    let tasks = folder(pid).join("task");
    let environment = |thread: Pid| fs::read(tasks.join(thread.as_raw_nonzero().to_string()).join("environ"));
    numbered(&tasks).ok()?.filter_map(|thread| environment(thread).ok()).find(|it| !it.is_empty())
}

fn number(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

fn stat(pid: Pid) -> Option<Stat> {
    Process::new(pid.as_raw_nonzero().get()).and_then(|process| process.stat()).ok()
}

/// Whether its first thread has ended.
fn is_corpse(stat: &Stat) -> bool {
    matches!(stat.state, 'Z' | 'X')
}

/// Whether all threads of a process have ended, as far as visible.
fn has_ended(pid: Pid) -> bool {
    stat(pid).is_none_or(|stat| is_corpse(&stat) && stat.num_threads <= 1)
}

/// Whether all threads of a child have ended; does not reap it.
fn can_be_reaped(child: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::Pid(child), look).is_ok_and(|status| status.is_some())
}

fn parent(pid: Pid) -> Option<u32> {
    stat(pid)?.ppid.try_into().ok()
}

/// When a process started, on the clock that counts suspend.
fn started(pid: Pid) -> Option<Mono> {
    let ticks = stat(pid)?.starttime;
    let a_second = procfs::ticks_per_second().max(1);
    i64::try_from(ticks.saturating_mul(1000) / a_second).ok().map(Mono)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(run: &str, attempt: u32) -> AttemptId {
        AttemptId { run: run.parse().unwrap(), attempt }
    }

    #[test]
    fn a_stray_is_of_the_run_it_names_or_of_the_only_one_that_can_be_meant() {
        let ids = [attempt("j:1:0", 1), attempt("j:1:0", 11), attempt("k:2:0", 1)];
        let family = |(index, id)| RunRoot { id, first: Pid::INIT, started: Mono(1_000 * index) };
        let families: Vec<RunRoot<'_>> = (0_i64..).zip(&ids).map(family).collect();
        let named = |text: &str| owner(&families, text.as_bytes(), || Some(Mono(5_000)));
        assert_eq!(named("A=1\0EVENKEEL_RUN=j:1:0\0EVENKEEL_ATTEMPT=1\0"), Some(0));
        assert_eq!(named("EVENKEEL_ATTEMPT=11\0EVENKEEL_RUN=j:1:0\0"), Some(1));
        assert_eq!(named("EVENKEEL_RUN=k:2:0\0EVENKEEL_ATTEMPT=1\0"), Some(2));
        // Of another run, by half a name, or without a name.
        for wiped in
            ["EVENKEEL_RUN=j:1:0\0EVENKEEL_ATTEMPT=2\0", "EVENKEEL_RUN=j:1:0\0", "", "XEVENKEEL_RUN=k:2:0\0"]
        {
            assert_eq!(named(wiped), None, "each of three may be meant");
            assert_eq!(owner(&families, wiped.as_bytes(), || Some(Mono(500))), Some(0), "only one was there");
            assert_eq!(owner(&families[1..2], wiped.as_bytes(), || None), Some(0), "only one is there");
        }
    }

    #[test]
    fn whoever_is_left_by_one_that_ends_meanwhile_is_found() {
        let pid = |raw| Pid::from_raw(raw).unwrap();
        // 10 ends when it is checked, and only then is 11 on the list; so again with 11 and 12. 20 is behind them all.
        let listed = std::cell::Cell::new(10);
        let list = || Ok((10..=listed.get()).chain([20]).map(pid).collect());
        let look = |pid: Pid| match pid.as_raw_nonzero().get() {
            12 => OrphanMatch::Run(1),
            20 => OrphanMatch::Run(0),
            ended => {
                listed.set(listed.get().max(ended + 1));
                OrphanMatch::Ended
            }
        };
        let found = |raw| RunOrphans { pids: vec![pid(raw)], unsure: false };
        assert_eq!(gather(2, list, look), [found(20), found(12)]);
    }

    #[test]
    fn while_orphans_keep_ending_no_run_is_over_and_who_lives_is_told() {
        let mut last = 10;
        let list = || {
            last += 1;
            Ok((10..=last).map(|raw| Pid::from_raw(raw).unwrap()).collect())
        };
        let living = Pid::from_raw(10).unwrap();
        let orphans =
            gather(2, list, |pid| if pid == living { OrphanMatch::Run(0) } else { OrphanMatch::Ended });
        assert_eq!(orphans[0], RunOrphans { pids: vec![living], unsure: true });
        assert_eq!(orphans[1], RunOrphans { pids: vec![], unsure: true });
    }

    #[test]
    fn who_sees_nobody_or_somebody_unknown_holds_nothing_to_be_over() {
        let unsure = |unsure| RunOrphans { pids: vec![], unsure };
        let blind = || Err(io::Error::other("no descriptor is free"));
        assert_eq!(gather(2, blind, |_| OrphanMatch::Ended), [unsure(true), unsure(true)]);
        let one = || Ok(vec![Pid::INIT]);
        assert_eq!(gather(2, one, |_| OrphanMatch::Unsure(vec![1])), [unsure(false), unsure(true)]);
    }

    #[test]
    fn whose_a_child_was_seen_to_be_it_stays_until_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("600").env_clear().spawn().unwrap();
        let pid = Pid::from_child(&child);
        let ids = [attempt("j:1:0", 1), attempt("k:2:0", 1)];
        let family = |id| RunRoot { id, first: Pid::INIT, started: Mono(0) };
        let families: Vec<RunRoot<'_>> = ids.iter().map(family).collect();
        let mut finder = OrphanScan::default();
        // For a moment it may be between two programs.
        let looks = |finder: &mut OrphanScan, families: &[RunRoot<'_>]| loop {
            match finder.match_child(pid, families) {
                OrphanMatch::Unsure(_) => {}
                found => break format!("{found:?}"),
            }
        };
        assert_eq!(looks(&mut finder, &families), "Unrelated", "it may be of both");
        assert_eq!(looks(&mut finder, &families[1..]), "Run(0)", "only one is there");
        assert_eq!(looks(&mut finder, &families), "Run(1)");
        finder.reaped(pid);
        assert_eq!(looks(&mut finder, &families), "Unrelated");
        child.kill().unwrap();
        while !can_be_reaped(pid) {}
        assert_eq!(looks(&mut finder, &families), "Ended");
        child.wait().unwrap();
    }

    #[test]
    fn a_process_is_told_by_the_kernel() {
        let me = rustix::process::getpid();
        assert!(!has_ended(me) && all().unwrap().contains(&me));
        assert!(environment(me).is_some_and(|it| !it.is_empty()) && of_threads(me) == environment(me));
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
