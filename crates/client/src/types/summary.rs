//! Summaries of fires.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many fires came to which outcome. A fire of a job with shards counts once for each shard, and with retries once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryCounts {
    /// Scheduled fires that came to an outcome: those of the next five counts.
    pub expected: u64,
    /// Those that succeeded.
    pub ran: u64,
    /// Those whose last attempt failed, took too long or is lost.
    pub failed: u64,
    /// Those that were ended by a request, or replaced by a later fire.
    pub killed: u64,
    /// Those that no node ran in time.
    pub missed: u64,
    /// Those that did not run because their job or an operator wanted it so.
    pub skipped: u64,
    /// Scheduled fires that began late: later than `late_after` of their job, or a minute.
    pub late: u64,
    /// Manual runs that came to any outcome.
    pub manual: u64,
    /// How long the last attempts of the scheduled fires took together, in milliseconds.
    pub run_millis: u64,
}

/// The counts of one hour, day or job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryLine {
    /// When the hour or the day begins; not present for a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The job; not present for an hour or a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The counts.
    pub counts: SummaryCounts,
}

/// A summary of fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryPage {
    /// The first moment of the range: the beginning of an hour.
    pub since: String,
    /// The moment at which the range ends: the end of an hour.
    pub until: String,
    /// The rows; none for an hour, day or job without counts.
    pub rows: Vec<SummaryLine>,
    /// The counts of all fires that are asked for, also of those on other pages.
    pub totals: SummaryCounts,
    /// The `after` of the next page of jobs; none at the end.
    pub after: Option<String>,
    /// Online nodes that did not answer: fires that only their histories counted are left out.
    #[serde(default)]
    pub missing: Vec<String>,
}
