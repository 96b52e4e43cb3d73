//! The view: a node's typed, indexed copy of the registry, which reports the jobs that each change touched.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::{CalendarName, Fire, JobName, LockName, Member, NodeName};
use crate::job::{Delivery, MisfireSettings, Notify, Placement, Priority, Spec};
use crate::keys::{self, Key};
use crate::record::{
    Assignment, Attempt, LockRecord, MemberInfo, NodeIntent, NodeSwitches, RunState, SpecRecord,
    TriggerRecord, decode,
};
use crate::registry::{Guard, Revision, Value};
use crate::schedule::Schedule;
use crate::time::{Mono, Wall};

mod absorb;
mod calendars;
mod cluster;
mod dispatched;
mod groups;
mod index;
mod job_id;
mod names;
mod notify;
mod pools;
mod sharded;
mod unschedulable;

pub use absorb::ViewChanges;
pub use cluster::DISPATCH;
pub use dispatched::{DispatchedState, KnownPlan};
pub use groups::GroupId;
pub use job_id::JobId;
pub use sharded::{KnownShardState, ShardTerms, ShardedState};

/// An entry's record with the revision at which it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownEntry<T> {
    /// The record; `None` when the entry is absent or unreadable.
    pub value: Option<T>,
    /// When it was written, or found absent.
    pub revision: Revision,
    absent: bool,
}

impl<T> KnownEntry<T> {
    /// The guard that the entry under `key` is still as it is known.
    #[must_use]
    pub fn guard(&self, key: Key) -> Guard {
        if self.value.is_none() && self.absent { Guard::Absent(key) } else { Guard::At(key, self.revision) }
    }

    /// Whether there is an entry that cannot be decoded.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.value.is_none() && !self.absent
    }

    /// An entry known to be absent since this revision.
    #[must_use]
    pub fn absent(revision: Revision) -> Self {
        Self { value: None, revision, absent: true }
    }

    /// An entry as read; `value` is `None` when it is unreadable.
    #[must_use]
    pub fn present(value: Option<T>, revision: Revision) -> Self {
        Self { value, revision, absent: false }
    }
}

impl<T> Default for KnownEntry<T> {
    fn default() -> Self {
        Self::absent(Revision(0))
    }
}

/// The view's data of one job. Kept small: the declaration stays encoded, and most jobs belong to other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JobState {
    pub(crate) name: JobName,
    pub(crate) spec: KnownEntry<Value>,
    pub(crate) enabled: bool,
    pub(crate) live: bool,
    pub(crate) placement: Placement,
    pub(crate) priority: Priority,
    /// The jobs that may run on the same nodes.
    pub(crate) group: GroupId,
    pub(crate) owner: Option<Arc<Member>>,
    pub(crate) epoch: u64,
    pub(crate) assignment: Revision,
    /// Whether it has no owner while its run waits for another attempt.
    pub(crate) waits: bool,
    /// The version of the spec, and the version that the assignment goes with.
    pub(crate) versions: (u64, u64),
    /// Since when, by our clock, it has had no owner.
    pub(crate) free_since: Mono,
    /// Our own order among free jobs.
    pub(crate) order: u64,
    listing: u32,
    /// The calendars that it names.
    pub(crate) calendars: Box<[CalendarName]>,
    /// Its notification settings.
    pub(crate) notify: Option<Box<Notify>>,
}

/// The part of a job's declaration that firing needs, decoded once for the jobs owned here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobTerms {
    /// The schedule, under the calendars that the job names; `None` for a job that runs only when triggered, and while
    /// one of its calendars is missing.
    pub schedule: Option<Schedule>,
    /// Fires up to here are ignored.
    pub since: Wall,
    /// Whether it runs only when triggered manually.
    pub paused: bool,
    /// Whether it may be owned at all.
    pub enabled: bool,
    /// The delivery: what becomes of a run whose outcome is unknown.
    pub delivery: Delivery,
    /// Its misfire settings.
    pub misfire: MisfireSettings,
    /// After how many runs in a row that ended badly it is paused.
    pub pause_after_failures: Option<u32>,
    /// The terms that only sharded jobs have.
    pub shards: Option<Box<ShardTerms>>,
}

/// An owned job: its run state and the decoded terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnedJob {
    /// The run state; `None` while it was not read yet.
    pub run_state: Option<KnownEntry<RunState>>,
    /// The keys of an owned job's run state and assignment: each fire uses them, so they are built once.
    pub keys: Option<(Key, Key)>,
    /// The job's terms; `None` when the job is deleted or unreadable.
    pub terms: Option<Box<JobTerms>>,
    /// Whether a fire is open that this node runs in this life.
    opens: usize,
}

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
    names: names::NameIndex,
    groups: groups::JobGroups,
    owned: BTreeMap<Arc<Member>, BTreeSet<JobId>>,
    triggers: BTreeMap<JobId, KnownEntry<TriggerRecord>>,
    held: BTreeMap<JobId, OwnedJob>,
    /// The sharded jobs, and the remains of former ones.
    sharded: BTreeMap<JobId, ShardedState>,
    /// Run states of sharded jobs: this life's own, and those of other members that were read.
    shard_run_states: BTreeMap<(JobId, Member), KnownShardState>,
    switches: BTreeMap<(JobName, NodeName), KnownEntry<NodeSwitches>>,
    /// The dispatched jobs, and the remains of former ones.
    dispatched: BTreeMap<JobId, DispatchedState>,
    planned_runs: dispatched::PlannedRuns,
    peers: cluster::ClusterEntries,
    calendars: calendars::CalendarIndex,
    pools: pools::PoolIndex,
    /// The living jobs whose fires may be late or absent.
    watched: BTreeSet<JobId>,
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
            names: names::NameIndex::default(),
            groups: groups::JobGroups::default(),
            owned: BTreeMap::new(),
            triggers: BTreeMap::new(),
            held: BTreeMap::new(),
            sharded: BTreeMap::new(),
            shard_run_states: BTreeMap::new(),
            switches: BTreeMap::new(),
            dispatched: BTreeMap::new(),
            planned_runs: dispatched::PlannedRuns::default(),
            peers: cluster::ClusterEntries::default(),
            calendars: calendars::CalendarIndex::default(),
            pools: pools::PoolIndex::default(),
            watched: BTreeSet::new(),
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
        self.open = 0;
        self.pools.begin_life();
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
        self.held.values().filter_map(OwnedJob::record).any(opens)
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

