//! The end of a node whose process has died: its guard removes its member from the registry, so that other nodes need
//! not wait until its lease ends.
//!
//! Three facts must hold first. The pipe from the node is closed, so that no order can follow. The node's process has
//! ended, by its pidfd: the pipe of a node that stops in a living process closes too. And no process of a run is left.
//! Where one cannot be shown, the guard does nothing, and the lease ends by its term.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use evenkeel_core::member_entry::MemberEntry;
use evenkeel_core::registry::{LeaseId, TxnOutcome};
use evenkeel_registry::RegistryError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout_at};

use super::report::report;
use crate::clock;

/// How long after its pipe a process may take to end: the kernel closes a process's files first.
const DEATH: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How long the guard tries to reach the registry at most. The data folder is locked meanwhile, so that the node's next
/// life waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after a failure it tries again.
const RETRY: Duration = Duration::from_millis(200);

/// What the guard needs to remove its node's member.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRemoval {
    pub(crate) entry: MemberEntry,
    /// The registry's URL, which may have a password in it.
    pub(crate) registry: String,
}

impl fmt::Debug for MemberRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registry = evenkeel_registry::redacted(&self.registry);
        f.debug_struct("MemberRemoval").field("entry", &self.entry).field("registry", &registry).finish()
    }
}

/// The process of the guard's node, which started the guard.
pub(super) struct ParentProcess(Option<(Pid, OwnedFd)>);

impl ParentProcess {
    /// The process that started this one.
    pub(super) fn open() -> Self {
        // On a kernel without pidfds no death can be shown.
        let opened = |pid: Pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?));
        Self(rustix::process::getppid().and_then(opened))
    }

    /// Its number, which no other process has while it lives.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.0.as_ref().map(|(pid, _)| *pid)
    }

    /// Kills it. Has no effect on the first process of a container from inside that container.
    pub(super) fn kill(&self) {
        if let Some((_, process)) = &self.0
            && let Err(e) = pidfd_send_signal(process, Signal::KILL)
        {
            report(format_args!("the node cannot be killed: {e}"));
        }
    }

    /// Whether it has ended, or does within a moment.
    fn is_dead(&self) -> bool {
        let Some((_, process)) = &self.0 else { return false };
        let mut bells = [PollFd::new(process, PollFlags::IN)];
        loop {
            match poll(&mut bells, Some(&DEATH)) {
                Err(rustix::io::Errno::INTR) => {}
                ended => return ended.is_ok_and(|n| n > 0) && bells[0].revents().contains(PollFlags::IN),
            }
        }
    }
}

impl MemberRemoval {
    /// Removes the member if its process has ended. The caller has shown that all runs have. Gives up after `left`, when
    /// the lease ends by its term. Starts threads, so that this process can start no run any more.
    pub(super) fn carry_out(&self, node: &ParentProcess, left: Duration) {
        if left.is_zero() || !node.is_dead() {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let removed = runtime
            .map_err(|e| e.to_string())
            .and_then(|runtime| runtime.block_on(self.remove(left.min(PATIENCE))));
        if let Err(why) = removed {
            report(format_args!("{} counts as online until its lease ends: {why}", self.entry.member));
        }
    }

    async fn remove(&self, patience: Duration) -> Result<(), String> {
        let deadline = clock::deadline_after(patience);
        let mut why = format!("the registry did not answer within {patience:?}");
        loop {
            match timeout_at(deadline, self.try_removal()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(e @ RegistryError::Unavailable(_))) => why = e.to_string(),
                Ok(Err(e)) => return Err(e.to_string()),
                Err(_) => return Err(why),
            }
            sleep(RETRY).await;
        }
    }

    async fn try_removal(&self) -> Result<(), RegistryError> {
        let registry = evenkeel_registry::open(&self.registry).await?;
        match registry.commit(vec![self.entry.removal()]).await.pop() {
            // A late request to join would make the member again, as long as the lease is open. Where the outcome was
            // unknown the lease stays: a registry that went back in time may have given its number to another node.
            Some(TxnOutcome::Applied(_)) => registry.close(LeaseId(self.entry.member.incarnation)).await,
            Some(TxnOutcome::Refused(_)) => Ok(()),
            Some(TxnOutcome::Unknown) | None => {
                let why = registry.last_error().map(|error| error.to_string());
                Err(RegistryError::Unavailable(why.unwrap_or_else(|| "the outcome is unknown".to_owned())))
            }
        }
    }
}
