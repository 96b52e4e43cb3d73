//! Capacity: how many jobs the nodes have room for, now and if some of them drained or were lost (S1-54, S1-63).
//!
//! Nothing here assigns jobs: it is the arithmetic of `claims`, done ahead for people who ask "what if".

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::ids::NodeName;
use crate::placement::claims::quota;

/// With fewer nodes one loss leaves no second observer, and no spare for a drain (S1-93).
pub const NODES_ADVISED: usize = 3;

/// A living node, as capacity sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CapacityNode {
    /// Its name.
    pub name: NodeName,
    /// How many jobs it owns (X).
    pub held: usize,
    /// How many failures its quota makes up for (n).
    pub tolerance: u32,
    /// Whether it is draining.
    pub drained: bool,
    /// Whether it is cordoned: it has room for the jobs that it owns, and for no other one.
    pub cordoned: bool,
}

/// A what-if case: nodes that would drain, and nodes that would be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WhatIf {
    /// Draining nodes. They stay members, so they count in S.
    pub drained: BTreeSet<NodeName>,
    /// Lost nodes.
    pub lost: BTreeSet<NodeName>,
}

/// The capacity for all jobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Capacity {
    /// How many jobs may be owned (K).
    pub jobs: usize,
    /// How many nodes there are (S).
    pub nodes: usize,
    /// How many of the jobs have no owner.
    pub free: usize,
    /// For how many jobs the nodes that take any have room: ΣN of those.
    pub room: usize,
    /// How many jobs have no room: a group's room is of no use to another one.
    pub short: usize,
    /// Node by node, in the order of their names.
    pub quotas: Vec<NodeQuota>,
}

/// The jobs with one node selector, and the nodes that it fits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CapacityGroup {
    /// How many may be owned (K of the group).
    pub jobs: usize,
    /// The eligible nodes, and how many of the jobs each owns.
    pub nodes: Vec<CapacityNode>,
}

/// The owned jobs of a node and its quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeQuota {
    /// Its name.
    pub name: NodeName,
    /// How many jobs it owns (X).
    pub held: usize,
    /// How many it may own at most (N).
    pub quota: usize,
    /// Whether it may own jobs: it lives and is not draining.
    pub works: bool,
}

impl Capacity {
    /// The capacity with K jobs and these nodes.
    #[must_use]
    pub fn of(jobs: usize, nodes: &[CapacityNode]) -> Self {
        let mut shares: Vec<NodeQuota> = nodes
            .iter()
            .map(|node| NodeQuota {
                name: node.name.clone(),
                held: node.held,
                quota: if node.cordoned { node.held } else { quota(jobs, nodes.len(), node.tolerance) },
                works: !node.drained,
            })
            .collect();
        shares.sort_by(|a, b| a.name.cmp(&b.name));
        let room = shares.iter().filter(|share| share.works).map(|share| share.quota).sum();
        let held: usize = nodes.iter().map(|node| node.held).sum();
        let (free, short) = (jobs.saturating_sub(held), jobs.saturating_sub(room));
        Self { jobs, nodes: nodes.len(), free, room, short, quotas: shares }
    }

    /// The capacity over all groups; the first is of the jobs that any node may own.
    #[must_use]
    pub fn of_all(groups: &[CapacityGroup]) -> Self {
        let all = groups.iter().map(|group| Self::of(group.jobs, &group.nodes));
        all.reduce(Self::and).unwrap_or_else(|| Self::of(0, &[]))
    }

    /// Adds another group's capacity.
    #[must_use]
    fn and(mut self, other: Self) -> Self {
        self.jobs += other.jobs;
        self.nodes = self.nodes.max(other.nodes);
        self.free += other.free;
        self.room += other.room;
        self.short += other.short;
        for more in other.quotas {
            match self.quotas.iter_mut().find(|share| share.name == more.name) {
                // A node's quota counts where there are jobs.
                Some(share) if other.jobs > 0 => {
                    (share.held, share.quota) = (share.held + more.held, share.quota + more.quota)
                }
                Some(share) => share.held += more.held,
                None => self.quotas.push(more),
            }
        }
        self
    }

    /// Whether those that take jobs have room for all there are: ΣN ≥ K (S1-54).
    #[must_use]
    pub fn covers(&self) -> bool {
        self.short == 0
    }

    /// How many nodes take jobs.
    #[must_use]
    pub fn working(&self) -> usize {
        self.quotas.iter().filter(|share| share.works).count()
    }

