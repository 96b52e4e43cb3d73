//! How changes move the view: a change older than what is known already is dropped, so order and repetition do not
//! matter.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::known_entry::{EntryUpdate, newer};
use super::packed_spec::PackedSpec;
use super::{GroupId, JobId, KnownEntry, MemberState, View};
use crate::ids::{JobName, LockName, Member, NodeName};
use crate::job::{Placement, Priority};
use crate::keys::{Key, ParsedKey, parse};
use crate::record::{LockRecord, SpecRecord, decode};
use crate::registry::{Change, ChangeBatch, Revision};
use crate::run_limit::RunLimit;
use crate::time::Mono;

/// The effects of a batch of changes on the view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ViewChanges {
    /// Jobs that must be looked at again.
    pub jobs: BTreeSet<JobId>,
    /// Those of these jobs whose assignment to this node is new.
    pub won: Vec<JobId>,
    /// Whether a dispatched job was declared, changed or deleted.
    pub dispatched: bool,
    /// Whether members, drain intents or offline marks changed.
    pub nodes: bool,
    /// Whether the planner of dispatched jobs changed, or its settings.
    pub planner: bool,
    /// Whether anything of the cluster as a whole changed.
    pub peers: bool,
    /// Pools that may have another free permit.
    pub limits: BTreeSet<RunLimit>,
    /// Entries that could not be read.
    pub unreadable: Vec<Key>,
    /// Entries without a valid seal, which count for nothing.
    pub unsealed: Vec<Key>,
}

impl View {
    /// Takes a listing: all cold entries as of one revision. Entries that it does not name are gone.
    pub fn list(&mut self, now: Mono, batch: &ChangeBatch) -> ViewChanges {
        let mut touched = ViewChanges::default();
        self.listing = self.listing.wrapping_add(1);
        // Changes newer than the listing stay.
        self.gone.retain(|_, revision| *revision > batch.revision);
        let mut rest = BTreeSet::new();
        for change in &batch.changes {
            let Some(parsed) = parse(&change.key) else { continue };
            match &parsed {
                ParsedKey::Spec(job) => {
                    let id = self.intern(job);
                    let listing = self.listing;
                    self.state(id).listing = listing;
                }
                ParsedKey::Assignment(_) | ParsedKey::Triggers(_) => {}
                _ => {
                    rest.insert(&change.key);
                }
            }
            self.absorb(now, parsed, change, &mut touched);
        }
        self.drop_unlisted(now, batch.revision, &rest, &mut touched);
        self.floor = self.floor.max(batch.revision);
        self.listed = true;
        self.note_listed();
        touched
    }

    fn drop_unlisted(
        &mut self,
        now: Mono,
        as_of: Revision,
        listed: &BTreeSet<&Key>,
        touched: &mut ViewChanges,
    ) {
        let mut gone: Vec<Key> = Vec::new();
        gone.extend(self.members.keys().map(crate::keys::node));
        gone.extend(self.intents.keys().map(crate::keys::intent));
        gone.extend(self.locks.keys().map(crate::keys::lock));
        gone.extend(self.peers.keys());
        gone.extend(self.calendars.keys());
        gone.extend(self.permits.keys());
        gone.extend(self.namespaces.keys());
        gone.extend(self.switches.keys().map(|(job, node)| crate::keys::switches(node, job)));
        gone.retain(|key| !listed.contains(key));
        let listing = self.listing;
        let unlisted = self.jobs.iter().filter(|job| job.listing != listing && job.live);
        gone.extend(unlisted.map(|job| crate::keys::spec(&job.name)));
        for key in gone {
            if let Some(parsed) = parse(&key) {
                self.absorb(now, parsed, &Change { key, entry: None, revision: as_of }, touched);
            }
        }
    }

    /// Takes a change of the feed, in any order, any number of times.
    pub fn absorb_change(&mut self, now: Mono, changes: &[Change]) -> ViewChanges {
        let mut touched = ViewChanges::default();
        for change in changes {
            let old = change.entry.as_ref().map_or(change.revision, |e| e.revision);
            if let Some(parsed) = parse(&change.key)
                && (old > self.floor || !change.key.is_cold())
            {
                self.absorb(now, parsed, change, &mut touched);
            }
        }
        touched
    }

