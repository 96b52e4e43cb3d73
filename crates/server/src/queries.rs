//! Reads a node's view and history for the API and the console, and makes rows of them.

mod attention;
mod backfill;
mod capacity;
mod cluster_health;
mod compat_cluster;
pub(crate) mod explain;
mod forecast;
mod job_list;
mod job_snapshot;
mod job_versions;
mod labelled;
mod lookup;
mod names;
mod nodes;
mod open_fires;
mod parameters;
mod plan;
mod remarks;
mod report;
mod shards;
mod switches;
mod unschedulable;
mod warnings;

use std::collections::BTreeSet;

use evenkeel::{AttemptState, Handle, RunRecord, RunStateError};
use evenkeel_core::ids::{Fire, JobName, Member, NodeName, RequestId, RunId};
use evenkeel_core::job::{Placement, RunParameters};
use evenkeel_core::lifecycle;
use evenkeel_core::load::Score;
use evenkeel_core::record::{ShardRunState, TriggerRequest};

use crate::zones;
pub(crate) use attention::{
    RunBounds, UnschedulableJob, enabled_jobs, late_limits, notified_jobs, offline_nodes, run_bounds,
    slot_waiters, unschedulable_jobs,
};
pub(crate) use backfill::{backfill, backfill_plan};
pub(crate) use capacity::{balance, cannot_drain, drain_warnings, few};
pub(crate) use cluster_health::{NodeReports, cluster_health};
pub(crate) use compat_cluster::compat_cluster;
use evenkeel_client::types::{JobDetail, RunRow, ServiceRow, ShardingRow, moment};
pub(crate) use forecast::forecast;
pub(crate) use job_list::{JobSearch, jobs, jobs_by_next};
use job_snapshot::{JobSnapshot, job_snapshot, next};
pub(crate) use job_versions::{ListedVersion, PresentVersion, differences, listed_versions};
pub(crate) use labelled::jobs_with_labels;
pub(crate) use lookup::{enabled, is_job, is_known, labels, names, schedule, timed};
use lookup::{planner, points};
pub(crate) use names::{NamedObjects, no_calendar, no_job, no_living, no_namespace, no_node, unknown_node};
pub(crate) use nodes::{gone, living_names, nodes, nodes_with_times};
pub(crate) use open_fires::{OpenFire, is_open, open};
pub(crate) use parameters::{parameter_names, requested_parameters};
pub(crate) use plan::{PlanRequest, plan};
pub(crate) use remarks::remarks;
pub(crate) use report::{ReportSubject, fire_statuses, living_members, report_subjects, schedule_of};
pub(crate) use shards::{folded, requested_shards, shards};
pub(crate) use switches::ended as ended_switches;
pub(crate) use warnings::apply_answer;

/// All details of a job.
pub(crate) fn job(handle: &Handle, name: &JobName) -> Option<JobDetail> {
    let (copied, sharing, switches): (JobSnapshot, Option<ShardingRow>, _) = handle.with_node(|node| {
        let job = node.view().find(name)?;
        let copied = job_snapshot(node.view(), planner(node), job)?;
        let sharing = shards::sharing(node.view(), &job, &copied.spec);
        let switches = switches::of(node.view(), &job, &copied.spec);
        Some((copied, sharing, switches))
    })?;
    let next = next(&copied, zones::now());
    let JobSnapshot { spec, owner, missing, unschedulable, .. } = copied;
    Some(JobDetail {
        name: name.to_string(),
        next,
        missing,
        unschedulable,
        version: spec.version,
        owner,
        paused: spec.paused,
        since: moment(spec.since),
        disabled: !spec.job.enabled,
        switches,
        sharing,
        job: spec.declared(),
    })
}

/// Whether there is any job at all.
pub(crate) fn has_jobs(handle: &Handle) -> bool {
    handle.with_node(|node| node.view().page(None, 1).next().is_some())
}

/// Whether this node is a member that may act.
pub(crate) fn is_member(handle: &Handle) -> bool {
    let now = evenkeel::clock::now().mono;
    handle.with_node(|node| node.trusted_until(now).is_some() && node.local().membership().is_joined())
}

