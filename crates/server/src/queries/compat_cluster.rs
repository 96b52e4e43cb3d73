//! Takes a snapshot of the whole cluster, for the data formats of other schedulers.

use std::collections::BTreeMap;

use evenkeel::{EventFilter, Handle, NodeLoads, RunStateError};
use evenkeel_core::ids::{JobName, NodeName};
use evenkeel_core::job::Placement;
use evenkeel_core::placement::claims::quota_of;
use evenkeel_core::view::{JobView, View};

use super::lookup::{LOOK, timed};
use super::nodes::departures;
use crate::compat::{CompatCluster, CompatJobSummary, CompatNode};
use crate::zones;

/// The maximum number of join events to read.
const JOINED: u32 = 1_000;
/// The maximum number of departures to read.
const LEFT_MAX: u32 = 1_000;

/// Takes the snapshot: of all jobs, or only of this one.
pub(crate) async fn compat_cluster(
    handle: &Handle,
    only: Option<&JobName>,
) -> Result<CompatCluster, RunStateError> {
    let loads = handle.published_loads().await;
    let mut whole = handle.with_node(|node| cluster(node.view(), &loads));
    let left = EventFilter { kind: Some("node.left".to_owned()), limit: LEFT_MAX, ..EventFilter::default() };
    // If the history cannot be read, the departed nodes are missing.
    let left = handle.events(left).await.unwrap_or_default();
    let departed = departures(&left).into_iter().map(|(name, (at, _))| (name, at));
    let lives = |name: &NodeName| whole.nodes.iter().any(|node| node.member.node == *name);
    whole.away = departed.filter(|(name, _)| !lives(name)).collect();
    let filter = EventFilter { kind: Some("joined".to_owned()), limit: JOINED, ..EventFilter::default() };
    // If the history cannot be read, the join times are missing.
    let joined = handle.events(filter).await.unwrap_or_default();
    for node in &mut whole.nodes {
        let latest = joined.iter().find(|event| event.node == node.member.node.as_str());
        node.joined = latest.map(|event| event.at);
    }
    whole.jobs = match only {
        Some(name) => handle
            .with_node(|node| node.view().find(name).and_then(|job| job_summary(node.view(), job)))
            .into_iter()
            .collect(),
        None => all(handle),
    };
    for some in whole.jobs.chunks_mut(LOOK) {
        let of = |placement| {
            let jobs =
                some.iter().map(|job| &job.spec.job).filter(move |job| job.placement.kind() == placement);
            jobs.map(|job| job.name.clone()).collect::<Vec<JobName>>()
        };
        let mut run_states = handle.claimed_run_states(&of(Placement::Claimed)).await?;
        let mut plans = handle.plans(&of(Placement::Dispatched)).await?;
        for job in some {
            let run_state = run_states.remove(&job.spec.job.name);
            job.open = run_state.map(|run_state| run_state.open).unwrap_or_default();
            job.plan = plans.remove(&job.spec.job.name);
        }
    }
    Ok(whole)
}

/// The snapshot without the jobs.
fn cluster(view: &View, loads: &NodeLoads) -> CompatCluster {
    let settings = view.settings();
    let nodes = nodes(view, loads);
    let beats = view
        .beats()
        .map(|(operation, record)| (operation.to_string(), record.clone(), settings.start_of(record.beat)));
    CompatCluster {
        away: BTreeMap::new(),
        beats: beats.collect(),
        serving: view.serving().value.clone(),
        drained: view.drained().cloned().collect(),
        jobs: Vec::new(),
        now: zones::now(),
        nodes,
    }
}

/// The latest incarnation of each node, with the jobs of all its incarnations.
fn nodes(view: &View, loads: &NodeLoads) -> Vec<CompatNode> {
    let mut nodes: BTreeMap<NodeName, CompatNode> = BTreeMap::new();
    for (member, state) in view.members() {
        let before = nodes.get(&member.node).map_or(0, |node| node.held);
        let offline = view.offline_entry(&member.node).and_then(|known| known.value.as_ref());
        let node = CompatNode {
            member: member.clone(),
            info: state.info.clone(),
            held: before + view.count(member),
            quota: quota_of(view, member, state.info.tolerance),
            load: loads.get(member).cloned(),
            strikes: view.beats_missed(member),
            offline: offline.filter(|_| view.is_offline(member)).map(|record| record.since),
            joined: None,
        };
        nodes.insert(member.node.clone(), node);
    }
    nodes.into_values().collect()
}

fn all(handle: &Handle) -> Vec<CompatJobSummary> {
    let (mut jobs, mut last): (Vec<CompatJobSummary>, Option<JobName>) = (Vec::new(), None);
    loop {
        let page: Vec<_> = handle.with_node(|node| {
            let page = node.view().page(last.as_ref(), LOOK);
            page.map(|job| (job.name().clone(), job_summary(node.view(), job))).collect()
        });
        let Some((name, _)) = page.last() else { return jobs };
        last = Some(name.clone());
        jobs.extend(page.into_iter().filter_map(|(_, job)| job));
    }
}

fn job_summary(view: &View, job: JobView<'_>) -> Option<CompatJobSummary> {
    let assignments =
        job.sharding().filter(|_| job.is_sharded()).map(|sharding| sharding.shard_map.assignments.iter());
    let holders = assignments.into_iter().flatten().map(|assignment| &assignment.holder).chain(job.owner());
    let asked = job.triggers().and_then(|known| known.value.as_ref());
    let waiting = asked.into_iter().flat_map(|asked| &asked.requests).filter(|request| !request.taken);
    let spec = timed(view, &job)?;
    Some(CompatJobSummary {
        calendars: view.calendars_of(&spec.job),
        spec,
        holders: holders.cloned().collect(),
        open: Vec::new(),
        waiting: waiting.map(|request| (request.id.clone(), request.at)).collect(),
        plan: None,
    })
}
