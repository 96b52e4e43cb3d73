//! The view: a node's typed, indexed copy of the registry, which reports the jobs that each change touched.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::{JobName, LockName, Member, Namespace, NodeName};
use crate::job::Notify;
use crate::keys::Key;
use crate::record::{LockRecord, MemberInfo, NodeIntent, NodeSwitches, RunState, TriggerRecord};
use crate::registry::Revision;
use crate::time::Mono;

mod absorb;
mod calendar_index;
mod calendars;
mod cluster;
mod cluster_index;
mod dispatched;
mod dispatched_index;
mod group_index;
mod groups;
mod held_jobs;
mod index;
mod job_id;
mod job_state;
mod job_view;
mod known_entry;
mod name_index;
mod names;
mod namespace_index;
mod namespaces;
mod notify;
mod packed_spec;
mod permit_index;
mod permits;
mod sharded;
mod sharded_index;
mod sorted_names;
mod timing;
mod unschedulable;

pub use absorb::ViewChanges;
pub use cluster::DISPATCH;
pub use dispatched_index::{DispatchedState, KnownPlan};
pub use group_index::GroupId;
pub use job_id::JobId;
pub(crate) use job_state::JobState;
pub use job_state::{JobTerms, OwnedJob};
pub use known_entry::KnownEntry;
pub use sharded_index::{KnownShardState, ShardTerms, ShardedState};

/// A living member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberState {
    /// The key of its entry: every transaction of ours names that, so it is built once.
    pub key: Key,
    /// The record that it publishes.
    pub info: MemberInfo,
    /// When its entry was created.
    pub born: Revision,
    /// When it was written last.
    pub revision: Revision,
}

/// A node's copy of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    me: NodeName,
    /// The life in which this node may own jobs.
    life: Option<Member>,
    listed: bool,
    listing: u32,
    /// The revision of the last listing: earlier changes are contained in it.
    floor: Revision,
    /// Deletions since the listing, so that late changes bring no entry back to life.
    gone: BTreeMap<Key, Revision>,
    members: BTreeMap<Member, MemberState>,
    /// Since when, by our clock, these owners have not been members.
    dead: BTreeMap<Arc<Member>, Mono>,
    intents: BTreeMap<NodeName, KnownEntry<NodeIntent>>,
    locks: BTreeMap<LockName, KnownEntry<LockRecord>>,
    /// The locks that this node holds in this life.
    own_locks: BTreeSet<LockName>,
    jobs: Vec<JobState>,
    names: name_index::NameIndex,
    groups: group_index::JobGroups,
    owned: BTreeMap<Arc<Member>, BTreeSet<JobId>>,
    triggers: BTreeMap<JobId, KnownEntry<TriggerRecord>>,
    held: held_jobs::HeldJobs,
    /// The sharded jobs, and the remains of former ones.
    sharded: BTreeMap<JobId, ShardedState>,
    /// Run states of sharded jobs: this life's own, and those of other members that were read.
    shard_run_states: BTreeMap<(JobId, Member), KnownShardState>,
    switches: BTreeMap<(JobName, NodeName), KnownEntry<NodeSwitches>>,
    /// The dispatched jobs, and the remains of former ones.
    dispatched: BTreeMap<JobId, DispatchedState>,
    planned_runs: dispatched_index::PlannedRuns,
    peers: cluster_index::ClusterEntries,
    calendars: calendar_index::CalendarIndex,
    permits: permit_index::PermitIndex,
    namespaces: namespace_index::NamespaceIndex,
    /// The notification settings of the jobs that have any.
    notify: BTreeMap<JobId, Box<Notify>>,
    /// The living jobs whose fires may be late or absent.
    watched: BTreeSet<JobId>,
    /// Jobs whose entries have no valid seal.
    unsealed: BTreeSet<JobId>,
    enabled: usize,
    open: usize,
}

/// A job as the view has it, for rules and for the API.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    /// Its number.
    pub id: JobId,
    view: &'a View,
    state: &'a JobState,
}

