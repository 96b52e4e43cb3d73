//! What nodes ask each other for the list of what needs a person.

use evenkeel::AttemptState;
use evenkeel_core::ids::{JobName, Namespace, RunId, Shard};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

/// Which facts to return.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttentionQuery {
    /// Whether to read the called node's history: not where all nodes share one.
    pub(crate) history: bool,
    /// Only jobs of this namespace.
    pub(crate) namespace: Option<Namespace>,
    /// Only jobs whose labels meet these conditions.
    pub(crate) label: Option<String>,
    /// Only missed fires that were due at this moment or later.
    pub(crate) since: Wall,
    /// At most this many jobs of each kind.
    pub(crate) limit: u32,
}

/// What a node knows of jobs that may need a person. A node of another version may leave something out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AttentionFacts {
    /// Shards whose latest outcome in its history is a failure; the jobs that fail longest first.
    pub(crate) failing: Vec<FailingFact>,
    /// How many further jobs fail.
    pub(crate) failing_more: u64,
    /// Jobs with missed fires, the latest first.
    pub(crate) missed: Vec<MissedFact>,
    /// How many further jobs have missed fires.
    pub(crate) missed_more: u64,
    /// Running attempts that take much longer than the runs before.
    pub(crate) long: Vec<LongRunFact>,
    /// Jobs with a due fire that waits for a slot of this node.
    pub(crate) waiting: Vec<JobName>,
}

/// A shard of a job whose latest outcome in a node's history is a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FailingFact {
    /// The job.
    pub(crate) job: JobName,
    /// The shard.
    pub(crate) shard: Shard,
    /// When the first failure in a row ended.
    pub(crate) since: Wall,
    /// When the last one ended.
    pub(crate) last: Wall,
    /// How many runs failed in a row, of those that were looked at.
    pub(crate) count: u64,
    /// The last run that failed, if it was among them.
    pub(crate) run: Option<RunId>,
    /// Why it failed.
    pub(crate) reason: String,
    /// How many shards of the job fail.
    pub(crate) shards: u64,
}

/// The missed fires of a job in a node's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MissedFact {
    /// The job.
    pub(crate) job: JobName,
    /// How many fires.
    pub(crate) fires: u64,
    /// When the first one was due.
    pub(crate) first: Wall,
    /// When the last one was due.
    pub(crate) last: Wall,
    /// The last run that was not made.
    pub(crate) run: Option<RunId>,
    /// Why it was not made.
    pub(crate) reason: String,
}

/// A running attempt that takes much longer than the runs before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LongRunFact {
    /// The run.
    pub(crate) run: RunId,
    /// The attempt.
    pub(crate) attempt: u32,
    /// How long the longest of the latest successful runs took, in milliseconds.
    pub(crate) usual_ms: i64,
}

/// The jobs whose latest successes to return.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuccessQuery {
    /// The jobs.
    pub(crate) jobs: Vec<JobName>,
}

/// The latest successes in a node's history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SuccessFacts {
    /// One for each shard that succeeded lately.
    pub(crate) rows: Vec<SuccessFact>,
}

/// When a shard of a job succeeded last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SuccessFact {
    /// The job.
    pub(crate) job: JobName,
    /// The shard.
    pub(crate) shard: Shard,
    /// When its latest success ended.
    pub(crate) at: Wall,
}

/// The jobs whose last outcomes to return.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomeQuery {
    /// The jobs.
    pub(crate) jobs: Vec<JobName>,
}

/// The last outcomes in a node's history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OutcomeFacts {
    /// One for each job with a fire that has ended lately.
    pub(crate) rows: Vec<OutcomeFact>,
}

/// How the latest ended fire of a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutcomeFact {
    /// The job.
    pub(crate) job: JobName,
    /// The run with the worst outcome of that fire.
    pub(crate) run: RunId,
    /// Its outcome.
    pub(crate) state: AttemptState,
    /// When the fire was due.
    pub(crate) due: Wall,
    /// When the run ended.
    pub(crate) at: Wall,
}
