//! Backfills in answers.

use evenkeel_core::input::ApplyResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A backfill, as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackfillAnswer {
    /// Its id; none of a dry run.
    pub id: Option<String>,
    /// The job.
    pub job: String,
    /// `created`, or `unchanged` if it had been requested already; none of a dry run.
    #[schemars(with = "Option<String>")]
    pub applied: Option<ApplyResult>,
    /// The moments that its runs stand for, in their order.
    pub fires: Vec<String>,
    /// How many these are.
    pub count: usize,
    /// How many of its runs have begun, or are about to.
    pub claimed: usize,
    /// How many of its runs execute at once, at most.
    pub max_parallel: u32,
    /// When it was cancelled.
    pub cancelled: Option<String>,
    /// Its first run: the others are named likewise, with their moments in milliseconds since 1970.
    pub first_run: Option<String>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}
