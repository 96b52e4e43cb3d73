//! The fires of this cluster, as its histories have them.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_client::requests::RunListQuery;
use evenkeel_client::types::RunRow;
use evenkeel_core::ids::{Fire, JobName, RunId};
use evenkeel_core::lifecycle::is_shadow;
use evenkeel_core::time::Wall;
use jiff::Timestamp;

use super::super::arguments::ReportArgs;
use crate::cli::values;
use crate::client::ApiClient;
use crate::exit::CliError;

/// How many rows a page has.
const PAGE: u32 = 1_000;
/// Up to how many jobs are asked for one by one; beyond it all runs are read.
const ONE_BY_ONE: usize = 100;

/// A fire of the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnFire {
    /// When its first attempt started; `None` if it did not run.
    pub(super) started: Option<Wall>,
    /// Its state, or `shadow`.
    pub(super) outcome: String,
    /// Why it did not run.
    pub(super) reason: String,
}

/// The fires of jobs, by the moments at which they were due.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnFires {
    pub(super) jobs: BTreeMap<String, BTreeMap<Wall, OwnFire>>,
    /// The nodes that did not answer.
    pub(super) missing: Vec<String>,
}

impl OwnFires {
    /// Reads the fires of these jobs that were due within a span.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub(super) fn read(
        client: &ApiClient,
        names: &BTreeSet<&String>,
        args: &ReportArgs,
        (since, until): (Wall, Wall),
    ) -> Result<Self, CliError> {
        let query = RunListQuery {
            since: Some(since.to_string()),
            until: Some(until.to_string()),
            limit: Some(PAGE),
            ..RunListQuery::default()
        };
        let mut found = Self::default();
        if names.len() > ONE_BY_ONE {
            found.pages(client, RunListQuery { namespace: args.within.filter(), ..query }, names)?;
            return Ok(found);
        }
        for name in names {
            let job: JobName = values::parsed("the job", name)?;
            found.pages(client, RunListQuery { job: Some(job), ..query.clone() }, names)?;
        }
        Ok(found)
    }

    fn pages(
        &mut self,
        client: &ApiClient,
        mut query: RunListQuery,
        names: &BTreeSet<&String>,
    ) -> Result<(), CliError> {
        loop {
            let page = client.list_runs(&query)?;
            page.runs.iter().filter(|row| names.contains(&row.job)).for_each(|row| self.take(row));
            for node in page.missing {
                if !self.missing.contains(&node) {
                    self.missing.push(node);
                }
            }
            match page.before {
                Some(before) => query.before = Some(before),
                None => return Ok(()),
            }
        }
    }

    /// Adds an attempt: a fire starts with the first one of any of its shards. Manual runs are no fires.
    fn take(&mut self, row: &RunRow) {
        let Some(Fire::Due(due)) = row.run.parse::<RunId>().ok().map(|run| run.fire) else { return };
        let moment = |text: &String| text.parse::<Timestamp>().ok().map(|at| Wall(at.as_millisecond()));
        let started = row.started.as_ref().and_then(moment);
        let reason = row.reason.clone().unwrap_or_default();
        let outcome = if is_shadow(&reason) { "shadow".to_owned() } else { row.state.clone() };
        let known = self.jobs.entry(row.job.clone()).or_default().entry(due).or_default();
        if known.started.is_none() {
            (known.outcome, known.reason) = (outcome, reason);
        }
        known.started = match (known.started, started) {
            (Some(known), Some(started)) => Some(known.min(started)),
            (known, started) => known.or(started),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fire_starts_with_the_first_attempt_of_any_shard_and_manual_runs_are_none() {
        let row = |run: &str, state: &str, started: Option<&str>, reason: &str| RunRow {
            run: run.to_owned(),
            job: "j".to_owned(),
            shard: 0,
            due: String::new(),
            node: String::new(),
            attempt: 1,
            state: state.to_owned(),
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
            started: started.map(ToOwned::to_owned),
            ended: None,
            killable: None,
        };
        let mut own = OwnFires::default();
        let (one, two) = (Some("1970-01-01T00:00:01Z"), Some("1970-01-01T00:00:02Z"));
        for row in [
            row("j:1000:1", "succeeded", two, ""),
            row("j:1000:0", "succeeded", one, ""),
            row("j:5000:0", "skipped", None, "older than the grace of 60 s"),
            row("j:9000:0", "skipped", two, evenkeel_core::lifecycle::SHADOW),
            row("j:ask-x:0", "succeeded", one, ""),
        ] {
            own.take(&row);
        }
        let fires: Vec<(i64, Option<Wall>, &str)> =
            own.jobs["j"].iter().map(|(due, fire)| (due.0, fire.started, fire.outcome.as_str())).collect();
        assert_eq!(
            fires,
            [
                (1_000, Some(Wall(1_000)), "succeeded"),
                (5_000, None, "skipped"),
                (9_000, Some(Wall(2_000)), "shadow")
            ]
        );
    }
}
