//! Runs that wait and that no history has: what was asked for or came due, and why it has not begun.
//!
//! The reasons are those of [`super::job`], said of each run.

use std::collections::BTreeMap;

use evenkeel::{Handle, LanesError};
use evenkeel_core::due::Fires;
use evenkeel_core::job::{CatchUp, Placement};
use evenkeel_core::overlap::{Passed, Timetable};
use evenkeel_core::record::Request;
use evenkeel_core::time::{Millis, Wall};
use evenkeel_core::words::{Fire, FireId, JobName, Member, RunId, Shard};

use super::{Known, claimed, dispatched, look, sharded};
use crate::rows::{RunRow, moment};

/// Of how many jobs it is told at once.
pub(crate) const JOBS_MAX: usize = 500;
/// How many fires of one job are told, the latest.
const FIRES_MAX: usize = 20;

/// All of these jobs, the latest first.
///
/// # Errors
/// The registry is out of reach, or the node has stopped.
pub(crate) async fn waiting(handle: &Handle, names: &[JobName]) -> Result<Vec<RunRow>, LanesError> {
    let known = names.iter().take(JOBS_MAX).filter_map(|name| Some((name.clone(), look(handle, name)?)));
    let known: Vec<(JobName, Known)> = known.collect();
    let placed = |placement| {
        let of_it = known.iter().filter(|(_, known)| known.job().placement == placement);
        of_it.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let (claims, plans) = (placed(Placement::Claimed), placed(Placement::Dispatched));
    let claims = if claims.is_empty() { BTreeMap::new() } else { handle.claims(&claims).await? };
    let plans = if plans.is_empty() { BTreeMap::new() } else { handle.plans(&plans).await? };
    let mut found: Vec<(Wall, RunRow)> = Vec::new();
    for (name, known) in &known {
        let waits = match known.job().placement {
            Placement::Claimed => claimed::waiting(known, claims.get(name)),
            Placement::Dispatched => dispatched::waiting(known, plans.get(name)),
            Placement::Sharded | Placement::Broadcast => sharded::waiting(known, &handle.lanes(name).await?),
        };
        found.extend(waits.into_iter().map(|waits| (waits.due, row(known, waits))));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.run.cmp(&b.1.run)));
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

/// Why no node can run a job now, whatever it is asked; `None` where one can, or will.
pub(crate) fn no_node(handle: &Handle, name: &JobName) -> Option<String> {
    look(handle, name)?.no_node()
}

/// A run that waits.
pub(super) struct Waits {
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
}

fn row(known: &Known, waits: Waits) -> RunRow {
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
    }
}

impl Known {
    /// Why no node can run it now: none fits, or all that do drain.
    pub(super) fn no_node(&self) -> Option<String> {
        let nodes = &self.job().node_selector;
        if self.standings.is_empty() {
            return Some(format!(
                "no living node fits {nodes}: start one with these labels, or change the job"
            ));
        }
        (self.capacity().working() == 0).then(|| match nodes.is_everywhere() {
            true => "every node drains: start a node or undrain one".to_owned(),
            false => format!("every node that fits {nodes} drains: start one or undrain one"),
        })
    }

    /// Requests that no node has taken, each for this reason, of the run as a whole or of its only shard.
    pub(super) fn requests(&self, shard: Option<Shard>, why: impl Fn() -> String) -> Vec<Waits> {
        let disabled = || format!("its job is disabled: `evenkeel job enable {}`", self.job().name);
        let waits = |request: &Request| Waits {
            fire: Fire::Asked(request.id.clone()),
            shard,
            due: request.at,
            by: None,
            why: if self.job().enabled { why() } else { disabled() },
        };
        self.waiting.iter().map(waits).collect()
    }

    /// The latest fires that are due and that nobody has claimed, as far as they are to run; none of a job that does not fire.
    pub(super) fn overdue(&self, settled: Wall, passed: &[Passed]) -> Vec<Wall> {
        let spec = &self.spec;
        let schedule = self.job().schedule_under(self.calendars.as_ref());
        let Some(schedule) = schedule.filter(|_| spec.job.enabled && !spec.paused) else { return Vec::new() };
        let Ok(late) = spec.job.late() else { return Vec::new() };
        let floor = settled.max(spec.since);
        let schedule = &*schedule.counted_from(floor);
        let fires = Timetable { schedule, passed };
        let before = |due: &Wall| fires.latest(floor, *due - Millis(1));
        let keep = late.overlap.keeps().unwrap_or(FIRES_MAX).min(FIRES_MAX);
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