impl View {
    /// An empty view of the node called `me`.
    #[must_use]
    pub fn new(me: NodeName) -> Self {
        Self {
            me,
            life: None,
            listed: false,
            listing: 0,
            floor: Revision(0),
            gone: BTreeMap::new(),
            members: BTreeMap::new(),
            dead: BTreeMap::new(),
            intents: BTreeMap::new(),
            locks: BTreeMap::new(),
            own_locks: BTreeSet::new(),
            jobs: Vec::new(),
            names: name_index::NameIndex::default(),
            groups: group_index::JobGroups::default(),
            owned: BTreeMap::new(),
            triggers: BTreeMap::new(),
            held: held_jobs::HeldJobs::default(),
            sharded: BTreeMap::new(),
            shard_run_states: BTreeMap::new(),
            switches: BTreeMap::new(),
            dispatched: BTreeMap::new(),
            planned_runs: dispatched_index::PlannedRuns::default(),
            peers: cluster_index::ClusterEntries::default(),
            calendars: calendar_index::CalendarIndex::default(),
            permits: permit_index::PermitIndex::default(),
            namespaces: namespace_index::NamespaceIndex::default(),
            notify: BTreeMap::new(),
            watched: BTreeSet::new(),
            unsealed: BTreeSet::new(),
            enabled: 0,
            open: 0,
        }
    }

    /// Changes the life: the node has another lease, or none, so what it kept of the jobs of its last life is void.
    pub fn begin_life(&mut self, life: Option<Member>) {
        self.life = life;
        self.held.clear();
        self.shard_run_states.clear();
        self.forget_plans();
        self.forget_loads_read();
        self.open = 0;
        self.permits.begin_life();
        self.own_locks.clear();
    }

    /// Whether the registry was read at least once: before that the view means nothing.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// The living members.
    pub fn members(&self) -> impl Iterator<Item = (&Member, &MemberState)> {
        self.members.iter()
    }

    /// One living member.
    #[must_use]
    pub fn member(&self, member: &Member) -> Option<&MemberState> {
        self.members.get(member)
    }

    /// S: how many nodes there are, by name; two lives of one node count once (law 8).
    #[must_use]
    pub fn nodes(&self) -> usize {
        let mut names: Vec<&NodeName> = self.members.keys().map(|m| &m.node).collect();
        names.dedup();
        names.len()
    }

    /// K: how many jobs may be claimed (S1-15).
    #[must_use]
    pub fn enabled(&self) -> usize {
        self.enabled
    }

    /// X: how many jobs a member owns.
    #[must_use]
    pub fn count(&self, member: &Member) -> usize {
        self.owned.get(member).map_or(0, BTreeSet::len)
    }

    /// How many jobs earlier incarnations of this node, which are gone, still own: no other node has taken them yet.
    #[must_use]
    pub fn left_behind(&self, node: &NodeName) -> usize {
        let first = Member { node: node.clone(), incarnation: 0 };
        let lives = self.owned.range(first..).take_while(|(member, _)| member.node == *node);
        lives.filter(|(member, _)| self.member(member).is_none()).map(|(_, jobs)| jobs.len()).sum()
    }

    /// The jobs a member owns, in the view's order.
    pub fn owned(&self, member: &Member) -> impl DoubleEndedIterator<Item = JobId> {
        self.owned.get(member).into_iter().flatten().copied()
    }

