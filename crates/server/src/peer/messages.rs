//! What nodes send each other.

use evenkeel::{RunFilter, SummaryFilter};
use evenkeel_core::ids::RunId;
use evenkeel_core::input::Offer;
use serde::{Deserialize, Serialize};

/// Runs that are planned for the called node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunOffers {
    /// The runs.
    pub(super) runs: Vec<Offer>,
}

/// The response to an offer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OfferReply {
    /// The runs for which there is no slot; the others are accepted.
    pub(super) busy: Vec<RunId>,
}

/// The piece of an attempt's output to return.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogPieceQuery {
    /// The attempt.
    pub(crate) attempt: u32,
    /// The offset of its first byte.
    pub(crate) offset: u64,
    /// Whether to wait for output if there is none yet.
    pub(crate) follow: bool,
}

/// The attempt of whose output the last lines are wanted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogTailQuery {
    /// The attempt.
    pub(crate) attempt: u32,
    /// How many lines.
    pub(crate) lines: u32,
}

/// Where the last lines begin.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LogTailReply {
    /// The offset of their first byte.
    pub(crate) offset: u64,
}

/// The attempts to return from a node's own history.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerRunQuery {
    /// Only those of this run.
    pub(crate) run: Option<RunId>,
    /// Otherwise a page of these.
    pub(crate) filter: RunFilter,
}

/// The fires of a node's own history to sum up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerSummaryQuery {
    /// Which fires.
    pub(crate) filter: SummaryFilter,
    /// Only of jobs whose labels fit, by the called node's view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

/// A page of a node's history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PeerHistoryPage<T> {
    /// The rows, in the order of that history.
    pub(crate) rows: Vec<T>,
    /// The position of the next page: before this number. A node of an earlier version leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<u64>,
}

impl<T> Default for PeerHistoryPage<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), next: None }
    }
}

/// The health of a node's history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HistoryHealth {
    /// Why it takes no entries, so that the node starts nothing and refuses changes.
    pub(crate) trouble: Option<String>,
}
