//! Rows of the audit log: each requested change, its caller and its outcome.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRow {
    /// Its position in its history.
    pub seq: u64,
    /// Its id, the same in every history.
    pub id: String,
    /// When the change was requested.
    pub at: String,
    /// The node that decided the request.
    pub node: String,
    /// What that node itself proved of the caller: `key`, `user:NAME`, `token:NAME`, `local`, `process`, `node` or `nobody`.
    pub who: String,
    /// The address of the caller; of a forwarded request, `via` the forwarding node and that node's claim.
    pub from: String,
    /// What the caller claims of itself, unproved.
    pub claims: String,
    /// The verb of the change.
    pub verb: String,
    /// The object of the change.
    pub object: String,
    /// The job, if the change is about one.
    pub job: Option<String>,
    /// The node, if the change is about one.
    pub about: Option<String>,
    /// `asked`, `applied`, `unchanged`, `refused`, `denied` or `unknown`.
    pub outcome: String,
    /// The version before; none if there was none.
    pub before: Option<u64>,
    /// The version after.
    pub after: Option<u64>,
    /// What was changed, or why not.
    pub what: String,
}

/// A page of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    /// The entries, the latest first.
    pub audit: Vec<AuditRow>,
    /// The `before` of the next page; none at the end.
    pub before: Option<String>,
    /// Online nodes that did not answer: records that only their histories have are not in the page.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Names in the query that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl AuditRow {
    /// The caller in one line: what was proved, and what was only claimed.
    pub fn actor_text(&self) -> String {
        let from = match self.from.as_str() {
            "" => String::new(),
            via if via.starts_with("via ") => format!(" {via}"),
            from => format!(" from {from}"),
        };
        let claims = if self.claims.is_empty() { String::new() } else { format!(", says {}", self.claims) };
        format!("{}{from}{claims}", self.who)
    }

    /// The change in one line.
    pub fn change_text(&self) -> String {
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
