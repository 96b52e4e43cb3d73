//! The way to the registry and back: each message takes its time, and may be lost on either way.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Ticket};
use evenkeel_core::input::{Input, LeaseEvent};
use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Granted, LeaseId, Outcome, Txn};
use evenkeel_core::time::{Millis, Mono, Wall};
use evenkeel_core::words::{Member, NodeName};

use super::clock::START;
use super::{Event, Link, World};
use crate::faults::Fault;
use crate::invariants::Act;

/// How long a node waits for an answer before it takes the outcome for unknown, in milliseconds.
pub(crate) const TIMEOUT: i64 = 1_000;
/// The longest that a slow message is under way, in milliseconds.
const SLOW: i64 = 3_000;

/// What is asked of the registry.
#[derive(Clone, Debug)]
enum Verb {
    Open(Millis),
    Renew(LeaseId),
    Close(LeaseId),
    List,
    Read(Vec<Key>),
    Commit(Ticket, CommitKind, Txn),
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    life: u64,
    /// How often the registry had gone back when its sender began.
    lapses: u32,
    member: Option<Member>,
    /// When it was asked, by the asking node's clock.
    asked: Mono,
    /// From when on nobody waits for its answer.
    until: i64,
    verb: Verb,
}

impl World {
    /// Sends what an effect asks of the registry on its way.
    pub(super) fn send(&mut self, name: &NodeName, effect: Effect) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        let verb = match effect {
            Effect::Open { ttl } => Verb::Open(ttl),
            Effect::Renew(lease) => Verb::Renew(lease),
            Effect::Close(lease) => Verb::Close(lease),
            Effect::List => Verb::List,
            Effect::Read(keys) => Verb::Read(keys),
            Effect::Commit { ticket, kind, txn } => Verb::Commit(ticket, kind, txn),
            _ => return,
        };
        match &verb {
            Verb::Renew(_) => actor.remember(),
            Verb::Commit(ticket, _, txn) => actor.made.ask(*ticket, txn),
            _ => {}
        }
        let member = actor.node.as_ref().and_then(evenkeel_core::node::Node::member);
        let asked = actor.clock.read(self.at).mono;
        let (life, far, until) = (actor.life, actor.far, self.at + TIMEOUT + actor.far);
        let request = Request { life, lapses: actor.lapses, member, asked, until, verb };
        let delay = far + self.way();
        if self.strikes(Fault::RequestLost) {
            return self.fail(name, &request);
        }
        if self.at + delay > until {
            self.fail(name, &request);
        }
        self.after(delay, Event::Arrive { node: name.clone(), request });
    }

    /// Whether this fault strikes now.
    pub(super) fn strikes(&mut self, fault: Fault) -> bool {
        let struck = self.network.chance(self.weather.rate(fault));
        if struck {
            self.tally.count(fault);
        }
        struck
    }

    /// How long one way takes, in milliseconds.
    pub(super) fn way(&mut self) -> i64 {
        if self.strikes(Fault::Slow) {
            return self.network.between(self.weather.delay, SLOW);
        }
        self.network.between(0, self.weather.delay)
    }

    /// Nobody will answer: the node learns that when it has waited long enough.
    fn fail(&mut self, name: &NodeName, request: &Request) {
        let input = match &request.verb {
            Verb::Open(_) | Verb::Renew(_) => Input::Lease(LeaseEvent::Failed),
            Verb::Close(_) => return,
            Verb::List => Input::Listed(None),
            Verb::Read(_) => Input::Read(None),
            Verb::Commit(ticket, ..) => Input::Committed { ticket: *ticket, outcome: Outcome::Unknown },
        };
        self.at_moment(request.until, Event::Give { node: name.clone(), life: request.life, input });
    }

    /// A request reaches the registry, which carries it out at once.
    pub(super) fn arrive(&mut self, name: &NodeName, request: Request) {
        let Some(actor) = self.actors.get(name) else { return };
        // Whoever is of an earlier generation is refused without an answer to the question, and what was under way when the
        // registry was put back never arrives.
        let link = if request.lapses == self.past.count() { actor.link } else { Link::Down };
        let far = actor.far;
        // Whoever gave up waiting was told so already.
        let waits = self.at <= request.until;
        if link == Link::Down {
            if waits {
                self.fail(name, &request);
            }
            return;
        }
        let answer = self.serve(name, &request);
        if !waits {
            return;
        }
        let delay = far + self.way();
        let lost = self.strikes(Fault::ReplyLost) || link == Link::Half;
        match answer {
            Some(input) if !lost && self.at + delay <= request.until => {
                let event = Event::Give { node: name.clone(), life: request.life, input };
                self.after(delay, event);
            }
            _ => self.fail(name, &request),
        }
    }

    fn serve(&mut self, name: &NodeName, request: &Request) -> Option<Input> {
        let now = Mono(self.at);
        let asked = request.asked;
        let input = match &request.verb {
            Verb::Open(ttl) => {
                let lease = self.store.open(now, *ttl - Millis(self.options.early));
                Input::Lease(LeaseEvent::Opened { asked, granted: self.granted(lease, *ttl) })
            }
            Verb::Renew(lease) if self.store.renew(now, *lease) => {
                let ttl = self.actors.get(name)?.settings.ttl;
                Input::Lease(LeaseEvent::Renewed { asked, granted: self.granted(*lease, ttl) })
            }
            Verb::Renew(lease) => Input::Lease(LeaseEvent::Gone(*lease)),
            Verb::Close(lease) => {
                self.store.close(*lease);
                self.registry_moved(request.member.as_ref());
                return None;
            }
            Verb::List => Input::Listed(Some(self.store.list())),
            Verb::Read(keys) => Input::Read(Some(self.store.read(keys))),
            Verb::Commit(ticket, kind, txn) => {
                let outcome = self.apply(name, request, *ticket, *kind, txn);
                Input::Committed { ticket: *ticket, outcome }
            }
        };
        self.registry_moved(request.member.as_ref());
        Some(input)
    }

    fn granted(&self, lease: LeaseId, ttl: Millis) -> Granted {
        let next_end = self.store.next_end().map(|end| end - Mono(self.at));
        Granted { lease, ttl, clock: Some(Wall(START.0 + self.at)), next_end }
    }

    fn apply(
        &mut self,
        name: &NodeName,
        request: &Request,
        ticket: Ticket,
        kind: CommitKind,
        txn: &Txn,
    ) -> Outcome {
        let now = Mono(self.at);
        // Leases that are over end before the watch looks at what is there.
        self.store.sweep(now);
        self.registry_moved(None);
        let keys: Vec<Key> = txn.writes.iter().map(|write| write.key().clone()).collect();
        let before: Vec<Change> = self.store.read(&keys);
        // As engines do it: what is too large is refused like what guards on something that is not so.
        let size = txn.guards.len() + txn.writes.len();
        let most = self.actors.get(name).map_or(usize::MAX, |actor| actor.settings.operations_max);
        let outcome =
            if size > most { Outcome::Refused(self.store.found(txn)) } else { self.store.commit(now, txn) };
        let text = || format!("registry: #{} {kind} of {name} {}", ticket.0, told(&outcome));
        self.trace.note(self.at, "", &(ticket, kind), text);
        let act = Act {
            at: self.at,
            node: name,
            life: request.life,
            member: None,
            ticket,
            kind,
            txn,
            before: &before,
            applied: matches!(outcome, Outcome::Applied(_)),
        };
        self.watch.committed(&act, &self.store, self.history.verdicts());
        if act.applied && kind == CommitKind::Serve {
            self.watch.spans(self.at, name, &self.actors);
        }
        outcome
    }

    /// Tells the watch and the feeds what became of the registry. `closed_by` gave its own lease back, if anybody did.
    pub(super) fn registry_moved(&mut self, closed_by: Option<&Member>) {
        if self.store.revision() == self.told {
            return;
        }
        if let Some(batch) = self.store.changes_after(self.told) {
            for change in &batch.changes {
                self.watch.changed(self.at, change, closed_by, &self.actors);
            }
        }
        self.told = self.store.revision();
        self.publish();
    }
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied(revision) => format!("applied at {revision}"),
        Outcome::Refused(_) => "refused".to_owned(),
        Outcome::Unknown => "unknown".to_owned(),
    }
}
