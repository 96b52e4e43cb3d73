//! The commands `evenkeel import …`.

mod dry_run;
mod from_files;
mod from_stores;
mod input;
mod shadow;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use self::dry_run::dry;
use self::shadow::ShadowArgs;
use super::namespace_args::ListedNamespaceArgs;
use super::plan;
use crate::client::{ApiClient, ConnectArgs};
use crate::crontab::{self, CrontabFormat, CrontabImport, CrontabRemark, CrontabSource};
use crate::exit::{CliError, ExitKind};
use crate::files::{Declarations, EncodedJobs};
use crate::import::report::{self, ImportFinding};
use crate::output::{self, OutputFormat};
use crate::{bounded, host, zones};

/// The size limit of a crontab, far above any real one.
const CRONTAB_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What can be taken over.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Import each entry of a crontab as a job; importing the same crontab again changes nothing
    Crontab(CrontabArgs),
    /// Import each CronJob of Kubernetes manifests as a job; importing the same manifests again changes nothing
    #[command(name = "k8s-cronjob", visible_alias = "kubernetes")]
    Kubernetes(from_files::KubernetesArgs),
    /// Import each timer of systemd with its service as a job; importing the same units again changes nothing
    Systemd(from_files::SystemdArgs),
    /// Import each row of XXL-JOB's table xxl_job_info as a job, from a file or with --mysql; importing the same rows again changes nothing
    XxlJob(from_files::XxlJobArgs),
    /// Import each job of ElasticJob as a sharded job, from a file or with --zookeeper; importing the same jobs again changes nothing
    #[command(name = "elasticjob")]
    ElasticJob(from_files::ElasticJobArgs),
    /// Import each trigger of Quartz with its job as a job; importing the same file again changes nothing
    Quartz(from_files::QuartzArgs),
    /// Import each job of workflows of GitHub Actions as a job; importing the same files again changes nothing
    GithubActions(from_files::GithubActionsArgs),
    /// Import each line of an anacrontab as a job; importing the same file again changes nothing
    Anacron(from_files::AnacronArgs),
}

