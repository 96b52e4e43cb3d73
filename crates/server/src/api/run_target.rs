//! The target of a request about runs: one run, or a fire.

use evenkeel_core::ids::{FireId, IdError, RunId, Shard};
use serde::Deserialize;

use super::{ApiError, App};
use crate::queries;

/// One run, or a fire with the runs of all its shards.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum RunTarget {
    Run(RunId),
    Fire(FireId),
}

impl TryFrom<String> for RunTarget {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        match text.split(':').count() {
            2 => text.parse().map(Self::Fire),
            _ => text.parse().map(Self::Run),
        }
    }
}

impl RunTarget {
    /// The only run of a fire.
    ///
    /// # Errors
    /// The fire has several runs, since its job is sharded.
    pub(super) fn one(self, app: &App) -> Result<RunId, ApiError> {
        let fire = match self {
            Self::Run(run) => return Ok(run),
            Self::Fire(fire) => fire,
        };
        match queries::has_shards(&app.handle, &fire.job) {
            false => Ok(fire.run(Shard(0))),
            true => {
                let fix = format!("name one, such as {fire}:0; `evenkeel run show {fire}` shows all");
                Err(ApiError::invalid(format!(
                    "fire {fire} is of a job with shards, each a run of its own: {fix}"
                )))
            }
        }
    }

    /// The run of the first shard.
    pub(super) fn first(self) -> RunId {
        match self {
            Self::Run(run) => run,
            Self::Fire(fire) => fire.run(Shard(0)),
        }
    }
}
