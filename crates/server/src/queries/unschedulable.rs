//! Finds jobs that would be unschedulable if nodes were taken away, and why.

use evenkeel_core::capacity::{CapacityNode, WhatIf, forecast};
use evenkeel_core::ids::{NodeName, counted};
use evenkeel_core::view::{GroupId, JobId, View};

use super::capacity::capacity_nodes;
use evenkeel_client::types::ObstacleRow;

/// The maximum number of named jobs; the others are counted.
const NAMED: usize = 10;
/// The maximum number of nodes named in a reason.
const NODES_NAMED: usize = 4;

/// Jobs that no node could own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UnschedulableJobs {
    /// The first of them, with the reason.
    pub(super) rows: Vec<ObstacleRow>,
    /// The number of further ones.
    pub(super) more: usize,
}

/// The jobs that no node could own in the simulation `what_if` (S1-63).
pub(super) fn obstacles(view: &View, what_if: &WhatIf) -> UnschedulableJobs {
    let mut found = UnschedulableJobs::default();
    for group in view.groups().filter(|group| view.enabled_of(*group) > 0) {
        let Some((why, jobs)) = reason(view, what_if, group) else { continue };
        let room = NAMED.saturating_sub(found.rows.len()).min(jobs);
        let mut names: Vec<String> =
            left_behind(view, what_if, group).take(room).map(|id| view.job(id).name().to_string()).collect();
        names.sort_unstable();
        found.more += jobs - names.len();
        found.rows.extend(names.into_iter().map(|job| ObstacleRow { job, why: why.clone() }));
    }
    found
}

impl UnschedulableJobs {
    /// The end of a sentence about them; empty if there are none.
    pub(super) fn text(&self) -> String {
        let mut all: Vec<String> =
            self.rows.iter().take(3).map(|row| format!("job {}: {}", row.job, row.why)).collect();
        let more = self.more + self.rows.len() - all.len();
        all.extend((more > 0).then(|| format!("and {}", counted(more, "more job"))));
        all.join("; ")
    }
}

fn leaves(what_if: &WhatIf, node: &NodeName) -> bool {
    what_if.drained.contains(node) || what_if.lost.contains(node)
}

/// Why some of a group's jobs would have no node, and how many; `None` if all have one, or had none before.
fn reason(view: &View, what_if: &WhatIf, group: GroupId) -> Option<(String, usize)> {
    let nodes = capacity_nodes(view, group);
    let works = |node: &&CapacityNode| !node.drained && !node.cordoned && !leaves(what_if, &node.name);
    if !nodes.iter().any(|node| !node.drained && leaves(what_if, &node.name)) {
        return None;
    }
    if !nodes.iter().any(|node| works(&node)) {
        let stays = |node: &&CapacityNode| node.cordoned && !node.drained && !leaves(what_if, &node.name);
        let kept: usize = nodes.iter().filter(stays).map(|node| node.held).sum();
        let jobs = view.enabled_of(group).saturating_sub(kept);
        return (jobs > 0).then(|| (without_node(view, what_if, group), jobs));
    }
    let jobs = view.jobs_of(group);
    let then = forecast(jobs, &nodes, what_if).then;
    let quotas = then.quotas.iter().filter(|share| share.works);
    let quotas = listed(quotas.map(|share| format!("{} at most {}", share.name, share.quota)));
    let why = || {
        let room = jobs - then.short;
        format!("the other nodes that it may run on have room for {room} of {jobs} such jobs: {quotas}")
    };
    (then.short > 0).then(|| (why(), then.short))
}

/// The conditions that the remaining nodes do not meet, or what else keeps them from owning the group's jobs.
fn without_node(view: &View, what_if: &WhatIf, group: GroupId) -> String {
    let named = view.nodes_named(group);
    let mut others: Vec<(&NodeName, String)> = Vec::new();
    for (member, state) in view.members().filter(|(member, _)| !leaves(what_if, &member.node)) {
        let unmet = named.unmet(&member.node, &state.info.labels);
        let why = match unmet {
            Some(condition) => format!("{} does not meet {condition}", member.node),
            None if view.intent(&member.node).is_some() => format!("{} drains", member.node),
            None => format!("{} is cordoned", member.node),
        };
        // Of two incarnations of one node the later one counts.
        others.retain(|(node, _)| **node != member.node);
        others.push((&member.node, why));
    }
    let others = match others.is_empty() {
        true => "there is no other node".to_owned(),
        false => listed(others.into_iter().map(|(_, why)| why)),
    };
    if named.is_everywhere() { others } else { format!("it is for nodes with {named}, and {others}") }
}

/// The first few, and the number of further ones.
fn listed(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    let more = all.len().saturating_sub(NODES_NAMED);
    all.truncate(NODES_NAMED);
    all.extend((more > 0).then(|| format!("and {}", counted(more, "more node"))));
    all.join(", ")
}

/// The jobs of a group that no node would own: first those that the removed nodes own.
fn left_behind<'a>(view: &'a View, what_if: &'a WhatIf, group: GroupId) -> impl Iterator<Item = JobId> + 'a {
    let away = view.members().filter(move |(member, _)| leaves(what_if, &member.node));
    let held = away.flat_map(move |(member, _)| view.owned(member));
    let free = view.free_of(group);
    let works = |node: &CapacityNode| !node.drained && !node.cordoned && !leaves(what_if, &node.name);
    // If a node is left, it may have shards and runs without limit.
    let none = !capacity_nodes(view, group).iter().any(works);
    let others = view.sharded().chain(view.dispatched()).filter(move |_| none);
    held.chain(free).chain(others).filter(move |id| {
        let job = view.job(*id);
        job.group() == group && job.is_enabled()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacles_are_one_sentence_that_names_three_jobs_and_counts_the_others() {
        let row = |job: &str| ObstacleRow { job: job.to_owned(), why: "there is no other node".to_owned() };
        let few = UnschedulableJobs { rows: vec![row("a"), row("b")], more: 0 };
        assert_eq!(few.text(), "job a: there is no other node; job b: there is no other node");
        let many = UnschedulableJobs { rows: ["a", "b", "c", "d"].map(row).into(), more: 7 };
        assert!(many.text().ends_with("job c: there is no other node; and 8 more jobs"), "{}", many.text());
        assert_eq!(UnschedulableJobs::default().text(), "");
    }

    #[test]
    fn few_nodes_are_named_and_the_others_counted() {
        let nodes = |n: usize| listed((0..n).map(|n| format!("n{n} drains")));
        assert_eq!(nodes(2), "n0 drains, n1 drains");
        assert!(nodes(9).ends_with("n3 drains, and 5 more nodes"), "{}", nodes(9));
    }
}
