//! The commands `evenkeel run …`.

use super::values;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use evenkeel::AttemptState as RunState;
use evenkeel_core::time::TimeSpan;

use super::namespace_args::{ListedNamespaceArgs, NamespaceArgs};
use super::response::print_response;
use super::run_retry::RunRetryArgs;
use super::values::when;
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::output::{self, OutputFormat};
use crate::text_input;
use evenkeel_client::requests::{LogQuery, RunListQuery, RunningQuery, WaitQuery};
use evenkeel_client::types::{EndedRow, RunRow};

/// The duration of one wait request; then the client repeats it, so that no proxy closes a silent connection.
const WAIT_SLICE_SECS: u64 = 25;

/// What can be done with runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// List runs, the latest first; the waiting ones stand before the others, each with its reason
    List(RunListArgs),
    /// List the runs that are running now, and count them
    Running {
        #[command(flatten)]
        within: ListedNamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show all details of a run and its attempts. For a sharded job's fire, named without a shard, show the runs of all shards
    Show {
        #[command(flatten)]
        run: RunArgs,
    },
    /// Print a run's output
    Logs {
        #[command(flatten)]
        run: RunArgs,
        /// Follow the output until the run has ended, with all its attempts
        #[arg(short, long)]
        follow: bool,
        /// The attempt; the latest by default
        #[arg(long, value_name = "N")]
        attempt: Option<u32>,
        /// Only the last N lines, at most 10,000; with --follow also what comes after them
        #[arg(long, value_name = "N")]
        tail: Option<u32>,
        /// Only the lines that contain this text
        #[arg(long, value_name = "TEXT")]
        grep: Option<String>,
        /// Print the output unchanged; otherwise control characters are printed as \x1b and the like
        #[arg(long)]
        raw: bool,
        /// Write the output unchanged to this file, which is created only when the output is complete
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
    },
    /// Wait until a run, or all shards of a fire, have ended; the exit code is 0 only if all succeeded
    Wait {
        #[command(flatten)]
        run: RunArgs,
        /// Give up after this time, such as 90s or 5m
        #[arg(long, value_name = "TIME")]
        timeout: Option<TimeSpan>,
    },
    /// End a running run, or a run that waits for a node, a slot, its pool or its next attempt
    Kill {
        #[command(flatten)]
        run: RunArgs,
    },
    /// Run the job of an ended run once more, now. Repeating the command has no further effect
    Restart {
        #[command(flatten)]
        run: RunArgs,
    },
    /// Run the job of an ended run once more, as `restart` does, or all that failed in a span of time
    Retry(RunRetryArgs),
    /// Delete a run's output on the nodes that have it; its history stays
    Delete {
        #[command(flatten)]
        run: RunArgs,
    },
}

/// `run list`.
#[derive(Debug, Args)]
pub(crate) struct RunListArgs {
    /// Only runs of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only runs in this state: running, succeeded, failed, killed, timed_out, fenced, lost, skipped, waiting; give several with commas or by repeating the flag
    #[arg(long, value_parser = state, value_delimiter = ',')]
    state: Vec<String>,
    /// Only runs of this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only runs of fires that were due at this time or later: how long ago, such as 10m or 2d, or a moment such as 2026-03-01T22:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = when)]
    since: Option<String>,
    /// Only runs of fires that were due before this time, written likewise
    #[arg(long, value_name = "WHEN", value_parser = when)]
    until: Option<String>,
    /// The maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    #[command(flatten)]
    within: ListedNamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// One run and the way to it.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The run's id, as `run list` shows it; for `show`, `logs` and `wait` also a job's name, which means its latest run
    run: String,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

impl RunArgs {
    /// The same with the run's full id.
    fn resolve(self) -> Self {
        Self { run: self.within.run(&self.run), ..self }
    }

