//! Hands a running guard over from the program that started it to the next one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, ChildStdout};
use std::time::Duration;

use evenkeel_core::time::Wall;
use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, ChildStdin as Orders, ChildStdout as Words};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::client::{GuardConnection, GuardedAttempt};
use super::wire::{AttemptId, GuardRequest, LineReader, WIRE};

/// How often to check whether an inherited guard has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The serialized state of a guard, besides its pipes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardHandoff {
    pid: i32,
    wire: u32,
    /// The beginning of an event whose end was not read yet.
    heard: Vec<u8>,
    #[serde(default)]
    lacking: Option<String>,
    runs: Vec<GuardHandoffRun>,
    trust: Option<GuardRequest>,
}

#[derive(Debug, Serialize, Deserialize)]
struct GuardHandoffRun {
    id: AttemptId,
    group: Option<i32>,
    started: i64,
}

/// A guard's pipes, seen from the node.
#[derive(Debug)]
pub(crate) struct GuardPipes {
    pub(crate) requests: OwnedFd,
    pub(crate) events: OwnedFd,
}

/// A guard that is handed over. The client neither sends nor reads until `resume` is dropped.
pub(crate) struct GuardTransfer {
    pub(crate) guard: GuardHandoff,
    pub(crate) pipes: GuardPipes,
    pub(crate) resume: oneshot::Sender<()>,
}

/// The guard's process.
pub(super) enum GuardProcess {
    /// Started by this program.
    Started(Child),
    /// Started by an earlier program of this process, so it is this process's child as well.
    Inherited(Pid),
}

impl GuardProcess {
    pub(super) fn kill(&mut self) {
        match self {
            Self::Started(child) => drop(child.start_kill()),
            Self::Inherited(pid) => drop(rustix::process::kill_process(*pid, Signal::KILL)),
        }
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) {
        match self {
            Self::Started(child) => drop(child.wait().await),
            Self::Inherited(pid) => {
                while let Ok(None) = rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG) {
                    sleep(LOOK_AGAIN).await;
                }
            }
        }
    }

    fn pid(&self) -> Option<i32> {
        match self {
            Self::Started(child) => child.id().and_then(|id| i32::try_from(id).ok()),
            Self::Inherited(pid) => Some(pid.as_raw_nonzero().get()),
        }
    }
}

impl GuardConnection {
    /// Continues with a guard that an earlier program of this process started.
    pub(crate) fn resume(kept: &GuardHandoff, pipes: GuardPipes) -> Result<Self, String> {
        let odd = |e: io::Error| format!("its pipes cannot be used: {e}");
        let process = GuardProcess::Inherited(Pid::from_raw(kept.pid).ok_or("its number makes no sense")?);
        if kept.wire != WIRE {
            return Err(format!("it speaks in way {}, and this program in way {WIRE}", kept.wire));
        }
        Ok(Self {
            process,
            requests: Orders::from_std(ChildStdin::from(pipes.requests)).map_err(odd)?,
            events: Words::from_std(ChildStdout::from(pipes.events)).map_err(odd)?,
            lines: LineReader::begun(kept.heard.clone()),
            lacking: kept.lacking.clone(),
        })
    }

    /// The state to hand over, with these runs.
    pub(super) fn hand_off<'a>(
        &self,
        runs: impl Iterator<Item = (&'a AttemptId, &'a GuardedAttempt)>,
        trust: Option<GuardRequest>,
        go_on: oneshot::Sender<()>,
    ) -> io::Result<GuardTransfer> {
        let gone = || io::Error::other("the guard process has just ended");
        let kept = |(id, run): (&AttemptId, &GuardedAttempt)| GuardHandoffRun {
            id: id.clone(),
            group: run.group,
            started: run.started.0,
        };
        let guard = GuardHandoff {
            pid: self.process.pid().ok_or_else(gone)?,
            wire: WIRE,
            heard: self.lines.rest().to_vec(),
            lacking: self.lacking.clone(),
            runs: runs.map(kept).collect(),
            trust,
        };
        let orders = self.requests.as_fd().try_clone_to_owned()?;
        Ok(GuardTransfer {
            guard,
            pipes: GuardPipes { requests: orders, events: self.events.as_fd().try_clone_to_owned()? },
            resume: go_on,
        })
    }
}

impl GuardHandoff {
    /// The runs' state, for the client.
    pub(super) fn into_parts(
        self,
    ) -> (impl Iterator<Item = (AttemptId, GuardedAttempt)>, Option<GuardRequest>) {
        let run =
            |GuardHandoffRun { id, group, started }| (id, GuardedAttempt { group, started: Wall(started) });
        (self.runs.into_iter().map(run), self.trust)
    }
}
