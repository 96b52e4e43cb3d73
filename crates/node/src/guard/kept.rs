//! A guard that outlives the program which started it: what that one passes on, and what the next one makes of it.

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

use super::keeper::{Guard, UnderWay};
use super::wire::{Attempt, Lines, Order, WIRE};

/// How often a guard that nobody here started is looked at while it ends.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A guard in words: what its pipes do not tell.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pid: i32,
    wire: u32,
    /// The beginning of a word whose end was not read.
    heard: Vec<u8>,
    #[serde(default)]
    lacking: Option<String>,
    runs: Vec<KeptRun>,
    trust: Option<Order>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptRun {
    id: Attempt,
    group: Option<i32>,
    started: i64,
}

/// A guard's pipes, seen from the node.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) orders: OwnedFd,
    pub(crate) words: OwnedFd,
}

/// What a keeper gives away. It neither speaks nor listens until `go_on` is dropped.
pub(crate) struct Passing {
    pub(crate) guard: Kept,
    pub(crate) pipes: Pipes,
    pub(crate) go_on: oneshot::Sender<()>,
}

/// The guard's process.
pub(super) enum Process {
    /// Started by this program.
    Started(Child),
    /// Started by an earlier program of this process, so it is this process's child as well.
    Kept(Pid),
}

impl Process {
    pub(super) fn kill(&mut self) {
        match self {
            Self::Started(child) => drop(child.start_kill()),
            Self::Kept(pid) => drop(rustix::process::kill_process(*pid, Signal::KILL)),
        }
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) {
        match self {
            Self::Started(child) => drop(child.wait().await),
            Self::Kept(pid) => {
                while let Ok(None) = rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG) {
                    sleep(LOOK_AGAIN).await;
                }
            }
        }
    }

    fn pid(&self) -> Option<i32> {
        match self {
            Self::Started(child) => child.id().and_then(|id| i32::try_from(id).ok()),
            Self::Kept(pid) => Some(pid.as_raw_nonzero().get()),
        }
    }
}

impl Guard {
    /// Goes on with a guard that an earlier program of this process started.
    pub(crate) fn resume(kept: &Kept, pipes: Pipes) -> Result<Self, String> {
        let odd = |e: io::Error| format!("its pipes cannot be used: {e}");
        let process = Process::Kept(Pid::from_raw(kept.pid).ok_or("its number makes no sense")?);
        if kept.wire != WIRE {
            return Err(format!("it speaks in way {}, and this program in way {WIRE}", kept.wire));
        }
        Ok(Self {
            process,
            orders: Orders::from_std(ChildStdin::from(pipes.orders)).map_err(odd)?,
            words: Words::from_std(ChildStdout::from(pipes.words)).map_err(odd)?,
            lines: Lines::begun(kept.heard.clone()),
            lacking: kept.lacking.clone(),
        })
    }

    /// What is passed on of it, with these runs.
    pub(super) fn pass<'a>(
        &self,
        runs: impl Iterator<Item = (&'a Attempt, &'a UnderWay)>,
        trust: Option<Order>,
        go_on: oneshot::Sender<()>,
    ) -> io::Result<Passing> {
        let gone = || io::Error::other("the guard process has just ended");
        let kept = |(id, run): (&Attempt, &UnderWay)| KeptRun {
            id: id.clone(),
            group: run.group,
            started: run.started.0,
        };
        let guard = Kept {
            pid: self.process.pid().ok_or_else(gone)?,
            wire: WIRE,
            heard: self.lines.rest().to_vec(),
            lacking: self.lacking.clone(),
            runs: runs.map(kept).collect(),
            trust,
        };
        let orders = self.orders.as_fd().try_clone_to_owned()?;
        Ok(Passing { guard, pipes: Pipes { orders, words: self.words.as_fd().try_clone_to_owned()? }, go_on })
    }
}

impl Kept {
    /// What a keeper is to know of its runs.
    pub(super) fn into_parts(self) -> (impl Iterator<Item = (Attempt, UnderWay)>, Option<Order>) {
        let run = |KeptRun { id, group, started }| (id, UnderWay { group, started: Wall(started) });
        (self.runs.into_iter().map(run), self.trust)
    }
}
