//! `evenkeel job rename`: a job of another name with the same declaration and switches, in place of the old one.
//!
//! The name of a job is its identity: its runs, its versions and its fires are recorded under it. So the new name is a new job.
//! It is declared disabled, and only enabled after the old one is deleted: whatever fails between two steps, no fire runs
//! under both names.

use clap::Args;
use evenkeel_core::ids::{DEFAULT_NAMESPACE, JobName, WrittenName};
use evenkeel_core::job::JobFile;

use super::job_args::JobArgs;
use super::response::print_response;
use super::values;
use crate::client::ApiClient;
use crate::exit::{CliError, ExitKind};
use crate::output;
use evenkeel_client::requests::{ClaimQuery, RunListQuery, RunningQuery};
use evenkeel_client::types::{JobDetail, SwitchRow};
use evenkeel_client::{ClientErrorKind, Precondition};

/// `job rename`.
#[derive(Debug, Args)]
pub(crate) struct JobRenameArgs {
    #[command(flatten)]
    job: JobArgs,
    /// The new name
    #[arg(value_name = "NEW")]
    new: String,
}

/// A job that gets another name.
struct JobRename<'a> {
    client: &'a ApiClient,
    old: &'a JobDetail,
    new: &'a JobName,
}

/// Makes a job of another name of a job that neither runs nor waits.
///
/// # Errors
/// There is a job of the new name; the old one runs or waits, or was changed meanwhile; a request failed. The error says which
/// of both jobs are there, and what to do.
pub(super) fn rename(args: JobRenameArgs) -> Result<(), CliError> {
    let job = args.job.resolve();
    let client = job.reach.client()?;
    let new: JobName = values::parsed("the new name", &job.within.job(&args.new))?;
    let old = client.show_job(&job.name)?;
    if new.as_str() == old.name {
        return Err(CliError::new(ExitKind::Conflict, format!("job {new} has this name already")));
    }
    let rename = JobRename { client: &client, old: &old, new: &new };
    rename.refuse_busy()?;
    rename.declare_disabled()?;
    rename.delete_old()?;
    rename.enable().map_err(|failure| {
        let text = format!(
            "{failure}\njob {} is deleted, and job {new} is declared, but may be disabled or paused: look at \
             `evenkeel job show {new}`, then `evenkeel job enable {new}`",
            old.name
        );
        CliError::new(failure.exit, text)
    })?;
    for switch in old.switches.iter().filter(|switch| switch.node.is_some()) {
        let text = format!(
            "the switch of one node is not carried over: {}",
            super::switch_text::description(switch)
        );
        output::print_message(&text);
    }
    let sentence = format!(
        "job {old} is job {new} now; its earlier runs and versions stay under the old name: see `evenkeel run list --job {old}` \
         and `evenkeel job history {old}`",
        old = old.name
    );
    print_response(&job.reach, &client.show_job(&new)?, &sentence)
}

