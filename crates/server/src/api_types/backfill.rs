//! Backfills in answers.

use evenkeel_core::input::ApplyResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A backfill, as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BackfillAnswer {
    /// Its id; none of a dry run.
    pub(crate) id: Option<String>,
    /// The job.
    pub(crate) job: String,
    /// `created`, or `unchanged` if it had been requested already; none of a dry run.
    #[schemars(with = "Option<String>")]
    pub(crate) applied: Option<ApplyResult>,
    /// The moments that its runs stand for, in their order.
    pub(crate) fires: Vec<String>,
    /// How many these are.
    pub(crate) count: usize,
    /// How many of its runs have begun, or are about to.
    pub(crate) claimed: usize,
    /// How many of its runs execute at once, at most.
    pub(crate) max_parallel: u32,
    /// When it was cancelled.
    pub(crate) cancelled: Option<String>,
    /// Its first run: the others are named likewise, with their moments in milliseconds since 1970.
    pub(crate) first_run: Option<String>,
    /// What the caller should know.
    pub(crate) warnings: Vec<String>,
}
