//! One attempt under the guard: its processes, from the fork until none is left.

use std::collections::BTreeSet;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use evenkeel_core::effect::StopReason;
use evenkeel_core::time::{Millis, Mono};
use rustix::process::{Pid, PidfdFlags, RawPid, Signal, WaitStatus};

use super::cgroup::Cgroup;
use super::orphans::{RunOrphans, RunRoot};
use super::output::RunOutput;
use super::secret_files::RunSecretFolder;
use super::shim::{self, ShimOrder, ShimProcess};
use super::signals;
use super::wire::{AttemptId, GuardEvent, ProcessEnd};
use crate::clock;
use crate::logs::LogLimits;

/// How long a group may take to end after the stop signal, unless the trust deadline is nearer.
const GRACE: Millis = Millis::secs(2);
/// The same for what a finished run left behind, and for the runs of a node that is gone.
const SHORT_GRACE: Millis = Millis::secs(1);
/// How often an ending group is checked: the death of grandchildren raises no event.
const LOOK_AGAIN: Millis = Millis(10);

/// An attempt that may still have processes.
pub(super) struct GuardedRun {
    pub(super) id: AttemptId,
    /// Contains all its processes, whatever they do.
    cgroup: Option<Cgroup>,
    /// Its first process and its group.
    pid: Pid,
    pidfd: Option<OwnedFd>,
    /// Open until the shim has become the run's program.
    status: Option<PipeReader>,
    /// The shim's error text.
    shim_error: Vec<u8>,
    pub(super) output: RunOutput,
    /// The folder of its secrets, which goes with it.
    secret_folder: Option<RunSecretFolder>,
    exit: Option<WaitStatus>,
    started: Mono,
    timeout: Option<Mono>,
    /// Its processes outside the group that got the stop signal.
    terminated: BTreeSet<RawPid>,
    ending: Option<Termination>,
}

struct Termination {
    /// `None` when the run ended by itself and only leftovers are ended.
    reason: Option<StopReason>,
    kill: Mono,
}

/// The deadlines of all children at a moment.
#[derive(Clone, Copy)]
pub(super) struct GuardDeadlines {
    pub(super) now: Mono,
    pub(super) until: Mono,
    pub(super) kill: Mono,
    pub(super) node_gone: bool,
}

impl GuardedRun {
    /// The run of a shim that has its order. `started` is a moment before that: the run's processes must not seem older
    /// than the run.
    pub(super) fn new(order: ShimOrder, shim: ShimProcess, cgroup: Option<Cgroup>, started: Mono) -> Self {
        let ShimOrder { launch, secret_folder, .. } = order;
        let ShimProcess { pid, status, output } = shim;
        Self {
            id: launch.id.clone(),
            cgroup,
            pid,
            pidfd: rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok(),
            status: Some(status),
            shim_error: Vec::new(),
            output: RunOutput::new(
                output,
                (&launch.log, LogLimits { keep: launch.keep, rate: launch.rate }),
                launch.secrets.iter().map(|secret| &secret.text),
            ),
            secret_folder,
            exit: None,
            started,
            timeout: launch.timeout.map(|span| started + Millis(span)),
            terminated: BTreeSet::new(),
            ending: None,
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// How its orphan processes are recognized.
    pub(super) fn root(&self) -> RunRoot<'_> {
        RunRoot { id: &self.id, first: self.pid, started: self.started }
    }

    /// Whether to look for its orphan processes: it has ended, or is being ended.
    pub(super) fn is_ending(&self) -> bool {
        self.exit.is_some() || self.ending.is_some()
    }

    /// The descriptors to poll for this child.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let exit = self.pidfd.as_ref().filter(|_| self.exit.is_none()).map(AsFd::as_fd);
        let status = self.status.as_ref().map(AsFd::as_fd);
        let output = self.output.pipe().map(AsFd::as_fd);
        [exit, status, output].into_iter().flatten()
    }

