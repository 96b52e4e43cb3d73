//! A node in a list.

use evenkeel_core::labels::Labels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node that is online, or that left within the last day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// `online`, `cordoned`, `draining`, `drained`, `offline`, or `gone`.
    #[serde(default)]
    pub state: String,
    /// The version of its program.
    #[serde(default)]
    pub version: String,
    /// The number of jobs that it owns (X).
    pub held: usize,
    /// The number of shards that it owns.
    pub shards: usize,
    /// Its quota: the number of jobs that it may own now (N).
    pub quota: usize,
    /// The number of owned jobs above which it raises the alarm (M).
    pub alarm: u32,
    /// Whether it gives its jobs up, or has done so.
    pub draining: bool,
    /// Whether it is drained and owns nothing any more, so that it may be stopped.
    #[serde(default)]
    pub drained: bool,
    /// Whether it is cordoned: it keeps what it has and gets nothing new.
    #[serde(default)]
    pub cordoned: bool,
    /// Whether it is offline: its peers cannot reach it.
    #[serde(default)]
    pub offline: bool,
    /// Its load score; none until load is sampled.
    pub score: Option<f64>,
    /// The labels by which jobs select it.
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    pub labels: Labels,
    /// Its address; empty if it has none.
    pub address: String,
    /// The use of its processors, in percent.
    pub cpu: Option<f64>,
    /// The use of its memory, in percent.
    pub memory: Option<f64>,
    /// The number of its busy slots, as last reported.
    pub busy: Option<u32>,
    /// The number of its slots: concurrent runs.
    pub slots: u32,
    /// When it joined, if its history has that.
    pub joined: Option<String>,
    /// Since when its peers cannot reach it.
    pub offline_since: Option<String>,
    /// When the load was measured; nodes measure once a minute.
    #[serde(default)]
    pub measured: Option<String>,
    /// Since when it is gone; none while it is online.
    #[serde(default)]
    pub gone_since: Option<String>,
    /// What happened to its jobs, if it is gone.
    #[serde(default)]
    pub left: Option<String>,
    /// Why its history takes no entries, so that it starts nothing and refuses changes; none if it does.
    #[serde(default)]
    pub history: Option<String>,
}
