//! Entries of the registry without a valid seal.

use evenkeel_core::job::Job;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An entry of a job that no node of this cluster has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct UnsealedJobRow {
    /// The job's name.
    pub(crate) name: String,
    /// The declaration as the entry has it.
    #[schemars(schema_with = "crate::api_types::declared::job")]
    pub(crate) job: Job,
    /// The version as the entry has it.
    pub(crate) version: u64,
    /// The registry's revision at which the entry was written: it is accepted as it was then.
    pub(crate) revision: u64,
}

/// All such entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct UnsealedPage {
    /// Of jobs, by name.
    pub(crate) jobs: Vec<UnsealedJobRow>,
    /// Of users and API tokens, as `user ann`: they are to be deleted, or created anew.
    pub(crate) principals: Vec<String>,
}
