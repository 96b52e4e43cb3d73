//! The guard process: one thread, one `poll`, nothing on disk but a lock.
//!
//! It must go on whatever happens to the node, so it never waits for it: events that the node does not read are queued,
//! and a node that is gone is a reason to end the runs and then itself.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use evenkeel_core::time::{Millis, Mono};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, WaitOptions};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::cgroup::{CgroupMounts, Cgroups};
use super::child::{GuardDeadlines, GuardedRun};
use super::orphans::{OrphanScan, RunOrphans};
use super::removal::{MemberRemoval, ParentProcess};
use super::report::report;
use super::role::{BE_ALONE, LOCK, NO_CGROUPS, is_alone};
use super::secret_files::SecretFolders;
use super::shim::{self, ShimOrder, ShimSource};
use super::standby::{StandbyShim, StandbyShims};
use super::watchdog::Watchdog;
use super::wire::{AttemptId, GuardEvent, GuardRequest, LaunchSpec, LineReader, ProcessEnd, to_line};
use crate::clock;

/// How often a guard checks whether its predecessor has ended.
const LOCK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How often the removal of a cgroup is retried.
const TIDY_AGAIN: Millis = Millis::secs(1);

/// Guards until the node and its runs are gone. Returns the exit code.
pub(super) fn main(mut told: impl Iterator<Item = OsString>) -> i32 {
    let Some(data) = told.next() else {
        report(format_args!("started without a data folder"));
        return 2;
    };
    let guarded = alone().and_then(|()| lock(data.as_ref())).and_then(|lock| {
        let Some(lock) = lock else { return Ok(()) };
        let cgroups = match told.next() {
            Some(word) if word == NO_CGROUPS => Cgroups::none(),
            _ => cgroups(data.as_ref())?,
        };
        // Only now no run of the folder's last life reads them any more.
        let secret_folders = SecretFolders::open(data.as_ref());
        GuardSupervisor::new(lock, cgroups, secret_folders)?.run()
    });
    match guarded {
        Ok(()) => 0,
        Err(e) => {
            report(format_args!("{e}"));
            1
        }
    }
}

/// Checks that there is no other thread.
fn alone() -> io::Result<()> {
    match is_alone() {
        true => Ok(()),
        false => Err(io::Error::other(format!("this program has other threads already: {BE_ALONE}"))),
    }
}

/// Waits until the guard of the folder's last life is gone, and all its runs; `None` when the node went first.
fn lock(data: &Path) -> io::Result<Option<File>> {
    let file =
        OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(data.join(LOCK))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => {}
            Err(std::fs::TryLockError::Error(e)) => return Err(e),
        }
        let stdin = io::stdin();
        let mut bells = [PollFd::new(&stdin, PollFlags::empty())];
        poll(&mut bells, Some(&LOCK_AGAIN))?;
        if bells[0].revents().contains(PollFlags::HUP) {
            return Ok(None);
        }
    }
}

/// Sets up the runs' cgroups, and waits until those of the folder's last life are empty.
fn cgroups(data: &Path) -> io::Result<Cgroups> {
    let node = rustix::process::getppid();
    let us: Vec<Pid> = [rustix::process::getpid()].into_iter().chain(node).collect();
    // A kernel without these files has no cgroups.
    let cgroups = Cgroups::open(&CgroupMounts::read().unwrap_or_default(), data, &us)?;
    while !cgroups.end_left() {
        // If the node is gone meanwhile, the wait still goes on: the runs that it started have to end.
        poll(&mut [], Some(&LOCK_AGAIN))?;
    }
    Ok(cgroups)
}

