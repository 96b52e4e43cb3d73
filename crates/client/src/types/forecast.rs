//! How many fires are due in a time to come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many fires are due in each step of a time to come, as declarations and switches are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastAnswer {
    /// The first moment of the first step.
    pub begin: String,
    /// The length of a step.
    pub step: ForecastStep,
    /// The number of fires in each step. A fire of a sharded job is one.
    pub fires: Vec<u64>,
    /// The number of runs that these fires have: a fire of a sharded job has one for each shard, of a broadcast job one for each
    /// node that is eligible now.
    pub runs: Vec<u64>,
    /// The number of fires in all steps.
    pub total: u64,
    /// The steps with the most fires, at most three, the highest first.
    pub peaks: Vec<ForecastPeakRow>,
    /// The first step with the fewest fires.
    pub quietest: QuietStepRow,
    /// How many jobs are counted.
    pub jobs: usize,
    /// How many jobs are not counted because they are disabled or paused.
    pub inactive: usize,
    /// How many jobs are not counted because they run only when triggered.
    pub manual: usize,
    /// How many jobs are not counted because their fires are not known ahead: they follow runs (`@after`), or the job lacks a
    /// calendar or an eligible node.
    pub unpredictable: usize,
    /// How many jobs are not counted because that would take too long. Of many that fire very often under many schedules the jobs
    /// with the rarest schedules are left out.
    pub uncounted: usize,
}

/// The length of a step of a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForecastStep {
    /// A minute.
    #[default]
    Minute,
    /// An hour.
    Hour,
}

impl ForecastStep {
    /// How many minutes it has.
    pub fn minutes(self) -> u32 {
        match self {
            Self::Minute => 1,
            Self::Hour => 60,
        }
    }
}

/// A step with many fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastPeakRow {
    /// Its first moment.
    pub at: String,
    /// The number of fires in it.
    pub fires: u64,
    /// The number of their runs.
    pub runs: u64,
    /// How many jobs fire in it.
    pub jobs: u64,
    /// The jobs that fire most often in it, at most ten.
    pub names: Vec<String>,
}

/// A step with few fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuietStepRow {
    /// Its first moment.
    pub at: String,
    /// The number of fires in it.
    pub fires: u64,
}