    /// The same, where the name of a job means its latest run.
    fn resolve_latest(self) -> Result<Self, CliError> {
        if self.run.contains(':') {
            return Ok(self.resolve());
        }
        let job = self.within.job(&self.run);
        let client = self.reach.client()?;
        let job_name = values::parsed("the job", &job)?;
        let query = RunListQuery { job: Some(job_name), limit: Some(1), ..RunListQuery::default() };
        let page = client.list_runs(&query)?;
        output::missing(&page.missing);
        // What waits has no output yet, and nothing to show but its reason.
        let latest = page.runs.into_iter().next().or_else(|| page.waiting.into_iter().next());
        let none = || {
            CliError::new(
                ExitKind::NotFound,
                format!("job {job} has no run yet: start one with `evenkeel job run {job}`"),
            )
        };
        Ok(Self { run: latest.ok_or_else(none)?.run, ..self })
    }
}

/// Runs the command.
///
/// # Errors
/// The request failed, or the run that was waited for did not succeed.
pub(crate) fn run(verb: RunCommand) -> Result<(), CliError> {
    match verb {
        RunCommand::List(mut list) => {
            list.job = list.job.map(|job| list.within.one.job(&job));
            some(&list)
        }
        RunCommand::Running { within, reach } => running(&within, &reach),
        RunCommand::Show { run } => {
            let run = run.resolve_latest()?;
            super::run_show::show(&run.run, &run.reach)
        }
        RunCommand::Logs { run, follow, attempt, tail, grep, raw, save } => {
            let run = run.resolve_latest()?;
            let client = run.reach.client()?;
            let query = LogQuery { attempt, tail, follow, grep, ..LogQuery::default() };
            match save {
                Some(file) => saved(&client, (&run.run, &query), &file),
                None => output::stream(raw, |each| client.read_run_logs(&run.run, &query, each)),
            }
        }
        RunCommand::Wait { run, timeout } => wait(&run.resolve_latest()?, timeout),
        RunCommand::Kill { run } => {
            let run = run.resolve();
            let answer = run.reach.client()?.kill_run(&run.run)?;
            print_response(&run.reach, &answer, &format!("run {} is being ended", run.run))
        }
        RunCommand::Restart { run } => {
            let run = run.resolve();
            super::run_retry::one(&run.run, &run.reach)
        }
        RunCommand::Retry(retry) => super::run_retry::retry(&retry),
        RunCommand::Delete { run } => {
            let run = run.resolve();
            let answer = run.reach.client()?.delete_run_logs(&run.run)?;
            let what = match answer.removed {
                0 => format!("run {} has no output that could be deleted", run.run),
                _ => format!("the output of run {} is deleted", run.run),
            };
            print_response(&run.reach, &answer, &what)
        }
    }
}

/// The state of a run.
fn state(text: &str) -> Result<String, String> {
    text_input::one_of("state", text, &RunState::ALL.map(RunState::as_str)).map(ToOwned::to_owned)
}

/// Writes a stream to a temporary file first, so that an incomplete one is not taken for complete.
fn saved(client: &ApiClient, (run, query): (&str, &LogQuery), file: &Path) -> Result<(), CliError> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let failed = |e: std::io::Error| CliError::unwritable(file.display(), e);
    let open = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&part);
    let open = open.map_err(failed)?;
    let taken = client.read_run_logs(run, query, |bytes| (&open).write_all(bytes).map_err(failed));
    let whole = taken.and_then(|()| std::fs::rename(&part, file).map_err(failed));
    if whole.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    whole
}

fn some(list: &RunListArgs) -> Result<(), CliError> {
    let client = list.reach.client()?;
    let (mut waiting, mut runs): (Vec<RunRow>, Vec<RunRow>) = (Vec::new(), Vec::new());
    let mut more = 0;
    let limit = list.limit as usize;
    let mut query = RunListQuery {
        job: list.job.as_deref().map(|job| values::parsed("--job", job)).transpose()?,
        // A job's name says its namespace.
        namespace: list.within.filter().filter(|_| list.job.is_none()),
        state: (!list.state.is_empty()).then(|| list.state.join(",")),
        node: list.node.as_deref().map(|node| values::parsed("--node", node)).transpose()?,
        since: list.since.clone(),
        until: list.until.clone(),
        ..RunListQuery::default()
    };
    while runs.len() < limit {
        query.limit = Some(values::page_limit(limit - runs.len()));
        let page = client.list_runs(&query)?;
        output::missing(&page.missing);
        more += page.waiting_more;
        waiting.extend(page.waiting);
        runs.extend(page.runs);
        query.before = page.before;
        if query.before.is_none() {
            break;
        }
    }
    let unclaimed = |row: &RunRow| row.killable == Some(false);
    more += split_limit(&mut waiting, &mut runs, limit);
    let has_unclaimed = waiting.iter().any(unclaimed);
    waiting.append(&mut runs);
    output::list(list.reach.output, &waiting, &none(list))?;
    let job = list.job.as_ref().map(|job| format!(" --job {job}")).unwrap_or_default();
    if more > 0 {
        let see = format!("evenkeel run list --state waiting --limit 1000{job}");
        let one = if list.job.is_none() { ", and of one job alone with `--job NAME`" } else { "" };
        output::print_message(&format!("{more} more wait: see them with `{see}`{one}"));
    }
    if has_unclaimed && list.reach.output.is_text() {
        let text = "due: fires that no node has claimed; `run kill` does not take them, `job pause` keeps them from running";
        output::line(&format!("\n{text}"))?;
    }
    Ok(())
}

