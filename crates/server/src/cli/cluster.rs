//! The commands `evenkeel cluster …`.

use clap::Subcommand;
use evenkeel_client::requests::ClusterViewQuery;
use evenkeel_core::node::Spread;
use evenkeel_core::record::{Handover, PlannerKind};
use evenkeel_core::time::TimeSpan;

use super::namespace_args::NamespaceArgs;
use super::values::chosen;
use super::{backup, cluster_status, doctor, join, values};
use crate::client::{ApiClient, ConnectArgs};
use crate::compat::{self, CompatEntry, CompatFormat};
use crate::exit::{CliError, ExitKind};
use crate::output;
use evenkeel_client::types::SettingsChange;

/// What can be looked at.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the cluster on one page: health, nodes, lateness, the last day, the next hour and what needs a person
    ///
    /// Fails with 1 if the cluster is degraded or fails.
    Status {
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show the cluster, or each sharded job, in the data format of another scheduler
    View {
        /// The format: elasticjob-1 (Elastic-Job-Lite 1.x) or elasticjob-3 (ElasticJob 3.x) for sharded jobs; siatask (SIA-TASK), keeper (Qross Keeper) or azkaban (Azkaban) for the whole cluster
        #[arg(long = "as", value_enum, value_name = "FORM", hide_possible_values = true)]
        form: CompatFormat,
        /// Only this job
        #[arg(long, value_name = "JOB")]
        job: Option<String>,
        #[command(flatten)]
        within: NamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Check whether the registry is suitable, and print how to correct each fault; fails if there is a fault
    ///
    /// Needs no node, but a registry that a node has made. It writes one entry that nobody looks at, and takes it away again.
    Doctor(doctor::DoctorArgs),
    /// Back up the registry's data into a file; the nodes may go on running
    ///
    /// Needs no node. Each job is as it stood at one moment. Members, loads and history are not in it.
    Backup(backup::BackupArgs),
    /// Restore a backup into an empty registry; new fencing tokens are higher than all earlier ones
    ///
    /// Needs no node, and none can join before all of it is there. Should it be cut short, do the same again.
    Restore(backup::RestoreArgs),
    /// Move the registry's data to another registry after all nodes were stopped; afterwards no node can join the old registry
    ///
    /// Needs no node. Every fire that is due meanwhile runs once, when nodes are started at the new registry, as the grace
    /// and catch-up of its job say. Should it be cut short, do the same again.
    Move(backup::MigrateArgs),
    /// Make a token with which a node of a new host gets the cluster's identity: evenkeel serve --join TOKEN
    ///
    /// It is accepted once, by the node that made it and until that node is restarted. With the identity a host can act for
    /// the whole cluster.
    JoinToken(join::JoinTokenArgs),
    /// Print the certificates of the cluster's authorities, for programs that are to trust its nodes
    ///
    /// Needs no node, but the cluster's identity.
    Ca(join::AuthorityArgs),
    /// Replace the cluster's authority in three steps, without a restart
    ///
    /// Needs no node, but the cluster's identity. Nodes read the file again within ten seconds. Take each step when the nodes of
    /// all hosts have the file of the step before.
    RotateIdentity(join::RotationArgs),
    /// Finish an upgrade of all nodes: allow them to write data that only the new program can read
    ///
    /// Refused, with their names, while there are nodes of the program before. No such node can join afterwards.
    FinalizeUpgrade {
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show the settings of the whole cluster, and change the given ones
    Settings {
        /// Which node plans dispatched jobs: beat (in each beat the least loaded node) or leader (one node for as long as it lives)
        #[arg(long, value_name = "WHO", value_parser = chosen::<PlannerKind>)]
        planner: Option<PlannerKind>,
        /// The length of a beat, 1s to 1h
        #[arg(long, value_name = "TIME")]
        beat: Option<TimeSpan>,
        /// The number of strikes after which a node is offline, 1 to 100
        #[arg(long, value_name = "N")]
        strikes: Option<u32>,
        /// How long a new leader waits: fenced (only the time that leases do not cover) or waited (the full time)
        #[arg(long, value_name = "HOW", value_parser = chosen::<Handover>)]
        handover: Option<Handover>,
        /// How free jobs are distributed over nodes: even (each node its fair share) or first_come (the first node that claims them, up to its quota)
        #[arg(long, value_name = "HOW", value_parser = chosen::<Spread>)]
        spread: Option<Spread>,
        #[command(flatten)]
        reach: ConnectArgs,
    },
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: ClusterCommand) -> Result<(), CliError> {
    match verb {
        ClusterCommand::Status { reach } => cluster_status::run(&reach),
        ClusterCommand::View { form, job, within, reach } => {
            let job = job.map(|job| within.job(&job));
            shown(form, job.as_deref(), &reach)
        }
        ClusterCommand::Doctor(args) => doctor::run(&args),
        ClusterCommand::Backup(args) => backup::backup(&args),
        ClusterCommand::Restore(args) => backup::restore(&args),
        ClusterCommand::Move(args) => backup::migrate(&args),
        ClusterCommand::JoinToken(args) => join::make_token(&args),
        ClusterCommand::Ca(args) => join::print_authority(&args),
        ClusterCommand::RotateIdentity(args) => join::rotate(&args),
        ClusterCommand::FinalizeUpgrade { reach } => finalize(&reach),
        ClusterCommand::Settings { planner, beat, strikes, handover, spread, reach } => {
            set(SettingsChange { planner, beat, strikes, handover, spread }, &reach)
        }
    }
}

fn set(wanted: SettingsChange, reach: &ConnectArgs) -> Result<(), CliError> {
    let client = reach.client()?;
    let row = if wanted == SettingsChange::default() {
        client.show_settings()?
    } else {
        client.change_settings(&wanted)?
    };
    output::list(reach.output, &[row], "nothing is set")
}

fn finalize(reach: &ConnectArgs) -> Result<(), CliError> {
    let row = reach.client()?.finalize_upgrade()?;
    output::list(reach.output, &[row], "no layout")
}

fn shown(form: CompatFormat, job: Option<&str>, reach: &ConnectArgs) -> Result<(), CliError> {
    let entries = entries(&reach.client()?, form, job)?;
    match reach.output.is_text() {
        false => output::value(reach.output, &entries),
        true if entries.is_empty() => output::line("no job is sharded"),
        true => output::line(&compat::text(&entries)),
    }
}

fn entries(client: &ApiClient, form: CompatFormat, job: Option<&str>) -> Result<Vec<CompatEntry>, CliError> {
    let read =
        |entry| serde_json::from_value(entry).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()));
    let mut query = ClusterViewQuery {
        form: Some(form.name().to_owned()),
        job: job.map(|job| values::parsed("--job", job)).transpose()?,
        after: None,
    };
    let mut entries = Vec::new();
    loop {
        let page = client.cluster_view(&query)?;
        entries.extend(page.tree.into_iter().map(read).collect::<Result<Vec<_>, _>>()?);
        // The view of one job has one page.
        let Some(after) = page.after.filter(|_| job.is_none()) else { return Ok(entries) };
        query.after = Some(values::next_page(&after)?);
    }
}