/// Whether this node hands its jobs over in order to end.
pub(crate) fn is_leaving(handle: &Handle) -> bool {
    handle.with_node(|node| node.local().availability().is_leaving())
}

/// Whether an operator deleted this node's member entry, so that it stays away from the cluster (S3-30).
pub(crate) fn is_closed(handle: &Handle) -> bool {
    handle.with_node(|node| node.local().membership().is_closed())
}

/// Whether a node of this name is draining or drained.
pub(crate) fn is_draining(handle: &Handle, name: &NodeName) -> bool {
    handle.with_node(|node| node.view().intent(name).is_some())
}

/// Whether an attempt that a history has as running still runs: on this node only if it executes it, elsewhere only if
/// the node is online.
pub(crate) fn still_runs(handle: &Handle, record: &RunRecord) -> bool {
    let name = record.node.split('@').next().unwrap_or_default();
    handle.with_node(|node| match name == handle.name().as_str() {
        true => node.executes(&record.run),
        false => node.view().members().any(|(member, _)| member.node.as_str() == name),
    })
}

/// The latest incarnation of the online node of this name, and its address.
pub(crate) fn living(handle: &Handle, name: &NodeName) -> Option<(Member, String)> {
    handle.with_node(|node| {
        let lives = node.view().members().filter(|(member, _)| member.node == *name);
        let (member, state) = lives.last().filter(|(_, state)| !state.info.address.is_empty())?;
        Some((member.clone(), state.info.address.clone()))
    })
}

/// The least loaded node among those that are online, accept work and have an address (S0-54).
pub(crate) async fn least_loaded(handle: &Handle) -> Option<ServiceRow> {
    let loads = handle.published_loads().await;
    let score = |member: &Member| loads.get(member).map_or(Score::FULL, |load| load.score);
    handle.with_node(|node| {
        let view = node.view();
        let takes = |member: &Member| !view.is_offline(member) && view.is_schedulable(&member.node);
        let all = view.members().filter(|(member, state)| takes(member) && !state.info.address.is_empty());
        let (member, state) = all.min_by_key(|(member, _)| (score(member), *member))?;
        Some(ServiceRow {
            node: member.node.to_string(),
            address: state.info.address.clone(),
            score: loads.get(member).map(points),
        })
    })
}

/// The online nodes with another installation folder than `home` (S0-04).
pub(crate) fn foreign_homes(handle: &Handle, home: &str) -> Vec<(String, String)> {
    handle.with_node(|node| {
        let members = node.view().members().filter(|(_, state)| state.info.home != home);
        members.map(|(member, state)| (member.node.to_string(), state.info.home.clone())).collect()
    })
}

/// The member that is to start a run, or its next attempt, by the registry's present data.
///
/// # Errors
/// The registry is unreachable, or the node has stopped.
pub(crate) async fn waits_on(handle: &Handle, run: &RunId) -> Result<Option<Member>, RunStateError> {
    let job = std::slice::from_ref(&run.job);
    let known = handle.with_node(|node| {
        let job = node.view().find(&run.job)?;
        let asked = job.triggers().and_then(|known| known.value.as_ref());
        let untaken = asked.is_some_and(|asked| asked.awaits(&run.fire));
        Some((job.spec()?.job.placement.kind(), job.owner().cloned(), untaken))
    });
    let Some((placement, owner, untaken)) = known else { return Ok(None) };
    Ok(match placement {
        Placement::Claimed => {
            let run_state = handle.claimed_run_states(job).await?.remove(&run.job).unwrap_or_default();
            // An unclaimed request is for the owner to start.
            owner.filter(|_| untaken || run_state.open_of(&run.fire).is_some())
        }
        Placement::Dispatched => {
            let plan = handle.plans(job).await?.remove(&run.job).unwrap_or_default();
            plan.runs.into_iter().find(|planned| planned.fire == run.fire).map(|planned| planned.by)
        }
        Placement::Sharded | Placement::Broadcast => {
            let run_states = handle.shard_run_states(&run.job).await?;
            let has = |run_state: &ShardRunState| {
                run_state.open_of(run.shard).is_some_and(|open| open.fire == run.fire)
            };
            run_states.into_iter().find(|(_, run_state)| has(run_state)).map(|(member, _)| member)
        }
    })
}

