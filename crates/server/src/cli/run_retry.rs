//! `evenkeel run retry`: runs the jobs of ended runs once more, of one run or of all that failed.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use evenkeel_core::ids::{FireId, RunId, counted};
use evenkeel_core::input::ApplyResult;
use evenkeel_core::time::TimeSpan;
use serde::Serialize;

use super::namespace_args::ListedNamespaceArgs;
use super::prompt;
use super::response::print_response;
use super::values::{self, when};
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::output::{self, Progress, TableRow, or_dash};
use crate::request;
use evenkeel_client::ClientErrorKind;
use evenkeel_client::requests::{RunListQuery, WaitQuery};
use evenkeel_client::types::{EndedRow, RunAnswer, RunRow};

/// The states of a run that failed. One that an operator ended is not among them.
const FAILED: &str = "failed,timed_out,lost,fenced";
/// How long it may take to see whether a fire has ended.
const LOOK_SECS: u64 = 2;
/// The most fires of one command.
const FIRES_MAX: usize = 10_000;

/// `run retry`.
#[derive(Debug, Args)]
pub(crate) struct RunRetryArgs {
    /// The run's id, as `run list` shows it; of a sharded job all shards run again
    #[arg(required_unless_present = "failed", conflicts_with = "failed")]
    run: Option<String>,
    /// All fires with a run that failed, timed out or was lost, each once
    #[arg(long, requires = "since")]
    failed: bool,
    /// With --failed, only of this job
    #[arg(long, value_name = "JOB", requires = "failed")]
    job: Option<String>,
    /// With --failed, only fires that were due at this time or later: how long ago, such as 10m or 2d, or a moment such as 2026-03-01T22:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = when, requires = "failed")]
    since: Option<String>,
    /// With --failed, only fires that were due before this time, written likewise
    #[arg(long, value_name = "WHEN", value_parser = when, requires = "failed")]
    until: Option<String>,
    /// With --failed, do not ask; needed where no person can be asked
    #[arg(long, requires = "failed")]
    yes: bool,
    /// With --failed, only show what would run again
    #[arg(long, requires = "failed")]
    dry_run: bool,
    #[command(flatten)]
    within: ListedNamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// A fire that runs again, or would.
#[derive(Serialize)]
struct RetriedFire {
    /// The run that failed, or the fire with it.
    run: String,
    /// How it ended.
    state: String,
    /// The new run.
    #[serde(skip_serializing_if = "Option::is_none")]
    retried_as: Option<String>,
    /// `created`, or `unchanged` if it was restarted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<ApplyResult>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl TableRow for RetriedFire {
    const HEADS: &'static [&'static str] = &["run", "state", "outcome", "retried as", "more"];
    fn cells(&self) -> Vec<String> {
        let outcome = match (self.applied, &self.detail) {
            (_, Some(_)) => "refused",
            (Some(ApplyResult::Unchanged), None) => "retried before",
            (Some(_), None) => "retried",
            (None, None) => "-",
        };
        vec![
            self.run.clone(),
            self.state.clone(),
            outcome.to_owned(),
            or_dash(self.retried_as.as_deref()),
            or_dash(self.detail.as_deref()),
        ]
    }
}

/// Runs the job of one run once more, or those of all that failed.
///
/// # Errors
/// The request failed; the person does not want it, or none can be asked; a fire was refused.
pub(super) fn retry(args: &RunRetryArgs) -> Result<(), CliError> {
    match &args.run {
        Some(run) => one(&args.within.one.run(run), &args.reach),
        None => failed(args),
    }
}

/// Runs the job of an ended run once more.
///
/// # Errors
/// The request failed.
pub(super) fn one(run: &str, reach: &ConnectArgs) -> Result<(), CliError> {
    let answer = reach.client()?.restart_run(run)?;
    output::warn(&answer.warnings);
    let next = &answer.run;
    let what = match answer.applied {
        ApplyResult::Unchanged => format!(
            "run {run} was restarted before, as {next}: nothing was asked for; restart {next} to run it once more"
        ),
        _ => format!("run {run} is done again as {next}"),
    };
    print_response(reach, &answer, &what)
}

fn failed(args: &RunRetryArgs) -> Result<(), CliError> {
    let client = args.reach.client()?;
    let mut fires = ended_so(&client, fires_of(&failed_runs(&client, args)?))?;
    let none = "no run of this span failed";
    if args.dry_run || fires.is_empty() {
        return output::list(args.reach.output, &fires, none);
    }
    if !args.yes {
        let count = counted(fires.len(), "fire");
        if !prompt::is_person_there() {
            let text = format!(
                "run {count} again? Say so with --yes: no person can be asked here; --dry-run shows them"
            );
            return Err(CliError::usage(text));
        }
        output::list(args.reach.output, &fires, none)?;
        if !prompt::confirm(&format!("run {count} again?"))? {
            return Err(CliError::new(ExitKind::Failed, "nothing was asked for"));
        }
    }
    let done = all(&client, &mut fires);
    let tried: Vec<RetriedFire> =
        fires.into_iter().filter(|fire| fire.applied.is_some() || fire.detail.is_some()).collect();
    output::list(args.reach.output, &tried, none)?;
    done.map_err(|failure| {
        let text = format!("{failure}\nthe same command does the rest: no fire runs again twice");
        CliError::new(failure.exit, text)
    })?;
    match tried.iter().filter(|fire| fire.detail.is_some()).count() {
        0 => Ok(()),
        refused => {
            let text = format!("{refused} of {} refused", counted(tried.len(), "fire"));
            Err(CliError::new(ExitKind::Failed, text))
        }
    }
}

