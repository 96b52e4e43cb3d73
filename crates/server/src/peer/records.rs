//! What nodes tell each other of the scheduled fires of jobs.

use evenkeel::{AttemptState, RunRecord};
use evenkeel_core::ids::{Fire, JobName, Shard};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

/// The jobs whose scheduled fires are asked for, and the span in which the fires were due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordsQuery {
    /// The jobs.
    pub(crate) jobs: Vec<JobName>,
    /// The first moment of the span.
    pub(crate) since: Wall,
    /// The end of the span.
    pub(crate) until: Wall,
}

/// What a node's own history has of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordsReply {
    /// The first of the jobs, as many as fit into one answer, and one at least.
    pub(crate) jobs: Vec<RecordsPart>,
    /// Why the history takes no entries, so that outcomes may be missing in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

/// What a history has of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordsPart {
    /// The job.
    pub(crate) job: JobName,
    /// Records of fires that were due at this moment or later are all kept.
    pub(crate) kept_from: Wall,
    /// The last attempt of each run.
    pub(crate) rows: Vec<FireRecord>,
}

/// An attempt of a scheduled fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FireRecord {
    /// When the fire was due.
    pub(crate) due: Wall,
    /// The shard.
    #[serde(default, skip_serializing_if = "is_first")]
    pub(crate) shard: Shard,
    /// The number of the attempt.
    pub(crate) attempt: u32,
    /// The state of the attempt.
    pub(crate) state: AttemptState,
    /// The node, as `name` or `name@incarnation`.
    pub(crate) node: String,
    /// The reason in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// Of a span of skipped fires, the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Wall>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Wall>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(shard: &Shard) -> bool {
    shard.0 == 0
}

impl FireRecord {
    /// The most characters of a reason.
    const REASON_MAX: usize = 200;

    /// An attempt of a scheduled fire; `None` for a manual run.
    pub(crate) fn of(record: &RunRecord) -> Option<Self> {
        let Fire::Due(due) = record.run.fire else { return None };
        Some(Self {
            due,
            shard: record.shard,
            attempt: record.attempt,
            state: record.state,
            node: record.node.clone(),
            reason: record.reason.chars().take(Self::REASON_MAX).collect(),
            from: Some(record.from).filter(|from| *from < due && record.state == AttemptState::Skipped),
            ended: record.ended,
        })
    }

    /// Whether this record is current rather than the other, of two of one run: a later attempt outranks an earlier one, an end
    /// outranks none, and the end that came first a later one.
    pub(crate) fn outranks(&self, known: &Self) -> bool {
        let rank = |record: &Self| match record.state {
            AttemptState::Waiting => 0,
            AttemptState::Running => 1,
            _ => 2,
        };
        match self.attempt.cmp(&known.attempt) {
            std::cmp::Ordering::Equal if rank(self) == 2 && rank(known) == 2 => self.ended < known.ended,
            std::cmp::Ordering::Equal => rank(self) > rank(known),
            order => order.is_gt(),
        }
    }
}
