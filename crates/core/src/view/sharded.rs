//! The view of sharded jobs: leaders, shard assignments, and the run states that were read.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::known_entry::{EntryUpdate, newer};
use super::sharded_index::{KnownShardState, ShardTerms, ShardedState};
use super::{JobId, JobTerms, JobView, KnownEntry, View, ViewChanges};
use crate::ids::{JobName, Member, NodeName};
use crate::job::Placement;
use crate::record::{NodeSwitches, ShardRunState, Sharding, SpecRecord, decode};
use crate::registry::Change;
use crate::time::Mono;

impl View {
    /// All sharded jobs, and the remains of former ones.
    pub fn sharded(&self) -> impl Iterator<Item = JobId> {
        self.sharded.keys().copied()
    }

    /// Whether a member runs, or has claimed, any shard that this view knows of.
    pub(super) fn shards_opened_by(&self, member: &Member) -> bool {
        let claimed = |run_state: &ShardRunState| run_state.open.iter().any(|open| open.wait.is_none());
        let opens = |known: &KnownShardState| known.run_state.value.as_ref().is_some_and(claimed);
        self.shard_run_states.iter().any(|((_, holder), known)| holder == member && opens(known))
    }

    /// Whether a member has shards that another node can take: those of enabled jobs in which another node takes part.
    /// Sticky shards wait for the node that has them, whether it is stopped or not.
    #[must_use]
    pub fn has_shards_for_others(&self, member: &Member) -> bool {
        self.sharded.iter().any(|(id, sharded)| {
            let mut assignments = sharded.sharding.shard_map.assignments.iter();
            let job = self.job(*id);
            assignments.any(|assignment| assignment.holder == *member && !assignment.groups.is_empty())
                && job.is_enabled()
                && job.terms().is_some_and(|(_, terms)| !terms.sticky_shards)
                && job.available().iter().any(|other| *other != member)
        })
    }

    /// Whether a member leads any job.
    #[must_use]
    pub fn leads(&self, member: &Member) -> bool {
        self.sharded.values().any(|sharded| sharded.sharding.leader.as_ref() == Some(member))
    }

    /// The known switches of a job on a node.
    #[must_use]
    pub fn switches(&self, job: &JobName, node: &NodeName) -> Option<&KnownEntry<NodeSwitches>> {
        self.switches.get(&(job.clone(), node.clone()))
    }

    /// All nodes for which a switch of a job was ever set.
    pub fn switched(&self, job: &JobName) -> impl Iterator<Item = (&NodeName, NodeSwitches)> {
        let first = (job.clone(), Member::least().node);
        let all = self.switches.range(first..).take_while(move |((name, _), _)| name == job);
        all.filter_map(|((_, node), known)| Some((node, known.value.clone()?)))
    }

    pub(super) fn absorb_switches(
        &mut self,
        node: NodeName,
        job: &JobName,
        change: &Change,
        touched: &mut ViewChanges,
    ) {
        let id = self.intern(job);
        let key = (job.clone(), node);
        match newer(self.switches.get(&key).map(|known| known.revision), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => {
                self.gone.insert(change.key.clone(), revision);
                self.switches.remove(&key);
            }
            EntryUpdate::Put(entry) => {
                self.switches.insert(key, KnownEntry::present(decode(&entry.value), entry.revision));
            }
        }
        touched.jobs.insert(id);
    }

    pub(super) fn absorb_shard_run_state(
        &mut self,
        now: Mono,
        job: &JobName,
        member: Member,
        change: &Change,
        touched: &mut ViewChanges,
    ) {
        let id = self.intern(job);
        let key = (id, member);
        // A run state that another member writes is known as of the assignment at least, or not at all.
        let place = self.state(id).assignment;
        if change.revision < place && self.members.contains_key(&key.1) && self.life.as_ref() != Some(&key.1)
        {
            touched.jobs.insert(id);
            return;
        }
        let known = self.shard_run_states.get(&key);
        let run_state = match newer(known.map(|known| known.run_state.revision), change) {
            // The same state read anew: it is valid as of now.
            EntryUpdate::Stale
                if known.is_some_and(|k| {
                    change.entry.as_ref().is_some_and(|e| e.revision == k.run_state.revision)
                }) =>
            {
                if let Some(known) = self.shard_run_states.get_mut(&key) {
                    known.heard = now;
                }
                touched.jobs.insert(id);
                return;
            }
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => KnownEntry::absent(revision),
            EntryUpdate::Put(entry) => match decode(&entry.value) {
                Some(run_state) => KnownEntry::present(Some(run_state), entry.revision),
                None => {
                    touched.unreadable.push(change.key.clone());
                    return;
                }
            },
        };
        self.shard_run_states.insert(key, KnownShardState { run_state, heard: now });
        touched.jobs.insert(id);
    }

