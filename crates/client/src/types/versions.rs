//! The versions of a job, and how they differ.

use evenkeel_core::input::ApplyResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SwitchRow;

/// One version of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobVersionRow {
    /// The version of the job's entry. Switches of operators have versions, too, and are not listed.
    pub version: u64,
    /// When the change was requested; none where that is not known.
    pub at: Option<String>,
    /// What was proved of who requested it, as in the audit log; none where that is not known.
    pub who: Option<String>,
    /// What that caller claimed of itself, unproved.
    pub claims: Option<String>,
    /// `created`, `changed`, `rolled_back`, `accepted`, `deleted`, or `found`: the registry had it and no history that answers
    /// knows who declared it.
    pub change: String,
    /// The version that a rollback declared again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<u64>,
    /// The keys that differ from the version before; none where no history has that one.
    pub fields: Option<Vec<String>>,
    /// Whether it is what is declared now.
    pub current: bool,
}

/// A page of versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobVersionPage {
    /// The versions, the latest first.
    pub versions: Vec<JobVersionRow>,
    /// The `after` of the next page; none at the end.
    pub after: Option<u64>,
    /// Online nodes that did not answer: versions that only their histories have are not in the page.
    pub missing: Vec<String>,
}

/// One version of a job with its declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobVersionDetail {
    /// The version.
    #[serde(flatten)]
    pub row: JobVersionRow,
    /// The declaration, with the keys of a job file; none if the job was deleted.
    pub job: Option<Map<String, Value>>,
    /// The version with which it is compared; none where there is none.
    pub compared_with: Option<u64>,
    /// What differs from that version, by the names of keys.
    pub changes: Vec<FieldChange>,
    /// Online nodes that did not answer.
    pub missing: Vec<String>,
}

/// A key whose value differs between two versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// The key; one in a table has the table's key before it, as `retry.delay`.
    pub field: String,
    /// The value before; null where it was not set.
    pub old: Value,
    /// The value after; null where it is not set.
    pub new: Value,
}

/// What a rollback did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RollbackAnswer {
    /// The job.
    pub name: String,
    /// The version whose declaration was restored.
    pub restored: u64,
    /// The version that was declared before; none if the job was deleted.
    pub from: Option<u64>,
    /// What changed of the declaration.
    pub changes: Vec<FieldChange>,
    /// Its effect; none for a dry run.
    #[schemars(with = "Option<String>")]
    pub applied: Option<ApplyResult>,
    /// The operators' switches that stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchRow>,
    /// The operators' switches that it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<SwitchRow>,
    /// Warnings, a sentence each.
    pub warnings: Vec<String>,
}
