//! Reads sharded jobs for the API and the console.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::Handle;
use evenkeel_core::ids::{Fire, JobName, Member, NodeName, RunId, Shard};
use evenkeel_core::job::Spec;
use evenkeel_core::record::{ShardRunState, Sharding};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;
use evenkeel_core::view::{JobView, View};

use crate::zones;
use evenkeel_client::types::{
    AssignmentRow, ReshardPendingRow, ShardActivity, ShardPage, ShardRangeRow, ShardRow, ShardingRow, moment,
    word,
};

/// The leader and the shard assignments of a job; `None` if it is not sharded.
pub(super) fn sharing(view: &View, job: &JobView<'_>, spec: &Spec) -> Option<ShardingRow> {
    let sharding = job.sharding().filter(|_| job.is_sharded())?;
    let mark = sharding
        .reshard_pending
        .map(|mark| ReshardPendingRow { why: word(&mark.why), since: moment(mark.since) });
    Some(ShardingRow {
        leader: sharding.leader.as_ref().map(|member| member.node.to_string()),
        reshard_pending: mark,
        off: spec.off.to_string(),
        draining: sharding.shard_map.draining.to_string(),
        nodes: assignments(view, job, sharding),
    })
}

/// The number of nodes that have shards of a job.
pub(super) fn holders(sharding: &Sharding) -> usize {
    let assignments =
        sharding.shard_map.assignments.iter().filter(|assignment| !assignment.groups.is_empty());
    assignments.map(|assignment| &assignment.holder.node).collect::<BTreeSet<_>>().len()
}

/// The number of shards of each node, over all jobs.
pub(super) fn held(view: &View) -> BTreeMap<NodeName, usize> {
    let mut held = BTreeMap::new();
    let tables = view.sharded().filter_map(|id| view.job(id).sharding());
    for assignment in tables.flat_map(|sharding| &sharding.shard_map.assignments) {
        let shards: usize = assignment.groups.iter().map(|group| group.shards.len()).sum();
        *held.entry(assignment.holder.node.clone()).or_default() += shards;
    }
    held
}

/// The assignments of all nodes that have shards, could have some, or were switched.
fn assignments(view: &View, job: &JobView<'_>, sharding: &Sharding) -> Vec<AssignmentRow> {
    let living: BTreeMap<&NodeName, &Member> =
        view.members().map(|(member, _)| (&member.node, member)).collect();
    let available: BTreeSet<&NodeName> = job.available().into_iter().map(|member| &member.node).collect();
    let mut names: BTreeSet<&NodeName> = living.keys().copied().collect();
    let assignments = &sharding.shard_map.assignments;
    names.extend(assignments.iter().map(|assignment| &assignment.holder.node));
    names.extend(view.switched(job.name()).map(|(node, _)| node).filter(|node| {
        let switches = job.switches(node);
        switches.paused || switches.disabled
    }));
    let row = |node: &NodeName| {
        let own = assignments.iter().filter(|assignment| assignment.holder.node == *node);
        let groups = own.flat_map(|assignment| &assignment.groups);
        let shards = groups.fold(ShardSet::empty(), |all, group| all.or(&group.shards));
        let switches = job.switches(node);
        let life = living.get(node);
        let shutdown = life.is_some_and(|life| switches.shutdown == Some(life.incarnation));
        let state = match () {
            () if life.is_none() => "gone",
            () if shutdown => "shut_down",
            () if switches.disabled => "disabled",
            () if view.intent(node).is_some() => "draining",
            () if !available.contains(node) => "left_out",
            () if switches.paused => "paused",
            () => "active",
        };
        AssignmentRow {
            node: node.to_string(),
            shards: shards.to_string(),
            state: state.to_owned(),
            paused: switches.paused,
            disabled: switches.disabled,
            shutdown,
        }
    };
    names.into_iter().map(row).collect()
}

/// The data of a sharded job without its run states.
struct ShardedJobView {
    spec: Spec,
    sharding: Sharding,
    sharing: ShardingRow,
    living: BTreeSet<Member>,
}

fn sharded_job(handle: &Handle, name: &JobName) -> Option<ShardedJobView> {
    handle.with_node(|node| {
        let view = node.view();
        let job = view.find(name)?;
        let spec = super::lookup::timed(view, &job)?;
        Some(ShardedJobView {
            sharing: sharing(view, &job, &spec)?,
            sharding: job.sharding().cloned().unwrap_or_default(),
            living: view.members().map(|(member, _)| member.clone()).collect(),
            spec,
        })
    })
}

/// A sharded job, shard by shard: `None` if there is no job of this name.
///
/// # Errors
/// The registry, which has the run states, is unreachable; the text has the fix.
pub(crate) async fn shards(handle: &Handle, name: &JobName) -> Result<Option<ShardPage<ShardRow>>, String> {
    let Some(table) = sharded_job(handle, name) else { return Ok(None) };
    let run_states = handle.shard_run_states(name).await.map_err(|e| e.to_string())?;
    let shards = rows(&table, &run_states, zones::now());
    let total = table.sharding.shard_map.total_of(&table.spec.job);
    Ok(Some(ShardPage { job: name.to_string(), total, sharing: table.sharing, shards }))
}

