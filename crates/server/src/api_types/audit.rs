//! Rows of the audit log: each requested change, its caller and its outcome.

use evenkeel::audit::AuditRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words::moment;

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AuditRow {
    /// Its position in its history.
    pub(crate) seq: u64,
    /// Its id, the same in every history.
    pub(crate) id: String,
    /// When the change was requested.
    pub(crate) at: String,
    /// The node that decided the request.
    pub(crate) node: String,
    /// What that node itself proved of the caller: `key`, `user:NAME`, `token:NAME`, `local`, `process`, `node` or `nobody`.
    pub(crate) who: String,
    /// The address of the caller; of a forwarded request, `via` the forwarding node and that node's claim.
    pub(crate) from: String,
    /// What the caller claims of itself, unproved.
    pub(crate) claims: String,
    /// The verb of the change.
    pub(crate) verb: String,
    /// The object of the change.
    pub(crate) object: String,
    /// The job, if the change is about one.
    pub(crate) job: Option<String>,
    /// The node, if the change is about one.
    pub(crate) about: Option<String>,
    /// `asked`, `applied`, `unchanged`, `refused`, `denied` or `unknown`.
    pub(crate) outcome: String,
    /// The version before; none if there was none.
    pub(crate) before: Option<u64>,
    /// The version after.
    pub(crate) after: Option<u64>,
    /// What was changed, or why not.
    pub(crate) what: String,
}

/// A page of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AuditPage {
    /// The entries, the latest first.
    pub(crate) audit: Vec<AuditRow>,
    /// The `before` of the next page; none at the end.
    pub(crate) before: Option<String>,
    /// Online nodes that did not answer: records that only their histories have are not in the page.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
    /// Names in the query that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl AuditRow {
    /// The row of a record.
    pub(crate) fn of(record: &AuditRecord) -> Self {
        Self {
            seq: record.seq,
            id: record.id.clone(),
            at: moment(record.at),
            node: record.node.clone(),
            who: record.asker.proof.to_string(),
            from: record.asker.from.clone(),
            claims: record.asker.claims.clone(),
            verb: record.verb.clone(),
            object: record.object.clone(),
            job: record.job.as_ref().map(ToString::to_string),
            about: record.about.as_ref().map(ToString::to_string),
            outcome: record.outcome.to_string(),
            before: record.before,
            after: record.after,
            what: record.what.clone(),
        }
    }

    /// The caller in one line: what was proved, and what was only claimed.
    pub(crate) fn actor_text(&self) -> String {
        let from = match self.from.as_str() {
            "" => String::new(),
            via if via.starts_with("via ") => format!(" {via}"),
            from => format!(" from {from}"),
        };
        let claims = if self.claims.is_empty() { String::new() } else { format!(", says {}", self.claims) };
        format!("{}{from}{claims}", self.who)
    }

    /// The change in one line.
    pub(crate) fn change_text(&self) -> String {
        match (self.before, self.after) {
            (None, None) => self.what.clone(),
            (before, after) => {
                let version = |version: Option<u64>| version.map_or("none".to_owned(), |v| v.to_string());
                let what = if self.what.is_empty() { String::new() } else { format!(": {}", self.what) };
                format!("version {} → {}{what}", version(before), version(after))
            }
        }
    }
}
