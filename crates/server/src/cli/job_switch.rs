//! `evenkeel job pause`, `resume`, `enable` and `disable`, of one job and of many.

use super::job_args::{JobArgs, JobNodeArgs};
use super::many_jobs::{BulkAction, ChosenJobs, JobChoiceArgs};
use super::plan::{self, PlannableChange};
use super::response::print_response;
use super::values;
use crate::exit::CliError;
use crate::output;
use evenkeel_client::requests::ClaimQuery;

/// A switch of a job.
pub(super) struct JobSwitch {
    verb: &'static str,
    /// The ends of the sentence about a job, and about its part on one node.
    done: [&'static str; 2],
    of_many: BulkAction,
    plans: Option<PlannableChange>,
}

impl JobSwitch {
    pub(super) const PAUSE: Self = Self {
        verb: "pause",
        done: ["paused: it has only manual runs", "paused: it has only manual runs there"],
        of_many: BulkAction::PAUSE,
        plans: None,
    };
    pub(super) const RESUME: Self = Self {
        verb: "resume",
        done: ["resumed: it fires from now on", "resumed: it fires there from now on"],
        of_many: BulkAction::RESUME,
        plans: Some(PlannableChange::Resumed),
    };
    pub(super) const ENABLE: Self = Self {
        verb: "enable",
        done: ["enabled: it fires from now on", "enabled: it takes part from the next fire on"],
        of_many: BulkAction::ENABLE,
        plans: Some(PlannableChange::Enabled),
    };
    pub(super) const DISABLE: Self = Self {
        verb: "disable",
        done: ["disabled: no node holds it", "disabled: its shards move before the next fire"],
        of_many: BulkAction::DISABLE,
        plans: None,
    };
}

/// Switches a job or many, or shows what that would change.
///
/// # Errors
/// A request failed, or a job was refused.
pub(super) fn switch(
    jobs: JobChoiceArgs,
    (is_planned, place): (bool, &JobNodeArgs),
    switch: &JobSwitch,
) -> Result<(), CliError> {
    let only_one = [("--plan", is_planned), ("--node", place.node.is_some())];
    match (jobs.choose(&only_one)?, switch.plans.filter(|_| is_planned)) {
        (ChosenJobs::Many(jobs), _) => jobs.each(switch.of_many),
        (ChosenJobs::One(job), Some(change)) => plan::turn(&job.name, change, &job.reach),
        (ChosenJobs::One(job), None) => one(&job, place, switch.verb, switch.done),
    }
}

/// Switches a job, or its part on one node; prints one of the two ends of the sentence.
///
/// # Errors
/// The request failed.
pub(super) fn one(job: &JobArgs, place: &JobNodeArgs, verb: &str, done: [&str; 2]) -> Result<(), CliError> {
    let mut what = format!("job {} is {}", job.name, done[0]);
    let mut query = ClaimQuery::default();
    if let Some(node) = &place.node {
        query.node = Some(values::parsed("--node", node)?);
        what = format!("job {} on node {node} is {}", job.name, done[1]);
    }
    let answer = job.reach.client()?.switch_job(&job.name, verb, &query)?;
    if output::warn(answer.warnings.as_deref().unwrap_or_default())
        && let Some((short, _)) = what.split_once(": ")
    {
        // The expected effect does not come, as the warnings explain.
        what = short.to_owned();
    }
    print_response(&job.reach, &answer, &what)
}