    /// How many fires are open that this node runs in this life.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open + self.accepted_count()
    }

    /// Whether any run state known here has a fire opened by this member, without those that wait for an attempt.
    #[must_use]
    pub fn opened_by(&self, member: &Member) -> bool {
        let opens = |run_state: &RunState| {
            run_state.open.iter().any(|open| open.wait.is_none() && open.by == *member)
        };
        self.held.iter().filter_map(OwnedJob::record).any(opens)
            || self.shards_opened_by(member)
            || self.accepted_count() > 0
    }

    /// The free jobs that may be owned, group by group.
    pub fn free(&self) -> impl Iterator<Item = JobId> {
        self.groups().flat_map(|group| self.free_of(group))
    }

    /// Owners that are no members any more, and since when.
    pub fn dead(&self) -> impl Iterator<Item = (&Member, Mono)> {
        self.dead.iter().map(|(member, since)| (member.as_ref(), *since))
    }

    /// The revision of the intent to drain a node, if there is one.
    #[must_use]
    pub fn intent(&self, node: &NodeName) -> Option<Revision> {
        let known = self.intents.get(node)?;
        known.value.as_ref().is_some_and(|intent| intent.wanted).then_some(known.revision)
    }

    /// The nodes that are to be drained, living or not.
    pub fn drained(&self) -> impl Iterator<Item = &NodeName> {
        self.intents.keys().filter(|node| self.intent(node).is_some())
    }

    /// Whether a member was drained and reports that it owns nothing any more: it may be stopped (S1-39, S1-61).
    #[must_use]
    pub fn may_be_stopped(&self, member: &Member) -> bool {
        let intent = self.intents.get(&member.node).and_then(|known| known.value.as_ref());
        intent.is_some_and(|intent| intent.wanted && intent.drained == Some(member.incarnation))
    }

    /// Whether a node is cordoned: it keeps what it has and gets nothing new.
    #[must_use]
    pub fn is_cordoned(&self, node: &NodeName) -> bool {
        self.intents.get(node).and_then(|known| known.value.as_ref()).is_some_and(|intent| intent.cordoned)
    }

    /// Whether a node gets new work: it is neither drained nor cordoned.
    #[must_use]
    pub fn is_schedulable(&self, node: &NodeName) -> bool {
        self.intent(node).is_none() && !self.is_cordoned(node)
    }

    /// The known entry of what operators want of a node, withdrawn or not.
    #[must_use]
    pub fn intent_entry(&self, node: &NodeName) -> Option<&KnownEntry<NodeIntent>> {
        self.intents.get(node)
    }

    /// The known entry of a lock.
    #[must_use]
    pub fn lock(&self, name: &LockName) -> Option<&KnownEntry<LockRecord>> {
        self.locks.get(name)
    }

    /// The locks that this node holds in this life, known or not to a caller here.
    pub fn own_locks(&self) -> impl Iterator<Item = &LockName> {
        self.own_locks.iter()
    }

    /// A job by its number.
    #[must_use]
    pub fn job(&self, id: JobId) -> JobView<'_> {
        JobView { id, view: self, state: &self.jobs[id.0 as usize] }
    }

    /// A living job by its name.
    #[must_use]
    pub fn find(&self, name: &JobName) -> Option<JobView<'_>> {
        self.id(name).map(|id| self.job(id)).filter(JobView::is_live)
    }

    /// Up to `limit` living jobs after this name, in the order of names: a page.
    pub fn page<'a>(&'a self, after: Option<&JobName>, limit: usize) -> impl Iterator<Item = JobView<'a>> {
        self.ids_after(after).map(|id| self.job(id)).filter(JobView::is_live).take(limit)
    }

    /// The same of one namespace.
    pub fn page_in<'a>(
        &'a self,
        namespace: &Namespace,
        after: Option<&JobName>,
        limit: usize,
    ) -> impl Iterator<Item = JobView<'a>> {
        self.ids_in(namespace, after).map(|id| self.job(id)).filter(JobView::is_live).take(limit)
    }

    /// The jobs with triggers for which not all members that should have claimed a run.
    pub fn requested(&self) -> impl Iterator<Item = JobId> {
        let waits = |known: &KnownEntry<TriggerRecord>| {
            known.value.as_ref().is_some_and(|record| record.requests.iter().any(|request| !request.taken))
        };
        self.triggers.iter().filter(move |(_, known)| waits(known)).map(|(id, _)| *id)
    }

    /// All job numbers.
    pub fn ids(&self) -> impl Iterator<Item = JobId> {
        (0..u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)).map(JobId)
    }
}

#[cfg(test)]
mod tests;
