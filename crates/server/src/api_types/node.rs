//! A node in a list.

use evenkeel_core::labels::Labels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node that is online, or that left within the last day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NodeRow {
    /// Its name.
    pub(crate) name: String,
    /// `online`, `cordoned`, `draining`, `drained`, `offline`, or `gone`.
    #[serde(default)]
    pub(crate) state: String,
    /// The version of its program.
    #[serde(default)]
    pub(crate) version: String,
    /// The number of jobs that it owns (X).
    pub(crate) held: usize,
    /// The number of shards that it owns.
    pub(crate) shards: usize,
    /// Its quota: the number of jobs that it may own now (N).
    pub(crate) quota: usize,
    /// The number of owned jobs above which it raises the alarm (M).
    pub(crate) alarm: u32,
    /// Whether it gives its jobs up, or has done so.
    pub(crate) draining: bool,
    /// Whether it is drained and owns nothing any more, so that it may be stopped.
    #[serde(default)]
    pub(crate) drained: bool,
    /// Whether it is cordoned: it keeps what it has and gets nothing new.
    #[serde(default)]
    pub(crate) cordoned: bool,
    /// Whether it is offline: its peers cannot reach it.
    #[serde(default)]
    pub(crate) offline: bool,
    /// Its load score; none until load is sampled.
    pub(crate) score: Option<f64>,
    /// The labels by which jobs select it.
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    pub(crate) labels: Labels,
    /// Its address; empty if it has none.
    pub(crate) address: String,
    /// The use of its processors, in percent.
    pub(crate) cpu: Option<f64>,
    /// The use of its memory, in percent.
    pub(crate) memory: Option<f64>,
    /// The number of its busy slots, as last reported.
    pub(crate) busy: Option<u32>,
    /// The number of its slots: concurrent runs.
    pub(crate) slots: u32,
    /// When it joined, if its history has that.
    pub(crate) joined: Option<String>,
    /// Since when its peers cannot reach it.
    pub(crate) offline_since: Option<String>,
    /// When the load was measured; nodes measure once a minute.
    #[serde(default)]
    pub(crate) measured: Option<String>,
    /// Since when it is gone; none while it is online.
    #[serde(default)]
    pub(crate) gone_since: Option<String>,
    /// What happened to its jobs, if it is gone.
    #[serde(default)]
    pub(crate) left: Option<String>,
    /// Why its history takes no entries, so that it starts nothing and refuses changes; none if it does.
    #[serde(default)]
    pub(crate) history: Option<String>,
}