impl OwnedJob {
    /// The record of the run state; `None` while it is unread or absent.
    #[must_use]
    pub fn record(&self) -> Option<&RunState> {
        self.run_state.as_ref()?.value.as_ref()
    }
}

impl<'a> JobView<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a JobName {
        &self.state.name
    }

    /// Whether it is declared, readable and not deleted.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state.live
    }

    /// Whether it is live and not disabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.state.enabled
    }

    /// Its owner.
    #[must_use]
    pub fn owner(&self) -> Option<&'a Member> {
        self.state.owner.as_deref()
    }

    /// Its assignment as it stands in the registry.
    #[must_use]
    pub fn assignment(&self) -> Assignment {
        let (owner, (_, version)) = (self.state.owner.as_deref().cloned(), self.state.versions);
        let sharding = self.sharding().cloned().map(Box::new);
        let planned = self.dispatched().is_some_and(|job| job.planned);
        Assignment { owner, epoch: self.state.epoch, version, sharding, planned, waits: self.state.waits }
    }

    /// Whether spec and assignment go together. Changes of the two may arrive separately, and a guard on the assignment
    /// vouches only for the spec that it was written with.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.state.versions.0 == self.state.versions.1
    }

    /// The guard that the assignment is still as this view has it. Written ones count from 1.
    #[must_use]
    pub fn assignment_guard(&self) -> Guard {
        self.assignment_guard_at(keys::assignment(self.name()))
    }

    /// The same for a caller that has built the key.
    pub(crate) fn assignment_guard_at(&self, key: Key) -> Guard {
        if self.state.epoch == 0 { Guard::Absent(key) } else { Guard::At(key, self.state.assignment) }
    }

    /// The guard that the spec is still as this view has it.
    #[must_use]
    pub fn spec_guard(&self) -> Guard {
        self.state.spec.guard(keys::spec(self.name()))
    }

    /// The spec's record, decoded; `None` when it is absent or unreadable.
    #[must_use]
    pub fn spec_record(&self) -> Option<SpecRecord> {
        decode(self.state.spec.value.as_ref()?)
    }

    /// The living declaration, decoded.
    #[must_use]
    pub fn spec(&self) -> Option<Spec> {
        match self.spec_record()? {
            SpecRecord::Live(spec) => Some(*spec),
            SpecRecord::Deleted { .. } => None,
        }
    }

    /// Its priority: which waiting run gets the next free slot.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.state.priority
    }

    /// The triggers that it has.
    #[must_use]
    pub fn triggers(&self) -> Option<&'a KnownEntry<TriggerRecord>> {
        self.view.triggers.get(&self.id)
    }

    /// Its run state and terms, where they matter to this node.
    #[must_use]
    pub fn held(&self) -> Option<&'a OwnedJob> {
        self.view.held.get(&self.id)
    }

    /// Its terms, whatever its placement, as far as this node has them; `None` when it is deleted.
    #[must_use]
    pub fn job_terms(&self) -> Option<&'a JobTerms> {
        let sharded = || self.sharded()?.terms.as_deref();
        let planned = || self.dispatched()?.terms.as_deref();
        let held = || self.held()?.terms.as_deref();
        planned().or_else(sharded).or_else(held)
    }

    /// How many of its runs may execute at once.
    #[must_use]
    pub fn max_concurrent_runs(&self) -> usize {
        self.job_terms().map_or(1, |terms| terms.misfire.overlap.max_concurrent_runs())
    }

    /// When a job fires next after a moment, if this node owns something of it or plans it.
    #[must_use]
    pub fn fires_after(&self, after: Wall) -> Option<Wall> {
        self.job_terms()?.schedule.as_ref()?.next(after)
    }

    /// The open run of a fire in the run state of a claimed job that this node owns.
    #[must_use]
    pub fn open_of(&self, fire: &Fire) -> Option<&'a Attempt> {
        self.held()?.record()?.open_of(fire)
    }

    /// Since when, by our clock, it has had no owner.
    #[must_use]
    pub fn free_since(&self) -> Mono {
        self.state.free_since
    }
}

impl JobTerms {
    fn of(spec: &Spec, view: &View) -> Option<Self> {
        let job = &spec.job;
        // A declaration was checked before it was written; one that this version cannot read is left alone.
        job.schedule().ok()?;
        Some(Self {
            schedule: view.schedule_of(job),
            since: view.since_of(spec),
            paused: spec.paused,
            enabled: job.enabled,
            delivery: job.delivery,
            misfire: job.misfire_settings().ok()?,
            pause_after_failures: job.pause_after_failures,
            shards: ShardTerms::of(spec).map(Box::new),
        })
    }
}

#[cfg(test)]
mod tests;
