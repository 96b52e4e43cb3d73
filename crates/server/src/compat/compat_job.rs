//! A snapshot of a sharded job, and what it means for the job's nodes.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::{Member, NodeName};
use evenkeel_core::job::{CatchUp, Delivery, Job, Spec};
use evenkeel_core::record::{
    Attempt, MemberInfo, NodeSwitches, ProcessedItems, ShardRunState, Sharding, TriggerRecord, TriggerRequest,
};
use evenkeel_core::schedule::CalendarFilter;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;

/// The records of one job, read at about one moment.
#[derive(Clone, Debug)]
pub(crate) struct CompatJob {
    /// The declaration with the operators' switches.
    pub(crate) spec: Spec,
    /// The calendars that it names, unless one of them is missing.
    pub(crate) calendars: Option<CalendarFilter>,
    /// The leader and the shard assignments.
    pub(crate) sharding: Sharding,
    /// The run states of members; those from before the last reshard as they count after it.
    pub(crate) run_states: BTreeMap<Member, ShardRunState>,
    /// The online members.
    pub(crate) members: BTreeMap<Member, MemberInfo>,
    /// The job's switches on single nodes, also on offline ones.
    pub(crate) switches: BTreeMap<NodeName, NodeSwitches>,
    /// Drained nodes.
    pub(crate) drained: BTreeSet<NodeName>,
    /// The processed items that nodes counted in their latest intervals.
    pub(crate) counts: BTreeMap<NodeName, ProcessedItems>,
    /// Requests to run it now.
    pub(crate) triggers: TriggerRecord,
    /// When the snapshot was taken.
    pub(crate) now: Wall,
}

impl CompatJob {
    pub(super) fn job(&self) -> &Job {
        &self.spec.job
    }

    /// Whether crashed runs fail over.
    pub(super) fn fails_over(&self) -> bool {
        self.job().delivery == Delivery::AtLeastOnce
    }

    /// Whether fires that were missed during a run are caught up.
    pub(super) fn catches_up(&self) -> bool {
        self.job().misfire.catch_up != CatchUp::Skip
    }

    /// The leader, if it is online.
    pub(super) fn leader(&self) -> Option<&Member> {
        self.sharding.leader.as_ref().filter(|leader| self.lives(leader))
    }

    pub(super) fn lives(&self, member: &Member) -> bool {
        self.members.contains_key(member)
    }

    /// Whether the number of shards changed since the last reshard.
    pub(super) fn is_resized(&self) -> bool {
        // Before the first reshard, and after one of an earlier job of this name, there are no records to be wrong.
        let total = self.sharding.shard_map.total;
        total > 0 && total != self.sharding.shard_map.total_of(self.job())
    }

    /// The host of a node. A node that is gone has no address: then its name is used.
    pub(super) fn host<'a>(&'a self, node: &'a NodeName) -> &'a str {
        let latest = Member { node: node.clone(), incarnation: u64::MAX };
        let latest = self.members.range(..=latest).next_back().filter(|(member, _)| member.node == *node);
        let address = latest.map_or("", |(_, info)| &info.address);
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() { node.as_str() } else { host }
    }

    /// A member in the source's format: its address and a number that distinguishes its incarnations.
    pub(super) fn id(&self, member: &Member) -> String {
        format!("{}@-@{}", self.host(&member.node), member.incarnation)
    }

    /// The nodes of the job by host: online nodes, nodes with shards, and switched nodes.
    pub(super) fn hosts(&self) -> BTreeMap<&str, BTreeSet<&NodeName>> {
        let shard_map = &self.sharding.shard_map;
        let members = self
            .members
            .keys()
            .chain(&shard_map.among)
            .chain(shard_map.assignments.iter().map(|p| &p.holder));
        let switched = self
            .switches
            .iter()
            .filter(|(node, switches)| switches.paused || switches.disabled || self.is_shut(node));
        let nodes = members.map(|member| &member.node).chain(switched.map(|(node, _)| node));
        let mut hosts: BTreeMap<&str, BTreeSet<&NodeName>> = BTreeMap::new();
        for node in nodes {
            hosts.entry(self.host(node)).or_default().insert(node);
        }
        hosts
    }

    /// The online members of a node; seldom more than one.
    pub(super) fn lives_of(&self, node: &NodeName) -> impl Iterator<Item = &Member> {
        self.members.keys().filter(move |member| member.node == *node)
    }

    /// Whether a node is disabled for the job.
    pub(super) fn is_disabled(&self, node: &NodeName) -> bool {
        let switched = self.switches.get(node).is_some_and(|switches| switches.disabled);
        switched || self.drained.contains(node) || !self.job().enabled
    }

    /// Whether a node has only manual runs of its shards.
    pub(super) fn is_paused(&self, node: &NodeName) -> bool {
        self.spec.paused || self.switches.get(node).is_some_and(|switches| switches.paused)
    }

    /// Whether a node was shut down for the job and has not restarted since.
    pub(super) fn is_shut(&self, node: &NodeName) -> bool {
        let shut = self.switches.get(node).and_then(|switches| switches.shutdown);
        shut.is_some_and(|life| self.lives_of(node).last().is_none_or(|member| member.incarnation == life))
    }

    /// A node's assignment of the last reshard; `None` if that did not include the node.
    pub(super) fn assignment(&self, node: &NodeName) -> Option<ShardSet> {
        let shard_map = &self.sharding.shard_map;
        let assignments = shard_map.assignments.iter().filter(|assignment| assignment.holder.node == *node);
        let mut groups = assignments.flat_map(|assignment| &assignment.groups).peekable();
        let reckoned = groups.peek().is_some() || shard_map.among.iter().any(|member| member.node == *node);
        reckoned.then(|| groups.fold(ShardSet::empty(), |all, group| all.or(&group.shards)))
    }

    /// Whether a request waits for a node to run its shards.
    pub(super) fn is_requested(&self, node: &NodeName) -> bool {
        let mine = self.assignment(node).unwrap_or_default();
        let waits = |request: &TriggerRequest| {
            let meant = request.node.as_ref().is_none_or(|only| only == node);
            !request.taken && meant && !mine.minus(&request.shards).is_empty()
        };
        self.triggers.requests.iter().any(waits)
    }

    /// Whether a node runs any shard of the job.
    pub(super) fn is_running(&self, node: &NodeName) -> bool {
        let begun = |open: &Attempt| open.starts_at() <= self.now;
        let runs =
            |member| self.run_states.get(member).is_some_and(|run_state| run_state.open.iter().any(begun));
        self.job().placement.is_monitored() && self.lives_of(node).any(runs)
    }

    /// The unfinished shards of dead members that another member will take over.
    pub(super) fn left_behind(&self) -> ShardSet {
        let repeats = self.fails_over() && self.job().enabled;
        let dead = self.run_states.iter().filter(|(member, _)| repeats && !self.lives(member));
        dead.fold(ShardSet::empty(), |all, (_, run_state)| all.or(&run_state.unfinished()))
    }
}