/// Restarts each fire. The id of each request comes of its fire, so a repeated one has no effect.
///
/// # Errors
/// The next one would fail as well.
fn all(client: &ApiClient, fires: &mut [RetriedFire]) -> Result<(), CliError> {
    let mut progress = Progress::new("run retry", fires.len());
    for (done, fire) in fires.iter_mut().enumerate() {
        progress.at(done);
        match client.restart_run(&fire.run) {
            Ok(RunAnswer { run, applied, .. }) => {
                (fire.retried_as, fire.applied) = (Some(run), Some(applied));
            }
            Err(e) => {
                let is_of_this_fire = matches!(
                    e.kind,
                    ClientErrorKind::NotFound | ClientErrorKind::Conflict | ClientErrorKind::Denied
                );
                if !is_of_this_fire {
                    return Err(e.into());
                }
                fire.detail = Some(e.message);
            }
        }
    }
    Ok(())
}

/// All runs of the span with an attempt that failed, the earliest first.
fn failed_runs(client: &ApiClient, args: &RunRetryArgs) -> Result<Vec<RunRow>, CliError> {
    let job = args.job.as_ref().map(|job| args.within.one.job(job));
    let mut query = RunListQuery {
        namespace: args.within.filter().filter(|_| job.is_none()),
        job: job.as_deref().map(|job| values::parsed("--job", job)).transpose()?,
        state: Some(FAILED.to_owned()),
        since: args.since.clone(),
        until: args.until.clone(),
        limit: Some(values::page_limit(usize::MAX)),
        ..RunListQuery::default()
    };
    let mut runs = Vec::new();
    loop {
        let page = client.list_runs(&query)?;
        output::missing(&page.missing);
        runs.extend(page.runs);
        if runs.len() > FIRES_MAX {
            return Err(CliError::usage(format!(
                "more than {FIRES_MAX} runs failed: name a shorter span or one --job"
            )));
        }
        query.before = page.before;
        if query.before.is_none() {
            runs.reverse();
            return Ok(runs);
        }
    }
}

/// The fires that failed in the end: an attempt that failed may be followed by one that succeeded, or that is yet to come.
fn ended_so(client: &ApiClient, fires: Vec<RetriedFire>) -> Result<Vec<RetriedFire>, CliError> {
    let query = WaitQuery { timeout: Some(TimeSpan::secs(LOOK_SECS)) };
    let (mut failed, mut open) = (Vec::new(), 0);
    let mut progress = Progress::new("looking at runs", fires.len());
    for (done, fire) in fires.into_iter().enumerate() {
        progress.at(done);
        let answer = client.wait_for_run(&fire.run, &query)?;
        let state = match answer.run.filter(|_| answer.done) {
            Some(EndedRow::Run(row)) => row.state,
            Some(EndedRow::Fire(row)) => row.state,
            None => {
                open += 1;
                continue;
            }
        };
        if FAILED.split(',').any(|failed| failed == state) {
            failed.push(RetriedFire { state, ..fire });
        }
    }
    drop(progress);
    if open > 0 {
        let have = if open == 1 { "has" } else { "have" };
        output::print_message(&format!(
            "{} {have} not ended yet, and {have} no part in this",
            counted(open, "fire")
        ));
    }
    Ok(failed)
}

/// The fires of runs, each once; of a fire with one run, the run.
fn fires_of(runs: &[RunRow]) -> Vec<RetriedFire> {
    let ids = runs.iter().filter_map(|row| Some((row.run.parse::<RunId>().ok()?, row)));
    // Else the same command would do more each time. A person does a retry that failed again by its name.
    let ids = ids.filter(|(run, _)| !request::is_restart(run));
    let mut named: BTreeMap<FireId, BTreeSet<&str>> = BTreeMap::new();
    let mut order = Vec::new();
    for (run, row) in ids {
        let fire = FireId::from(&run);
        let runs = named.entry(fire.clone()).or_default();
        if runs.is_empty() {
            order.push(fire);
        }
        runs.insert(&row.run);
    }
    let name = |fire: &FireId| match named.get(fire).map(|runs| (runs.len(), runs.first())) {
        Some((1, Some(run))) => (*run).to_owned(),
        _ => fire.to_string(),
    };
    let fire = |fire: &FireId| RetriedFire {
        run: name(fire),
        state: String::new(),
        retried_as: None,
        applied: None,
        detail: None,
    };
    order.iter().map(fire).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shards_of_a_fire_run_again_together() {
        let row = |run: &str, state: &str| RunRow {
            run: run.to_owned(),
            job: "j".to_owned(),
            shard: 0,
            due: String::new(),
            node: String::new(),
            attempt: 1,
            state: state.to_owned(),
            reason: None,
            started: None,
            ended: None,
            killable: None,
        };
        let rows =
            ["j:1000:0", "j:1000:3", "j:2000:0", "j:2000:0", "j:ask-r:0"].map(|run| row(run, "failed"));
        let fires: Vec<String> = fires_of(&rows).into_iter().map(|fire| fire.run).collect();
        assert_eq!(fires, ["j:1000", "j:2000:0", "j:ask-r:0"]);
    }
}