    fn absorb(&mut self, now: Mono, parsed: ParsedKey, change: &Change, touched: &mut ViewChanges) {
        if let Some(entry) = &change.entry
            && self.gone.get(&change.key).is_some_and(|gone| *gone >= entry.revision)
        {
            return;
        }
        match parsed {
            ParsedKey::Node(member) => self.absorb_member(now, member, change, touched),
            ParsedKey::Spec(job) => self.absorb_spec(now, &job, change, touched),
            ParsedKey::Assignment(job) => self.absorb_assignment(now, &job, change, touched),
            ParsedKey::Triggers(job) => self.absorb_triggers(&job, change, touched),
            ParsedKey::RunState(job) => self.absorb_run_state(&job, change, touched),
            ParsedKey::ShardRunState(job, member) => {
                self.absorb_shard_run_state(now, &job, member, change, touched)
            }
            ParsedKey::Switches(node, job) => self.absorb_switches(node, &job, change, touched),
            ParsedKey::Intent(node) => self.absorb_intent(node, change, touched),
            ParsedKey::Lock(name) => self.absorb_lock(name, change, touched),
            ParsedKey::Plan(job) => self.absorb_plan(&job, change, touched),
            ParsedKey::Calendar(name) => self.absorb_calendar(name, change, touched),
            ParsedKey::Permits(limit) => self.absorb_permits(limit, change, touched),
            ParsedKey::Namespace(name) => self.absorb_namespace(name, change, touched),
            other => self.absorb_peers(other, change, touched),
        }
    }

    fn absorb_member(&mut self, now: Mono, member: Member, change: &Change, touched: &mut ViewChanges) {
        let known = self.members.get(&member).map(|m| m.revision);
        match newer(known, change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => {
                self.gone.insert(change.key.clone(), revision);
                if self.members.remove(&member).is_none() {
                    return;
                }
                touched.limits.extend(self.limits_of(&member));
            }
            EntryUpdate::Put(entry) => {
                let Some(info) = decode(&entry.value) else {
                    touched.unreadable.push(change.key.clone());
                    return;
                };
                let (key, born, revision) = (change.key.clone(), entry.born, entry.revision);
                let state = MemberState { key, info, born, revision };
                self.members.insert(member.clone(), state);
            }
        }
        self.index_member(now, &member);
        touched.nodes = true;
    }

    fn absorb_intent(&mut self, node: NodeName, change: &Change, touched: &mut ViewChanges) {
        match newer(self.intents.get(&node).map(|i| i.revision), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => {
                self.gone.insert(change.key.clone(), revision);
                self.intents.remove(&node);
            }
            EntryUpdate::Put(entry) => {
                self.intents.insert(node, KnownEntry::present(decode(&entry.value), entry.revision));
            }
        }
        touched.nodes = true;
    }

    fn absorb_lock(&mut self, name: LockName, change: &Change, touched: &mut ViewChanges) {
        match newer(self.locks.get(&name).map(|l| l.revision), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => {
                self.gone.insert(change.key.clone(), revision);
                self.own_locks.remove(&name);
                self.locks.remove(&name);
            }
            EntryUpdate::Put(entry) => {
                let record: Option<LockRecord> = decode(&entry.value);
                let holder = record.as_ref().and_then(|r| r.holder.as_ref());
                if holder.is_some() && holder == self.life.as_ref() {
                    self.own_locks.insert(name.clone());
                } else {
                    self.own_locks.remove(&name);
                }
                self.locks.insert(name, KnownEntry::present(record, entry.revision));
            }
        }
        touched.nodes = true;
    }