/// The record of a request that was cancelled before any node had claimed it; history may not have it.
pub(crate) fn withdrawn_run(handle: &Handle, run: &RunId) -> Option<RunRecord> {
    let (due, at) = handle.with_node(|node| {
        let job = node.view().find(&run.job)?;
        let request = lifecycle::taken_back(&job, run)?;
        Some((request.at, request.taken_back?))
    })?;
    Some(RunRecord {
        seq: 0,
        run: run.clone(),
        attempt: 1,
        job: run.job.clone(),
        shard: run.shard,
        due,
        node: String::new(),
        state: AttemptState::Skipped,
        reason: lifecycle::MANUAL.to_owned(),
        sent: String::new(),
        code: None,
        token: None,
        started: None,
        ended: Some(at),
        from: due,
        output: 0,
        parameters: RunParameters::default(),
    })
}

/// Whether a manual run of a job was requested under this id, if the registry still has the request.
pub(crate) fn is_requested(handle: &Handle, job: &JobName, id: &RequestId) -> bool {
    handle.with_node(|node| {
        let asked =
            node.view().find(job).and_then(|job| job.triggers()?.value.as_ref().map(|asked| &asked.requests));
        asked.is_some_and(|requests| requests.iter().any(|request| request.id == *id))
    })
}

/// Whether a run without a record may still come: it was requested, or it is just due.
pub(crate) fn is_expected(handle: &Handle, run: &RunId) -> bool {
    let known = handle.with_node(|node| {
        let job = node.view().find(&run.job)?;
        let asked = job.triggers().and_then(|known| known.value.clone());
        let spec = timed(node.view(), &job)?;
        let calendars = node.view().calendars_of(&spec.job);
        let shards = job
            .sharding()
            .map_or(spec.job.placement.shards(), |sharding| sharding.shard_map.total_of(&spec.job));
        Some((spec, shards, calendars, asked))
    });
    let Some((spec, shards, calendars, asked)) = known else { return false };
    if run.shard.0 >= shards || spec.off.contains(run.shard) {
        return false;
    }
    match &run.fire {
        Fire::Asked(id) => asked.is_some_and(|asked| {
            let request = asked.requests.iter().find(|request| request.id == *id);
            // A request that is used up has no runs for shards that it never named.
            let passed =
                |r: &TriggerRequest| r.taken && !r.shards.is_empty() && !r.shards.contains(run.shard);
            request.is_some_and(|request| !passed(request))
                || asked.backfill_of(&run.fire).is_some_and(|backfill| backfill.expects(&run.fire))
        }),
        Fire::Due(due) => {
            let schedule = spec.job.schedule_with_calendars(calendars.as_ref());
            *due > spec.since && schedule.is_some_and(|schedule| schedule.has(*due))
        }
    }
}

/// Whether a fire of a job has a run for each of several shards.
pub(crate) fn has_shards(handle: &Handle, name: &JobName) -> bool {
    handle.with_node(|node| {
        let spec = node.view().find(name).and_then(|job| job.spec());
        spec.is_some_and(|spec| {
            spec.job.placement.is_broadcast()
                || spec.job.placement.is_sharded() && spec.job.placement.shards() > 1
        })
    })
}

/// The sharded jobs among the jobs of these attempts.
pub(crate) fn sharded(handle: &Handle, runs: &[RunRecord]) -> BTreeSet<String> {
    handle.with_node(|node| {
        let sharded = |run: &&RunRecord| node.view().find(&run.job).is_some_and(|job| job.is_sharded());
        runs.iter().filter(sharded).map(|run| run.job.to_string()).collect()
    })
}

/// The row of an attempt.
pub(crate) fn run_row(record: &RunRecord) -> RunRow {
    RunRow {
        run: record.run.to_string(),
        job: record.job.to_string(),
        shard: record.shard.0,
        due: moment(record.due),
        node: record.node.split('@').next().unwrap_or_default().to_owned(),
        attempt: record.attempt,
        state: record.state.as_str().to_owned(),
        reason: Some(record.reason.clone()).filter(|reason| !reason.is_empty()),
        started: record.started.map(moment),
        ended: record.ended.map(moment),
        killable: Some(!record.state.is_end()),
    }
}