    pub(super) fn set_shard_terms(&mut self, id: JobId, placement: Placement, record: Option<&SpecRecord>) {
        if placement.is_sharded() {
            let terms = self.terms_of(record).map(Box::new);
            self.sharded.entry(id).or_default().terms = terms;
        } else if let Some(sharded) = self.sharded.get_mut(&id) {
            sharded.terms = None;
        }
    }

    pub(super) fn set_sharding(&mut self, id: JobId, sharding: Option<Box<Sharding>>) {
        let Some(sharding) = sharding else {
            if let Some(sharded) = self.sharded.get_mut(&id) {
                sharded.sharding = Sharding::default();
            }
            return;
        };
        // Without a pending reshard the others claim fires, and under one they withdraw some: what was known of their
        // run states is void.
        let (life, members) = (&self.life, &self.members);
        let (first, last) = ((id, Member::least()), (JobId(id.0 + 1), Member::least()));
        let stale = |holder: &Member| !sharding.run_states.contains(holder) || members.contains_key(holder);
        let gone: Vec<(JobId, Member)> = (self.shard_run_states.range(first..last).map(|(key, _)| key))
            .filter(|(_, holder)| Some(holder) != life.as_ref() && stale(holder))
            .cloned()
            .collect();
        for key in gone {
            self.shard_run_states.remove(&key);
        }
        self.sharded.entry(id).or_default().sharding = *sharding;
    }
}

impl<'a> JobView<'a> {
    /// Whether it is sharded, or was and is not settled yet.
    #[must_use]
    pub fn is_sharded(&self) -> bool {
        let left = || self.sharding().is_some_and(|sharding| !sharding.run_states.is_empty());
        self.state.placement.is_sharded() || left()
    }

    /// Its data as a sharded job, if it is sharded, or was.
    #[must_use]
    pub fn sharded(&self) -> Option<&'a ShardedState> {
        self.view.sharded.get(&self.id)
    }

    /// Its leader and shard assignments, if it is sharded, or was.
    #[must_use]
    pub fn sharding(&self) -> Option<&'a Sharding> {
        self.sharded().map(|sharded| &sharded.sharding)
    }

    /// The terms of a job that is declared as sharded.
    #[must_use]
    pub fn terms(&self) -> Option<(&'a JobTerms, &'a ShardTerms)> {
        let terms = self.sharded()?.terms.as_deref()?;
        Some((terms, terms.shards.as_deref()?))
    }

    /// The known run state of a member.
    #[must_use]
    pub fn run_state_of(&self, member: &Member) -> Option<&'a KnownShardState> {
        self.view.shard_run_states.get(&(self.id, member.clone()))
    }

    /// Its switches on a node.
    #[must_use]
    pub fn switches(&self, node: &NodeName) -> NodeSwitches {
        let known = self.view.switches(self.name(), node);
        known.and_then(|known| known.value.clone()).unwrap_or_default()
    }

    /// All its switches, by node.
    pub fn switched(&self) -> impl Iterator<Item = (&'a NodeName, &'a NodeSwitches)> + use<'a> {
        let (name, first) = (self.name(), (self.name().clone(), Member::least().node));
        let of_job = self.view.switches.range(first..).take_while(move |((job, _), _)| job == name);
        of_job.filter_map(|((_, node), known)| Some((node, known.value.as_ref()?)))
    }

    /// Whether a member has a part in the present assignment of its shards, which a cordoned one keeps. Sticky shards
    /// belong to the node, in whichever life.
    #[must_use]
    pub fn has_part(&self, member: &Member) -> bool {
        let sticky = self.terms().is_some_and(|(_, shards)| shards.sticky_shards);
        let mut among = self.sharding().into_iter().flat_map(|sharding| &sharding.shard_map.among);
        among.any(|had| had == member || sticky && had.node == member.node)
    }

    /// The members that take part in it, by name: living, eligible, not draining, not excluded from it, not cordoned
    /// before they had a part, and one a host where the job says so. Of two lives of one node the later.
    #[must_use]
    pub fn available(&self) -> Vec<&'a Member> {
        let mut members: Vec<(&Member, &str)> = Vec::new();
        for (member, state) in self.view.members() {
            let switches = self.switches(&member.node);
            let off = !self.fits(member)
                || switches.disabled
                || switches.shutdown == Some(member.incarnation)
                || self.view.intent(&member.node).is_some()
                || self.view.is_cordoned(&member.node) && !self.has_part(member);
            let host = state.info.address.rsplit_once(':').map_or("", |(host, _)| host);
            if members.last().is_some_and(|(last, _)| last.node == member.node) {
                members.pop();
            }
            if !off {
                members.push((member, host));
            }
        }
        if self.terms().is_some_and(|(_, shards)| shards.one_per_host) {
            let mut hosts = alloc::collections::BTreeSet::new();
            members.retain(|(_, host)| hosts.insert(*host));
        }
        members.into_iter().map(|(member, _)| member).collect()
    }
}
