//! Lists waiting runs that no history has, requested or due, with the reason why each has not begun.
//!
//! The reasons are those of [`super::job`], given for each run.

use std::collections::BTreeMap;

use evenkeel::{Handle, RunStateError};
use evenkeel_core::due::FireSource;
use evenkeel_core::ids::{Fire, FireId, JobName, RequestId, RunId, Shard};
use evenkeel_core::job::{CatchUp, Placement};
use evenkeel_core::overlap::{EffectiveSchedule, SkippedSpan};
use evenkeel_core::record::TriggerRequest;
use evenkeel_core::time::{Millis, Wall};

use super::context::{ExplainContext, REPORTED_MAX, WaitingRun, gather};
use super::{HistoryFaults, claimed, dispatched, sharded};
use evenkeel_client::types::{ExplanationRow, RunRow, moment};

/// The maximum number of jobs in one list.
pub(crate) const JOBS_MAX: usize = 500;
/// The maximum number of one job's unclaimed fires that are listed, the latest; a list of a single job has all.
const FIRES_LISTED: usize = 20;
/// The maximum number of fires that are counted.
const FIRES_COUNTED: usize = 1_000;

/// Waiting runs.
#[derive(Debug, Default)]
pub(crate) struct WaitingRuns {
    /// First those that an operator can kill, then fires that no node has claimed; of both the latest first.
    pub(crate) rows: Vec<RunRow>,
    /// The number of further ones.
    pub(crate) more: usize,
}

