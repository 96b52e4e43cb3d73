//! Rows of the switches that operators set at run time; an applied file keeps or ends them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A switch by which a job differs from its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchRow {
    /// `disabled`, `enabled` (although the file disables it), `paused`, `shards_disabled`, or on one node `disabled`, `paused`
    /// or `shutdown`.
    pub switch: String,
    /// The only node that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The only shards that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<String>,
    /// When it was set; not known if an earlier version set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The operator's name as the request claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What ends it: a command, or words for `shutdown`.
    pub ends: String,
}