    /// Forgets a reaped process, whose number may be reused from now on.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.terminated.remove(&pid.as_raw_nonzero().get());
    }

    /// Notes that its first process was reaped.
    pub(super) fn exited(&mut self, status: WaitStatus) {
        self.exit = Some(status);
        self.pidfd = None;
    }

    /// Reads the output of the shim and the run; returns an event when the run's program has started.
    pub(super) fn read(&mut self, piece: &mut Vec<u8>) -> Option<GuardEvent> {
        self.output.read(piece);
        let mut said = [0; 512];
        match self.status.as_mut()?.read(&mut said) {
            Ok(0) => self.status = None,
            Ok(n) => {
                self.shim_error.extend_from_slice(&said[..n]);
                return None;
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return None,
            Err(_) => self.status = None,
        }
        self.shim_error.is_empty().then(|| GuardEvent::Started {
            id: self.id.clone(),
            group: self.pid.as_raw_nonzero().get(),
            at: clock::now().wall.0,
        })
    }

    /// Signals the group to stop, and sets when it is killed. The first reason counts, and the nearest kill.
    pub(super) fn end(&mut self, reason: Option<StopReason>, kill: Mono) {
        match &mut self.ending {
            Some(ending) => ending.kill = ending.kill.min(kill),
            None => {
                self.ending = Some(Termination { reason, kill });
                self.signal(Signal::TERM);
            }
        }
    }

    /// Ends it for this reason.
    pub(super) fn stop(&mut self, reason: StopReason, at: GuardDeadlines) {
        self.end(Some(reason), at.kill.min(at.now + GRACE));
    }

    /// Does what is due. Returns when to check it again, or `None` when no process is left, neither in its
    /// group nor among its orphans.
    pub(super) fn advance(&mut self, at: GuardDeadlines, strays: &RunOrphans) -> Option<Mono> {
        // A cgroup knows all processes of the run. It is a file to be read, so only if nothing else is left: every
        // event of any run leads here for each run.
        let others = || self.cgroup.as_ref().map_or(strays.unsure, |cgroup| !cgroup.is_empty());
        if self.is_gone() && strays.pids.is_empty() && !others() {
            return None;
        }
        if self.exit.is_some() && self.ending.is_none() {
            self.end(None, at.kill.min(at.now + SHORT_GRACE));
        } else if at.node_gone {
            self.end(Some(StopReason::Fenced), at.kill.min(at.now + SHORT_GRACE));
        } else if at.now >= at.until {
            self.end(Some(StopReason::Fenced), at.kill);
        } else if self.timeout.is_some_and(|timeout| at.now >= timeout) {
            self.stop(StopReason::TimedOut, at);
        }
        let Some(ending) = &self.ending else {
            return Some(self.timeout.map_or(at.until, |timeout| timeout.min(at.until)));
        };
        let kill = ending.kill;
        if at.now >= kill {
            self.signal(Signal::KILL);
        }
        for stray in &strays.pids {
            // The guard's own children, which it has not reaped: their numbers cannot be reused.
            if at.now >= kill {
                let _ = rustix::process::kill_process(*stray, Signal::KILL);
            } else if self.terminated.insert(stray.as_raw_nonzero().get()) {
                let _ = rustix::process::kill_process(*stray, Signal::TERM);
            }
        }
        if let Some(cgroup) = &self.cgroup {
            // The group got the signal as a whole. No process gets it twice, as some end at once at a second one.
            let is_outside = |pid| rustix::process::getpgid(Some(pid)).is_ok_and(|group| group != self.pid);
            match at.now >= kill {
                true => cgroup.kill(),
                false => {
                    cgroup.ask(|pid| is_outside(pid) && self.terminated.insert(pid.as_raw_nonzero().get()))
                }
            }
        }
        let soon = self.exit.is_some() || at.now >= kill;
        Some(if soon { at.now + LOOK_AGAIN } else { kill })
    }

    /// Whether the first process was reaped and its group is empty. Orphans of the group have to be reaped here, for
    /// the guard is their subreaper: unreaped they would keep the group for ever.
    fn is_gone(&self) -> bool {
        self.exit.is_some() && rustix::process::test_kill_process_group(self.pid).is_err()
    }

    /// Signals the group, unless it is gone.
    fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// Closes its files in a copy of the guard.
    pub(super) fn let_go(self) {
        self.output.let_go();
    }

    /// The end event of an attempt without processes, and its cgroup, to be removed.
    pub(super) fn into_ended(mut self, piece: &mut Vec<u8>) -> (GuardEvent, Option<Cgroup>) {
        let starved = self.cgroup.as_ref().and_then(Cgroup::out_of_memory);
        self.output.read_rest(piece);
        if let Some(folder) = &self.secret_folder {
            folder.remove();
        }
        if let Some(status) = &mut self.status {
            // All writers are gone, so the text is complete, and "would block" means its end.
            let _ = status.read_to_end(&mut self.shim_error);
        }
        if self.shim_error == shim::LATE.as_bytes() {
            return (GuardEvent::NotStarted { id: self.id }, self.cgroup);
        }
        let stopped = self.ending.and_then(|ending| ending.reason);
        let code = self.exit.and_then(WaitStatus::exit_status);
        let signal = self.exit.and_then(WaitStatus::terminating_signal);
        let reason = match (self.shim_error.is_empty(), stopped, code, signal) {
            (false, ..) => String::from_utf8_lossy(&self.shim_error).into_owned(),
            (_, None, Some(code), _) if code != 0 => match starved {
                Some(starved) => format!("exit code {code}, {starved}"),
                None => format!("exit code {code}"),
            },
            (_, None, _, Some(signal)) => {
                let by_kernel = starved.filter(|_| signal == Signal::KILL.as_raw());
                by_kernel.unwrap_or_else(|| signals::describe(signal))
            }
            _ => String::new(),
        };
        let code = code.filter(|_| self.shim_error.is_empty());
        let end =
            ProcessEnd { stopped, code, reason, output: self.output.written(), at: clock::now().wall.0 };
        (GuardEvent::Ended { id: self.id, end }, self.cgroup)
    }
}
