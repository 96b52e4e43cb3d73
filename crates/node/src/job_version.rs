//! The versions of a job: what was declared of it at which time, and who asked for it (`docs/concepts/job-versions.md`).

use std::fmt;

use evenkeel_core::ids::JobName;
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

use crate::audit::Requester;

/// How a version of a job came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobChange {
    /// The job was created.
    Created,
    /// The job was declared anew.
    Changed,
    /// An earlier version was declared again.
    RolledBack,
    /// An entry of the registry without a valid seal was accepted.
    Accepted,
    /// The job was deleted.
    Deleted,
    /// The registry had it, and no history knew it: who declared it is not known.
    Found,
}

impl JobChange {
    /// Every kind of change.
    pub const ALL: [Self; 6] =
        [Self::Created, Self::Changed, Self::RolledBack, Self::Accepted, Self::Deleted, Self::Found];

    /// The change as programs and people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::RolledBack => "rolled_back",
            Self::Accepted => "accepted",
            Self::Deleted => "deleted",
            Self::Found => "found",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|change| change.as_str() == text)
    }
}

impl fmt::Display for JobChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One version of a job: what a change declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobVersion {
    /// The job.
    pub job: JobName,
    /// The version of the job's entry in the registry. Switches of operators have versions, too, and are not listed.
    pub version: u64,
    /// When the change was requested. Of a version that was found, it is when the next one was requested.
    pub at: Wall,
    /// The node that made the change, or found the version.
    pub node: String,
    /// Who requested the change, if it is known.
    pub asker: Option<Requester>,
    /// How it came to be.
    pub change: JobChange,
    /// The version that was restored by a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<u64>,
    /// The declaration as JSON, with the keys of a job file; `None` if the job was deleted.
    pub declared: Option<String>,
}

/// Which versions are read: the latest ones of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobVersionFilter {
    /// The job.
    pub job: JobName,
    /// At most this many.
    pub limit: u32,
    /// Only versions below this one: the last one of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_as_written() {
        for change in JobChange::ALL {
            assert_eq!(JobChange::parse(change.as_str()), Some(change));
            assert_eq!(serde_json::to_value(change).unwrap(), change.as_str());
        }
        assert_eq!(JobChange::parse("forgotten"), None);
    }
}
