//! What is copied of a job while the node waits.

use evenkeel_core::ids::Member;
use evenkeel_core::job::{Placement, Spec};
use evenkeel_core::schedule::CalendarFilter;
use evenkeel_core::time::Wall;
use evenkeel_core::view::{JobView, View};

use super::lookup::timed;
use super::shards;
use evenkeel_client::types::moment;

/// The copy of a job made during the look; everything slow is done after it.
pub(super) struct JobSnapshot {
    pub(super) spec: Spec,
    /// The calendars that it uses, unless one of them is missing.
    pub(super) calendars: Option<CalendarFilter>,
    /// The missing calendars.
    pub(super) missing: Vec<String>,
    /// Whether no online node matches its node selector.
    pub(super) unschedulable: bool,
    /// Its owner, leader or planner.
    pub(super) owner: Option<String>,
    /// The number of nodes that own it, or shards of it.
    pub(super) nodes: usize,
}

pub(super) fn job_snapshot(view: &View, planner: Option<&Member>, job: JobView<'_>) -> Option<JobSnapshot> {
    let sharding = job.sharding().filter(|_| job.is_sharded());
    let spec = timed(view, &job)?;
    let owner = match spec.job.placement.kind() {
        Placement::Claimed => job.owner(),
        Placement::Sharded | Placement::Broadcast => sharding.and_then(|sharding| sharding.leader.as_ref()),
        Placement::Dispatched => planner,
    };
    Some(JobSnapshot {
        calendars: view.calendars_of(&spec.job),
        missing: view.missing(&spec.job).into_iter().map(String::from).collect(),
        unschedulable: spec.job.enabled && view.fitting(job.group()).next().is_none(),
        spec,
        owner: owner.map(|member| member.node.to_string()),
        nodes: sharding.map_or(usize::from(job.owner().is_some()), shards::holders),
    })
}

pub(super) fn next(copied: &JobSnapshot, now: Wall) -> Option<String> {
    let spec = &copied.spec;
    let schedule = spec.job.schedule_with_calendars(copied.calendars.as_ref());
    let schedule = schedule.filter(|_| spec.job.enabled && !spec.paused);
    // The next fire after a run is unknown while the run goes on.
    let schedule = schedule.filter(|schedule| !schedule.follows_runs());
    schedule.and_then(|schedule| schedule.next(now.max(spec.since))).map(moment)
}
