//! The commands `evenkeel cluster join-token`, `ca` and `rotate-ca`.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::identity::{ClusterIdentity, RotationStep};
use crate::output::{self, OutputFormat};

/// `evenkeel cluster join-token`.
#[derive(Debug, Args)]
pub(super) struct JoinTokenArgs {
    /// The name of the only node that may use it
    #[arg(long = "for", value_name = "NODE")]
    node: Option<String>,
    /// How long it is accepted; 1h by default, at most 7d
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// `evenkeel cluster ca`.
#[derive(Debug, Args)]
pub(super) struct AuthorityArgs {
    /// The file with the cluster's identity; by default identity.json in the user's state folder
    #[arg(long, value_name = "FILE", env = "EVENKEEL_IDENTITY")]
    identity: Option<PathBuf>,
}

/// `evenkeel cluster rotate-ca`.
#[derive(Debug, Args)]
pub(super) struct RotationArgs {
    /// The step: trust (a new authority is trusted too), sign (the new one signs) and finish (the old one is dropped), in this order
    #[arg(long, value_enum, hide_possible_values = true)]
    step: RotationStep,
    /// The file with the cluster's identity; by default identity.json in the user's state folder
    #[arg(long, value_name = "FILE", env = "EVENKEEL_IDENTITY")]
    identity: Option<PathBuf>,
}

/// A token, as a node answers.
#[derive(Debug, Serialize, Deserialize)]
struct NewToken {
    token: String,
    until: String,
}

/// Makes a token and prints it.
pub(super) fn make_token(args: &JoinTokenArgs) -> Result<(), CliError> {
    let body = json!({ "for": args.node, "ttl": args.ttl });
    let made: NewToken = args.reach.client()?.post("/cluster/join-tokens", &body)?;
    match args.reach.output {
        OutputFormat::Json => output::json(&made),
        OutputFormat::Table => output::line(&made.token),
    }
}

/// Prints the certificates of the cluster's authorities.
pub(super) fn print_authority(args: &AuthorityArgs) -> Result<(), CliError> {
    let path = ClusterIdentity::path(args.identity.as_deref())?;
    output::line(ClusterIdentity::read(&path)?.certificates().trim_end())
}

/// Takes the next step to a new authority.
pub(super) fn rotate(args: &RotationArgs) -> Result<(), CliError> {
    let path = ClusterIdentity::path(args.identity.as_deref())?;
    let next = ClusterIdentity::read(&path)?.rotated(args.step, evenkeel::clock::now().wall)?;
    next.replace(&path)?;
    output::line(&format!(
        "{} is written: copy it to the cluster's other hosts, and take the next step when their nodes say in their logs that the \
         identity has changed",
        path.display()
    ))
}
