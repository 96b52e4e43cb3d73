//! Shims that stand by: each is in a cgroup of its own and waits for its work.
//!
//! A kernel that moves a process to another cgroup waits until each processor has passed a quiet moment, which takes about
//! ten milliseconds. A shim that was moved ahead of its run lets the run start without that wait. Once it has its work it is
//! the run's own process, so a run never has one that another run had, nor its cgroup.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, PipeWriter, Write};

use evenkeel_core::time::{Millis, Mono};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitOptions};

use super::cgroup::{Cgroup, Cgroups};
use super::shim::{self, ShimOrder, ShimProcess, ShimSource};
use super::wire::to_line;
use crate::clock;

/// How many stand by: as many runs may begin at one moment without a wait.
const READY: usize = 8;

/// How long after a failure the next one is forked.
const RETRY: Millis = Millis::secs(1);

/// The shims that stand by.
pub(super) struct StandbyShims {
    /// The one that has stood by longest is the first.
    shims: VecDeque<StandbyShim>,
    /// How many there should be.
    wanted: usize,
    /// When the next one may be forked.
    next: Mono,
}

/// A shim and the cgroup that it is in, or is about to enter.
pub(super) struct StandbyShim {
    pub(super) shim: WaitingShim,
    pub(super) cgroup: Cgroup,
}

/// A shim without a run.
pub(super) struct WaitingShim {
    process: ShimProcess,
    orders: PipeWriter,
}

impl StandbyShims {
    /// None yet. There will be some if it takes long to enter one of these cgroups.
    pub(super) fn new(cgroups: &Cgroups) -> Self {
        let wanted = if cgroups.can_create_ahead() { READY } else { 0 };
        Self { shims: VecDeque::new(), wanted, next: Mono(i64::MIN) }
    }

    /// When to add another one; `None` when there are enough.
    pub(super) fn due(&self) -> Option<Mono> {
        (self.shims.len() < self.wanted).then_some(self.next)
    }

    /// Forks another one. In the copy `let_go` closes what only the guard itself may hold open.
    pub(super) fn add(&mut self, cgroups: &mut Cgroups, let_go: impl FnOnce()) {
        let added = cgroups.create_ahead().and_then(|cgroup| {
            let shim = WaitingShim::start(&cgroup, || {
                let_go();
                self.shims.clear();
            });
            match shim {
                Ok(shim) => Ok(StandbyShim { shim, cgroup }),
                Err(e) => {
                    cgroups.leave(cgroup);
                    Err(e)
                }
            }
        });
        match added {
            Ok(shim) => self.shims.push_back(shim),
            // Runs start without.
            Err(_) => self.pause(),
        }
    }

    /// The one that has stood by longest, for a run.
    pub(super) fn take(&mut self) -> Option<StandbyShim> {
        self.shims.pop_front()
    }

    /// Forgets a reaped process; returns the cgroup if it stood by.
    pub(super) fn reaped(&mut self, pid: Pid) -> Option<Cgroup> {
        let index = self.shims.iter().position(|standby| standby.shim.process.pid == pid)?;
        // What ended this one may end the next one too.
        self.pause();
        Some(self.shims.remove(index)?.cgroup)
    }

    /// Their processes, which belong to no run.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.shims.iter().map(|standby| standby.shim.process.pid)
    }

    /// Ends all of them; returns their cgroups.
    pub(super) fn end(&mut self) -> Vec<Cgroup> {
        self.wanted = 0;
        self.shims.iter().for_each(|standby| standby.shim.dismiss());
        let reap = |StandbyShim { shim, cgroup }| {
            // Only if it had ended and was reaped already can this fail.
            let _ = rustix::process::waitpid(Some(shim.process.pid), WaitOptions::empty());
            cgroup
        };
        self.shims.drain(..).map(reap).collect()
    }

    fn pause(&mut self) {
        self.next = clock::now().mono + RETRY;
    }
}

impl WaitingShim {
    fn start(cgroup: &Cgroup, let_go: impl FnOnce()) -> io::Result<Self> {
        let (source, orders) = io::pipe()?;
        // A guard never waits for a shim.
        rustix::fs::fcntl_setfl(&orders, OFlags::NONBLOCK)?;
        let process = shim::start(ShimSource::Awaited(source, cgroup.entry_files()), let_go)?;
        Ok(Self { process, orders })
    }

    /// Ends it.
    pub(super) fn dismiss(&self) {
        // It fails only where the shim has ended already.
        let _ = rustix::process::kill_process(self.process.pid, Signal::KILL);
    }

    /// Gives it its order.
    ///
    /// # Errors
    /// It has ended, or the order is too long for its pipe. It is killed, and has not begun.
    pub(super) fn send(self, order: &ShimOrder) -> io::Result<ShimProcess> {
        let line = to_line(order);
        if let Err(e) = self.write(&line) {
            // Without the end of its line, it does nothing.
            self.dismiss();
            return Err(e);
        }
        Ok(self.process)
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        if rustix::pipe::fcntl_getpipe_size(&self.orders)? < line.len() {
            rustix::pipe::fcntl_setpipe_size(&self.orders, line.len())?;
        }
        match (&self.orders).write(line) {
            Ok(n) if n == line.len() => Ok(()),
            Ok(_) => Err(ErrorKind::WriteZero.into()),
            Err(e) => Err(e),
        }
    }
}
