//! The distribution of jobs over nodes, now and in a simulation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::node::NodeRow;

/// The capacity of the nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BalanceReport {
    /// The number of jobs that may be owned (K).
    pub jobs: usize,
    /// The number of nodes (S).
    pub nodes: usize,
    /// The number of these jobs that no node owns.
    pub free: usize,
    /// The number of jobs for which the accepting nodes have room (ΣN).
    pub room: usize,
    /// Whether there is room for every job.
    pub covers: bool,
    /// The number of jobs without room; room on one node does not help jobs that select other nodes.
    #[serde(default)]
    pub short: usize,
    /// The nodes, by name.
    pub rows: Vec<BalanceRow>,
    /// The simulated distribution; none unless requested.
    pub then: Option<WhatIfRow>,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

/// A node's part in the distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BalanceRow {
    /// The node, as in the list of nodes.
    #[serde(flatten)]
    pub node: NodeRow,
    /// `working`, `draining` or `lost`.
    pub part: String,
    /// The simulated load; none if the node is lost, or nothing is simulated.
    pub then: Option<ProjectedLoad>,
}

/// The simulated load of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectedLoad {
    /// The number of jobs that it would own (X).
    pub held: usize,
    /// Its quota (N).
    pub quota: usize,
}

/// The distribution if some nodes were lost or drained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIfRow {
    /// The lost nodes.
    pub lost: Vec<String>,
    /// The drained nodes.
    pub drained: Vec<String>,
    /// The number of jobs that move.
    pub moved: usize,
    /// The room of the other nodes before they have noticed.
    pub room_at_once: usize,
    /// Whether that is enough for every job.
    pub covers_at_once: bool,
    /// The number of jobs without room before the other nodes have noticed.
    #[serde(default)]
    pub short_at_once: usize,
    /// The room of the other nodes once they have noticed.
    pub room: usize,
    /// Whether that is enough for every job.
    pub covers: bool,
    /// The number of jobs without room once the other nodes have noticed.
    #[serde(default)]
    pub short: usize,
    /// The number of jobs that no node would own in the end.
    pub free: usize,
    /// Jobs that no other node could own, ten at most.
    #[serde(default)]
    pub obstacles: Vec<ObstacleRow>,
    /// The number of further such jobs.
    #[serde(default)]
    pub obstacles_more: usize,
}

/// A job that no other node could own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObstacleRow {
    /// The job's name.
    pub job: String,
    /// The condition that the other nodes do not meet, or their room.
    pub why: String,
}
