//! Rows of node events and node loads.

use evenkeel::{EventRecord, LoadPoint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words::moment;

/// An event of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EventRow {
    /// Its position in its history.
    pub(crate) seq: u64,
    /// When it happened.
    pub(crate) at: String,
    /// The node that reported it.
    pub(crate) node: String,
    /// Its kind.
    pub(crate) kind: String,
    /// The job that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    /// Its text.
    pub(crate) text: String,
}

/// The load of a node at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LoadRow {
    /// The time, by the node's clock.
    pub(crate) at: String,
    /// The use of its processors, in percent; none if not known.
    pub(crate) cpu: Option<f64>,
    /// The use of its memory, in percent; none if not known.
    pub(crate) memory: Option<f64>,
    /// The number of busy slots.
    pub(crate) busy: u32,
    /// The number of slots.
    pub(crate) slots: u32,
    /// Its load score: 0 is idle, 100 is fully loaded.
    pub(crate) score: f64,
}

impl LoadRow {
    /// The row of a load point.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EventPage {
    /// The events, the latest first.
    pub(crate) events: Vec<EventRow>,
    /// The `before` of the next page; none at the end.
    pub(crate) before: Option<String>,
    /// Online nodes that did not answer: records that only their histories have are not in the page.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
    /// Names in the query that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl EventRow {
    /// The row of a record.
    pub(crate) fn of(record: &EventRecord) -> Self {
        let EventRecord { seq, at, node, kind, job, text } = record;
        Self {
            seq: *seq,
            at: moment(*at),
            node: node.clone(),
            kind: kind.clone(),
            job: job.as_ref().map(ToString::to_string),
            text: text.clone(),
        }
    }
}
