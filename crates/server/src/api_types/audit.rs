//! Who asked for which change, as rows.

use evenkeel::audit::AuditRecord;
use serde::{Deserialize, Serialize};

use super::moment;

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditRow {
    /// Its place in the order in which its history heard of entries.
    pub(crate) seq: u64,
    /// What names it in every history.
    pub(crate) id: String,
    /// When it was asked for.
    pub(crate) at: String,
    /// The node that decided.
    pub(crate) node: String,
    /// What the deciding node itself proved of the request: `key`, `local`, `process`, `node` or `nobody`.
    pub(crate) who: String,
    /// The address of the request; of one that another node hands on `via` that node, and what that node claims of its caller.
    pub(crate) from: String,
    /// What he says of himself, which nobody has proved.
    pub(crate) claims: String,
    /// What was asked for, a word.
    pub(crate) verb: String,
    /// Of which thing.
    pub(crate) object: String,
    /// The job, where it is about one.
    pub(crate) job: Option<String>,
    /// The node that it is about, where it is about one.
    pub(crate) about: Option<String>,
    /// `asked`, `applied`, `unchanged`, `refused`, `denied` or `unknown`.
    pub(crate) outcome: String,
    /// The version before; none where there was none.
    pub(crate) before: Option<u64>,
    /// The version that it made.
    pub(crate) after: Option<u64>,
    /// What was changed, or why not, in words.
    pub(crate) what: String,
}

/// A page of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditPage {
    /// The latest first.
    pub(crate) audit: Vec<AuditRow>,
    /// Give this as `before` for the next page; none at the end.
    pub(crate) before: Option<String>,
    /// Nodes that live and did not answer: what only their histories have is not in the page.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
    /// Names that were asked for and that nobody has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl AuditRow {
    /// A record as a row.
    pub(crate) fn of(record: &AuditRecord) -> Self {
        Self {
            seq: record.seq,
            id: record.id.clone(),
            at: moment(record.at),
            node: record.node.clone(),
            who: record.asker.proof.as_str().to_owned(),
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

    /// Who it was, in one line: what was proved, and what was only said.
    pub(crate) fn actor_text(&self) -> String {
        let from = match self.from.as_str() {
            "" => String::new(),
            via if via.starts_with("via ") => format!(" {via}"),
            from => format!(" from {from}"),
        };
        let claims = if self.claims.is_empty() { String::new() } else { format!(", says {}", self.claims) };
        format!("{}{from}{claims}", self.who)
    }

    /// What was changed, in one line.
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
