//! What history keeps of each attempt.

use evenkeel_core::ids::{FireId, JobName, RunId, Shard, Token};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

/// Where an attempt stands. Every state but `Running` and `Waiting` is an end, and an end is never overwritten (`I22`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// It was given to an executor.
    Running,
    /// It ended as it should.
    Succeeded,
    /// It ended with an error of its own, or could not be started at all.
    Failed,
    /// Somebody ended it.
    Killed,
    /// It took longer than the job allows.
    TimedOut,
    /// Its node's trust in the lease ran out.
    Fenced,
    /// It may have run; nobody will say.
    Lost,
    /// It did not run and will not.
    Skipped,
    /// The attempt before it failed, and it waits for its moment.
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

    /// As programs and people write it.
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

    /// The way back from [`as_str`](Self::as_str).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing will change any more.
    #[must_use]
    pub fn is_end(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }
}

/// One attempt of one run, as history has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its place in the order in which history heard of attempts, for [`RunFilter::before`].
    pub seq: u64,
    /// Which run.
    pub run: RunId,
    /// Counted from 1; 0 for fires that were never attempted.
    pub attempt: u32,
    /// Of which job.
    pub job: JobName,
    /// Which shard.
    pub shard: Shard,
    /// The moment it stands for.
    pub due: Wall,
    /// On which node, as `name` or `name@incarnation`.
    pub node: String,
    /// Where it stands.
    pub state: AttemptState,
    /// In words, for people; empty when there is nothing to add.
    pub reason: String,
    /// A command's exit code.
    pub code: Option<i32>,
    /// Who sent it to this node and why, in words; empty when it ran where its job or shard was held.
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
}

/// Which attempts are wanted, latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFilter {
    /// Of this job only.
    pub job: Option<JobName>,
    /// Of this fire only, all its shards. A node of an earlier version refuses a filter with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fire: Option<FireId>,
    /// Of these attempts only, whatever else is wanted of them; empty for all. A node of an earlier version refuses a filter with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<(RunId, u32)>,
    /// In one of these states only; empty for all.
    pub states: Vec<AttemptState>,
    /// At most so many.
    pub limit: u32,
    /// Only those before this [`RunRecord::seq`]: the last one of the page before.
    pub before: Option<u64>,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self { job: None, fire: None, attempts: Vec::new(), states: Vec::new(), limit: 100, before: None }
    }
}

/// Something that happened to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its place in the order of events.
    pub seq: u64,
    /// When.
    pub at: Wall,
    /// To which node.
    pub node: String,
    /// Which kind, a word: `joined`, `lease_lost`, `alarm` …
    pub kind: String,
    /// In words.
    pub text: String,
}

/// Which events are wanted, latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFilter {
    /// Of this node only.
    pub node: Option<String>,
    /// Of this kind only.
    pub kind: Option<String>,
    /// Only those since then.
    pub since: Option<Wall>,
    /// At most so many.
    pub limit: u32,
    /// Only those before this [`EventRecord::seq`]: the last one of the page before.
    pub before: Option<u64>,
}

impl Default for EventFilter {
    fn default() -> Self {
        Self { node: None, kind: None, since: None, limit: 100, before: None }
    }
}

/// How busy a node was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPoint {
    /// The node's name.
    pub node: String,
    /// When, by its clock.
    pub at: Wall,
    /// How much of its processors was in use, in hundredths of a percent; `None` when that was not known.
    pub cpu: Option<u32>,
    /// How much of its memory, likewise.
    pub memory: Option<u32>,
    /// How many of its slots were busy.
    pub busy: u32,
    /// How many it had.
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