struct GuardSupervisor {
    /// Locked for as long as runs may live.
    lock: Option<File>,
    requests: LineReader,
    outbox: VecDeque<u8>,
    children: Vec<GuardedRun>,
    orphan_scan: OrphanScan,
    cgroups: Cgroups,
    standby: StandbyShims,
    secret_folders: SecretFolders,
    until: Mono,
    kill: Mono,
    node: ParentProcess,
    node_gone: bool,
    /// The node's member, which is removed when the node's process dies.
    member: Option<MemberRemoval>,
    watchdog: Watchdog,
    /// On the clock that counts suspend: a plain `poll` timeout would sleep on after a host wakes.
    timer: OwnedFd,
    /// One buffer for everything that is read.
    piece: Vec<u8>,
}

impl GuardSupervisor {
    fn new(lock: File, cgroups: Cgroups, secret_folders: SecretFolders) -> io::Result<Self> {
        // Orphans of a run become this process's children, so that their group can be seen to be empty.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        rustix::fs::fcntl_setfl(io::stdin(), OFlags::NONBLOCK)?;
        rustix::fs::fcntl_setfl(io::stdout(), OFlags::NONBLOCK)?;
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let mut guard = Self {
            lock: Some(lock),
            requests: LineReader::default(),
            outbox: VecDeque::new(),
            children: Vec::new(),
            orphan_scan: OrphanScan::default(),
            standby: StandbyShims::new(&cgroups),
            secret_folders,
            cgroups,
            until: Mono(i64::MIN),
            kill: Mono(i64::MIN),
            node: ParentProcess::open(),
            node_gone: false,
            member: None,
            watchdog: Watchdog::default(),
            timer,
            piece: Vec::new(),
        };
        guard.queue_event(&GuardEvent::Ready { lacking: guard.cgroups.lacking() });
        Ok(guard)
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            let mut next = self.turn_over();
            if self.cgroups.tidy() {
                let again = clock::now().mono + TIDY_AGAIN;
                next = Some(next.map_or(again, |next| next.min(again)));
            }
            self.flush_events();
            if self.node_gone && self.children.is_empty() {
                self.standby.end().into_iter().for_each(|cgroup| self.cgroups.leave(cgroup));
                self.cgroups.close();
                self.secret_folders.close();
                if let Some(removal) = self.member.take() {
                    removal.carry_out(&self.node, self.lease_left());
                }
                return Ok(());
            }
            if !self.node_gone {
                self.end_hung_node();
                next = next.into_iter().chain(self.watchdog.next()).min();
            }
            let refill = self.standby.due().filter(|_| !self.node_gone);
            let is_due = refill.is_some_and(|at| clock::now().mono >= at);
            let next = [next, refill.filter(|_| !is_due)].into_iter().flatten().min();
            // A shim is added only when there is nothing else to do.
            let Some(rung) = self.wait(next, is_due.then_some(&NO_WAIT))? else {
                self.add_standby();
                continue;
            };
            if !self.node_gone {
                self.listen();
            }
            for index in rung {
                if let Some(word) = self.children[index].read(&mut self.piece) {
                    self.queue_event(&word);
                }
            }
        }
    }

    /// Does what is due. Ended processes are reaped before a run is reported as ended: then nothing of it is left.
    fn turn_over(&mut self) -> Option<Mono> {
        loop {
            self.reap();
            let before = self.children.len();
            let next = self.advance();
            if self.children.len() == before {
                return next;
            }
        }
    }

    /// Reaps every child that has ended: first processes of runs, and orphans.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            self.orphan_scan.reaped(pid);
            self.children.iter_mut().for_each(|child| child.forget(pid));
            if let Some(cgroup) = self.standby.reaped(pid) {
                self.cgroups.leave(cgroup);
            }
            if let Some(child) = self.children.iter_mut().find(|child| child.pid() == pid) {
                child.exited(status);
            }
        }
    }

    /// Does what is due for every child, and reports those without processes.
    fn advance(&mut self) -> Option<Mono> {
        let at = self.moment();
        let none = RunOrphans::default();
        let mut strays = self.find_orphans();
        let mut next: Option<Mono> = None;
        let mut index = 0;
        while let Some(child) = self.children.get_mut(index) {
            match child.advance(at, strays.get(index).unwrap_or(&none)) {
                Some(moment) => {
                    next = Some(next.map_or(moment, |other| other.min(moment)));
                    index += 1;
                }
                None => {
                    let child = self.children.swap_remove(index);
                    if index < strays.len() {
                        strays.swap_remove(index);
                    }
                    let (word, cgroup) = child.into_ended(&mut self.piece);
                    if let Some(cgroup) = cgroup {
                        self.cgroups.leave(cgroup);
                    }
                    self.queue_event(&word);
                }
            }
        }
        next
    }

    /// The orphans of each child; searched only if a child is ending.
    fn find_orphans(&mut self) -> Vec<RunOrphans> {
        if !self.children.iter().any(GuardedRun::is_ending) {
            return Vec::new();
        }
        let own: Vec<Pid> = self.standby.pids().collect();
        self.orphan_scan.find(&self.children.iter().map(GuardedRun::root).collect::<Vec<_>>(), &own)
    }

    fn moment(&self) -> GuardDeadlines {
        GuardDeadlines {
            now: clock::now().mono,
            until: self.until,
            kill: self.kill,
            node_gone: self.node_gone,
        }
    }

    /// How long the lease lives on. Of its end as much is left after `kill` as `kill` is after `until`.
    fn lease_left(&self) -> Duration {
        let end = self.kill.0.saturating_add(self.kill.0.saturating_sub(self.until.0));
        let left = end.saturating_sub(clock::now().mono.0);
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    fn queue_event(&mut self, word: &GuardEvent) {
        self.outbox.extend(to_line(word));
    }

    /// Writes as much as the node is ready to read.
    fn flush_events(&mut self) {
        while !self.outbox.is_empty() && !self.node_gone {
            match rustix::io::write(io::stdout(), self.outbox.as_slices().0) {
                Ok(n) => drop(self.outbox.drain(..n)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => self.node_gone = true,
            }
        }
    }

    /// Sleeps until an event or until `next`; returns the children with an event. `None` when none came for as long as
    /// `at_most`.
    fn wait(&self, next: Option<Mono>, at_most: Option<&Timespec>) -> io::Result<Option<Vec<usize>>> {
        self.arm(next)?;
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let mut bells = vec![PollFd::new(&self.timer, PollFlags::IN)];
        if !self.node_gone {
            bells.push(PollFd::new(&stdin, PollFlags::IN));
            // Even when there is nothing to write, a closed pipe shows that the node is gone.
            let write = if self.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            bells.push(PollFd::new(&stdout, write));
        }
        let others = bells.len();
        let mut owners = Vec::new();
        for (index, child) in self.children.iter().enumerate() {
            for bell in child.poll_fds() {
                bells.push(PollFd::from_borrowed_fd(bell, PollFlags::IN));
                owners.push(index);
            }
        }
        match poll(&mut bells, at_most) {
            Ok(0) => return Ok(None),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let rung = bells.drain(others..).zip(owners);
        let mut rung: Vec<usize> =
            rung.filter(|(bell, _)| !bell.revents().is_empty()).map(|(_, index)| index).collect();
        rung.dedup();
        Ok(Some(rung))
    }

    fn arm(&self, next: Option<Mono>) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = next.map_or(zero, |next| {
            let ms = next.0.max(1);
            Timespec { tv_sec: ms / 1000, tv_nsec: (ms % 1000) * 1_000_000 }
        });
        timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::ABSTIME,
            &Itimerspec { it_interval: zero, it_value: at },
        )?;
        Ok(())
    }

    /// Reads and follows the node's requests.
    fn listen(&mut self) {
        let mut piece = [0; 64 * 1024];
        match rustix::io::read(io::stdin(), &mut piece) {
            Ok(0) => self.node_gone = true,
            Ok(n) => {
                for order in self.requests.take::<GuardRequest>(&piece[..n]) {
                    match order {
                        Ok(order) => self.follow(order),
                        // Not its text, in which there may be secrets.
                        Err(e) => report(format_args!("an order cannot be read: {:?}", e.classify())),
                    }
                }
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.node_gone = true,
        }
    }

    /// Ends the node's process if it hangs. Its end shows as any other.
    fn end_hung_node(&mut self) {
        if self.watchdog.next().is_some_and(|at| clock::now().mono >= at) {
            // A heartbeat may have come since the last look.
            self.listen();
            if self.node.pid().is_some_and(|pid| self.watchdog.is_hung(pid, clock::now().mono)) {
                report(format_args!(
                    "the node hangs: it has sent no heartbeat and used no processor time. It is killed"
                ));
                self.node.kill();
            }
        }
    }

    fn follow(&mut self, order: GuardRequest) {
        match order {
            GuardRequest::Trust { until, kill } => {
                (self.until, self.kill) = (Mono(until), Mono(kill));
                self.queue_event(&GuardEvent::Trusted);
            }
            GuardRequest::Start(launch) => self.start(launch),
            GuardRequest::Member(removal) => self.member = Some(removal),
            GuardRequest::Part => {
                self.member = None;
                self.watchdog = Watchdog::default();
            }
            GuardRequest::Heartbeat { thread, within } => {
                self.watchdog.heartbeat(thread, within.map(Millis), clock::now().mono);
            }
            GuardRequest::Stop { run, reason } => {
                let at = self.moment();
                for child in self.children.iter_mut().filter(|child| child.id.run == run) {
                    child.stop(reason, at);
                }
            }
        }
    }

    /// Starts a run by a shim that stands by, or else by a new one.
    fn start(&mut self, mut launch: Box<LaunchSpec>) {
        let id = launch.id.clone();
        if clock::now().mono >= self.until {
            return self.queue_event(&GuardEvent::NotStarted { id });
        }
        // Unreadable limits are reported by the shim, and start nothing.
        let ceilings = launch.setting.limits.read().unwrap_or_default();
        let has_files = launch.secrets.iter().any(|secret| !secret.file.is_empty());
        let secret_folder = match has_files.then(|| self.secret_folders.next()).transpose() {
            Ok(folder) => folder,
            Err(why) => return self.queue_event(&failed(id, why)),
        };
        // A shim that has ended while it stood by has begun nothing, so a new one can.
        for standby in self.standby.take().map(Some).into_iter().chain([None]) {
            let (shim, ahead) = standby.map(|StandbyShim { shim, cgroup }| (shim, cgroup)).unzip();
            let cgroup = match self.cgroups.enclose(ahead, ceilings.together) {
                Ok(cgroup) => cgroup,
                Err(why) => {
                    shim.as_ref().inspect(|shim| shim.dismiss());
                    return self.queue_event(&failed(id, why));
                }
            };
            let mut order = ShimOrder::new(launch, cgroup.as_ref());
            order.secret_folder.clone_from(&secret_folder);
            let started = clock::now().mono;
            let begun = match shim {
                Some(shim) => shim.send(&order),
                None => shim::start(ShimSource::Known(&order), || self.lock = None),
            };
            match begun {
                Ok(shim) => {
                    return self.children.push(GuardedRun::new(order, shim, cgroup, started));
                }
                Err(e) => report(format_args!("a shim of {} cannot be used: {e}", id.run)),
            }
            if let Some(cgroup) = cgroup {
                self.cgroups.leave(cgroup);
            }
            launch = order.launch;
        }
        self.queue_event(&GuardEvent::NotStarted { id });
    }

    fn add_standby(&mut self) {
        // It may stand by for days, so it must not hold open the files of runs that are over.
        self.standby.add(&mut self.cgroups, || {
            self.lock = None;
            self.children.drain(..).for_each(GuardedRun::let_go);
        });
    }
}

/// The event for an attempt that was not started and cannot succeed on another try.
fn failed(id: AttemptId, reason: String) -> GuardEvent {
    let at = clock::now().wall.0;
    GuardEvent::Ended { id, end: ProcessEnd { stopped: None, code: None, reason, output: 0, at } }
}
