//! The arguments that name a job, or its part on a node.

use clap::Args;

use super::namespace_args::NamespaceArgs;
use crate::client::ConnectArgs;

/// One job and the way to it.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// The job's name
    pub(super) name: String,
    #[command(flatten)]
    pub(super) within: NamespaceArgs,
    #[command(flatten)]
    pub(super) reach: ConnectArgs,
}

impl JobArgs {
    /// The same with the job's full name.
    pub(super) fn resolve(self) -> Self {
        Self { name: self.within.job(&self.name), ..self }
    }
}

/// One node of a sharded job.
#[derive(Debug, Args)]
pub(crate) struct JobNodeArgs {
    /// Only this node's part of a sharded job; the whole job by default
    #[arg(long, value_name = "NODE")]
    pub(super) node: Option<String>,
}
