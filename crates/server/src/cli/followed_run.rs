//! Follows a run, or all shards of a fire: prints their output until the end, and ends as they did.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::RunId;
use evenkeel_core::time::TimeSpan;

use super::interrupt::at_interrupt;
use crate::client::ApiClient;
use crate::exit::CliError;
use crate::output;
use evenkeel_client::requests::{LogQuery, WaitQuery};
use evenkeel_client::types::{EndedRow, RunDetail, RunRow};

/// How long one request waits for the end of a run whose output is complete.
const WAIT_SECS: u64 = 20;
/// The same while further shards of a fire may begin.
const LOOK_SECS: u64 = 1;
/// The exit code of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// A run, or a fire with its shards, that is followed.
pub(super) struct FollowedRun<'a> {
    client: &'a ApiClient,
    run: &'a str,
    is_raw: bool,
}

impl<'a> FollowedRun<'a> {
    /// A run or a fire by its full id. With `is_raw` its output is printed unchanged.
    pub(super) fn new(client: &'a ApiClient, run: &'a str, is_raw: bool) -> Self {
        Self { client, run, is_raw }
    }

    /// Prints the output of all attempts until the run has ended. Standard output gets the output alone. With Ctrl-C the
    /// process ends, and the run goes on.
    ///
    /// # Errors
    /// The run did not succeed: the error has the exit code of its command, that of the first failed shard for a fire; or 1 if
    /// there is none. The run cannot be followed any further; it goes on. Standard output is closed.
    pub(super) fn to_its_end(&self) -> Result<(), CliError> {
        let run = self.run.to_owned();
        at_interrupt(move || {
            output::print_message(&format!(
                "run {run} goes on: follow it with `evenkeel run wait {run}`, end it with `evenkeel run kill {run}`"
            ));
            INTERRUPTED
        })?;
        let is_fire = self.run.parse::<RunId>().is_err();
        let last = if is_fire { self.shards() } else { self.print(self.run).and_then(|()| self.wait()) };
        let last = last.map_err(|failure| self.going_on(failure))?;
        self.end(&last)
    }

    /// The same failure, with how to find the run again.
    fn going_on(&self, failure: CliError) -> CliError {
        if failure.message.is_empty() {
            return failure;
        }
        let text = format!(
            "{}\nthe run was requested, and may go on: see it with `evenkeel run show {}`",
            failure.message, self.run
        );
        CliError::new(failure.exit, text)
    }

    /// Prints the output of one run until its end. What does not come whole is a message, and the end is awaited all the same.
    fn print(&self, run: &str) -> Result<(), CliError> {
        let query = LogQuery { follow: true, ..LogQuery::default() };
        let mut is_closed = false;
        let printed = output::stream(self.is_raw, |each| {
            self.client.read_run_logs(run, &query, |bytes| each(bytes).inspect_err(|_| is_closed = true))
        });
        match printed {
            Err(failure) if is_closed => Err(failure),
            Err(failure) => {
                output::print_message(&format!(
                    "{failure}\nthe output is not whole: `evenkeel run logs {run}` shows it after the end of the run"
                ));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Prints the output of each shard that begins, one after the other, until all have ended.
    fn shards(&self) -> Result<EndedRow, CliError> {
        let mut printed: BTreeSet<String> = BTreeSet::new();
        loop {
            // Looked at first: shards that began before the end are in what is listed after it.
            let ended = self.ended_within(LOOK_SECS)?;
            let found = self.client.show_run(self.run)?;
            let is_new = |row: &&RunRow| row.started.is_some() && !printed.contains(&row.run);
            let begun: BTreeMap<u32, String> =
                found.attempts.iter().filter(is_new).map(|row| (row.shard, row.run.clone())).collect();
            for run in begun.into_values() {
                output::line(&format!("==> {run} <=="))?;
                self.print(&run)?;
                printed.insert(run);
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    fn wait(&self) -> Result<EndedRow, CliError> {
        loop {
            if let Some(ended) = self.ended_within(WAIT_SECS)? {
                return Ok(ended);
            }
        }
    }

    /// How it ended, if it does so within so many seconds.
    fn ended_within(&self, seconds: u64) -> Result<Option<EndedRow>, CliError> {
        let query = WaitQuery { timeout: Some(TimeSpan::secs(seconds)) };
        let answer = self.client.wait_for_run(self.run, &query)?;
        Ok(answer.run.filter(|_| answer.done))
    }

    /// Says how it ended.
    fn end(&self, last: &EndedRow) -> Result<(), CliError> {
        let (job, state, reason) = match last {
            EndedRow::Run(row) => (&row.job, &row.state, &row.reason),
            EndedRow::Fire(row) => (&row.job, &row.state, &row.reason),
        };
        let reason = reason.as_deref().filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!(", {reason}")).unwrap_or_default();
        let text = format!("run {} has ended: {}{reason}", self.run, state.replace('_', " "));
        if state == "succeeded" {
            output::print_message(&text);
            return Ok(());
        }
        // The number of a request is an HTTP status, and that of a function its own.
        let is_command = self.client.show_job(job).is_ok_and(|found| found.job.work.command().is_some());
        let code = match is_command {
            true => self.client.show_run(self.run).ok().and_then(|found| failed_code(&found)),
            false => None,
        };
        Err(CliError::of_run(code.unwrap_or(1), text))
    }
}

/// The exit code of the first run, in the order of shards, whose last attempt ended with one and did not succeed.
fn failed_code(found: &RunDetail) -> Option<u8> {
    let last: BTreeMap<u32, &RunRow> = found.attempts.iter().map(|row| (row.shard, row)).collect();
    last.into_values().filter(|row| row.state != "succeeded").find_map(|row| {
        let detail = found.details.iter().find(|it| it.run == row.run && it.attempt == row.attempt)?;
        u8::try_from(detail.code?).ok().filter(|code| *code > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_client::types::AttemptDetail;

    #[test]
    fn the_exit_code_is_that_of_the_last_attempt_of_the_first_failed_shard() {
        let of = |attempts: &[(u32, u32, &str, Option<i32>)]| {
            let run = |shard: u32| format!("j:1:{shard}");
            let row = |(shard, attempt, state): (u32, u32, &str)| RunRow {
                run: run(shard),
                job: "j".to_owned(),
                shard,
                due: String::new(),
                node: String::new(),
                attempt,
                state: state.to_owned(),
                reason: None,
                started: None,
                ended: None,
                killable: None,
            };
            let detail = |shard: u32, attempt: u32, code: Option<i32>| AttemptDetail {
                run: run(shard),
                attempt,
                token: None,
                code,
                output: 0,
                sent: None,
            };
            failed_code(&RunDetail {
                attempts: attempts.iter().map(|it| row((it.0, it.1, it.2))).collect(),
                details: attempts.iter().map(|it| detail(it.0, it.1, it.3)).collect(),
                ..RunDetail::default()
            })
        };
        assert_eq!(of(&[(0, 1, "failed", Some(3)), (0, 2, "failed", Some(7))]), Some(7));
        assert_eq!(
            of(&[(0, 1, "succeeded", Some(0)), (1, 1, "timed_out", None), (2, 1, "failed", Some(9))]),
            Some(9)
        );
        assert_eq!(of(&[(0, 1, "killed", None)]), None);
        assert_eq!(of(&[(0, 1, "failed", Some(-9)), (1, 1, "failed", Some(256))]), None);
    }
}
