//! The row of a fire as a whole.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The outcomes of all shards of a fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FireRow {
    /// Its id: the id of its runs without the shard.
    pub run: String,
    /// The job.
    pub job: String,
    /// The moment at which it is due; none if no history has it.
    pub due: Option<String>,
    /// `waiting` before a shard has started, `running` until all have ended, then the worst outcome of a shard.
    pub state: String,
    /// Why not all shards succeeded.
    pub reason: Option<String>,
    /// The shards in each state; `none` has the shards of which no history has a run.
    pub shards: BTreeMap<String, String>,
    /// When the first attempt started.
    pub started: Option<String>,
    /// When the last shard ended; none until all have.
    pub ended: Option<String>,
}
