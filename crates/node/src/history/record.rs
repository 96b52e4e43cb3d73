//! The records and filters of history.

use evenkeel_core::ids::{FireId, JobName, Namespace, NodeName, RunId, Shard, Token};
use evenkeel_core::job::RunParameters;
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

/// The state of an attempt. All but `Running` and `Waiting` are final, and a final state is never overwritten (`I22`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// It was given to an executor.
    Running,
    /// It ended successfully.
    Succeeded,
    /// It ended with an error of its own, or could not be started at all.
    Failed,
    /// An operator ended it.
    Killed,
    /// It took longer than the job allows.
    TimedOut,
    /// Its node's trust in the lease ran out.
    Fenced,
    /// It may have run; its result will never be known.
    Lost,
    /// It did not run and will not.
    Skipped,
    /// The attempt before it failed, and it waits for its start.
    Waiting,
}

impl AttemptState {
    /// Every state, in the order of their numbers in the file.
    pub const ALL: [Self; 9] = [
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Killed,
        Self::TimedOut,
        Self::Fenced,
        Self::Lost,
        Self::Skipped,
        Self::Waiting,
    ];

    /// The state as programs and people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::TimedOut => "timed_out",
            Self::Fenced => "fenced",
            Self::Lost => "lost",
            Self::Skipped => "skipped",
            Self::Waiting => "waiting",
        }
    }

    /// Parses what [`as_str`](Self::as_str) writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether the state is final.
    #[must_use]
    pub fn is_end(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }
}

/// One attempt of one run, as history stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its position in the order in which history received attempts, for [`RunFilter::before`].
    pub seq: u64,
    /// The run.
    pub run: RunId,
    /// The number of the attempt, from 1; 0 for fires that were never attempted.
    pub attempt: u32,
    /// The job.
    pub job: JobName,
    /// The shard.
    pub shard: Shard,
    /// The due moment of the fire.
    pub due: Wall,
    /// The node, as `name` or `name@incarnation`.
    pub node: String,
    /// The state.
    pub state: AttemptState,
    /// The reason in words, for people; empty when there is nothing to add.
    pub reason: String,
    /// A command's exit code.
    pub code: Option<i32>,
    /// Which node sent it to this node and why, in words; empty when it ran on the owner of its job or shard.
    pub sent: String,
    /// Its fencing token; `None` for fires that were never attempted.
    pub token: Option<Token>,
    /// When it started.
    pub started: Option<Wall>,
    /// When it ended.
    pub ended: Option<Wall>,
    /// For skipped fires, the first moment of the span they cover; equal to `due` otherwise.
    pub from: Wall,
    /// How many bytes of output were kept.
    pub output: u64,
    /// The parameters of a manual run, where the query was for this run alone; none of a fire of the schedule.
    #[serde(default, skip_serializing_if = "RunParameters::is_empty")]
    pub parameters: RunParameters,
}

/// A filter of attempts; the latest come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFilter {
    /// Only of this job.
    pub job: Option<JobName>,
    /// Only of the jobs of this namespace. A node of an earlier version refuses this filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// Only of this fire, with all its shards. A node of an earlier version refuses this filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fire: Option<FireId>,
    /// Only these attempts, whatever the other fields say; empty for all. A node of an older version refuses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<(RunId, u32)>,
    /// Only of this node. A node of an earlier version refuses this filter and the two that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Only of fires that are due at this moment or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Wall>,
    /// Only of fires that are due before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Wall>,
    /// Only in one of these states; empty for all.
    pub states: Vec<AttemptState>,
    /// At most this many.
    pub limit: u32,
    /// Only before this [`RunRecord::seq`]: the last one of the page before.
    pub before: Option<u64>,
}

impl Default for RunFilter {
    fn default() -> Self {
        let (attempts, states) = (Vec::new(), Vec::new());
        Self {
            job: None,
            namespace: None,
            fire: None,
            attempts,
            node: None,
            since: None,
            until: None,
            states,
            limit: 100,
            before: None,
        }
    }
}

/// An event of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its position in the order of events.
    pub seq: u64,
    /// When it happened.
    pub at: Wall,
    /// The node.
    pub node: String,
    /// Its kind, one word: `joined`, `lease_lost`, `alarm` …
    pub kind: String,
    /// The job that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobName>,
    /// Its text.
    pub text: String,
}

/// A filter of events; the latest come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFilter {
    /// Only of this node.
    pub node: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only about jobs of this namespace. A node of an earlier version refuses this filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// Only since this moment.
    pub since: Option<Wall>,
    /// At most this many.
    pub limit: u32,
    /// Only before this [`EventRecord::seq`]: the last one of the page before.
    pub before: Option<u64>,
}

impl Default for EventFilter {
    fn default() -> Self {
        Self { node: None, kind: None, namespace: None, since: None, limit: 100, before: None }
    }
}

/// The load of a node at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPoint {
    /// The node's name.
    pub node: String,
    /// When, by the node's clock.
    pub at: Wall,
    /// The used part of its processors, in hundredths of a percent; `None` when that was not known.
    pub cpu: Option<u32>,
    /// The used part of its memory, likewise.
    pub memory: Option<u32>,
    /// How many of its slots were in use.
    pub busy: u32,
    /// How many slots it had.
    pub slots: u32,
    /// Its load score in hundredths.
    pub score: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_back_as_written() {
        for state in AttemptState::ALL {
            assert_eq!(AttemptState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        assert_eq!(AttemptState::parse("finished"), None);
    }
}
