//! One verb on many jobs: those with certain labels, or all of a namespace.

use clap::Args;
use evenkeel_core::ids::{JobName, counted};
use serde::Serialize;

use super::all_jobs::all_jobs;
use super::job_args::JobArgs;
use super::namespace_args::ListedNamespaceArgs;
use super::{prompt, values};
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::output::{self, Progress, TableRow, or_dash};
use evenkeel_client::ClientErrorKind;
use evenkeel_client::requests::BulkBody;
use evenkeel_client::types::BulkItem;

/// The most jobs of one request: few enough that its answer comes in time.
const JOBS_MAX: usize = 250;
/// Of more jobs only the refused ones are printed.
const PRINTED_MAX: usize = 50;
/// How many names are in a question.
const NAMED_MAX: usize = 5;

/// One job, or many.
#[derive(Debug, Args)]
pub(crate) struct JobChoiceArgs {
    /// The job's name
    #[arg(required_unless_present_any = ["label", "all"], conflicts_with_all = ["label", "all"])]
    name: Option<String>,
    /// All jobs whose labels meet all these conditions, as team=billing|sales,!legacy
    #[arg(short, long, value_name = "CONDITIONS", conflicts_with = "all", value_parser = values::conditions)]
    label: Option<String>,
    /// All jobs of the namespace
    #[arg(long)]
    all: bool,
    /// With --label or --all, do not ask; needed with --all, and to delete, where no person can be asked
    #[arg(long, conflicts_with = "name")]
    yes: bool,
    /// With --label or --all, only show what would become of each job
    #[arg(long, conflicts_with = "name")]
    dry_run: bool,
    #[command(flatten)]
    within: ListedNamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// What is chosen.
pub(super) enum ChosenJobs {
    /// One job, with its full name.
    One(JobArgs),
    /// Those that conditions or a namespace name.
    Many(ManyJobs),
}

/// The jobs of `--label` or `--all`.
pub(super) struct ManyJobs {
    label: String,
    is_sure: bool,
    is_trial: bool,
    within: ListedNamespaceArgs,
    reach: ConnectArgs,
}

/// What is done to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BulkAction {
    word: &'static str,
    done: &'static str,
}

impl BulkAction {
    pub(super) const PAUSE: Self = Self { word: "pause", done: "paused" };
    pub(super) const RESUME: Self = Self { word: "resume", done: "resumed" };
    pub(super) const ENABLE: Self = Self { word: "enable", done: "enabled" };
    pub(super) const DISABLE: Self = Self { word: "disable", done: "disabled" };
    pub(super) const RUN: Self = Self { word: "run", done: "requested" };
    pub(super) const DELETE: Self = Self { word: "delete", done: "deleted" };
}

impl JobChoiceArgs {
    /// What is chosen; `only_one` has each flag that goes with one job, and whether it is given.
    ///
    /// # Errors
    /// Such a flag is given with many jobs, or the reverse.
    pub(super) fn choose(self, only_one: &[(&str, bool)]) -> Result<ChosenJobs, CliError> {
        let Self { name, label, all: _, yes, dry_run, within, reach } = self;
        if let Some(name) = name {
            if within.all_namespaces {
                return Err(CliError::usage("--all-namespaces goes with --label or --all"));
            }
            return Ok(ChosenJobs::One(JobArgs { name, within: within.one, reach }.resolve()));
        }
        if let Some((flag, _)) = only_one.iter().find(|(_, is_given)| *is_given) {
            return Err(CliError::usage(format!("{flag} goes with one job, and not with --label or --all")));
        }
        let label = label.unwrap_or_default();
        Ok(ChosenJobs::Many(ManyJobs { label, is_sure: yes, is_trial: dry_run, within, reach }))
    }
}

/// What became of one job, or would.
#[derive(Serialize)]
struct BulkRow<'a> {
    #[serde(flatten)]
    item: &'a BulkItem,
    #[serde(skip)]
    outcome: String,
}

impl TableRow for BulkRow<'_> {
    const HEADS: &'static [&'static str] = &["job", "outcome", "more"];
    fn cells(&self) -> Vec<String> {
        let BulkItem { job, run, reason, warnings, detail, .. } = self.item;
        let more = [run.as_ref(), detail.as_ref().or(reason.as_ref())];
        let warnings = warnings.iter().filter(|_| reason.is_none());
        let more: Vec<&str> = more.into_iter().flatten().chain(warnings).map(String::as_str).collect();
        vec![job.clone(), self.outcome.clone(), or_dash(Some(&more.join(": ")))]
    }
}

