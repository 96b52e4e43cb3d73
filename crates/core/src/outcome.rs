//! How a run ends: by itself, from outside, or by a verdict where nobody can say.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::ids::RunId;
use crate::shards::ShardSet;
use crate::time::Wall;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// It succeeded.
    Succeeded,
    /// With an error of its own; a command with this exit code, unless a signal ended it or it could not be started.
    Failed(Option<u8>),
    /// It was ended from outside.
    Stopped(StopReason),
}

/// The reason to end a run from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A command cancelled it.
    Killed,
    /// It took longer than the job allows.
    TimedOut,
    /// The node's trust in its lease ran out, so a successor may start.
    Fenced,
    /// A later fire of its job replaced it.
    Replaced,
}

/// An outcome that a run gets without an executor. Kept in the run state until the history has it (law 9).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Verdict {
    /// The run; for skipped fires the latest of them.
    pub run: RunId,
    /// The attempt; 0 for fires that were never attempted.
    pub attempt: u32,
    /// The moment it stood for.
    pub due: Wall,
    /// Lost or skipped.
    pub state: VerdictState,
    /// The reason in words, for people.
    pub reason: String,
    /// The node of the run.
    pub node: String,
    /// For skipped fires, the first moment of the span they cover; equal to `due` otherwise.
    pub from: Wall,
    /// The shards it is about, the run's own among them; empty where that is the only one.
    #[serde(default, skip_serializing_if = "ShardSet::is_empty")]
    pub shards: ShardSet,
}

/// The two outcomes of a run without a report of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictState {
    /// It may have run; its outcome will never be known.
    Lost,
    /// It did not run and will not.
    Skipped,
}