/// Folds shards whose other fields are equal into one row.
#[must_use]
pub(crate) fn folded(page: ShardPage<ShardRow>) -> ShardPage<ShardRangeRow> {
    let mut sets: BTreeMap<&ShardActivity, ShardSet> = BTreeMap::new();
    for row in &page.shards {
        sets.entry(&row.doing).or_default().insert(Shard(row.shard));
    }
    let mut rows: Vec<(ShardSet, ShardActivity)> =
        sets.into_iter().map(|(doing, set)| (set, doing.clone())).collect();
    rows.sort_by_key(|(set, _)| set.first());
    let shards =
        rows.into_iter().map(|(set, doing)| ShardRangeRow { shards: set.to_string(), doing }).collect();
    ShardPage { job: page.job, total: page.total, sharing: page.sharing, shards }
}

/// The shards that a manual run is for at present: all of a job, or those of one node.
#[must_use]
pub(crate) fn requested_shards(handle: &Handle, name: &JobName, node: Option<&NodeName>) -> Option<ShardSet> {
    let table = sharded_job(handle, name)?;
    let all = ShardSet::all(table.sharding.shard_map.total_of(&table.spec.job)).minus(&table.spec.off);
    let Some(node) = node else { return Some(all) };
    let own =
        table.sharding.shard_map.assignments.iter().filter(|assignment| assignment.holder.node == *node);
    let groups = own.flat_map(|assignment| &assignment.groups);
    Some(groups.fold(ShardSet::empty(), |all, group| all.or(&group.shards)).and(&all))
}

/// The member that has each shard, in the order of shards.
fn holders_by_shard<'a>(
    total: u32,
    sets: impl Iterator<Item = (&'a Member, &'a ShardSet)>,
) -> Vec<Option<&'a Member>> {
    let mut by_shard = vec![None; total as usize];
    for (member, set) in sets {
        for shard in set.iter() {
            if let Some(place) = by_shard.get_mut(shard.0 as usize) {
                *place = Some(member);
            }
        }
    }
    by_shard
}

fn rows(table: &ShardedJobView, run_states: &BTreeMap<Member, ShardRunState>, now: Wall) -> Vec<ShardRow> {
    let total = table.sharding.shard_map.total_of(&table.spec.job);
    let assignments = table.sharding.shard_map.assignments.iter();
    let cut = assignments.flat_map(|p| p.groups.iter().map(|group| (&p.holder, &group.shards)));
    let cut = holders_by_shard(total, cut);
    // A shard that failed over is in its new member's run state, while the assignment still names the old member.
    let kept = run_states
        .iter()
        .flat_map(|(member, run_state)| run_state.groups.iter().map(move |group| (member, &group.shards)));
    let kept = holders_by_shard(total, kept);
    let mut open: BTreeMap<Shard, (&Member, &evenkeel_core::record::Attempt)> = BTreeMap::new();
    for (member, run_state) in run_states {
        let opened =
            run_state.open.iter().flat_map(|o| o.shards.iter().map(move |shard| (shard, (member, o))));
        open.extend(opened);
    }
    let shards = (0..total).map(Shard).zip(cut).zip(kept);
    let row = |((shard, cut), kept): ((Shard, Option<&Member>), Option<&Member>)| {
        let found = open.get(&shard).copied();
        let holder = found.map(|(member, _)| member).or(kept).or(cut);
        let open = found.map(|(_, open)| open);
        let run_state = holder.and_then(|member| run_states.get(member));
        let doing = ShardActivity {
            node: holder.map(|member| member.node.to_string()),
            state: state(table, shard, holder, open.map(|open| open.starts_at()), now).to_owned(),
            fire: open.map(|open| fire(&open.fire)),
            due: open.map(|open| moment(open.due)),
            attempt: open.map(|open| open.attempt),
            failed_over: open.is_some_and(|open| open.attempt > 1) && holder != cut,
            parameter: table.spec.job.shard_parameters.get(shard.0 as usize).cloned().unwrap_or_default(),
            began: open
                .map(|open| open.starts_at())
                .or(run_state.and_then(|run_state| run_state.began))
                .map(moment),
        };
        let id = |open: &evenkeel_core::record::Attempt| {
            RunId { job: table.spec.job.name.clone(), fire: open.fire.clone(), shard }.to_string()
        };
        ShardRow { shard: shard.0, run: open.map(id), doing }
    };
    shards.map(row).collect()
}

/// The most significant state of a shard, in one word.
fn state(
    table: &ShardedJobView,
    shard: Shard,
    holder: Option<&Member>,
    from: Option<Wall>,
    now: Wall,
) -> &'static str {
    let spec = &table.spec;
    let lives = holder.is_some_and(|member| table.living.contains(member));
    let paused = || {
        let node =
            table.sharing.nodes.iter().find(|row| holder.is_some_and(|m| *m.node.as_str() == row.node));
        spec.paused || node.is_some_and(|row| row.paused)
    };
    match from {
        Some(_) if !lives => "gone",
        Some(_) if table.sharding.shard_map.draining.contains(shard) => "draining",
        Some(from) if from > now => "claimed",
        Some(_) => "running",
        None if spec.off.contains(shard) => "off",
        None if !spec.job.enabled => "disabled",
        None if !lives || table.sharding.reshard_pending.is_some() => "waiting",
        None if paused() => "paused",
        None => "idle",
    }
}

/// A fire as in the ids of its runs.
fn fire(fire: &Fire) -> String {
    match fire {
        Fire::Due(due) => due.0.to_string(),
        Fire::Asked(id) => format!("ask-{id}"),
    }
}
