//! Command items about one node or some shards of a sharded job.

use alloc::format;
use alloc::string::String;

use super::decision::{ItemDecision, answer, no_job, refuse};
use crate::commit_kind::CommitKind;
use crate::ids::{JobName, Member, NodeName};
use crate::input::{Answer, NodeSwitch, Refusal};
use crate::job::{Job, SwitchOrigin};
use crate::keys;
use crate::record::{CountRecord, NodeSwitches, ProcessedItems, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::RuleContext;
use crate::shards::ShardSet;
use crate::view::JobView;

/// Sets a switch of a job on one node.
pub(super) fn switch(
    ctx: &RuleContext<'_>,
    name: &JobName,
    (node, switch): (&NodeName, NodeSwitch),
    origin: SwitchOrigin,
) -> ItemDecision {
    let Some(job) = ctx.view.find(name) else { return no_job(name) };
    if !job.is_sharded() {
        return refuse(Refusal::Invalid, not_sharded(name));
    }
    let life = ctx.view.members().map(|(member, _)| member).filter(|member| member.node == *node).last();
    let known = ctx.view.switches(name, node).cloned().unwrap_or_default();
    let old = known.value.clone().unwrap_or_default();
    let new = match (switch, life) {
        (NodeSwitch::Shutdown, None) => return refuse(Refusal::NotFound, no_node(node)),
        (NodeSwitch::Shutdown, Some(life)) => {
            NodeSwitches { shutdown: Some(life.incarnation), ..old.clone() }
        }
        // A switch may be set before the node joins: that is how a deployment is held back (S2-34).
        (NodeSwitch::Paused(on), _) => NodeSwitches { paused: on, ..old.clone() },
        (NodeSwitch::Disabled(on), _) => NodeSwitches { disabled: on, ..old.clone() },
    };
    if new == old {
        let obstacle = obstacle(&job, (node, life), &old, switch);
        return obstacle.map_or_else(|| answer(Answer::Done), |(kind, text)| refuse(kind, text));
    }
    let key = keys::switches(node, name);
    let value = encode(&NodeSwitches { seq: old.seq + 1, origin: Some(origin), ..new });
    let guards = [known.guard(key.clone()), job.spec_guard()].into();
    let writes = [Write::Put { key, value, owner: None }].into();
    ItemDecision::Commit(CommitKind::SwitchOnNode, Txn { guards, writes })
}

/// Why a node does not take part, or does not fire by schedule, although the switch for that is set already.
fn obstacle(
    job: &JobView<'_>,
    (node, life): (&NodeName, Option<&Member>),
    switches: &NodeSwitches,
    switch: NodeSwitch,
) -> Option<(Refusal, String)> {
    let name = job.name();
    let resumes = match switch {
        NodeSwitch::Paused(false) => true,
        NodeSwitch::Disabled(false) => false,
        _ => return None,
    };
    let Some(life) = life else { return Some((Refusal::NotFound, no_node(node))) };
    let spec = job.spec()?;
    let text = if switches.shutdown == Some(life.incarnation) {
        format!("node {node} was shut down for job {name}: it takes part again when it is started again")
    } else if resumes && switches.disabled {
        format!(
            "node {node} is not paused but disabled for job {name}: enable it with `evenkeel job enable {name} --node {node}`"
        )
    } else if !resumes && switches.paused {
        format!(
            "node {node} is not disabled but paused for job {name}: resume it with `evenkeel job resume {name} --node {node}`"
        )
    } else if !spec.job.enabled {
        format!("job {name} is disabled on all nodes: enable it with `evenkeel job enable {name}`")
    } else if spec.paused {
        format!("job {name} is paused on all nodes: resume it with `evenkeel job resume {name}`")
    } else {
        return None;
    };
    Some((Refusal::Conflict, text))
}

/// Replaces what this node last recorded with what it processed in the interval that is over (S2-36, S2-37).
pub(super) fn count(ctx: &RuleContext<'_>, name: &JobName, count: ProcessedItems) -> ItemDecision {
    if ctx.view.find(name).is_none_or(|job| !job.is_live()) {
        return no_job(name);
    }
    let node = &ctx.member.node;
    let known = ctx.view.count_entry(name, node).cloned().unwrap_or_default();
    let old = known.value.as_ref();
    if old.is_some_and(|old| old.count == count) {
        return answer(Answer::Done);
    }
    let key = keys::count(node, name);
    let value = encode(&CountRecord { count, seq: old.map_or(0, |old| old.seq) + 1 });
    let guards = [known.guard(key.clone())].into();
    let writes = [Write::Put { key, value, owner: None }].into();
    ItemDecision::Commit(CommitKind::CountData, Txn { guards, writes })
}

/// Why a job cannot be triggered on this node alone.
pub(super) fn cannot_run(
    ctx: &RuleContext<'_>,
    job: &JobView<'_>,
    node: &NodeName,
) -> Option<(Refusal, String)> {
    if !job.is_sharded() {
        return Some((Refusal::Invalid, not_sharded(job.name())));
    }
    if job.available().iter().any(|member| member.node == *node) {
        return None;
    }
    if ctx.view.members().all(|(member, _)| member.node != *node) {
        return Some((Refusal::NotFound, no_node(node)));
    }
    let name = job.name();
    let text = match unfit(job, ctx, node) {
        Some(why) => format!("node {node} does not fit job {name}: {why}"),
        None => format!("node {node} takes no part in job {name}: `shard list {name}` shows who does"),
    };
    Some((Refusal::Conflict, text))
}

/// The condition of the job's node selector that a living node does not meet.
fn unfit(job: &JobView<'_>, ctx: &RuleContext<'_>, node: &NodeName) -> Option<String> {
    let lives = ctx.view.members().filter(|(member, _)| member.node == *node);
    let (member, state) = lives.last()?;
    let labels = &state.info.labels;
    let unmet = ctx.view.nodes_named(job.group()).unmet(&member.node, labels)?;
    let has = if labels.is_empty() { String::from("no labels") } else { format!("the labels {labels}") };
    Some(format!("that is for nodes with {unmet}, and it has {has}"))
}

/// Why these shards cannot be switched.
pub(super) fn wrong_shards(job: &Job, shards: &ShardSet) -> Option<String> {
    if !job.placement.is_sharded() {
        return Some(not_sharded(&job.name));
    }
    if job.placement.is_broadcast() {
        let name = &job.name;
        return Some(format!(
            "job {name} has one shard on each node: disable the node for it instead, with `job disable {name} --node NODE`"
        ));
    }
    let surplus = shards.minus(&ShardSet::all(job.placement.shards()));
    let last = job.placement.shards().saturating_sub(1);
    (!surplus.is_empty())
        .then(|| format!("job {} has no shards {surplus}: they go from 0 to {last}", job.name))
}

fn not_sharded(name: &JobName) -> String {
    format!("job {name} is not sharded: leave the node or the shards out, or set placement = \"sharded\"")
}

fn no_node(node: &NodeName) -> String {
    format!("there is no node {node}: `node list` shows those there are")
}
