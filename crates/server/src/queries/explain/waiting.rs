//! Runs that wait and that no history has: what was asked for or came due, and why it has not begun.
//!
//! The reasons are those of [`super::job`], said of each run.

use std::collections::BTreeMap;

use evenkeel::{Handle, RunStateError};
use evenkeel_core::due::FireSource;
use evenkeel_core::ids::{Fire, FireId, JobName, Member, RequestId, RunId, Shard};
use evenkeel_core::job::{CatchUp, Placement};
use evenkeel_core::overlap::{EffectiveSchedule, SkippedSpan};
use evenkeel_core::record::TriggerRequest;
use evenkeel_core::time::{Millis, Wall};

use super::{ExplainContext, HistoryFaults, REPORTED_MAX, claimed, dispatched, gather, sharded};
use crate::api_types::{ExplanationRow, RunRow, moment};

/// Of how many jobs it is told at once.
pub(crate) const JOBS_MAX: usize = 500;
/// How many fires of one job that no node has claimed are told, the latest; of a job that is asked for alone all.
const FIRES_LISTED: usize = 20;
/// How many of them are counted.
const FIRES_COUNTED: usize = 1_000;

/// Runs that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingRuns {
    /// First those that can be ended by hand, then fires that no node has claimed; of both the latest first.
    pub(crate) rows: Vec<RunRow>,
    /// How many more there are.
    pub(crate) more: usize,
}

/// All of these jobs.
///
/// # Errors
/// The registry is out of reach, or the node has stopped.
pub(crate) async fn waiting(
    handle: &Handle,
    names: &[JobName],
    troubles: &HistoryFaults,
) -> Result<WaitingRuns, RunStateError> {
    let known = names.iter().take(JOBS_MAX);
    let known = known.filter_map(|name| Some((name.clone(), gather(handle, name, troubles)?)));
    let known: Vec<(JobName, ExplainContext)> = known.collect();
    let placed = |placement| {
        let of_it = known.iter().filter(|(_, known)| known.job().placement == placement);
        of_it.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let (claims, plans) = (placed(Placement::Claimed), placed(Placement::Dispatched));
    let claims = if claims.is_empty() { BTreeMap::new() } else { handle.claimed_run_states(&claims).await? };
    let plans = if plans.is_empty() { BTreeMap::new() } else { handle.plans(&plans).await? };
    let most = if names.len() == 1 { FIRES_COUNTED } else { FIRES_LISTED };
    let (mut found, mut more): (Vec<(Wall, RunRow)>, _) = (Vec::new(), names.len().saturating_sub(JOBS_MAX));
    for (name, known) in &known {
        let mut waits = match known.job().placement {
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

/// Leaves so many of the fires that no node has claimed; returns how many went.
fn truncate_fires(waits: &mut Vec<WaitingRun>, most: usize) -> usize {
    let (before, mut fires) = (waits.len(), 0);
    waits.retain(|waits| {
        fires += usize::from(!waits.killable);
        waits.killable || fires <= most
    });
    before - waits.len()
}

/// Why a run that was not attempted yet has not begun; `None` where it does not wait, or nobody can say.
pub(crate) async fn why(handle: &Handle, run: &RunId, troubles: &HistoryFaults) -> Option<String> {
    let names = [run.job.clone()];
    let rows = waiting(handle, &names, troubles).await.ok()?.rows;
    let (one, whole) = (run.to_string(), FireId::from(run).to_string());
    rows.into_iter().find(|row| row.run == one || row.run == whole)?.reason
}

/// Why nothing of a job runs until somebody changes something, whatever it is asked; `None` where a node can run it.
pub(crate) fn in_the_way(handle: &Handle, name: &JobName) -> Option<String> {
    handle.with_node(|node| node.view().find(name)?.obstacle())
}

/// What is said of a request that waits.
pub(super) fn request(id: &RequestId, at: Wall, why: &str) -> String {
    format!("request {id} of {} waits: {why}", moment(at))
}

/// Tells of each request that waits.
pub(super) fn explain_requests(waits: &[WaitingRun], told: &mut ExplanationRow) {
    let asked = || waits.iter().filter(|waits| matches!(waits.fire, Fire::Asked(_)));
    for waits in asked().take(REPORTED_MAX) {
        if let Fire::Asked(id) = &waits.fire {
            told.point("request", "firing", request(id, waits.due, &waits.why));
        }
    }
    let more = asked().count().saturating_sub(REPORTED_MAX);
    if more > 0 {
        told.point("request", "firing", format!("and {more} more requests wait"));
    }
}

/// A run that waits.
pub(super) struct WaitingRun {
    /// Which fire.
    pub(super) fire: Fire,
    /// Which shard; all of them when absent.
    pub(super) shard: Option<Shard>,
    /// The moment it stands for.
    pub(super) due: Wall,
    /// The node that has it.
    pub(super) by: Option<Member>,
    /// Why it has not begun.
    pub(super) why: String,
    /// Whether it can be ended by hand: a request, or a run that a node has claimed.
    pub(super) killable: bool,
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
    /// Requests that no node has taken, each for this reason, of the run as a whole or of its only shard.
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

    /// Why a request waits: what is in the way of all its job, or else this.
    pub(super) fn requested_runs(&self, why: impl FnOnce() -> String) -> String {
        self.in_the_way.clone().or_else(|| self.no_node()).unwrap_or_else(why)
    }

    /// The latest fires that are due and that nobody has claimed, as far as they are to run; none of a job that does not fire.
    pub(super) fn overdue(&self, settled: Wall, passed: &[SkippedSpan]) -> Vec<Wall> {
        let spec = &self.spec;
        let schedule = self.job().schedule_with_calendars(self.calendars.as_ref());
        let Some(schedule) = schedule.filter(|_| spec.job.enabled && !spec.paused) else { return Vec::new() };
        let Ok(late) = spec.job.misfire_settings() else { return Vec::new() };
        let floor = settled.max(spec.since);
        let schedule = &*schedule.counted_from(floor);
        let fires = EffectiveSchedule { schedule, skipped: passed };
        let before = |due: &Wall| fires.latest(floor, *due - Millis(1));
        let keep = late.overlap.queue_limit().unwrap_or(FIRES_COUNTED).min(FIRES_COUNTED);
        let all = std::iter::successors(fires.latest(floor, self.now), before);
        let grace = Millis::secs(i64::try_from(late.grace.unwrap_or(GRACE)).unwrap_or(i64::MAX / 1_000));
        // Of what is older than the grace only what is made up is to run.
        let in_time = |n: usize, due: Wall| match late.catch_up {
            _ if self.now - due <= grace => true,
            CatchUp::Skip => false,
            CatchUp::Latest => n == 0,
            CatchUp::All(most) => n < most as usize,
        };
        all.enumerate().take(keep).filter(|(n, due)| in_time(*n, *due)).map(|(_, due)| due).collect()
    }
}

/// How late a fire may start where its job does not say, in seconds.
const GRACE: u64 = 60;
