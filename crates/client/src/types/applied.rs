//! What became of declared jobs.

use evenkeel_core::ids::JobName;
use evenkeel_core::input::ApplyResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SwitchRow;

/// The answer to declarations of jobs. The keys of each object are in the order of letters, as in every answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ApplyAnswer {
    /// What became of each.
    pub jobs: Vec<ApplyRow>,
    /// Warnings, a sentence each.
    pub warnings: Vec<String>,
}

/// What became of one declaration.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApplyRow {
    /// Its effect.
    #[schemars(with = "String")]
    pub applied: ApplyResult,
    /// The operators' switches that it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<SwitchRow>,
    /// The job's name.
    #[schemars(with = "String")]
    pub name: JobName,
    /// The operators' switches that stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchRow>,
}
