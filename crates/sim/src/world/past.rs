//! A registry that goes back in time: a backup is put back, or a replica takes over that had not heard everything.
//!
//! Whoever talks to it is of an earlier generation then and is refused, notices sooner or later, and starts again; what was
//! physically done since is done all the same.

use evenkeel_core::keys;
use evenkeel_core::record::{ClusterRecord, decode, encode};
use evenkeel_core::registry::{Txn, Write};
use evenkeel_core::store::Store;
use evenkeel_core::time::{Mono, Wall};
use evenkeel_core::words::NodeName;

use super::clock::START;
use super::{Event, World};
use crate::invariants::{Verdicts, Watch};

/// How soon a process that cannot have its data folder yet tries again, in milliseconds.
const AGAIN: i64 = 100;

/// What a registry was once, with what the watch knew of it.
pub struct Past {
    store: Store,
    watch: Watch,
    verdicts: Verdicts,
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
        self.generation += 1;
        self.trace
            .note(self.at, "", &(self.generation, counts_on), || "the registry goes back in time".to_owned());
        self.store.go_back(then.store, counts_on);
        self.told = self.store.revision();
        self.history.go_back(&then.verdicts);
        self.watch.go_back(self.at, then.watch, &self.store);
    }

    /// Whether a node's process talks to the registry as it was before it went back.
    #[must_use]
    pub fn is_behind(&self, name: &NodeName) -> bool {
        self.actors.get(name).is_some_and(|a| a.node.is_some() && a.settings.generation < self.generation)
    }

    /// Whether a process that starts finds a generation that nobody has joined yet. Then it waits for as long as a lease lasts:
    /// by then everybody of the earlier one has noticed.
    pub(super) fn finds_another_generation(&mut self, name: &NodeName) -> bool {
        let Some(actor) = self.actors.get_mut(name) else { return false };
        if self.founded == self.generation || actor.waits == Some(self.generation) {
            return self.founded != self.generation;
        }
        actor.waits = Some(self.generation);
        let life = actor.life;
        let wait = if self.options.tamper.waits_for_others() { actor.settings.ttl.0 } else { 0 };
        self.after(wait, Event::Waited { node: name.clone(), life });
        true
    }

    /// It has waited, writes down what is lost unless somebody was faster, and takes part.
    pub(super) fn waited(&mut self, name: &NodeName, life: u64) {
        let waits = self.actors.get(name).filter(|a| a.life == life).and_then(|a| a.waits);
        // Where it went back again, another wait has begun, or begins when somebody starts the process again.
        if waits != Some(self.generation) {
            return;
        }
        if self.is_ending(name) {
            return self.after(AGAIN, Event::Waited { node: name.clone(), life });
        }
        if self.founded != self.generation {
            self.found_again();
        }
        if let Some(actor) = self.actors.get_mut(name) {
            actor.waits = None;
        }
        self.start(name);
    }

    fn found_again(&mut self) {
        self.founded = self.generation;
        let now = Wall(START.0 + self.at);
        let record: Option<ClusterRecord> = self.entry(&keys::cluster()).and_then(|value| decode(&value));
        let Some(mut new) = record.and_then(|record| record.found_on(self.generation, now)) else { return };
        if !self.options.tamper.notes_what_is_lost() {
            new.lost = None;
        }
        let writes = vec![Write::Put { key: keys::cluster(), value: encode(&new), owner: None }];
        self.store.commit(Mono(self.at), &Txn { guards: Vec::new(), writes });
        self.watch.found_again(now);
        self.registry_moved(None);
    }
}