    /// Gives each free job to the node that has least and still has room: where claims come to rest.
    #[must_use]
    fn settled(mut self) -> Self {
        let given = |share: &NodeQuota, level: usize| match share.works {
            true => level.min(share.quota).saturating_sub(share.held),
            false => 0,
        };
        let taken = |level: usize| self.quotas.iter().map(|share| given(share, level)).sum::<usize>();
        // The highest level to which all can be filled, then one more each for as many as there are jobs left.
        let (mut low, mut high) = (0, self.jobs);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if taken(middle) <= self.free { low = middle } else { high = middle - 1 }
        }
        for level in [low, low + 1] {
            for share in &mut self.quotas {
                let more = given(share, level).min(self.free);
                share.held += more;
                self.free -= more;
            }
        }
        self
    }
}

/// The forecast right after the case, before the others know that a node is gone, and after claims come to rest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CapacityForecast {
    /// The others' quotas as they stand: what n-fault tolerance counts on (S1-22).
    pub at_once: Capacity,
    /// Once all nodes know and the released jobs are claimed again.
    pub then: Capacity,
}

/// Forecasts a case (S1-63).
#[must_use]
pub fn forecast(jobs: usize, nodes: &[CapacityNode], what_if: &WhatIf) -> CapacityForecast {
    let drained = |node: &CapacityNode| node.drained || what_if.drained.contains(&node.name);
    let stands = |node: &CapacityNode| CapacityNode { drained: drained(node), ..node.clone() };
    let all: Vec<CapacityNode> = nodes.iter().map(stands).collect();
    let mut at_once = Capacity::of(jobs, &all);
    at_once.quotas.retain(|share| !what_if.lost.contains(&share.name));
    at_once.room = at_once.quotas.iter().filter(|share| share.works).map(|share| share.quota).sum();
    at_once.short = jobs.saturating_sub(at_once.room);
    at_once.free = jobs.saturating_sub(at_once.quotas.iter().map(|share| share.held).sum());
    // Nodes that are drained by then have released everything.
    let left = all.into_iter().filter(|node| !what_if.lost.contains(&node.name));
    let emptied =
        |node: CapacityNode| CapacityNode { held: if node.drained { 0 } else { node.held }, ..node };
    let left: Vec<CapacityNode> = left.map(emptied).collect();
    CapacityForecast { at_once, then: Capacity::of(jobs, &left).settled() }
}

