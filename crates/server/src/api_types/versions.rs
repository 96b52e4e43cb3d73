//! The versions of a job, and how they differ.

use evenkeel::{JobChange, JobVersion};
use evenkeel_core::input::ApplyResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SwitchRow;
use super::words::moment;

/// One version of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JobVersionRow {
    /// The version of the job's entry. Switches of operators have versions, too, and are not listed.
    pub(crate) version: u64,
    /// When the change was requested; none where that is not known.
    pub(crate) at: Option<String>,
    /// What was proved of who requested it, as in the audit log; none where that is not known.
    pub(crate) who: Option<String>,
    /// What that caller claimed of itself, unproved.
    pub(crate) claims: Option<String>,
    /// `created`, `changed`, `rolled_back`, `accepted`, `deleted`, or `found`: the registry had it and no history that answers
    /// knows who declared it.
    pub(crate) change: String,
    /// The version that a rollback declared again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restored: Option<u64>,
    /// The keys that differ from the version before; none where no history has that one.
    pub(crate) fields: Option<Vec<String>>,
    /// Whether it is what is declared now.
    pub(crate) current: bool,
}

/// A page of versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JobVersionPage {
    /// The versions, the latest first.
    pub(crate) versions: Vec<JobVersionRow>,
    /// The `after` of the next page; none at the end.
    pub(crate) after: Option<u64>,
    /// Online nodes that did not answer: versions that only their histories have are not in the page.
    pub(crate) missing: Vec<String>,
}

/// One version of a job with its declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JobVersionDetail {
    /// The version.
    #[serde(flatten)]
    pub(crate) row: JobVersionRow,
    /// The declaration, with the keys of a job file; none if the job was deleted.
    pub(crate) job: Option<Map<String, Value>>,
    /// The version with which it is compared; none where there is none.
    pub(crate) compared_with: Option<u64>,
    /// What differs from that version, by the names of keys.
    pub(crate) changes: Vec<FieldChange>,
    /// Online nodes that did not answer.
    pub(crate) missing: Vec<String>,
}

/// A key whose value differs between two versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FieldChange {
    /// The key; one in a table has the table's key before it, as `retry.delay`.
    pub(crate) field: String,
    /// The value before; null where it was not set.
    pub(crate) old: Value,
    /// The value after; null where it is not set.
    pub(crate) new: Value,
}

/// What a rollback did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RollbackAnswer {
    /// The job.
    pub(crate) name: String,
    /// The version whose declaration was restored.
    pub(crate) restored: u64,
    /// The version that was declared before; none if the job was deleted.
    pub(crate) from: Option<u64>,
    /// What changed of the declaration.
    pub(crate) changes: Vec<FieldChange>,
    /// Its effect; none for a dry run.
    #[schemars(with = "Option<String>")]
    pub(crate) applied: Option<ApplyResult>,
    /// The operators' switches that stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) switches: Vec<SwitchRow>,
    /// The operators' switches that it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ended: Vec<SwitchRow>,
    /// Warnings, a sentence each.
    pub(crate) warnings: Vec<String>,
}

impl JobVersionRow {
    /// The row of a version.
    pub(crate) fn of(version: &JobVersion, fields: Option<Vec<String>>, current: bool) -> Self {
        let asker = version.asker.as_ref();
        Self {
            version: version.version,
            at: (version.change != JobChange::Found).then(|| moment(version.at)),
            who: asker.map(|asker| asker.proof.to_string()),
            claims: asker.map(|asker| asker.claims.clone()).filter(|claims| !claims.is_empty()),
            change: version.change.to_string(),
            restored: version.restored,
            fields,
            current,
        }
    }
}
