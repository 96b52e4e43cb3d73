//! A fire as a whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What became of all shards of a fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FireRow {
    /// Its id: that of its runs without the shard.
    pub(crate) run: String,
    /// Of which job.
    pub(crate) job: String,
    /// The moment it stands for; none while no history knows of it.
    pub(crate) due: Option<String>,
    /// `waiting` before a shard has started, `running` until all have ended, then the worst outcome of a shard.
    pub(crate) state: String,
    /// In words, where not all shards succeeded.
    pub(crate) reason: Option<String>,
    /// Which shards are in which state; `none` are those of which no history has a run.
    pub(crate) shards: BTreeMap<String, String>,
    /// When the first attempt started.
    pub(crate) started: Option<String>,
    /// When the last shard ended; none before all have.
    pub(crate) ended: Option<String>,
}
