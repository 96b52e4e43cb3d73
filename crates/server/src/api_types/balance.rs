//! The spread of jobs over nodes, and what it would be.

use serde::{Deserialize, Serialize};

use super::NodeRow;

/// What the nodes have room for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BalanceReport {
    /// How many jobs may be held (K).
    pub(crate) jobs: usize,
    /// How many nodes there are (S).
    pub(crate) nodes: usize,
    /// How many of the jobs nobody holds.
    pub(crate) free: usize,
    /// For how many jobs the nodes that take any have room (ΣN).
    pub(crate) room: usize,
    /// Whether that is enough.
    pub(crate) covers: bool,
    /// For how many jobs there is none; room for some jobs is of no use to others that name other nodes.
    #[serde(default)]
    pub(crate) short: usize,
    /// The nodes, by name.
    pub(crate) rows: Vec<BalanceRow>,
    /// What would be; none unless it was asked.
    pub(crate) then: Option<WhatIfRow>,
    /// What to think of.
    pub(crate) warnings: Vec<String>,
}

/// A node's part in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BalanceRow {
    /// The node as in the list of nodes.
    #[serde(flatten)]
    pub(crate) node: NodeRow,
    /// `working`, `draining` or `lost`.
    pub(crate) part: String,
    /// What would be; none when the node is lost, or nothing was asked.
    pub(crate) then: Option<ProjectedLoad>,
}

/// What a node would come to hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProjectedLoad {
    /// Jobs (X).
    pub(crate) held: usize,
    /// The most it might hold (N).
    pub(crate) quota: usize,
}

/// What would be if nodes were lost or drained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WhatIfRow {
    /// Which were lost.
    pub(crate) lost: Vec<String>,
    /// Which were drained.
    pub(crate) drained: Vec<String>,
    /// How many jobs move.
    pub(crate) moved: usize,
    /// What the others have room for before they know of it.
    pub(crate) room_at_once: usize,
    /// Whether that is enough.
    pub(crate) covers_at_once: bool,
    /// For how many jobs there is none before they know of it.
    #[serde(default)]
    pub(crate) short_at_once: usize,
    /// What they have room for once they know.
    pub(crate) room: usize,
    /// Whether that is enough.
    pub(crate) covers: bool,
    /// For how many jobs there is none once they know.
    #[serde(default)]
    pub(crate) short: usize,
    /// How many jobs nobody would hold in the end.
    pub(crate) free: usize,
    /// Jobs that no other node could take, ten at most.
    #[serde(default)]
    pub(crate) obstacles: Vec<ObstacleRow>,
    /// How many there are beside these.
    #[serde(default)]
    pub(crate) obstacles_more: usize,
}

/// A job that no other node could take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObstacleRow {
    /// The job's name.
    pub(crate) job: String,
    /// Which condition the other nodes do not meet, or how much room they have.
    pub(crate) why: String,
}
