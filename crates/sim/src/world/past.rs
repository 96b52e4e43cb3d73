//! A registry that goes back in time: a backup is put back, or a replica takes over that had not heard everything.
//!
//! Whoever talks to it is of an earlier generation then and is refused, notices sooner or later, and starts again; what was
//! physically done since is done all the same. Sometimes it is put back as it was while nobody is there, and does not know
//! of it itself: then the first to join is one who remembers more than it does.

use evenkeel_core::keys::{self, Key};
use evenkeel_core::record::{ClusterRecord, Seen, Stands, decode, encode};
use evenkeel_core::registry::{Revision, Txn, Write};
use evenkeel_core::store::Store;
use evenkeel_core::time::{Mono, Wall};
use evenkeel_core::words::NodeName;

use super::actor::Waits;
use super::clock::START;
use super::{Actor, Event, World};
use crate::invariants::{Verdicts, Watch};

/// How soon a process that cannot have its data folder yet tries again, in milliseconds.
const AGAIN: i64 = 100;

/// What a registry was once, with what the watch knew of it.
pub struct Past {
    store: Store,
    watch: Watch,
    verdicts: Verdicts,
}

/// How often the registry went back, and what came of it.
pub(super) struct Lapses {
    /// How often it did.
    count: u32,
    /// How often it had when somebody joined last.
    founded: u32,
    /// Its own generation.
    engine: u16,
    /// The newest generation that tokens carry.
    begun: u16,
}

impl Default for Lapses {
    fn default() -> Self {
        Self { count: 0, founded: 0, engine: 1, begun: 1 }
    }
}

impl Lapses {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn engine(&self) -> u16 {
        self.engine
    }
}

/// How far it is, also with what somebody remembers of it.
fn stands(store: &Store, seen: Option<&Seen>) -> Stands {
    let remembered = seen.and_then(|seen| seen.entry.as_ref());
    let entry = remembered.and_then(|(key, _)| store.entry(&Key::from_stored(key)));
    Stands { revision: store.revision(), entry: entry.map(|entry| entry.revision) }
}

/// What becomes of the cluster's entry when somebody who remembers this finds the registry so; `None` where it stays.
fn found(
    cluster: &ClusterRecord,
    seen: Option<&Seen>,
    engine: u16,
    stands: Stands,
    now: Wall,
) -> Option<ClusterRecord> {
    match seen.filter(|seen| cluster.is_behind(seen, engine, stands)) {
        Some(seen) => Some(cluster.gone_back(seen, engine, now)),
        None => cluster.found_on(engine, now),
    }
}

impl World {
    /// What the registry is now.
    #[must_use]
    pub fn keep(&self) -> Past {
        let verdicts = self.history.verdicts().clone();
        Past { store: self.store.clone(), watch: self.watch.clone(), verdicts }
    }

    /// Lets the registry be what it was; unless it `counts_on`, it gives the numbers of leases and revisions once more. History keeps
    /// what it was told since; the watch asks after none of that.
    pub fn go_back(&mut self, then: Past, counts_on: bool) {
        self.past.engine += 1;
        self.trace.note(self.at, "", &(self.past.engine, counts_on), || {
            "the registry goes back in time".to_owned()
        });
        self.lapse(then, counts_on);
    }

    /// The same in a way that the registry itself cannot tell. Only while no process is up, and if a node remembers more than
    /// the registry will hold when all leases have ended; returns whether.
    pub fn go_back_untold(&mut self, then: Past) -> bool {
        let mut store = then.store.clone();
        store.sweep(Mono(i64::MAX));
        let can_tell = |actor: &Actor| self.begins_anew(actor, &store);
        if self.actors.values().any(|actor| actor.node.is_some()) || !self.actors.values().any(can_tell) {
            return false;
        }
        self.trace.note(self.at, "", &self.past.engine, || "the registry is put back as it was".to_owned());
        self.lapse(then, false);
        true
    }

    fn lapse(&mut self, then: Past, counts_on: bool) {
        self.past.count += 1;
        self.store.go_back(then.store, counts_on);
        self.told = self.store.revision();
        self.history.go_back(&then.verdicts);
        self.watch.go_back(self.at, then.watch, &self.store);
    }

    /// Whether a node's process talks to the registry as it was before it went back.
    #[must_use]
    pub fn is_behind(&self, name: &NodeName) -> bool {
        self.actors.get(name).is_some_and(|a| a.node.is_some() && a.lapses < self.past.count)
    }

