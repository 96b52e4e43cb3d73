//! Runs and their output.

use evenkeel_core::ids::{JobName, Namespace, NodeName};
use evenkeel_core::time::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which runs are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunListQuery {
    /// Only of this job.
    #[schemars(with = "Option<String>")]
    pub job: Option<JobName>,
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// Only runs in this state, or in one of several with commas between them.
    pub state: Option<String>,
    /// Only runs of this node.
    #[schemars(with = "Option<String>")]
    pub node: Option<NodeName>,
    /// Only runs of fires that are due from this moment on: RFC 3339, or a span before now, as `10m`.
    pub since: Option<String>,
    /// Only runs of fires that are due before this moment, written likewise.
    pub until: Option<String>,
    /// The most rows; the answer says where the next page begins.
    pub limit: Option<u32>,
    /// Only what is older: `before` of the page before.
    pub before: Option<String>,
}

/// Which running attempts are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningQuery {
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
}

/// Which part of the output of a run is read.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// The attempt, counted from 1; the latest one that has started if left out.
    pub attempt: Option<u32>,
    /// From this byte on; 0 if left out.
    pub offset: Option<u64>,
    /// Only the last lines that are written now, 1 to 10,000, of at most 16 MiB, and what comes after them.
    pub tail: Option<u32>,
    /// Whether to go on until the run has ended.
    #[serde(default)]
    pub follow: bool,
    /// Only the lines that contain this text.
    pub grep: Option<String>,
    /// Whether a browser should save it as a file.
    #[serde(default)]
    pub download: bool,
}

/// How long to wait for the end of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// How long to wait at most: a span, as `20s`, or a number of seconds.
    #[schemars(with = "Option<String>")]
    #[serde(default)]
    pub timeout: Option<TimeSpan>,
}

/// What is searched for in the output of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSearchQuery {
    /// Only lines with this text; every line if left out.
    pub grep: Option<String>,
    /// In how many of the latest attempts.
    pub runs: Option<u32>,
}
