//! Rewinds of the registry: a backup is restored, or a replica takes over that did not have every write.
//!
//! Each member is of an earlier generation then and is refused, notices sooner or later, and starts again; physical
//! facts stay. Sometimes the registry is restored while no node is up, and cannot detect that
//! itself: then the first node to join is one that remembers more than the registry has.

use evenkeel_core::ids::NodeName;
use evenkeel_core::keys::{self, Key};
use evenkeel_core::record::{ClusterRecord, RegistryBookmark, RegistryPosition, decode, encode};
use evenkeel_core::registry::{Revision, Txn, Write};
use evenkeel_core::store::{NumbersAfterRollback, Store};
use evenkeel_core::time::{Mono, Wall};

use super::actor::RewindWait;
use super::clock::START;
use super::rewind_counts::RewindCounts;
use super::{SimNode, SimWorld, WorldEvent};
use crate::invariants::{InvariantChecker, RecordedVerdicts};

/// The retry interval of a process whose data folder is still locked, in milliseconds.
const AGAIN: i64 = 100;

/// A snapshot of the registry, with the checker's tracks of it.
pub struct RegistrySnapshot {
    store: Store,
    watch: InvariantChecker,
    verdicts: RecordedVerdicts,
}

/// The position of the registry, combined with a bookmark of it.
fn stands(store: &Store, seen: Option<&RegistryBookmark>) -> RegistryPosition {
    let remembered = seen.and_then(|seen| seen.entry.as_ref());
    let entry = remembered.and_then(|(key, _)| store.entry(&Key::from_stored(key)));
    RegistryPosition { revision: store.revision(), entry: entry.map(|entry| entry.revision) }
}

/// The cluster's entry after a node with this bookmark joins; `None` if it stays.
fn found(
    cluster: &ClusterRecord,
    seen: Option<&RegistryBookmark>,
    engine: u16,
    stands: RegistryPosition,
    now: Wall,
) -> Option<ClusterRecord> {
    match seen.filter(|seen| cluster.is_behind(seen, engine, stands)) {
        Some(seen) => Some(cluster.gone_back(seen, engine, now)),
        None => cluster.found_on(engine, now),
    }
}

impl SimWorld {
    /// A snapshot of the registry.
    #[must_use]
    pub fn keep(&self) -> RegistrySnapshot {
        let verdicts = self.history.verdicts().clone();
        RegistrySnapshot { store: self.store.clone(), watch: self.checker.clone(), verdicts }
    }

    /// Rewinds the registry to a snapshot; the trace has whether its numbers go on.
    /// History keeps later verdicts; the checker does not test those.
    pub fn rewind(&mut self, then: RegistrySnapshot, numbers: NumbersAfterRollback) {
        self.past.engine += 1;
        let go_on = numbers == NumbersAfterRollback::GoOn;
        self.trace
            .note(self.at, "", &(self.past.engine, go_on), || "the registry goes back in time".to_owned());
        self.apply_rewind(then, numbers);
    }

    /// Rewinds the registry in a way that it cannot detect. Only while no process is up, and if a node remembers more
    /// than the registry will have after all leases have ended; returns whether it did.
    pub fn rewind_undetected(&mut self, then: RegistrySnapshot) -> bool {
        let mut store = then.store.clone();
        store.sweep(Mono(i64::MAX));
        let can_tell = |actor: &SimNode| self.begins_anew(actor, &store);
        if self.actors.values().any(|actor| actor.node.is_some()) || !self.actors.values().any(can_tell) {
            return false;
        }
        self.trace.note(self.at, "", &self.past.engine, || "the registry is put back as it was".to_owned());
        self.apply_rewind(then, NumbersAfterRollback::Repeat);
        true
    }

    fn apply_rewind(&mut self, then: RegistrySnapshot, numbers: NumbersAfterRollback) {
        self.past.count += 1;
        self.store.go_back(then.store, numbers);
        self.told = self.store.revision();
        self.history.go_back(&then.verdicts);
        self.checker.go_back(self.at, then.watch, &self.store);
    }

    /// Whether a node's process still uses the registry as it was before a rewind.
    #[must_use]
    pub fn is_behind(&self, name: &NodeName) -> bool {
        self.actors.get(name).is_some_and(|a| a.node.is_some() && a.rewinds < self.past.count)
    }