    /// Whether tokens have a generation that they never had, once this node joins a registry that holds this.
    fn begins_anew(&self, actor: &Actor, store: &Store) -> bool {
        let (engine, now, seen) = (self.past.engine, Wall(START.0 + self.at), actor.seen.as_ref());
        let found = |cluster: ClusterRecord| found(&cluster, seen, engine, stands(store, seen), now);
        cluster(store).and_then(found).is_some_and(|new| new.generation_on(engine) > self.past.begun)
    }

    /// Whether a process that starts finds a registry that went back and that nobody has joined since. Then it waits for as long as
    /// a lease lasts: by then everybody who was there before has noticed. Whoever cannot tell joins after somebody who can.
    pub(super) fn finds_another_generation(&mut self, name: &NodeName) -> bool {
        if self.past.founded == self.past.count {
            return false;
        }
        let can_tell = self.actors.get(name).is_some_and(|actor| self.begins_anew(actor, &self.store));
        let Some(actor) = self.actors.get_mut(name) else { return false };
        actor.wanted = !can_tell;
        if !can_tell || actor.waits.is_some_and(|waits| waits.lapses == self.past.count) {
            return true;
        }
        let wait = if self.options.tamper.waits_for_others() { actor.settings.ttl.0 } else { 0 };
        // As it is before anything is written: what others write may carry it past what was seen.
        let stands = stands(&self.store, actor.seen.as_ref());
        actor.waits = Some(Waits { lapses: self.past.count, stands, until: self.at + wait });
        let life = actor.life;
        self.after(wait, Event::Waited { node: name.clone(), life });
        true
    }

    /// It has waited, writes down what is lost unless somebody was faster, and takes part.
    pub(super) fn waited(&mut self, name: &NodeName, life: u64) {
        let waits = self.actors.get(name).filter(|actor| actor.life == life).and_then(|actor| actor.waits);
        // Where it went back again meanwhile, another wait may have begun.
        let Some(waits) = waits.filter(|waits| waits.until <= self.at) else { return };
        if self.is_ending(name) {
            return self.after(AGAIN, Event::Waited { node: name.clone(), life });
        }
        if waits.lapses != self.past.count {
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

    fn found_again(&mut self, name: &NodeName, stands: Stands) {
        let (engine, now) = (self.past.engine, Wall(START.0 + self.at));
        let (Some(old), Some(actor)) = (cluster(&self.store), self.actors.get(name)) else { return };
        let mut seen = actor.seen.clone();
        self.options.tamper.seen(&mut seen);
        let mut new = found(&old, seen.as_ref(), engine, stands, now).unwrap_or(old);
        if !self.options.tamper.notes_what_is_lost() {
            new.lost = None;
        }
        self.past.founded = self.past.count;
        self.past.begun = new.generation_on(engine);
        let writes = vec![Write::Put { key: keys::cluster(), value: encode(&new), owner: None }];
        self.store.commit(Mono(self.at), &Txn { guards: Vec::new(), writes });
        self.watch.found_again(now, self.past.begun);
        self.registry_moved(None);
    }

    /// A process begins in the generation that its registry has, and its data folder remembers that.
    pub(super) fn join_generation(&mut self, name: &NodeName) {
        let Lapses { count, engine, begun, .. } = self.past;
        let cluster = cluster(&self.store);
        let Some(actor) = self.actors.get_mut(name) else { return };
        let mut seen = actor.seen.clone();
        self.options.tamper.seen(&mut seen);
        let behind = |(seen, cluster): (Seen, ClusterRecord)| {
            cluster.is_behind(&seen, engine, stands(&self.store, Some(&seen)))
        };
        self.watch.joins(self.at, name, seen.zip(cluster).is_some_and(behind));
        (actor.lapses, actor.settings.generation, actor.wanted) = (count, begun, false);
        let same = actor.seen.take().filter(|seen| (seen.engine, seen.generation) == (engine, begun));
        let fresh = Seen { engine, generation: begun, revision: Revision(0), entry: None };
        actor.seen = Some(same.unwrap_or(fresh));
    }
}

fn cluster(store: &Store) -> Option<ClusterRecord> {
    store.entry(&keys::cluster()).and_then(|entry| decode(&entry.value))
}
