//! The commands `evenkeel cluster join-token`, `ca` and `rotate-identity`.

use super::values;
use std::path::PathBuf;

use clap::Args;
use evenkeel::NodeIdentity;

use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::identity::{ClusterIdentity, RotationStep, SecretCipher};
use crate::output;
use evenkeel_client::requests::JoinTokenBody;

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

/// `evenkeel cluster rotate-identity`.
#[derive(Debug, Args)]
pub(super) struct RotationArgs {
    /// The step: trust (a new authority and a new secret are trusted too), sign (the new ones sign) and finish (the old ones are dropped), in this order
    #[arg(long, value_enum, hide_possible_values = true)]
    step: RotationStep,
    /// For the last step: the address of the registry, as for `serve`, whose entries are sealed with the new secret first. Give it for each cluster that has this identity
    #[arg(
        long,
        value_name = "URL",
        env = "EVENKEEL_REGISTRY",
        hide_env_values = true,
        required_if_eq("step", "finish")
    )]
    registry: Vec<String>,
    /// The file with the cluster's identity; by default identity.json in the user's state folder
    #[arg(long, value_name = "FILE", env = "EVENKEEL_IDENTITY")]
    identity: Option<PathBuf>,
}

/// Makes a token and prints it.
pub(super) fn make_token(args: &JoinTokenArgs) -> Result<(), CliError> {
    let body = JoinTokenBody {
        node: args.node.as_deref().map(|node| values::parsed("--for", node)).transpose()?,
        ttl: args.ttl.clone(),
    };
    let made = args.reach.client()?.create_join_token(&body)?;
    match args.reach.output.is_text() {
        true => output::line(&made.token),
        false => output::value(args.reach.output, &made),
    }
}

/// Prints the certificates of the cluster's authorities.
pub(super) fn print_authority(args: &AuthorityArgs) -> Result<(), CliError> {
    let path = ClusterIdentity::path(args.identity.as_deref())?;
    output::line(ClusterIdentity::read(&path)?.certificates().trim_end())
}

/// Takes the next step to a new authority and a new secret.
pub(super) fn rotate(args: &RotationArgs) -> Result<(), CliError> {
    let path = ClusterIdentity::path(args.identity.as_deref())?;
    let present = ClusterIdentity::read(&path)?;
    let (own, cipher) = (present.of_node(), present.secret_cipher());
    let next = present.rotated(args.step, evenkeel::clock::now().wall)?;
    if args.step == RotationStep::Finish {
        for registry in &args.registry {
            seal_anew(registry, &own, &cipher)?;
        }
    }
    next.replace(&path)?;
    let next = match args.step {
        RotationStep::Finish => {
            "the rotation is done when their nodes say in their logs that the identity has changed"
        }
        _ => "take the next step when their nodes say in their logs that the identity has changed",
    };
    output::line(&format!("{} is written: copy it to the cluster's other hosts; {next}", path.display()))
}

/// Gives the entries of a registry seals of the new secret.
fn seal_anew(registry: &str, identity: &NodeIdentity, cipher: &SecretCipher) -> Result<(), CliError> {
    let failed = |why: String| CliError::new(ExitKind::Failed, why);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|e| failed(format!("no runtime: {e}")))?;
    let done =
        runtime.block_on(evenkeel::reseal::reseal(registry, identity, |secret| cipher.sealed_anew(secret)));
    runtime.shutdown_background();
    let done = done.map_err(|why| failed(format!("the registry's entries are not sealed anew: {why}")))?;
    let shown = &done.registry;
    output::line(&format!("{shown}: {} sealed with the new secret", entries(done.sealed)))?;
    if done.foreign > 0 {
        output::line(&format!(
            "{shown}: {} without a valid seal: see `evenkeel job unsealed`",
            entries(done.foreign)
        ))?;
    }
    Ok(())
}

fn entries(n: usize) -> String {
    if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") }
}
