//! Imports of files of other schedulers: what their commands take, and what becomes of the jobs.

mod unit_files;

use std::path::{Path, PathBuf};

use clap::Args;

use super::dry_run::dry;
use super::from_stores::{MysqlArgs, ZookeeperArgs};
use super::input::{shown, text};
use super::shadow::ShadowArgs;
use crate::cli::{apply, calendars, plan};
use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::files::{Declarations, EncodedJobs};
use crate::import::{
    ImportSource, Imported, anacron, elasticjob, github_actions, kubernetes, quartz, report, systemd, xxl_job,
};
use crate::output::{self, OutputFormat};
use crate::zones;

/// What is done with the jobs of an import.
#[derive(Debug, Args)]
pub(crate) struct ImportModeArgs {
    /// Print the job file that would be applied, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Show which jobs, keys and fires would change, and change nothing
    #[arg(long, conflicts_with = "dry_run")]
    plan: bool,
    #[command(flatten)]
    shadow: ShadowArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// `import k8s-cronjob`.
#[derive(Debug, Args)]
pub(crate) struct KubernetesArgs {
    /// The manifests, or - for standard input: kubectl get cronjob -o yaml | evenkeel import k8s-cronjob -
    file: PathBuf,
    /// The time zone of schedules without timeZone, which is that of the cluster's controller
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    #[command(flatten)]
    mode: ImportModeArgs,
}

impl KubernetesArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// The file holds no CronJob, one of them is refused, or the jobs are.
    pub(super) fn run(&self) -> Result<(), CliError> {
        let source = source(&self.file, Some(&self.timezone), "")?;
        self.mode.finish(kubernetes::read(&text(&self.file)?, &source)?)
    }
}

/// `import systemd`.
#[derive(Debug, Args)]
pub(crate) struct SystemdArgs {
    /// Timers, each with its service beside it; folders of them; or - for what `systemctl cat X.timer X.service` prints
    #[arg(required = true)]
    units: Vec<PathBuf>,
    /// The time zone of calendar events that name none; by default the zone of this host
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    #[command(flatten)]
    mode: ImportModeArgs,
}

impl SystemdArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// A unit cannot be read, a timer is refused, or the jobs are.
    pub(super) fn run(&self) -> Result<(), CliError> {
        let mut all = Imported::default();
        for path in &self.units {
            let source = source(path, self.timezone.as_deref(), "")?;
            let (units, timers) = unit_files::read(path)?;
            if timers.is_empty() {
                return Err(CliError::invalid(format!("{}: it holds no timer", source.shown)));
            }
            all.extend(systemd::read(&units, &timers, &source));
        }
        self.mode.finish(all)
    }
}

/// `import xxl-job`.
#[derive(Debug, Args)]
pub(crate) struct XxlJobArgs {
    /// The table xxl_job_info as mysqldump, a CSV export or JSON rows have it, or - for standard input
    #[arg(conflicts_with_all = ["mysql", "mysql_password_file"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    store: MysqlArgs,
    #[command(flatten)]
    code: CodeJobArgs,
    #[command(flatten)]
    mode: ImportModeArgs,
}

impl XxlJobArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// The file or the tables hold no rows or cannot be read, one of them is refused, or the jobs are.
    pub(super) fn run(&self) -> Result<(), CliError> {
        let imported = match (&self.store.mysql, &self.file) {
            (Some(url), _) => self.store.read(url, |shown| self.code.source(shown))?,
            (None, Some(file)) => xxl_job::read(&text(file)?, &self.code.source(shown(file))?)?,
            (None, None) => return Err(CliError::usage("name a file, or give --mysql")),
        };
        self.mode.finish(imported)
    }
}

/// `import elasticjob`.
#[derive(Debug, Args)]
pub(crate) struct ElasticJobArgs {
    /// Beans of Spring as XML, settings of Spring Boot as YAML, or the texts of `config` nodes in ZooKeeper, or - for standard input
    #[arg(conflicts_with_all = ["zookeeper", "zookeeper_namespace", "zookeeper_digest_file"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    store: ZookeeperArgs,
    #[command(flatten)]
    code: CodeJobArgs,
    #[command(flatten)]
    mode: ImportModeArgs,
}

impl ElasticJobArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// The file or the tree holds no jobs or cannot be read, one of them is refused, or the jobs are.
    pub(super) fn run(&self) -> Result<(), CliError> {
        let imported = match (&self.store.zookeeper, &self.file) {
            (Some(servers), _) => self.store.read(servers, |shown| self.code.source(shown))?,
            (None, Some(file)) => elasticjob::read(&text(file)?, &self.code.source(shown(file))?)?,
            (None, None) => return Err(CliError::usage("name a file, or give --zookeeper")),
        };
        self.mode.finish(imported)
    }
}

/// `import quartz`.
#[derive(Debug, Args)]
pub(crate) struct QuartzArgs {
    /// A file of Quartz's XML plug-in, with job-scheduling-data, or - for standard input
    file: PathBuf,
    #[command(flatten)]
    code: CodeJobArgs,
    #[command(flatten)]
    mode: ImportModeArgs,
}