/// Lists the waiting runs of all these jobs.
///
/// # Errors
/// The registry is unreachable, or the node has stopped.
pub(crate) async fn waiting(
    handle: &Handle,
    names: &[JobName],
    troubles: &HistoryFaults,
) -> Result<WaitingRuns, RunStateError> {
    let mut known: Vec<(JobName, ExplainContext)> = Vec::new();
    for name in names.iter().take(JOBS_MAX) {
        known.extend(gather(handle, name, troubles).await.map(|found| (name.clone(), found)));
    }
    let placed = |placement| {
        let of_it = known.iter().filter(|(_, known)| known.job().placement.kind() == placement);
        of_it.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let (claims, plans) = (placed(Placement::Claimed), placed(Placement::Dispatched));
    let claims = if claims.is_empty() { BTreeMap::new() } else { handle.claimed_run_states(&claims).await? };
    let plans = if plans.is_empty() { BTreeMap::new() } else { handle.plans(&plans).await? };
    let most = if names.len() == 1 { FIRES_COUNTED } else { FIRES_LISTED };
    let (mut found, mut more): (Vec<(Wall, RunRow)>, _) = (Vec::new(), names.len().saturating_sub(JOBS_MAX));
    for (name, known) in &known {
        let mut waits = match known.job().placement.kind() {
            Placement::Claimed => claimed::waiting(known, claims.get(name)),
            Placement::Dispatched => dispatched::waiting(known, plans.get(name)),
            Placement::Sharded | Placement::Broadcast => {
                sharded::waiting(known, &handle.shard_run_states(name).await?)
            }
        };
        more += truncate_fires(&mut waits, most);
        found.extend(waits.into_iter().map(|waits| (waits.due, row(known, waits))));
    }
    let order = |row: &RunRow| row.killable != Some(true);
    found.sort_by(|a, b| {
        order(&a.1).cmp(&order(&b.1)).then(b.0.cmp(&a.0)).then_with(|| a.1.run.cmp(&b.1.run))
    });
    Ok(WaitingRuns { rows: found.into_iter().map(|(_, row)| row).collect(), more })
}

/// Keeps at most this many of the unclaimed fires; returns how many were cut.
fn truncate_fires(waits: &mut Vec<WaitingRun>, most: usize) -> usize {
    let (before, mut fires) = (waits.len(), 0);
    waits.retain(|waits| {
        fires += usize::from(!waits.killable);
        waits.killable || fires <= most
    });
    before - waits.len()
}

/// Why a run has no attempt yet; `None` if it does not wait, or the reason is unknown.
pub(crate) async fn why(handle: &Handle, run: &RunId, troubles: &HistoryFaults) -> Option<String> {
    let names = [run.job.clone()];
    let rows = waiting(handle, &names, troubles).await.ok()?.rows;
    let (one, whole) = (run.to_string(), FireId::from(run).to_string());
    rows.into_iter().find(|row| row.run == one || row.run == whole)?.reason
}

/// Why nothing of a job runs until an operator changes something, even if requested; `None` if a node can run it.
pub(crate) fn in_the_way(handle: &Handle, name: &JobName) -> Option<String> {
    handle.with_node(|node| node.view().find(name)?.obstacle())
}

/// What a person who asks for a run of a shadow is to know; `None` for any other job.
pub(crate) fn shadow_warning(handle: &Handle, name: &JobName) -> Option<String> {
    let spec = handle.with_node(|node| node.view().find(name)?.spec())?;
    spec.job.shadow.then(|| {
        format!("job {name} is a shadow: its runs execute nothing until a declaration has shadow = false")
    })
}

/// The sentence about a waiting request.
pub(super) fn request(id: &RequestId, at: Wall, why: &str) -> String {
    format!("request {id} of {} waits: {why}", moment(at))
}

/// Explains each waiting request.
pub(super) fn explain_requests(waits: &[WaitingRun], explanation: &mut ExplanationRow) {
    let asked = || waits.iter().filter(|waits| matches!(waits.fire, Fire::Asked(_)));
    for waits in asked().take(REPORTED_MAX) {
        if let Fire::Asked(id) = &waits.fire {
            explanation.point("request", "firing", request(id, waits.due, &waits.why));
        }
    }
    let more = asked().count().saturating_sub(REPORTED_MAX);
    if more > 0 {
        explanation.point("request", "firing", format!("and {more} more requests wait"));
    }
}

fn row(known: &ExplainContext, waits: WaitingRun) -> RunRow {
    let run =
        RunId { job: known.job().name.clone(), fire: waits.fire, shard: waits.shard.unwrap_or(Shard(0)) };
    RunRow {
        run: if waits.shard.is_none() { FireId::from(&run).to_string() } else { run.to_string() },
        job: run.job.to_string(),
        shard: run.shard.0,
        due: moment(waits.due),
        node: waits.by.map(|by| by.node.to_string()).unwrap_or_default(),
        attempt: 1,
        state: "waiting".to_owned(),
        reason: Some(waits.why),
        started: None,
        ended: None,
        killable: Some(waits.killable),
    }
}

impl ExplainContext {
    /// Unclaimed requests, each with this reason, for the run as a whole or its only shard.
    pub(super) fn requests(&self, shard: Option<Shard>, why: impl Fn() -> String) -> Vec<WaitingRun> {
        let waits = |request: &TriggerRequest| WaitingRun {
            fire: Fire::Asked(request.id.clone()),
            shard,
            due: request.at,
            by: None,
            why: self.requested_runs(&why),
            killable: true,
        };
        self.waiting.iter().map(waits).collect()
    }

    /// Why a request waits: the obstacle of the whole job, or else this reason.
    pub(super) fn requested_runs(&self, why: impl FnOnce() -> String) -> String {
        self.in_the_way.clone().or_else(|| self.no_node()).unwrap_or_else(why)
    }

    /// The latest due and unclaimed fires that are to run; none of a job that does not fire.
    pub(super) fn overdue(&self, settled: Wall, passed: &[SkippedSpan]) -> Vec<Wall> {
        let spec = &self.spec;
        let schedule = self.job().schedule_with_calendars(self.calendars.as_ref());
        let Some(schedule) = schedule.filter(|_| spec.job.enabled && !spec.paused) else { return Vec::new() };
        let late = spec.job.misfire_settings();
        let floor = settled.max(spec.since);
        let schedule = &*schedule.counted_from(floor);
        let fires = EffectiveSchedule { schedule, skipped: passed };
        let before = |due: &Wall| fires.latest(floor, *due - Millis(1));
        let keep = late.overlap.queue_limit().unwrap_or(FIRES_COUNTED).min(FIRES_COUNTED);
        let all = std::iter::successors(fires.latest(floor, self.now), before);
        let grace = late.grace.unwrap_or(GRACE);
        // Of the fires older than the misfire grace only those to be caught up will run.
        let in_time = |n: usize, due: Wall| match late.catch_up {
            _ if self.now - due <= grace => true,
            CatchUp::Skip => false,
            CatchUp::Latest => n == 0,
            CatchUp::All(most) => n < most as usize,
        };
        all.enumerate().take(keep).filter(|(n, due)| in_time(*n, *due)).map(|(_, due)| due).collect()
    }
}

/// The default misfire grace, in seconds.
const GRACE: Millis = Millis::secs(60);