impl ManyJobs {
    /// Does it to each job, and prints what became of it. A job that is refused keeps no other from it.
    ///
    /// # Errors
    /// The person at the terminal does not want it, or none is there where it has to be sure; a request failed: what was done
    /// before is printed; a job was refused.
    pub(super) fn each(&self, verb: BulkAction) -> Result<(), CliError> {
        let client = self.reach.client()?;
        let (jobs, _) = all_jobs(&client, ("", &self.label), &self.within)?;
        let names: Vec<String> = jobs.into_iter().map(|job| job.name).collect();
        if names.is_empty() {
            let none: &[BulkRow<'_>] = &[];
            return output::list(self.reach.output, none, "no job matches");
        }
        if !self.is_trial {
            self.make_sure(verb, &names)?;
        }
        let mut items = Vec::new();
        let done = self.do_all(&client, verb, &names, &mut items);
        self.print(verb, &items)?;
        let failed: Vec<&BulkItem> = items.iter().filter(|item| item.code.is_some()).collect();
        if let Err(failure) = done {
            let (reached, all) = (items.len() - failed.len(), names.len());
            let rest = match verb == BulkAction::RUN {
                true => "look at `evenkeel run list` before you ask again: those jobs would run twice",
                false => "the same command does the rest",
            };
            let text = format!(
                "{failure}\nthat ended it: {reached} of {all} jobs are {} for certain; {rest}",
                verb.done
            );
            return Err(CliError::new(failure.exit, text));
        }
        match failed.first() {
            None => Ok(()),
            Some(first) => {
                let is_same = failed.iter().all(|item| item.code == first.code);
                let kind = first.code.as_deref().filter(|_| is_same).and_then(ExitKind::named);
                let text = format!("{} of {} refused", failed.len(), counted(items.len(), "job"));
                Err(CliError::new(kind.unwrap_or(ExitKind::Failed), text))
            }
        }
    }

    /// Asks the person at the terminal. Elsewhere conditions on labels are words enough, but not to delete.
    fn make_sure(&self, verb: BulkAction, names: &[String]) -> Result<(), CliError> {
        if self.is_sure {
            return Ok(());
        }
        let count = counted(names.len(), "job");
        if prompt::is_person_there() {
            let question = format!("{} {count}: {}?", verb.word, named(names));
            return match prompt::confirm(&question)? {
                true => Ok(()),
                false => Err(CliError::new(ExitKind::Failed, "nothing was done")),
            };
        }
        match self.label.is_empty() || verb == BulkAction::DELETE {
            false => Ok(()),
            true => Err(CliError::usage(format!(
                "{} {count}? Say so with --yes: no person can be asked here; --dry-run shows them",
                verb.word
            ))),
        }
    }

    fn do_all(
        &self,
        client: &ApiClient,
        verb: BulkAction,
        names: &[String],
        items: &mut Vec<BulkItem>,
    ) -> Result<(), CliError> {
        let mut progress = Progress::new(format!("job {}", verb.word), names.len());
        if verb == BulkAction::DELETE {
            for name in names {
                progress.at(items.len());
                items.push(self.deleted(client, name)?);
            }
            return Ok(());
        }
        for some in names.chunks(JOBS_MAX) {
            progress.at(items.len());
            let some: Result<Vec<JobName>, _> =
                some.iter().map(|name| values::parsed("the job", name)).collect();
            let body = BulkBody { jobs: Some(some?), dry_run: self.is_trial, ..BulkBody::default() };
            items.extend(client.switch_jobs(verb.word, &body)?.items);
        }
        Ok(())
    }

    /// Deletes a job, unless it is only a trial.
    ///
    /// # Errors
    /// The next one would fail as well, or it is not known what became of this one.
    fn deleted(&self, client: &ApiClient, name: &str) -> Result<BulkItem, CliError> {
        let item = BulkItem { job: name.to_owned(), ..BulkItem::default() };
        if self.is_trial {
            return Ok(item);
        }
        match client.delete_job(name) {
            Ok(_) => Ok(BulkItem { done: true, ..item }),
            Err(e) => {
                let is_of_this_job = matches!(
                    e.kind,
                    ClientErrorKind::NotFound | ClientErrorKind::Conflict | ClientErrorKind::Denied
                );
                let refused = CliError::from(e);
                if !is_of_this_job {
                    return Err(CliError::new(refused.exit, format!("job {name}: {refused}")));
                }
                let (code, detail) = (Some(refused.exit.name().to_owned()), Some(refused.message));
                Ok(BulkItem { code, detail, ..item })
            }
        }
    }

    fn print(&self, verb: BulkAction, items: &[BulkItem]) -> Result<(), CliError> {
        let outcome = |item: &BulkItem| match (&item.code, self.is_trial) {
            (Some(_), _) => "refused".to_owned(),
            (None, true) => format!("would be {}", verb.done),
            (None, false) => verb.done.to_owned(),
        };
        let is_printed = |item: &&BulkItem| {
            items.len() <= PRINTED_MAX || !self.reach.output.is_text() || item.code.is_some() || self.is_trial
        };
        let rows: Vec<BulkRow<'_>> =
            items.iter().filter(is_printed).map(|item| BulkRow { item, outcome: outcome(item) }).collect();
        if !rows.is_empty() || !self.reach.output.is_text() {
            output::list(self.reach.output, &rows, "")?;
        }
        if !self.reach.output.is_text() {
            return Ok(());
        }
        let refused = items.iter().filter(|item| item.code.is_some()).count();
        let would = if self.is_trial { "would be " } else { "" };
        let refusals = if refused > 0 { format!(", {refused} refused") } else { String::new() };
        output::line(&format!("\n{} {would}{}{refusals}", items.len() - refused, verb.done))
    }
}

/// The first names of a list.
fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_a_few_jobs_and_counts_the_rest() {
        let names = |n: usize| (0..n).map(|n| format!("j{n}")).collect::<Vec<_>>();
        assert_eq!(named(&names(2)), "j0, j1");
        assert_eq!(named(&names(5)), "j0, j1, j2, j3, j4");
        assert_eq!(named(&names(8)), "j0, j1, j2, j3, j4 and 3 more");
    }
}
