//! Rows of node events and node loads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An event of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    /// Its position in its history.
    pub seq: u64,
    /// When it happened.
    pub at: String,
    /// The node that reported it.
    pub node: String,
    /// Its kind.
    pub kind: String,
    /// The job that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Its text.
    pub text: String,
}

/// The load of a node at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRow {
    /// The time, by the node's clock.
    pub at: String,
    /// The use of its processors, in percent; none if not known.
    pub cpu: Option<f64>,
    /// The use of its memory, in percent; none if not known.
    pub memory: Option<f64>,
    /// The number of busy slots.
    pub busy: u32,
    /// The number of slots.
    pub slots: u32,
    /// Its load score: 0 is idle, 100 is fully loaded.
    pub score: f64,
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    /// The events, the latest first.
    pub events: Vec<EventRow>,
    /// The `before` of the next page; none at the end.
    pub before: Option<String>,
    /// Online nodes that did not answer: records that only their histories have are not in the page.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Names in the query that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