impl QuartzArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// The file holds no jobs, one of them is refused, or the jobs are.
    pub(super) fn run(&self) -> Result<(), CliError> {
        let source = self.code.source(shown(&self.file))?;
        self.mode.finish(quartz::read(&text(&self.file)?, &source)?)
    }
}

/// `import github-actions`.
#[derive(Debug, Args)]
pub(crate) struct GithubActionsArgs {
    /// Workflows, as .github/workflows/nightly.yml, or - for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The folder of a checkout on the nodes, in which the steps start
    #[arg(long, value_name = "DIR", default_value = "")]
    directory: String,
    #[command(flatten)]
    mode: ImportModeArgs,
}

impl GithubActionsArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// A file is no workflow with a schedule, one of its jobs is refused, or the jobs are.
    pub(super) fn run(&self) -> Result<(), CliError> {
        let mut all = Imported::default();
        for file in &self.files {
            // The schedules of GitHub are in UTC.
            let source = ImportSource { directory: self.directory.clone(), ..source(file, Some("UTC"), "")? };
            all.extend(github_actions::read(&text(file)?, &source)?);
        }
        self.mode.finish(all)
    }
}

/// `import anacron`.
#[derive(Debug, Args)]
pub(crate) struct AnacronArgs {
    /// The anacrontab, as /etc/anacrontab, or - for standard input
    file: PathBuf,
    /// The time zone of the jobs; by default the zone of this host
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    #[command(flatten)]
    mode: ImportModeArgs,
}

impl AnacronArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// The file holds no entry, one of them is refused, or the jobs are.
    pub(super) fn run(&self) -> Result<(), CliError> {
        let source = source(&self.file, self.timezone.as_deref(), "")?;
        self.mode.finish(anacron::read(&text(&self.file)?, &source)?)
    }
}

/// What is said of jobs whose scheduler lives in a program.
#[derive(Debug, Args)]
pub(crate) struct CodeJobArgs {
    /// The time zone of schedules that name none, which is that of the other scheduler's process; by default that of this host
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// The command of jobs that are code of a program, as 'java -cp app.jar {class} {job}'; without it they are refused
    #[arg(long, value_name = "TEMPLATE", default_value = "")]
    command: String,
}

impl CodeJobArgs {
    fn source(&self, shown: String) -> Result<ImportSource, CliError> {
        source_named(shown, self.timezone.as_deref(), &self.command)
    }
}

fn source(file: &Path, timezone: Option<&str>, command: &str) -> Result<ImportSource, CliError> {
    source_named(shown(file), timezone, command)
}

/// What an import of a file or a store knows besides what is in it. The zone is that of this host if it is not given.
fn source_named(shown: String, timezone: Option<&str>, command: &str) -> Result<ImportSource, CliError> {
    let zone = match timezone {
        Some(name) => zones::named(name).map(|_| name.to_owned())?,
        None => zones::of_host()?,
    };
    let command = crate::import::command_words(command).map_err(CliError::usage)?;
    Ok(ImportSource {
        shown,
        timezone: if ["UTC", "Etc/UTC"].contains(&zone.as_str()) { String::new() } else { zone },
        command,
        directory: String::new(),
    })
}

impl ImportModeArgs {
    /// Prints the report, and does with the jobs what was requested. Refused objects leave the others as they are, and make
    /// the command fail at its end.
    fn finish(&self, imported: Imported) -> Result<(), CliError> {
        report::print(&imported.findings, self.reach.output);
        let refused: Vec<String> =
            imported.refused_objects().into_iter().map(|object| object.to_owned()).collect();
        let Imported { calendars, jobs, .. } = imported;
        let jobs = self.shadow.declared(jobs)?;
        let count = jobs.len();
        if jobs.is_empty() {
            let said = match refused.len() {
                0 => "there is nothing to import",
                _ => "everything is refused, as the table says; nothing was changed",
            };
            return Err(CliError::invalid(said));
        }
        let declared = Declarations { calendars, jobs };
        let done = match (self.dry_run, self.plan) {
            (true, _) => {
                dry(&declared, self.reach.output)?;
                "are in the job file"
            }
            (_, true) => {
                plan::file(&declared, &self.reach)?;
                "are in the plan"
            }
            _ => {
                self.apply(&declared)?;
                "were applied"
            }
        };
        match refused.len() {
            0 => Ok(()),
            n => Err(CliError::new(
                ExitKind::Failed,
                format!("{n} refused, as the table says: {}; the {count} others {done}", named(&refused)),
            )),
        }
    }

    fn apply(&self, declared: &Declarations) -> Result<(), CliError> {
        let applied = calendars::apply(&declared.calendars, &self.reach.client()?)?;
        if self.reach.output == OutputFormat::Table {
            let line = |answer| output::line(&calendars::applied(answer, "calendar "));
            applied.iter().try_for_each(line)?;
        }
        apply::apply(&EncodedJobs::of(&declared.jobs)?, &self.reach)
    }
}

/// The first of some names, and how many more there are.
fn named(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let first: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
