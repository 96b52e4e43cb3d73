//! What happened to nodes, as rows.

use evenkeel::{EventRecord, LoadPoint};
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

/// How busy a node was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadRow {
    /// When, by its clock.
    pub(crate) at: String,
    /// How much of its processors was in use, in percent; none when that was not known.
    pub(crate) cpu: Option<f64>,
    /// How much of its memory, likewise.
    pub(crate) memory: Option<f64>,
    /// How many of its slots were busy.
    pub(crate) busy: u32,
    /// How many it had.
    pub(crate) slots: u32,
    /// Its load score: 0 has nothing to do, 100 can do no more.
    pub(crate) score: f64,
}

impl LoadRow {
    /// A point as a row.
    pub(crate) fn of(point: &LoadPoint) -> Self {
        let hundredths = |part: u32| f64::from(part) / 100.0;
        Self {
            at: moment(point.at),
            cpu: point.cpu.map(hundredths),
            memory: point.memory.map(hundredths),
            busy: point.busy,
            slots: point.slots,
            score: hundredths(point.score),
        }
    }
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventPage {
    /// The latest first.
    pub(crate) events: Vec<EventRow>,
    /// Give this as `before` for the next page; none at the end.
    pub(crate) before: Option<String>,
    /// Nodes that live and did not answer: what only their histories have is not in the page.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
    /// Names that were asked for and that nobody has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl EventRow {
    /// A record as a row.
    pub(crate) fn of(record: &EventRecord) -> Self {
        let EventRecord { seq, at, node, kind, text } = record;
        Self { seq: *seq, at: moment(*at), node: node.clone(), kind: kind.clone(), text: text.clone() }
    }
}