/// Forecasts a case over all groups; the first is of the jobs that any node may own.
#[must_use]
pub fn forecast_groups(groups: &[CapacityGroup], what_if: &WhatIf) -> CapacityForecast {
    let all = groups.iter().map(|group| forecast(group.jobs, &group.nodes, what_if));
    let and = |one: CapacityForecast, other: CapacityForecast| CapacityForecast {
        at_once: one.at_once.and(other.at_once),
        then: one.then.and(other.then),
    };
    all.reduce(and).unwrap_or_else(|| forecast(0, &[], what_if))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    fn node(name: &str, held: usize, tolerance: u32) -> CapacityNode {
        CapacityNode { name: name.parse().unwrap(), held, tolerance, drained: false, cordoned: false }
    }

    fn names(list: &[&str]) -> BTreeSet<NodeName> {
        list.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn without(drained: &[&str], lost: &[&str]) -> WhatIf {
        WhatIf { drained: names(drained), lost: names(lost) }
    }

    fn face(capacity: &Capacity) -> String {
        let shares: Vec<String> =
            capacity.quotas.iter().map(|s| format!("{}={}/{}", s.name, s.held, s.quota)).collect();
        format!("{} room {} free {}", shares.join(" "), capacity.room, capacity.free)
    }

    /// The five nodes of the source's table, K = 10.
    fn uneven() -> Vec<CapacityNode> {
        [("a", 1), ("b", 1), ("c", 2), ("d", 3), ("e", 4)].map(|(name, n)| node(name, 2, n)).into()
    }

    /// proves: S1-54, S1-63
    #[test]
    fn a_set_may_drain_while_the_quotas_of_the_others_cover_all_jobs() {
        let nodes = uneven();
        let may = |drained: &[&str]| forecast(10, &nodes, &without(drained, &[])).at_once.covers();
        assert!(may(&["a", "b", "c", "d"]), "e alone has room for 11");
        assert!(may(&["a", "b", "e"]), "c and d have room for 4 and 6");
        assert!(!may(&["b", "c", "e"]), "a and d have room for 3 and 6");
        assert!(may(&["d", "e"]), "a, b and c have room for 3, 3 and 4: just enough");
        assert!(!may(&["a", "b", "c", "d", "e"]));
    }

    /// proves: S1-63
    #[test]
    fn a_cordoned_node_has_room_for_what_it_owns_only() {
        let mut nodes: Vec<CapacityNode> = [("a", 2), ("b", 2), ("c", 2)].map(|(n, x)| node(n, x, 1)).into();
        nodes[1].cordoned = true;
        assert_eq!(face(&Capacity::of(6, &nodes)), "a=2/4 b=2/2 c=2/4 room 10 free 0");
        let then = forecast(6, &nodes, &without(&["a"], &[])).then;
        assert_eq!(face(&then), "a=0/4 b=2/2 c=4/4 room 6 free 0");
        nodes[2].cordoned = true;
        let then = forecast(6, &nodes, &without(&["a"], &[])).then;
        assert_eq!(face(&then), "a=0/4 b=2/2 c=2/2 room 4 free 2", "nobody takes what a gives up");
    }

    #[test]
    fn what_is_drained_already_gives_no_room() {
        let mut nodes: Vec<CapacityNode> = [("a", 7), ("b", 6), ("c", 6)].map(|(m, x)| node(m, x, 1)).into();
        assert!(forecast(19, &nodes, &without(&["c"], &[])).at_once.covers(), "20 of 19");
        nodes[1].drained = true;
        let outlook = forecast(19, &nodes, &without(&["c"], &[]));
        assert!(!outlook.at_once.covers());
        assert_eq!(face(&outlook.at_once), "a=7/10 b=6/10 c=6/10 room 10 free 0");
        assert_eq!(face(&outlook.then), "a=10/10 b=0/10 c=0/10 room 10 free 9");
    }

    #[test]
    fn the_jobs_of_the_lost_go_to_whoever_has_least() {
        let nodes: Vec<CapacityNode> = [("a", 9), ("b", 7), ("c", 3)].map(|(m, x)| node(m, x, 1)).into();
        let outlook = forecast(19, &nodes, &without(&[], &["b"]));
        assert_eq!(face(&outlook.at_once), "a=9/10 c=3/10 room 20 free 7");
        assert_eq!(face(&outlook.then), "a=10/20 c=9/20 room 40 free 0");
    }

    #[test]
    fn nobody_left_has_room_for_nothing() {
        let one = [node("a", 3, 1)];
        let outlook = forecast(3, &one, &without(&[], &["a"]));
        assert_eq!((outlook.at_once.room, outlook.then.free, outlook.then.working()), (0, 3, 0));
        assert!(!outlook.then.covers());
        assert!(super::forecast(0, &one, &without(&["a"], &[])).at_once.covers(), "no job needs room");
    }

    #[test]
    fn the_room_of_one_group_is_of_no_use_to_another() {
        let everywhere =
            CapacityGroup { jobs: 2, nodes: [("a", 1), ("b", 1)].map(|(m, x)| node(m, x, 1)).into() };
        let only_a = CapacityGroup { jobs: 3, nodes: [node("a", 3, 1)].into() };
        let groups = [everywhere, only_a];
        let now = Capacity::of_all(&groups);
        assert_eq!(face(&now), "a=4/7 b=1/3 room 10 free 0");
        assert_eq!((now.jobs, now.nodes, now.covers()), (5, 2, true));
        let without_b = forecast_groups(&groups, &without(&["b"], &[]));
        assert!(without_b.at_once.covers());
        let without_a = forecast_groups(&groups, &without(&["a"], &[]));
        assert_eq!((without_a.at_once.room, without_a.at_once.short), (3, 3), "b has room of no use");
        assert!(!without_a.at_once.covers() && !without_a.then.covers());
    }

    /// proves: S1-54
    #[test]
    fn survivors_come_to_hold_all_jobs_exactly_when_their_quotas_cover_them() {
        for jobs in 0..40 {
            for kept in 1..31_usize {
                let nodes = uneven();
                let gone: Vec<&str> =
                    (0..5).filter(|n| kept >> n & 1 == 0).map(|n| ["a", "b", "c", "d", "e"][n]).collect();
                let drained = forecast(
                    jobs,
                    &nodes.iter().map(|n| CapacityNode { held: 0, ..n.clone() }).collect::<Vec<_>>(),
                    &without(&gone, &[]),
                );
                assert_eq!(drained.then.free == 0, drained.at_once.covers(), "{jobs} jobs without {gone:?}");
            }
        }
    }
}
