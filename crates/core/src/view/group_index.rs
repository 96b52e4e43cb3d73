//! The groups of jobs that a view counts: a group is all jobs with the same node selector.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::job_id::JobId;
use crate::ids::Member;
use crate::labels::NodeSelector;

/// A group's number within one view. Numbers are local to a node and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub(super) u32);

impl GroupId {
    /// The group of the jobs that any node may run.
    pub const EVERYWHERE: Self = Self(0);
}

/// A group, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct GroupState {
    pub(super) nodes: NodeSelector,
    /// The living members that are eligible.
    pub(super) fitting: BTreeSet<Member>,
    /// How many of its jobs are enabled, and how many of those are claimed.
    pub(super) enabled: usize,
    pub(super) claimable: usize,
    /// The free jobs that may be owned, in this node's own order.
    pub(super) free: BTreeSet<(u64, JobId)>,
    /// How many jobs each member owns.
    pub(super) held: BTreeMap<Arc<Member>, usize>,
    /// How many could be claimed, and how many nodes there were for them, at the last listing.
    pub(super) listed: (usize, usize),
}

/// All groups there ever were in this view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct JobGroups {
    pub(super) list: Vec<GroupState>,
    pub(super) ids: BTreeMap<NodeSelector, GroupId>,
}

/// The part of a job that the groups count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupedJob {
    pub(super) group: GroupId,
    pub(super) enabled: bool,
    pub(super) claimable: bool,
    pub(super) owner: Option<Arc<Member>>,
}

impl GroupedJob {
    /// Whether nodes may claim it now.
    fn is_free(&self) -> bool {
        self.claimable && self.owner.is_none()
    }
}

impl Default for JobGroups {
    fn default() -> Self {
        let ids = BTreeMap::from([(NodeSelector::default(), GroupId::EVERYWHERE)]);
        Self { list: Vec::from([GroupState::default()]), ids }
    }
}

impl JobGroups {
    pub(super) fn get(&self, id: GroupId) -> &GroupState {
        &self.list[id.0 as usize]
    }

    fn get_mut(&mut self, id: GroupId) -> &mut GroupState {
        &mut self.list[id.0 as usize]
    }

    /// Updates the counts of a job. Returns whether it is free from now on.
    pub(super) fn recount(&mut self, order: (u64, JobId), before: &GroupedJob, after: &GroupedJob) -> bool {
        let old = self.get_mut(before.group);
        old.enabled -= usize::from(before.enabled);
        old.claimable -= usize::from(before.claimable);
        let was_free = old.free.remove(&order);
        if let Some(owner) = &before.owner
            && let Some(held) = old.held.get_mut(owner)
        {
            *held -= 1;
            if *held == 0 {
                old.held.remove(owner);
            }
        }
        let new = self.get_mut(after.group);
        new.enabled += usize::from(after.enabled);
        new.claimable += usize::from(after.claimable);
        if let Some(owner) = &after.owner {
            *new.held.entry(owner.clone()).or_default() += 1;
        }
        if after.is_free() {
            new.free.insert(order);
        }
        after.is_free() && !(was_free && before.group == after.group)
    }
}
