//! The link to the registry: each message takes time, and may be lost in either direction.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Ticket};
use evenkeel_core::ids::{Member, NodeName};
use evenkeel_core::input::{Input, LeaseEvent};
use evenkeel_core::keys::{Key, ParsedKey, parse};
use evenkeel_core::registry::{Change, LeaseGrant, LeaseId, Txn, TxnOutcome};
use evenkeel_core::time::{Millis, Mono, Wall};

use super::clock::START;
use super::request::{RegistryOperation, SimRequest, TIMEOUT};
use super::{RegistryLink, SimNode, SimWorld, WorldEvent};
use crate::faults::SimFault;
use crate::invariants::{CommittedTxn, MemberOnHost};

/// The longest transit of a slow message, in milliseconds.
const SLOW: i64 = 3_000;

impl SimWorld {
    /// Sends the request of an effect to the registry.
    pub(super) fn send(&mut self, name: &NodeName, effect: Effect) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        let verb = match effect {
            Effect::Open { ttl } => RegistryOperation::Open(ttl),
            Effect::Renew(lease) => RegistryOperation::Renew(lease),
            Effect::Close(lease) => RegistryOperation::Close(lease),
            Effect::List => RegistryOperation::List,
            Effect::Read(keys) => RegistryOperation::Read(keys),
            Effect::Commit { ticket, kind, txn } => RegistryOperation::Commit(ticket, kind, txn),
            _ => return,
        };
        match &verb {
            RegistryOperation::Renew(_) => actor.remember(),
            RegistryOperation::Commit(ticket, _, txn) => actor.made.ask(*ticket, txn),
            _ => {}
        }
        let member = actor.node.as_ref().and_then(evenkeel_core::node::Node::member);
        let asked = actor.clock.read(self.at).mono;
        let (life, far, until) = (actor.life, actor.far, self.at + TIMEOUT + actor.far);
        let request = SimRequest { life, rewinds: actor.rewinds, member, asked, until, operation: verb };
        let delay = far + self.way();
        if self.strikes(SimFault::RequestLost) {
            return self.fail(name, &request);
        }
        if self.at + delay > until {
            self.fail(name, &request);
        }
        self.after(delay, WorldEvent::Arrive { node: name.clone(), request });
    }

    /// Whether this fault occurs now.
    pub(super) fn strikes(&mut self, fault: SimFault) -> bool {
        let struck = self.network.chance(self.weather.rate(fault));
        if struck {
            self.tally.count(fault);
        }
        struck
    }

    /// The transit time in one direction, in milliseconds.
    pub(super) fn way(&mut self) -> i64 {
        if self.strikes(SimFault::Slow) {
            return self.network.between(self.weather.delay, SLOW);
        }
        self.network.between(0, self.weather.delay)
    }

    /// Fails a request without an answer: the node notices after its time limit.
    fn fail(&mut self, name: &NodeName, request: &SimRequest) {
        let input = match &request.operation {
            RegistryOperation::Open(_) | RegistryOperation::Renew(_) => Input::Lease(LeaseEvent::Failed),
            RegistryOperation::Close(_) => return,
            RegistryOperation::List => Input::Listed(None),
            RegistryOperation::Read(_) => Input::Read(None),
            RegistryOperation::Commit(ticket, ..) => {
                Input::Committed { ticket: *ticket, outcome: TxnOutcome::Unknown }
            }
        };
        self.at_moment(request.until, WorldEvent::Give { node: name.clone(), life: request.life, input });
    }

    /// Delivers a request to the registry, which executes it at once.
    pub(super) fn arrive(&mut self, name: &NodeName, request: SimRequest) {
        let Some(actor) = self.actors.get(name) else { return };
        // A sender of an earlier generation is refused without an answer, and requests sent before the registry was
        // restored never arrive.
        let link = if request.rewinds == self.past.count() { actor.link } else { RegistryLink::Down };
        let far = actor.far;
        // A sender that gave up waiting has its result already.
        let waits = self.at <= request.until;
        if link == RegistryLink::Down {
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
        let lost = self.strikes(SimFault::ReplyLost) || link == RegistryLink::Half;
        match answer {
            Some(input) if !lost && self.at + delay <= request.until => {
                let event = WorldEvent::Give { node: name.clone(), life: request.life, input };
                self.after(delay, event);
            }
            _ => self.fail(name, &request),
        }
    }

    fn serve(&mut self, name: &NodeName, request: &SimRequest) -> Option<Input> {
        let now = Mono(self.at);
        let asked = request.asked;
        let input = match &request.operation {
            RegistryOperation::Open(ttl) => {
                let lease = self.store.open(now, *ttl - Millis(self.options.early));
                Input::Lease(LeaseEvent::Opened { asked, granted: self.granted(lease, *ttl) })
            }
            RegistryOperation::Renew(lease) if self.store.renew(now, *lease) => {
                let ttl = self.actors.get(name)?.settings.ttl;
                Input::Lease(LeaseEvent::Renewed { asked, granted: self.granted(*lease, ttl) })
            }
            RegistryOperation::Renew(lease) => Input::Lease(LeaseEvent::Gone(*lease)),
            RegistryOperation::Close(lease) => {
                self.store.close(*lease);
                self.registry_moved(request.member.as_ref());
                return None;
            }
            RegistryOperation::List => Input::Listed(Some(self.store.list())),
            RegistryOperation::Read(keys) => Input::Read(Some(self.store.read(keys))),
            RegistryOperation::Commit(ticket, kind, txn) => {
                let outcome = self.apply(name, request, *ticket, *kind, txn);
                Input::Committed { ticket: *ticket, outcome }
            }
        };
        self.registry_moved(request.member.as_ref());
        Some(input)
    }

    fn granted(&self, lease: LeaseId, ttl: Millis) -> LeaseGrant {
        let next_end = self.store.next_end().map(|end| end - Mono(self.at));
        LeaseGrant { lease, ttl, clock: Some(Wall(START.0 + self.at)), next_end }
    }

    fn apply(
        &mut self,
        name: &NodeName,
        request: &SimRequest,
        ticket: Ticket,
        kind: CommitKind,
        txn: &Txn,
    ) -> TxnOutcome {
        let now = Mono(self.at);
        // Expired leases end before the checker reads the data.
        self.store.sweep(now);
        self.registry_moved(None);
        let keys: Vec<Key> = txn.writes.iter().map(|write| write.key().clone()).collect();
        let before: Vec<Change> = self.store.read(&keys);
        // As in the engines: a transaction that is too large is refused like one whose guard fails.
        let size = txn.guards.len() + txn.writes.len();
        let most = self.actors.get(name).map_or(usize::MAX, |actor| actor.settings.operations_max);
        let outcome = if size > most {
            TxnOutcome::Refused(self.store.found(txn))
        } else {
            self.store.commit(now, txn)
        };
        let text = || format!("registry: #{} {kind} of {name} {}", ticket.0, outcome_text(&outcome));
        self.trace.note(self.at, "", &(ticket, kind), text);
        let act = CommittedTxn {
            at: self.at,
            node: name,
            life: request.life,
            member: None,
            ticket,
            kind,
            txn,
            before: &before,
            applied: matches!(outcome, TxnOutcome::Applied(_)),
        };
        self.checker.committed(&act, &self.store, self.history.verdicts());
        if act.applied && kind == CommitKind::Serve {
            let others = self.nodes_that_serve_beside(name);
            self.checker.serving_begins(self.at, name, &others);
        }
        outcome
    }

    /// Passes the registry's changes to the checker and the feeds. `closed_by` is the member that closed its own lease.
    pub(super) fn registry_moved(&mut self, closed_by: Option<&Member>) {
        if self.store.revision() == self.told {
            return;
        }
        if let Some(batch) = self.store.changes_after(self.told) {
            for change in &batch.changes {
                let on_host = match parse(&change.key) {
                    Some(ParsedKey::Node(member)) if change.entry.is_none() => self.on_host(&member),
                    _ => None,
                };
                self.checker.changed(self.at, change, closed_by, on_host.as_ref());
            }
        }
        self.told = self.store.revision();
        self.publish();
    }

    /// The other nodes that believe to serve, without paused ones, which cannot know better.
    fn nodes_that_serve_beside(&self, name: &NodeName) -> Vec<NodeName> {
        let believes = |actor: &SimNode| {
            let now = actor.clock.read(self.at).mono - Millis(actor.slept);
            actor.node.as_ref().is_some_and(|node| node.role(now).serves.is_some())
        };
        let others = self.actors.iter().filter(|(other, _)| *other != name);
        let serving = others.filter(|(_, actor)| !actor.paused && believes(actor));
        serving.map(|(other, _)| other.clone()).collect()
    }

    /// What the host of a member knows of it.
    fn on_host(&self, member: &Member) -> Option<MemberOnHost> {
        let actor = self.actors.get(&member.node)?;
        let now = actor.clock.read(self.at);
        let trusts_lease = actor.node.as_ref().is_some_and(|node| {
            node.member().as_ref() == Some(member) && node.trusted_until(now.mono).is_some()
        });
        let run = actor.runs.iter().find(|(_, run)| run.member.as_ref() == Some(member));
        Some(MemberOnHost { trusts_lease, run: run.map(|(id, _)| id.clone()) })
    }
}

fn outcome_text(outcome: &TxnOutcome) -> String {
    match outcome {
        TxnOutcome::Applied(revision) => format!("applied at {revision}"),
        TxnOutcome::Refused(_) => "refused".to_owned(),
        TxnOutcome::Unknown => "unknown".to_owned(),
    }
}
