//! The bounds of a search, and the commands that may come in it.

use evenkeel_core::input::{Command, NodeSwitch};
use evenkeel_core::job::Delivery;

use super::flaw::ProtocolFlaw;
use super::names::{job, name};

/// The bounds of a search.
#[derive(Clone, Debug)]
pub struct ModelScope {
    /// The delivery guarantee of the job.
    pub delivery: Delivery,
    /// The number of shards of a fire; `None` for a job that is claimed.
    pub shards: Option<u32>,
    /// Whether the job is dispatched instead: nodes take beats, plan, offer and accept.
    pub dispatched: bool,
    /// When the job is due, in whole seconds from the start, in ms.
    pub due: Vec<i64>,
    /// Whether the nodes have joined already, one after the other, and the first one owns the job. Otherwise both start
    /// at the same moment, and race for it.
    pub joined: bool,
    /// Whether answers take their own time, so that any message may come between a request and its answer. Otherwise
    /// that is a fault.
    pub split: bool,
    /// The maximum number of faults.
    pub faults: u8,
    /// Whether only the simplest faults occur: a crash, a cut, a lost answer.
    pub plain: bool,
    /// Of a sharded job, the only shard whose run lasts: the others' end before time goes on. `None`: all last.
    pub lasting: Option<u32>,
    /// The maximum number of operator commands.
    pub commands: u8,
    /// The possible commands.
    pub choice: &'static [ModelCommand],
    /// From this moment on, in ms, no fault begins, faults end and runs end.
    pub heal: i64,
    /// By this moment, in ms, every fire must have its outcome.
    pub end: i64,
    /// The rule to remove, to test whether the search notices.
    pub flaw: Option<ProtocolFlaw>,
    /// The number of states after which the search stops, incomplete.
    pub states: usize,
}

/// A command of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelCommand {
    /// Pause the job.
    Pause,
    /// Disable the job.
    Disable,
    /// Delete the job.
    Delete,
    /// Drain the node that owns the job first.
    Drain,
    /// Leave.
    Leave,
    /// Disable the node that is not the leader for the job.
    SwitchOff,
}

impl ModelCommand {
    pub(super) const CLAIMED: &'static [Self] =
        &[Self::Pause, Self::Disable, Self::Delete, Self::Drain, Self::Leave];
    pub(super) const SHARDED: &'static [Self] =
        &[Self::Pause, Self::Disable, Self::Delete, Self::Drain, Self::Leave, Self::SwitchOff];

    pub(super) fn command(self) -> Command {
        match self {
            Self::Pause => Command::Pause(job()),
            Self::Disable => Command::Disable(job()),
            Self::Delete => Command::Delete(job()),
            Self::Drain => Command::Drain(name(0)),
            Self::Leave => Command::Leave,
            Self::SwitchOff => Command::Switch(job(), name(1), NodeSwitch::Disabled(true)),
        }
    }
}
