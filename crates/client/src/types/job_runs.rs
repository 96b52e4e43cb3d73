//! What the runs of a job in a list do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the runs of a job do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobRunsRow {
    /// How its latest ended fire ended; none if no history has one.
    pub last: Option<JobOutcomeRow>,
    /// The number of attempts that execute.
    pub running: usize,
    /// The number of runs that wait.
    pub waiting: usize,
}

/// How the latest ended fire of a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobOutcomeRow {
    /// Its run; of several shards one with the worst outcome of those that have ended.
    pub run: String,
    /// `succeeded`, `failed`, `killed`, `timed_out`, `fenced`, `lost` or `skipped`.
    pub state: String,
    /// The moment at which the fire was due.
    pub due: String,
    /// When the run ended.
    pub ended: String,
}
