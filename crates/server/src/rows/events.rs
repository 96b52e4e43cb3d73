//! What happened to nodes, as rows.

use evenkeel::EventRecord;
use serde::{Deserialize, Serialize};

use super::moment;

/// Something that happened to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventRow {
    /// Its place in the order in which history heard of events.
    pub(crate) seq: u64,
    /// When.
    pub(crate) at: String,
    /// Which node says so.
    pub(crate) node: String,
    /// Which kind, a word.
    pub(crate) kind: String,
    /// In words.
    pub(crate) text: String,
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventPage {
    /// The latest first.
    pub(crate) events: Vec<EventRow>,
    /// Give this as `before` for the next page; none at the end.
    pub(crate) before: Option<String>,
}

impl EventRow {
    /// A record as a row.
    pub(crate) fn of(record: &EventRecord) -> Self {
        let EventRecord { seq, at, node, kind, text } = record;
        Self { seq: *seq, at: moment(*at), node: node.clone(), kind: kind.clone(), text: text.clone() }
    }
}
