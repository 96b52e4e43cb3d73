//! The commands `evenkeel job unsealed` and `job accept`: entries that no node of the cluster has written.

use clap::Args;
use evenkeel_core::ids::counted;
use serde_json::json;

use super::namespace_args::NamespaceArgs;
use super::response::print_response;
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::output;
use evenkeel_client::requests::AcceptJobBody;
use evenkeel_client::types::{DoneAnswer, UnsealedJobRow, UnsealedPage};

/// `evenkeel job accept`.
#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// The job's name
    #[arg(required_unless_present = "all")]
    name: Option<String>,
    /// The revision that `job unsealed` has shown: an entry that was written again since then is refused
    #[arg(long, value_name = "N", required_unless_present = "all")]
    revision: Option<u64>,
    /// Every entry that `job unsealed` shows now. Look at them first
    #[arg(long, conflicts_with_all = ["name", "revision"])]
    all: bool,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

fn found(client: &ApiClient) -> Result<UnsealedPage, CliError> {
    Ok(client.list_unsealed()?)
}

/// Shows what the entries say.
///
/// # Errors
/// The request failed.
pub(super) fn list(reach: &ConnectArgs) -> Result<(), CliError> {
    let found = found(&reach.client()?)?;
    if !reach.output.is_text() {
        return output::value(reach.output, &found);
    }
    if found.jobs.is_empty() && found.principals.is_empty() {
        output::print_message("every job, user and token was written by a node of this cluster");
        return Ok(());
    }
    for row in &found.jobs {
        let declared = toml::to_string(&json!({ "job": [&row.job] }))
            .map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?;
        let UnsealedJobRow { name, revision, job, .. } = row;
        if job.name.to_string() != *name {
            output::line(&format!(
                "# the entry of job {name} is a copy of one of job {}: delete it with: evenkeel job delete {name}\n",
                job.name
            ))?;
            continue;
        }
        output::line(&format!(
            "{declared}\n# accept it with: evenkeel job accept {name} --revision {revision}\n"
        ))?;
    }
    for principal in &found.principals {
        output::line(&format!("# {principal} is not let in: delete or create it anew"))?;
    }
    Ok(())
}

/// Makes jobs of entries.
///
/// # Errors
/// A request failed; entries before it are accepted, and where only an entry was refused, those after it, too.
pub(super) fn accept(args: &AcceptArgs) -> Result<(), CliError> {
    let client = args.reach.client()?;
    if let (Some(name), Some(revision)) = (&args.name, args.revision) {
        let name = args.within.job(name);
        let answer = accept_one(&client, &name, revision)?;
        return print_response(&args.reach, &answer, &format!("job {name} is accepted"));
    }
    let (mut accepted, mut refused) = (Vec::new(), None);
    for row in found(&client)?.jobs {
        match accept_one(&client, &row.name, row.revision) {
            Ok(_) => accepted.push(row.name),
            // The others do not depend on it.
            Err(failure) if failure.exit == ExitKind::Conflict => {
                output::print_message(&failure.message);
                refused = Some(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    let text = format!("accepted {}", counted(accepted.len(), "job"));
    print_response(&args.reach, &json!({ "accepted": accepted }), &text)?;
    refused.map_or(Ok(()), Err)
}

fn accept_one(client: &ApiClient, name: &str, revision: u64) -> Result<DoneAnswer, CliError> {
    Ok(client.accept_job(name, &AcceptJobBody { revision })?)
}
