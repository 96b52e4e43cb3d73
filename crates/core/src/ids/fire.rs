//! The id of a fire: one name for the runs of all its shards.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Fire, IdError, JobName, RunId, Shard};

/// One fire of a job, with all its shards. Written as a run is, without the shard: `job:1763749200000` (due moment in
/// ms) or `job:ask-<request id>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FireId {
    /// The job.
    pub job: JobName,
    /// The fire.
    pub fire: Fire,
}

impl FireId {
    /// The run of one shard.
    #[must_use]
    pub fn run(&self, shard: Shard) -> RunId {
        RunId { job: self.job.clone(), fire: self.fire.clone(), shard }
    }
}

impl From<&RunId> for FireId {
    fn from(run: &RunId) -> Self {
        Self { job: run.job.clone(), fire: run.fire.clone() }
    }
}

impl fmt::Display for FireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fire {
            Fire::Due(at) => write!(f, "{}:{}", self.job, at.0),
            Fire::Asked(id) => write!(f, "{}:ask-{id}", self.job),
        }
    }
}

impl FromStr for FireId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        // A run of its first shard differs from it in the shard only.
        let run: Option<RunId> = format!("{text}:0").parse().ok();
        let run = run.ok_or_else(|| IdError(format!("{text:?} is no id of a run or a fire: write it as lists of runs show it, such as nightly:1767225600000:0")))?;
        Ok(Self { job: run.job, fire: run.fire })
    }
}

impl TryFrom<String> for FireId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<FireId> for String {
    fn from(fire: FireId) -> Self {
        fire.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_are_read_back_as_written_and_are_no_runs() {
        for text in ["backup:1763749200000", "a:ask-2026.x"] {
            let fire: FireId = text.parse().unwrap();
            assert_eq!(fire.to_string(), text);
            let run = fire.run(Shard(7));
            assert_eq!((run.to_string(), FireId::from(&run)), (format!("{text}:7"), fire));
        }
        for bad in ["a", "a:", "a:1:0", "a:ask-", ":1", "a:x"] {
            assert!(bad.parse::<FireId>().is_err(), "{bad}");
        }
    }
}
