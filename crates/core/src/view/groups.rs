//! Job groups: a group is all jobs with the same node selector. Quotas are computed group by group.

use alloc::vec::Vec;

use super::group_index::{GroupId, GroupState};
use super::{JobId, JobView, View};
use crate::ids::{Member, NodeName};
use crate::labels::NodeSelector;

impl View {
    /// The group of the jobs with this node selector, which is new if the selector is.
    pub(super) fn group_of(&mut self, nodes: &NodeSelector) -> GroupId {
        if let Some(id) = self.groups.ids.get(nodes) {
            return *id;
        }
        let id = GroupId(u32::try_from(self.groups.list.len()).expect("a view holds fewer than 2^32 groups"));
        let members = self.members.iter();
        let fitting = members.filter(|(member, state)| nodes.fits(&member.node, &state.info.labels));
        let fitting = fitting.map(|(member, _)| member.clone()).collect();
        self.groups.list.push(GroupState { nodes: nodes.clone(), fitting, ..GroupState::default() });
        self.groups.ids.insert(nodes.clone(), id);
        id
    }

    /// Notes that a member came, went, or published something else of itself.
    pub(super) fn regroup_member(&mut self, member: &Member) {
        let state = self.members.get(member);
        for group in &mut self.groups.list {
            if state.is_some_and(|state| group.nodes.fits(&member.node, &state.info.labels)) {
                group.fitting.insert(member.clone());
            } else {
                group.fitting.remove(member);
            }
        }
    }

    /// Stores the counts of a listing, which quotas may use until the next listing (S1-21).
    pub(super) fn note_listed(&mut self) {
        for at in 0..self.groups.list.len() {
            let id = GroupId(u32::try_from(at).expect("checked when it was added"));
            self.groups.list[at].listed = (self.jobs_of(id), self.nodes_of(id));
        }
    }

    /// All groups, those without any job among them.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..u32::try_from(self.groups.list.len()).unwrap_or(u32::MAX)).map(GroupId)
    }

    /// The node selector of a group's jobs.
    #[must_use]
    pub fn nodes_named(&self, group: GroupId) -> &NodeSelector {
        &self.groups.get(group).nodes
    }

    /// The living members that are eligible for a group's jobs, by name.
    pub fn fitting(&self, group: GroupId) -> impl Iterator<Item = &Member> {
        self.groups.get(group).fitting.iter()
    }

    /// Whether a member is one of them.
    #[must_use]
    pub fn fits(&self, group: GroupId, member: &Member) -> bool {
        self.groups.get(group).fitting.contains(member)
    }

    /// Whether there are enabled jobs that no living node may run.
    #[must_use]
    pub fn is_unschedulable(&self, group: GroupId) -> bool {
        let group = self.groups.get(group);
        group.enabled > 0 && group.fitting.is_empty()
    }

    /// The same of the group with this node selector.
    #[must_use]
    pub fn is_selector_unschedulable(&self, nodes: &NodeSelector) -> bool {
        self.groups.ids.get(nodes).is_some_and(|group| self.is_unschedulable(*group))
    }

    /// S of a group: how many nodes it has, by name; two lives of one node count once.
    #[must_use]
    pub fn nodes_of(&self, group: GroupId) -> usize {
        let mut names: Vec<&NodeName> = self.fitting(group).map(|member| &member.node).collect();
        names.dedup();
        names.len()
    }

    /// K of a group: how many of its jobs may be claimed.
    #[must_use]
    pub fn jobs_of(&self, group: GroupId) -> usize {
        self.groups.get(group).claimable
    }

    /// How many of a group's jobs are enabled, however they are placed.
    #[must_use]
    pub fn enabled_of(&self, group: GroupId) -> usize {
        self.groups.get(group).enabled
    }

    /// K and S of a group as they were at the last listing.
    #[must_use]
    pub fn listed_of(&self, group: GroupId) -> (usize, usize) {
        self.groups.get(group).listed
    }

    /// X of a group: how many of its jobs a member owns.
    #[must_use]
    pub fn held_of(&self, group: GroupId, member: &Member) -> usize {
        self.groups.get(group).held.get(member).copied().unwrap_or(0)
    }

    /// The free jobs of a group, in this node's own order, which differs from node to node so that they seldom
    /// collide.
    pub fn free_of(&self, group: GroupId) -> impl Iterator<Item = JobId> {
        self.groups.get(group).free.iter().map(|(_, id)| *id)
    }

    /// The number of free jobs of a group.
    #[must_use]
    pub fn free_count_of(&self, group: GroupId) -> usize {
        self.groups.get(group).free.len()
    }
}

impl JobView<'_> {
    /// The group of the job.
    #[must_use]
    pub fn group(&self) -> GroupId {
        self.state.group
    }

    /// Whether a living member is eligible for it.
    #[must_use]
    pub fn fits(&self, member: &Member) -> bool {
        self.view.fits(self.state.group, member)
    }
}
