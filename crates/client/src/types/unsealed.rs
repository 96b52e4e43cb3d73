//! Entries of the registry without a valid seal.

use evenkeel_core::job::Job;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An entry of a job that no node of this cluster has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnsealedJobRow {
    /// The job's name.
    pub name: String,
    /// The declaration as the entry has it.
    #[schemars(schema_with = "crate::types::declared::job")]
    pub job: Job,
    /// The version as the entry has it.
    pub version: u64,
    /// The registry's revision at which the entry was written: it is accepted as it was then.
    pub revision: u64,
}

/// All such entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnsealedPage {
    /// Of jobs, by name.
    pub jobs: Vec<UnsealedJobRow>,
    /// Of users and API tokens, as `user ann`: they are to be deleted, or created anew.
    pub principals: Vec<String>,
}