impl JobRename<'_> {
    /// Refuses while the job has runs: they would go on beside those of the new name.
    fn refuse_busy(&self) -> Result<(), CliError> {
        let name: JobName = values::parsed("the job", &self.old.name)?;
        let running = self.client.list_running(&RunningQuery { namespace: None })?;
        let query = RunListQuery {
            job: Some(name),
            state: Some("waiting".to_owned()),
            limit: Some(1),
            ..RunListQuery::default()
        };
        let waiting = self.client.list_runs(&query)?;
        if let Some(node) = running.missing.iter().chain(&waiting.missing).next() {
            let text =
                format!("node {node} does not answer, so it is not known whether the job runs: try again");
            return Err(CliError::new(ExitKind::Unavailable, text));
        }
        let runs = running.runs.iter().find(|row| row.job == self.old.name).map(|row| (row, "runs"));
        let waits = waiting.waiting.iter().chain(&waiting.runs).next().map(|row| (row, "waits"));
        match runs.or(waits) {
            None => Ok(()),
            Some((row, does)) => Err(CliError::new(
                ExitKind::Conflict,
                format!(
                    "run {} {does}: wait for its end, or end it with `evenkeel run kill {}`",
                    row.run, row.run
                ),
            )),
        }
    }

    /// The declaration under the new name.
    fn file(&self, is_enabled: bool) -> JobFile {
        let file = self.old.job.to_file();
        JobFile {
            name: WrittenName::read_in(DEFAULT_NAMESPACE, self.new.clone()),
            enabled: is_enabled,
            ..file
        }
    }

    /// Declares the new job, with the switches of the old one, so that it does not fire yet.
    fn declare_disabled(&self) -> Result<(), CliError> {
        let answer = self.client.only_if(Precondition::Absent).put_job(self.new, &self.file(false));
        let answer = answer.map_err(|e| match e.kind {
            ClientErrorKind::Conflict => {
                let text = format!(
                    "there is a job {0} already, and nothing was changed. If an earlier `job rename` was cut short, {0} is disabled \
                     and declared as {1} is: only then delete {0} and try again",
                    self.new, self.old.name
                );
                CliError::new(ExitKind::Conflict, text)
            }
            _ => e.into(),
        })?;
        output::warn(&answer.warnings);
        self.switch_new().map_err(|failure| self.undone(&failure))
    }

    fn switch_new(&self) -> Result<(), CliError> {
        if self.old.paused {
            self.client.switch_job(self.new, "pause", &ClaimQuery::default())?;
        }
        let shards =
            |switch: &SwitchRow| switch.shards.clone().filter(|_| switch.switch == "shards_disabled");
        for shards in self.old.switches.iter().filter_map(shards) {
            self.client.switch_shards(self.new, shards, "disable")?;
        }
        Ok(())
    }

    /// Deletes the old job, if it is still the one that was read.
    fn delete_old(&self) -> Result<(), CliError> {
        let unread = self.client.only_if(Precondition::Version(vec![self.old.version]));
        match unread.delete_job(&self.old.name) {
            Ok(_) => Ok(()),
            // Whether the old job is there is not known, so the new one stays, disabled.
            Err(e) if e.kind == ClientErrorKind::Unknown => {
                let (old, new) = (&self.old.name, self.new);
                let text = format!(
                    "{e}\njob {new} is declared and disabled. If `evenkeel job show {old}` still finds the old one, delete \
                     job {new} and try again; else `evenkeel job enable {new}` ends the renaming"
                );
                Err(CliError::new(ExitKind::Unknown, text))
            }
            Err(e) => Err(self.undone(&e.into())),
        }
    }

    /// Deletes the new job after a failure that left the old one as it was.
    fn undone(&self, failure: &CliError) -> CliError {
        let text = match self.client.delete_job(self.new) {
            Ok(_) => {
                format!("{failure}\njob {} is as it was, and there is no job {}", self.old.name, self.new)
            }
            Err(e) => format!(
                "{failure}\njob {} is as it was; job {new} is declared and disabled: delete it with `evenkeel job delete {new}` \
                 ({e})",
                self.old.name,
                new = self.new
            ),
        };
        CliError::new(failure.exit, text)
    }

    /// Gives the new job the declaration and the switch of the old one.
    fn enable(&self) -> Result<(), CliError> {
        let (is_declared, is_on) = (self.old.job.enabled, !self.old.disabled);
        let switch = |verb| self.client.switch_job(self.new, verb, &ClaimQuery::default());
        match (is_declared, is_on) {
            (false, false) => Ok(()),
            (false, true) => switch("enable").map(|_| ()).map_err(Into::into),
            (true, true) => self.declare_enabled(),
            (true, false) => {
                // A paused job does not fire between being declared and being disabled.
                switch("pause")?;
                self.declare_enabled()?;
                switch("disable")?;
                if !self.old.paused {
                    switch("resume")?;
                }
                Ok(())
            }
        }
    }

    fn declare_enabled(&self) -> Result<(), CliError> {
        self.client.only_if(Precondition::Exists).put_job(self.new, &self.file(true))?;
        Ok(())
    }
}
