//! The capacity of the nodes, now and in a simulation, as rows; and warnings about it for operators.

use std::collections::BTreeMap;

use evenkeel::Handle;
use evenkeel_core::capacity::{
    Capacity, CapacityForecast, CapacityGroup, CapacityNode, NODES_ADVISED, WhatIf, forecast_groups,
};
use evenkeel_core::ids::{NodeName, counted};
use evenkeel_core::view::{GroupId, View};

use super::lookup::enabled;
use super::nodes;
use super::unschedulable::{UnschedulableJobs, obstacles};
use evenkeel_client::types::{BalanceReport, BalanceRow, NodeRow, ProjectedLoad};

/// The present distribution of jobs, and the simulated one of `what_if`.
pub(crate) async fn balance(handle: &Handle, what_if: &WhatIf) -> BalanceReport {
    let asked = *what_if != WhatIf::default();
    let (groups, obstacles) = handle.with_node(|node| {
        let view = node.view();
        (groups(view), if asked { obstacles(view, what_if) } else { UnschedulableJobs::default() })
    });
    let now = Capacity::of_all(&groups);
    let outlook = asked.then(|| forecast_groups(&groups, what_if));
    let mut warnings = few(now.nodes);
    let rows = nodes(handle).await.into_iter().map(|row| {
        let then = outlook.as_ref().and_then(|outlook| quota_of(&outlook.then, &row.name));
        let drains = row.draining || what_if.drained.iter().any(|name| name.as_str() == row.name);
        let part = match (then, drains) {
            (None, _) if asked => "lost",
            (_, true) => "draining",
            _ => "working",
        };
        BalanceRow {
            part: part.to_owned(),
            then: then.map(|(held, quota)| ProjectedLoad { held, quota }),
            node: row,
        }
    });
    let rows: Vec<BalanceRow> = rows.collect();
    warnings.extend(rows.iter().filter_map(alarmed));
    BalanceReport {
        jobs: now.jobs,
        nodes: now.nodes,
        free: now.free,
        room: now.room,
        covers: now.covers(),
        short: now.short,
        then: outlook.map(|outlook| summed(&groups, what_if, &outlook, obstacles)),
        rows,
        warnings,
    }
}

/// Why a node should not be drained, and which jobs prevent it; `None` if the other nodes have room for all its jobs
/// (S1-63).
pub(crate) fn cannot_drain(handle: &Handle, name: &NodeName) -> Option<String> {
    let what_if = WhatIf { drained: [name.clone()].into(), ..WhatIf::default() };
    let (mut groups, obstacles) =
        handle.with_node(|node| (groups(node.view()), obstacles(node.view(), &what_if)));
    // Jobs that this node may not own do not matter.
    groups.retain(|group| group.nodes.iter().any(|node| node.name == *name));
    let left = forecast_groups(&groups, &what_if).at_once;
    let fix =
        format!("undrain another node, start one more, or insist with `evenkeel node drain {name} --force`");
    if left.working() == 0 && enabled(handle) > 0 {
        return Some(format!("draining node {name} leaves no node that works: {fix}"));
    }
    let (jobs, room) = (counted(left.jobs, "job"), left.jobs - left.short);
    let way = obstacles.text();
    match (left.covers(), obstacles.rows.is_empty()) {
        (true, true) => None,
        (true, false) => {
            Some(format!("draining node {name} leaves jobs without a node: {fix}; in the way: {way}"))
        }
        (false, true) => Some(format!("draining node {name} leaves room for {room} of {jobs}: {fix}")),
        (false, false) => {
            Some(format!("draining node {name} leaves room for {room} of {jobs}: {fix}; in the way: {way}"))
        }
    }
}

/// How many nodes could be lost, those with the most jobs first, so that the others still have room for all jobs.
pub(super) fn tolerated_losses(view: &View) -> usize {
    let groups = groups(view);
    let mut held: BTreeMap<&NodeName, usize> = BTreeMap::new();
    for node in groups.iter().flat_map(|group| &group.nodes) {
        *held.entry(&node.name).or_default() += node.held;
    }
    let mut nodes: Vec<(&NodeName, usize)> = held.into_iter().collect();
    nodes.sort_by_key(|(name, held)| (std::cmp::Reverse(*held), *name));
    let survives = |lost: usize| {
        let lost = nodes.iter().take(lost).map(|(name, _)| (*name).clone()).collect();
        let left = forecast_groups(&groups, &WhatIf { lost, ..WhatIf::default() }).at_once;
        left.covers() && left.working() > 0
    };
    (1..nodes.len()).take_while(|lost| survives(*lost)).count()
}