/// Truncates both lists to `limit` together; waiting runs get at most half if there are others. Returns how many go.
fn split_limit(waiting: &mut Vec<RunRow>, runs: &mut Vec<RunRow>, limit: usize) -> usize {
    let room = limit - runs.len().min(limit / 2);
    let cut = waiting.len().saturating_sub(room);
    waiting.truncate(room);
    runs.truncate(limit - waiting.len());
    cut
}

/// A message that no runs match.
fn none(list: &RunListArgs) -> String {
    let of_job = list.job.as_ref().map(|job| format!(" of job {job}")).unwrap_or_default();
    if list.node.is_some() || list.since.is_some() || list.until.is_some() {
        return format!("no such run{of_job}");
    }
    if !list.state.is_empty() {
        return format!("no run{of_job} is {}", list.state.join(" or ").replace('_', " "));
    }
    let name = list.job.as_deref().unwrap_or("NAME");
    format!("no runs{of_job} yet: start one with `evenkeel job run {name}`")
}

fn running(within: &ListedNamespaceArgs, reach: &ConnectArgs) -> Result<(), CliError> {
    let found = reach.client()?.list_running(&RunningQuery { namespace: within.filter() })?;
    output::missing(&found.missing);
    if [OutputFormat::Json, OutputFormat::Yaml].contains(&reach.output) {
        return output::value(reach.output, &found);
    }
    output::list(reach.output, &found.runs, "nothing runs now")?;
    match found.running {
        _ if !reach.output.is_text() => Ok(()),
        0 => Ok(()),
        n => output::line(&format!("\n{n} running now")),
    }
}

fn wait(run: &RunArgs, timeout: Option<TimeSpan>) -> Result<(), CliError> {
    let client = run.reach.client()?;
    let mut left = timeout.map(TimeSpan::as_secs);
    loop {
        let slice = left.map_or(WAIT_SLICE_SECS, |left| left.min(WAIT_SLICE_SECS));
        let query = WaitQuery { timeout: Some(TimeSpan::secs(slice)) };
        let answer = client.wait_for_run(&run.run, &query)?;
        if answer.done {
            return ended(run, answer.run.as_ref());
        }
        left = left.map(|left| left.saturating_sub(slice));
        if left == Some(0) {
            return Err(CliError::new(ExitKind::Unavailable, format!("run {} has not ended yet", run.run)));
        }
    }
}

fn ended(run: &RunArgs, last: Option<&EndedRow>) -> Result<(), CliError> {
    let (state, reason) = match last {
        Some(EndedRow::Run(row)) => (row.state.as_str(), row.reason.as_deref()),
        Some(EndedRow::Fire(row)) => (row.state.as_str(), row.reason.as_deref()),
        None => ("unknown", None),
    };
    let reason = reason.filter(|r| !r.is_empty()).map(|r| format!(": {r}")).unwrap_or_default();
    print_response(&run.reach, &last, &format!("{state}{reason}"))?;
    if state == "succeeded" {
        return Ok(());
    }
    Err(CliError::new(ExitKind::Failed, format!("run {} did not succeed: it is {state}", run.run)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(state: &str, n: usize) -> Vec<RunRow> {
        let row = |i: usize| RunRow {
            run: format!("j:{i}:0"),
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
        (0..n).map(row).collect()
    }

    #[test]
    fn what_waits_leaves_half_of_the_list_to_the_others() {
        let shared = |waiting, runs, limit| {
            let (mut waiting, mut runs) = (rows("waiting", waiting), rows("running", runs));
            let more = split_limit(&mut waiting, &mut runs, limit);
            (waiting.len(), runs.len(), more)
        };
        assert_eq!(shared(60, 60, 50), (25, 25, 35));
        assert_eq!(shared(60, 10, 50), (40, 10, 20), "what the others do not need is for what waits");
        assert_eq!(shared(60, 0, 50), (50, 0, 10));
        assert_eq!(shared(3, 60, 50), (3, 47, 0));
        assert_eq!(shared(2, 2, 1), (1, 0, 1));
    }
}