    /// Whether tokens get a new generation once this node joins a registry with this data.
    fn begins_anew(&self, actor: &SimNode, store: &Store) -> bool {
        let (engine, now, seen) = (self.past.engine, Wall(START.0 + self.at), actor.seen.as_ref());
        let found = |cluster: ClusterRecord| found(&cluster, seen, engine, stands(store, seen), now);
        cluster(store).and_then(found).is_some_and(|new| new.generation_on(engine) > self.past.begun)
    }

    /// Whether a starting process finds a rewound registry that no member has joined since. Then it waits for the term
    /// of a lease: by then every earlier member has noticed. A node without a bookmark joins after one that has it.
    pub(super) fn finds_another_generation(&mut self, name: &NodeName) -> bool {
        if self.past.founded == self.past.count {
            return false;
        }
        let can_tell = self.actors.get(name).is_some_and(|actor| self.begins_anew(actor, &self.store));
        let Some(actor) = self.actors.get_mut(name) else { return false };
        actor.wanted = !can_tell;
        if !can_tell || actor.waits.is_some_and(|waits| waits.rewinds == self.past.count) {
            return true;
        }
        let wait = if self.options.mutation.waits_for_others() { actor.settings.ttl.0 } else { 0 };
        // Before any write: other nodes' writes may carry the registry past the bookmark.
        let stands = stands(&self.store, actor.seen.as_ref());
        actor.waits = Some(RewindWait { rewinds: self.past.count, stands, until: self.at + wait });
        let life = actor.life;
        self.after(wait, WorldEvent::Waited { node: name.clone(), life });
        true
    }

    /// Ends the wait: records the loss window, unless another node has, and takes part.
    pub(super) fn waited(&mut self, name: &NodeName, life: u64) {
        let waits = self.actors.get(name).filter(|actor| actor.life == life).and_then(|actor| actor.waits);
        // After another rewind meanwhile, another wait may have begun.
        let Some(waits) = waits.filter(|waits| waits.until <= self.at) else { return };
        if self.is_ending(name) {
            return self.after(AGAIN, WorldEvent::Waited { node: name.clone(), life });
        }
        if waits.rewinds != self.past.count {
            return self.start(name);
        }
        if self.past.founded != self.past.count {
            self.found_again(name, waits.stands);
        }
        if let Some(actor) = self.actors.get_mut(name) {
            actor.waits = None;
        }
        self.start(name);
        let wanted = self.actors.iter().filter(|(_, actor)| actor.wanted).map(|(name, _)| name.clone());
        for name in wanted.collect::<Vec<_>>() {
            if !self.is_ending(&name) {
                self.start(&name);
            }
        }
    }

    fn found_again(&mut self, name: &NodeName, stands: RegistryPosition) {
        let (engine, now) = (self.past.engine, Wall(START.0 + self.at));
        let (Some(old), Some(actor)) = (cluster(&self.store), self.actors.get(name)) else { return };
        let mut seen = actor.seen.clone();
        self.options.mutation.seen(&mut seen);
        let mut new = found(&old, seen.as_ref(), engine, stands, now).unwrap_or(old);
        if !self.options.mutation.records_loss_window() {
            new.lost = None;
        }
        self.past.founded = self.past.count;
        self.past.begun = new.generation_on(engine);
        let writes = vec![Write::Put { key: keys::cluster(), value: encode(&new), owner: None }];
        self.store.commit(Mono(self.at), &Txn { guards: Vec::new(), writes });
        self.checker.generation_found(now, self.past.begun);
        self.registry_moved(None);
    }

    /// Starts a process in the registry's generation, which its data folder remembers.
    pub(super) fn join_generation(&mut self, name: &NodeName) {
        let RewindCounts { count, engine, begun, .. } = self.past;
        let cluster = cluster(&self.store);
        let Some(actor) = self.actors.get_mut(name) else { return };
        let mut seen = actor.seen.clone();
        self.options.mutation.seen(&mut seen);
        let behind = |(seen, cluster): (RegistryBookmark, ClusterRecord)| {
            cluster.is_behind(&seen, engine, stands(&self.store, Some(&seen)))
        };
        self.checker.joins(self.at, name, seen.zip(cluster).is_some_and(behind));
        (actor.rewinds, actor.settings.generation, actor.wanted) = (count, begun, false);
        let same = actor.seen.take().filter(|seen| (seen.engine, seen.generation) == (engine, begun));
        let fresh = RegistryBookmark { engine, generation: begun, revision: Revision(0), entry: None };
        actor.seen = Some(same.unwrap_or(fresh));
    }
}

fn cluster(store: &Store) -> Option<ClusterRecord> {
    store.entry(&keys::cluster()).and_then(|entry| decode(&entry.value))
}