/// `import crontab`.
#[derive(Debug, Args)]
pub(crate) struct CrontabArgs {
    /// The crontab, or - for standard input: crontab -l | evenkeel import crontab -
    file: PathBuf,
    /// The crontab has no user column, as `crontab -l` prints it; detected if neither flag is given
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// The crontab has a user column, like /etc/crontab and /etc/cron.d
    #[arg(long)]
    system: bool,
    /// The first of six or seven fields is the seconds field, as in supercronic and ofelia
    #[arg(long)]
    seconds: bool,
    /// The time zone of entries without CRON_TZ; by default the zone of this host
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// The prefix of the jobs' names; the file's name by default
    #[arg(long, value_name = "NAME")]
    prefix: Option<String>,
    /// Print the job file that would be applied, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Show which jobs, keys and fires would change, and change nothing
    #[arg(long, conflicts_with = "dry_run")]
    plan: bool,
    /// Delete the jobs that an earlier import created from entries that are no longer in the crontab
    #[arg(long, conflicts_with_all = ["dry_run", "plan"])]
    prune: bool,
    #[command(flatten)]
    shadow: ShadowArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Runs the command.
///
/// # Errors
/// A line is not valid for cron, or the jobs are refused.
pub(crate) fn run(verb: ImportCommand) -> Result<(), CliError> {
    match verb {
        ImportCommand::Crontab(args) => crontab(&args),
        ImportCommand::Kubernetes(args) => args.run(),
        ImportCommand::Systemd(args) => args.run(),
        ImportCommand::XxlJob(args) => args.run(),
        ImportCommand::ElasticJob(args) => args.run(),
        ImportCommand::Quartz(args) => args.run(),
        ImportCommand::GithubActions(args) => args.run(),
        ImportCommand::Anacron(args) => args.run(),
    }
}

fn crontab(args: &CrontabArgs) -> Result<(), CliError> {
    let text = read(&args.file)?;
    let mut origin = origin(args)?;
    origin.known = match args.dry_run {
        // The names are those that an import would give, if a node can say which jobs there are.
        true => args.reach.client().and_then(|client| known(&client, &origin)).unwrap_or_default(),
        false => known(&args.reach.client()?, &origin)?,
    };
    let mut import = crontab::read(&text, &origin)?;
    import.jobs = args.shadow.declared(import.jobs)?;
    remarks(&import, args.reach.output);
    if import.jobs.iter().any(|job| job.work.command().is_some_and(|command| command.directory.is_empty())) {
        eprintln!(
            "note: cron starts a command in its user's home folder, a node in the folder it was started in itself; a HOME line sets it"
        );
    }
    if import.jobs.is_empty() {
        output::list(
            args.reach.output,
            &[] as &[evenkeel_client::types::JobRow],
            "the crontab holds no entry to import",
        )?;
    } else if args.dry_run {
        dry(&Declarations { calendars: Vec::new(), jobs: import.jobs.clone() }, args.reach.output)?;
    } else if args.plan {
        plan::file(&Declarations { calendars: Vec::new(), jobs: import.jobs.clone() }, &args.reach)?;
    } else {
        super::apply::apply(&EncodedJobs::of(&import.jobs)?, &args.reach)?;
    }
    if import.mistakes > 0 {
        let how_many = if import.mistakes == 1 {
            "1 entry is".to_owned()
        } else {
            format!("{} entries are", import.mistakes)
        };
        let others = match (args.dry_run, args.plan) {
            (true, _) => "in the file above",
            (_, true) => "in the plan",
            _ => "imported",
        };
        return Err(CliError::new(
            ExitKind::Failed,
            format!("{how_many} left out, as said above; all others are {others}"),
        ));
    }
    if args.dry_run { Ok(()) } else { gone(&import, &origin, args) }
}

/// Prints the remarks on lines: as rows of the report for programs.
fn remarks(import: &CrontabImport, output: OutputFormat) {
    let row = |remark: &CrontabRemark| ImportFinding {
        object: format!("line {}", remark.line),
        job: String::new(),
        field: String::new(),
        fate: remark.fate,
        said: remark.text.clone(),
    };
    match output.is_text() {
        true => import.remarks.iter().for_each(|remark| eprintln!("{}", output::plain(&remark.to_string()))),
        false => report::print(&import.remarks.iter().map(row).collect::<Vec<_>>(), output),
    }
}

/// The jobs that earlier imports of this crontab created, each with its schedule.
fn known(client: &ApiClient, origin: &CrontabSource) -> Result<BTreeMap<String, String>, CliError> {
    let mut known = BTreeMap::new();
    let within = ListedNamespaceArgs { all_namespaces: true, ..ListedNamespaceArgs::default() };
    let (rows, _) = super::all_jobs::all_jobs(client, (&origin.prefix, ""), &within)?;
    for row in rows.into_iter().filter(|row| row.name.starts_with(&origin.prefix)) {
        let found = client.show_job(&row.name)?;
        let description = found.job.description.strip_prefix(&origin.description());
        // An earlier version put the line number there as well.
        if description.is_some_and(|rest| rest.is_empty() || rest.starts_with(" line ")) {
            known.insert(row.name, row.schedule);
        }
    }
    Ok(known)
}

/// Deletes the jobs of entries that are gone, if requested; otherwise lists them.
fn gone(import: &CrontabImport, origin: &CrontabSource, args: &CrontabArgs) -> Result<(), CliError> {
    let stays = |name: &str| import.jobs.iter().any(|job| job.name.as_str() == name);
    let gone: Vec<&String> = origin.known.keys().filter(|name| !stays(name)).collect();
    if args.prune && !gone.is_empty() {
        deletable(import, gone.len())?;
    }
    for name in gone {
        if args.prune {
            args.reach.client()?.delete_job(name)?;
            eprintln!("deleted: job {name}, whose entry is not in the crontab any more");
        } else {
            eprintln!(
                "job {name} was imported from this crontab before and its entry is not there any more; the job goes on: delete it \
                 with --prune, or with `evenkeel job delete {name}`"
            );
        }
    }
    Ok(())
}

/// Refuses to delete where it is not sure that the entries are gone: a `crontab -l` that failed prints nothing.
fn deletable(import: &CrontabImport, gone: usize) -> Result<(), CliError> {
    let jobs = if gone == 1 { "1 job".to_owned() } else { format!("{gone} jobs") };
    if import.jobs.is_empty() {
        return Err(CliError::new(
            ExitKind::Conflict,
            format!(
                "the crontab holds no entry, so none of its {jobs} is deleted: delete them with `evenkeel job delete`"
            ),
        ));
    }
    if import.left_out > 0 {
        return Err(CliError::new(
            ExitKind::Conflict,
            format!(
                "an entry is left out, as said above, and one of {jobs} without an entry may be its job, so none is deleted: \
                 mend or remove the entry first"
            ),
        ));
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, CliError> {
    bounded::text(path, CRONTAB_BYTES_MAX).map_err(|e| CliError::unreadable_input(path.display(), &e))
}

fn origin(args: &CrontabArgs) -> Result<CrontabSource, CliError> {
    let stem = args.file.file_stem().and_then(|s| s.to_str()).filter(|s| *s != "-");
    let zone = match &args.timezone {
        Some(name) => zones::named(name).map(|_| name.clone())?,
        None => zones::of_host()?,
    };
    Ok(CrontabSource {
        shown: if stem.is_some() { args.file.display().to_string() } else { "standard input".to_owned() },
        prefix: args.prefix.clone().or(stem.map(ToOwned::to_owned)).unwrap_or_else(|| "crontab".to_owned()),
        form: match (args.user, args.system) {
            (true, _) => Some(CrontabFormat::User),
            (_, true) => Some(CrontabFormat::System),
            // Debian's places of crontabs with a user column.
            _ if args.file == Path::new("/etc/crontab") || args.file.starts_with("/etc/cron.d") => {
                Some(CrontabFormat::System)
            }
            _ => None,
        },
        zone: if ["UTC", "Etc/UTC"].contains(&zone.as_str()) { String::new() } else { zone },
        seconds: args.seconds,
        user: host::user(),
        users: host::users(),
        known: BTreeMap::new(),
    })
}
