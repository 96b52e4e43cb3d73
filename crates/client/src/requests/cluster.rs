//! Nodes and the cluster.

use evenkeel_core::ids::{JobName, NodeName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The part of a node's load history to return.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeLoadQuery {
    /// Only from this moment on: RFC 3339, or a span before now, as `10m`.
    pub since: Option<String>,
    /// The most rows; the answer says where the next page begins.
    pub limit: Option<u32>,
}

/// The simulation: names of nodes, separated by commas.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfQuery {
    /// What if these nodes died: names with commas between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kill: String,
    /// What if these nodes drained: names with commas between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub drain: String,
}

/// How a node is drained.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// Whether to drain the node even if the other nodes have no room for its jobs.
    #[serde(default)]
    pub force: bool,
}

/// How a node is upgraded.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpgradeBody {
    /// The time limit for runs inside the process.
    pub wait: Option<String>,
}

/// In which format the cluster is shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterViewQuery {
    /// The format: `elasticjob-1`, `elasticjob-3`, `siatask`, `keeper` or `azkaban`.
    #[serde(rename = "as")]
    pub form: Option<String>,
    /// Only of this job.
    #[schemars(with = "Option<String>")]
    pub job: Option<JobName>,
    /// Only what follows this name: `after` of the page before.
    #[schemars(with = "Option<String>")]
    pub after: Option<JobName>,
}

/// A token by which a node joins.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinTokenBody {
    /// The only node that may use it.
    #[schemars(with = "Option<String>")]
    #[serde(rename = "for")]
    pub node: Option<NodeName>,
    /// How long it is accepted.
    pub ttl: Option<String>,
}