    fn absorb_spec(&mut self, now: Mono, job: &JobName, change: &Change, touched: &mut ViewChanges) {
        let id = self.intern(job);
        let known = self.state(id).spec.revision();
        let spec = match newer(Some(known), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => KnownEntry::absent(revision),
            EntryUpdate::Put(entry) => KnownEntry::present(Some(&entry.value), entry.revision),
        };
        let record = spec.value.as_ref().map(|value| decode::<SpecRecord>(value));
        if record.as_ref().is_some_and(Option::is_none) {
            touched.unreadable.push(change.key.clone());
        }
        if matches!(record, Some(Some(SpecRecord::Unsealed(_)))) {
            touched.unsealed.push(change.key.clone());
            self.unsealed.insert(id);
        } else {
            self.unsealed.remove(&id);
        }
        let live = matches!(record, Some(Some(SpecRecord::Live(_))));
        let declared = match &record {
            Some(Some(SpecRecord::Live(spec))) => Some(&spec.job),
            _ => None,
        };
        let switched = matches!(&record, Some(Some(SpecRecord::Live(spec))) if spec.is_switched());
        let enabled = declared.is_some_and(|job| job.enabled);
        let placement = declared.map_or(Placement::default(), |job| job.placement.kind());
        let priority = declared.map_or(Priority::default(), |job| job.priority);
        let pool = declared.and_then(|job| job.pool.as_ref()).map(|pool| pool.name.clone());
        let group = declared.map_or(GroupId::EVERYWHERE, |job| self.group_of(&job.node_selector));
        let version = record.as_ref().and_then(Option::as_ref).map_or(0, SpecRecord::version);
        self.namespaces.recount(job, self.jobs[id.0 as usize].live, live);
        self.change(now, id, |state| {
            state.spec = PackedSpec::new(job, &spec);
            state.live = live;
            state.switched = switched;
            state.enabled = enabled;
            state.placement = placement;
            state.group = group;
            state.priority = priority;
            state.versions.0 = version;
        });
        self.declare_limits(id, job, live, pool);
        let record = record.flatten();
        self.set_calendars(
            id,
            match &record {
                Some(SpecRecord::Live(spec)) => Some(&spec.job),
                _ => None,
            },
        );
        self.set_terms(id, record.as_ref());
        self.set_notify(id, record);
        touched.dispatched |= self.dispatched.contains_key(&id);
        touched.jobs.insert(id);
    }

    fn absorb_assignment(&mut self, now: Mono, job: &JobName, change: &Change, touched: &mut ViewChanges) {
        let id = self.intern(job);
        let known = self.state(id).assignment;
        let (place, revision) = match newer(Some(known), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => (crate::record::Assignment::default(), revision),
            EntryUpdate::Put(entry) => match decode::<crate::record::Assignment>(&entry.value) {
                Some(place) => (place, entry.revision),
                None => {
                    touched.unreadable.push(change.key.clone());
                    return;
                }
            },
        };
        let mine = place.owner.is_some() && place.owner == self.life;
        if mine && self.job(id).owner() != self.life.as_ref() {
            touched.won.push(id);
        }
        let dead = place.owner.as_ref().is_some_and(|o| !self.members.contains_key(o));
        // A job that never had an owner has no run state, so its first owner need not read one.
        let first = place.epoch <= 2;
        self.set_sharding(id, place.sharding);
        self.set_planned(id, place.planned);
        let owner = place.owner.map(|owner| self.intern_member(owner));
        self.change(now, id, |state| {
            state.owner = owner;
            state.epoch = place.epoch;
            state.waits = place.waits;
            state.assignment = revision;
            state.versions.1 = place.version;
        });
        if mine {
            self.hold(id, first);
        } else if !dead {
            self.let_go(id);
        }
        touched.jobs.insert(id);
    }

    /// Keeps what firing needs of a job that this node owns now.
    fn hold(&mut self, id: JobId, first: bool) {
        if self.held.get(id).is_some_and(|h| h.terms.is_some()) {
            return;
        }
        let terms = self.terms_of(self.job(id).spec_record().as_ref());
        let held = self.held_mut(id);
        held.terms = terms;
        if first && held.run_state.is_none() {
            held.run_state = Some(KnownEntry::default());
        }
    }

    fn absorb_triggers(&mut self, job: &JobName, change: &Change, touched: &mut ViewChanges) {
        let id = self.intern(job);
        let asked = match newer(self.triggers.get(&id).map(|a| a.revision), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => KnownEntry::absent(revision),
            EntryUpdate::Put(entry) => KnownEntry::present(decode(&entry.value), entry.revision),
        };
        self.triggers.insert(id, asked);
        touched.jobs.insert(id);
    }

    fn absorb_run_state(&mut self, job: &JobName, change: &Change, touched: &mut ViewChanges) {
        let id = self.intern(job);
        let known = self.run_state_revision(id);
        let run_state = match &change.entry {
            Some(entry) if known.is_none_or(|k| k < entry.revision) => match decode(&entry.value) {
                Some(run_state) => KnownEntry::present(Some(run_state), entry.revision),
                None => {
                    touched.unreadable.push(change.key.clone());
                    return;
                }
            },
            None if known.is_none() => KnownEntry::default(),
            _ => return,
        };
        self.set_run_state(id, run_state);
        touched.jobs.insert(id);
    }
}
