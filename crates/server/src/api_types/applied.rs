//! What became of declared jobs.

use evenkeel_core::ids::JobName;
use evenkeel_core::input::ApplyResult;
use schemars::JsonSchema;
use serde::Serialize;

use super::SwitchRow;

/// The answer to declarations of jobs. The keys of each object are in the order of letters, as in every answer.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ApplyAnswer {
    /// What became of each.
    pub(crate) jobs: Vec<ApplyRow>,
    /// Warnings, a sentence each.
    pub(crate) warnings: Vec<String>,
}

/// What became of one declaration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ApplyRow {
    /// Its effect.
    #[schemars(with = "String")]
    pub(crate) applied: ApplyResult,
    /// The operators' switches that it ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ended: Vec<SwitchRow>,
    /// The job's name.
    #[schemars(with = "String")]
    pub(crate) name: JobName,
    /// The operators' switches that stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) switches: Vec<SwitchRow>,
}