/// Warnings while a node drains: other nodes drain too (S1-64), or too few nodes remain (S1-93).
pub(crate) fn drain_warnings(handle: &Handle, name: &NodeName) -> Vec<String> {
    let standings = handle.with_node(|node| capacity_nodes(node.view(), GroupId::EVERYWHERE));
    let others = standings.iter().filter(|node| node.drained && node.name != *name);
    let others: Vec<&str> = others.map(|node| node.name.as_str()).collect();
    let mut warnings = few(standings.len());
    if !others.is_empty() {
        warnings.push(format!(
            "{} {} already: one after another is safer, since drains and crashes share the tolerance",
            others.join(", "),
            if others.len() == 1 { "drains" } else { "drain" }
        ));
    }
    warnings
}

/// A warning if there are fewer nodes than recommended (S1-93).
pub(crate) fn few(nodes: usize) -> Vec<String> {
    let are = if nodes == 1 { "is 1 node" } else { "are 2 nodes" };
    let few = (1..NODES_ADVISED).contains(&nodes);
    let text =
        format!("there {are}: start {NODES_ADVISED} or more, so that one may fail while another is away");
    Vec::from_iter(few.then_some(text))
}

/// The jobs that may be owned, grouped by eligible nodes; first those for which every node is eligible.
fn groups(view: &View) -> Vec<CapacityGroup> {
    let counts = |group: &GroupId| *group == GroupId::EVERYWHERE || view.jobs_of(*group) > 0;
    let groups = view.groups().filter(counts);
    groups
        .map(|group| CapacityGroup { jobs: view.jobs_of(group), nodes: capacity_nodes(view, group) })
        .collect()
}

/// The nodes on which a group's jobs may run. Two incarnations of one node count as one.
pub(super) fn capacity_nodes(view: &View, group: GroupId) -> Vec<CapacityNode> {
    let mut standings: Vec<CapacityNode> = Vec::new();
    for (member, state) in view.members().filter(|(member, _)| view.fits(group, member)) {
        let held = view.held_of(group, member);
        match standings.last_mut().filter(|last| last.name == member.node) {
            Some(last) => last.held += held,
            None => standings.push(CapacityNode {
                name: member.node.clone(),
                held,
                tolerance: state.info.tolerance,
                drained: view.intent(&member.node).is_some(),
                cordoned: view.is_cordoned(&member.node),
            }),
        }
    }
    standings
}

fn quota_of(capacity: &Capacity, name: &str) -> Option<(usize, usize)> {
    let share = capacity.quotas.iter().find(|share| share.name.as_str() == name)?;
    Some((share.held, share.quota))
}

fn summed(
    groups: &[CapacityGroup],
    what_if: &WhatIf,
    outlook: &CapacityForecast,
    obstacles: UnschedulableJobs,
) -> evenkeel_client::types::WhatIfRow {
    let gives_up = |node: &&CapacityNode| {
        node.drained || what_if.drained.contains(&node.name) || what_if.lost.contains(&node.name)
    };
    let names = |set: &std::collections::BTreeSet<NodeName>| set.iter().map(ToString::to_string).collect();
    evenkeel_client::types::WhatIfRow {
        lost: names(&what_if.lost),
        drained: names(&what_if.drained),
        moved: groups.iter().flat_map(|group| &group.nodes).filter(gives_up).map(|node| node.held).sum(),
        room_at_once: outlook.at_once.room,
        covers_at_once: outlook.at_once.covers(),
        short_at_once: outlook.at_once.short,
        room: outlook.then.room,
        covers: outlook.then.covers(),
        short: outlook.then.short,
        free: outlook.then.free,
        obstacles: obstacles.rows,
        obstacles_more: obstacles.more,
    }
}

/// A warning for a node that would own more jobs than its alarm threshold.
fn alarmed(row: &BalanceRow) -> Option<String> {
    let NodeRow { name, alarm, .. } = &row.node;
    let then = row.then.as_ref().filter(|then| then.held > *alarm as usize && row.node.held < then.held)?;
    let held = counted(then.held, "job");
    Some(format!("{name} would hold {held}, above its alarm of {alarm}: give it more means"))
}
