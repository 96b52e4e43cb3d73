//! What needs a person: rows of `GET /api/v1/attention`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a job or a node needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// The history of a node takes no entries, so that the node starts nothing.
    History,
    /// A node is offline: the other nodes do not reach it.
    Offline,
    /// The clock of a node differs so much from the registry's that the node claims no fires.
    Clock,
    /// The latest outcome of a job is a failure.
    Failing,
    /// Runs of a job execute longer than they should.
    Stuck,
    /// Fires or requested runs of a job have not begun although they should have.
    Late,
    /// Fires of a job were skipped within the last day.
    Missed,
    /// No node can run a job, or it is never due, until somebody changes something.
    Unschedulable,
}

impl AttentionKind {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Self; 8] = [
        Self::History,
        Self::Offline,
        Self::Clock,
        Self::Failing,
        Self::Stuck,
        Self::Late,
        Self::Missed,
        Self::Unschedulable,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Offline => "offline",
            Self::Clock => "clock",
            Self::Failing => "failing",
            Self::Stuck => "stuck",
            Self::Late => "late",
            Self::Missed => "missed",
            Self::Unschedulable => "unschedulable",
        }
    }
}

/// A job or a node that needs a person, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionRow {
    /// The reason, as a word.
    pub kind: AttentionKind,
    /// The job; none in a row about a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The node; none in a row about a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Since when, as far as it is known.
    pub since: Option<String>,
    /// How many runs or fires: those that failed in a row, that are stuck, late or missed. 1 in other rows.
    pub count: u64,
    /// The run to look at, or the fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The reason in a sentence, with the fix if there is one.
    pub text: String,
}

/// What needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionPage {
    /// One row for each job or node and reason: the reasons in the order of `kind`, and what lasts longest first.
    pub attention: Vec<AttentionRow>,
    /// How many rows of each kind there are at least, also beyond `limit`; kinds without rows are left out.
    pub counts: BTreeMap<String, u64>,
    /// Online nodes that did not answer: what only they know is not in the rows.
    pub missing: Vec<String>,
}
