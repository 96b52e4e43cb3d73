//! HTTP between nodes: probes and offers go from node to node, without the registry.
//!
//! Each call takes time in both directions, may be lost in either, may arrive twice, and is given up by the caller
//! after its time limit, by the caller's own clock. A given-up call may still arrive. A pair of nodes may be cut in one
//! direction or both, whatever else each of them can reach.

use evenkeel_core::ids::{Member, NodeName};
use evenkeel_core::input::{Answer, Command, CommandId, Input, Offer, OfferAnswer, ProbeReply};
use evenkeel_core::load::HostLoad;
use evenkeel_core::time::Millis;

use super::peer_network::SimCall;
use super::{SimWorld, WorldEvent};
use crate::faults::SimFault;

/// The time limit of a probe.
const PROBE: Millis = Millis::secs(2);
/// The time limit of an offer.
const OFFER: Millis = Millis::secs(5);
/// The longest transit of a slow message between nodes, in milliseconds.
const SLOW: i64 = 7_000;

impl SimWorld {
    /// Cuts one node off from another; the other direction is another pair.
    pub fn cut(&mut self, from: &NodeName, to: &NodeName) {
        self.trace.note(self.at, from.as_str(), to, || format!("is cut from {to}"));
        self.peers.cut.insert((from.clone(), to.clone()));
    }

    /// Repairs the link from one node to another.
    pub fn mend(&mut self, from: &NodeName, to: &NodeName) {
        self.trace.note(self.at, from.as_str(), to, || format!("reaches {to} again"));
        self.peers.cut.remove(&(from.clone(), to.clone()));
    }

    /// Repairs every pair.
    pub fn mend_all(&mut self) {
        for (from, to) in std::mem::take(&mut self.peers.cut) {
            self.mend(&from, &to);
        }
    }

    /// Whether messages from one node to another are lost.
    #[must_use]
    pub fn is_cut(&self, from: &NodeName, to: &NodeName) -> bool {
        self.peers.cut.contains(&(from.clone(), to.clone()))
    }

    /// Sets the measured load of a node's host.
    pub fn sample(&mut self, name: &NodeName, sample: HostLoad) {
        self.give(name, Input::Sampled(sample));
    }

    /// Calls another node: to offer runs, or only to probe it.
    pub(super) fn call(&mut self, name: &NodeName, to: Member, offers: Option<Vec<Offer>>) {
        let Some(actor) = self.actors.get(name) else { return };
        let asked = actor.clock.read(self.at).mono;
        let patience = if offers.is_some() { OFFER } else { PROBE };
        let until = actor.clock.when(asked + patience);
        let call = SimCall { from: name.clone(), life: actor.life, to, asked, offers };
        self.peers.number += 1;
        let number = self.peers.number;
        self.at_moment(until, WorldEvent::GiveUp(number));
        let times = if self.peer_strikes(SimFault::PeerDoubled) { 2 } else { 1 };
        for _ in 0..times {
            if !self.peer_strikes(SimFault::PeerLost) {
                let delay = self.peer_way();
                self.after(delay, WorldEvent::Knock(number, Box::new(call.clone())));
            }
        }
        self.peers.open.insert(number, call);
    }

    /// Delivers a call to its node's host. A stopped process handles it when it is resumed.
    pub(super) fn deliver_call(&mut self, number: u64, call: SimCall) {
        if self.is_cut(&call.from, &call.to.node) {
            return;
        }
        let Some(actor) = self.actors.get_mut(&call.to.node) else { return };
        if actor.paused {
            actor.callers.push_back((number, call));
            return;
        }
        let now = actor.clock.read(self.at).mono - Millis(actor.slept);
        let Some(node) = actor.node.as_ref().filter(|node| node.member().as_ref() == Some(&call.to)) else {
            return self.reply(number, call, None, OfferAnswer::Unreachable);
        };
        let Some(offers) = call.offers.clone() else {
            let role = node.role(now);
            return self.reply(number, call, Some(role), OfferAnswer::Unreachable);
        };
        self.next_ask += 1;
        let ask = CommandId(self.next_ask);
        let to = call.to.node.clone();
        self.peers.asks.insert(ask, (number, call));
        self.give(&to, Input::Asked(ask, Command::Offer(offers)));
    }

    /// Delivers the calls to a process that was stopped.
    pub(super) fn let_in(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        for (number, call) in std::mem::take(&mut actor.callers) {
            self.deliver_call(number, call);
        }
    }

    /// Handles a node's answer to a command; if another node sent that, the answer travels back.
    pub(super) fn answer_call(&mut self, ask: CommandId, answer: &Answer) {
        let Some((number, call)) = self.peers.asks.remove(&ask) else { return };
        let offered = call.offers.as_ref().map_or(0, Vec::len);
        if let (Answer::Busy(busy), Some(actor)) = (answer, self.actors.get(&call.to.node)) {
            let now = actor.clock.read(self.at).mono - Millis(actor.slept);
            let trusted = actor.node.as_ref().is_some_and(|node| node.trusted_until(now).is_some());
            self.checker.offered(self.at, &call.to.node, trusted, offered - busy.len().min(offered));
        }
        let answer = match answer {
            Answer::Busy(busy) => OfferAnswer::Taken { busy: busy.clone() },
            _ => OfferAnswer::Unreachable,
        };
        self.reply(number, call, None, answer);
    }

    fn reply(&mut self, number: u64, call: SimCall, role: Option<ProbeReply>, answer: OfferAnswer) {
        if self.peer_strikes(SimFault::PeerLost) {
            return;
        }
        let delay = self.peer_way();
        let event = WorldEvent::Reply {
            number,
            by: call.to.node.clone(),
            input: Box::new(call.result(role, answer)),
        };
        self.after(delay, event);
    }

    /// Delivers an answer, unless the caller has given up.
    pub(super) fn replied(&mut self, number: u64, by: &NodeName, input: Input) {
        let Some(call) = self.peers.open.get(&number) else { return };
        if self.is_cut(by, &call.from) {
            return;
        }
        let (from, life) = (call.from.clone(), call.life);
        self.peers.open.remove(&number);
        self.happen(WorldEvent::Give { node: from, life, input });
    }

    /// Ends the wait of a caller.
    pub(super) fn give_up(&mut self, number: u64) {
        let Some(call) = self.peers.open.remove(&number) else { return };
        let (node, life) = (call.from.clone(), call.life);
        let input = call.result(None, OfferAnswer::Unreachable);
        self.happen(WorldEvent::Give { node, life, input });
    }

    fn peer_strikes(&mut self, fault: SimFault) -> bool {
        let struck = self.peers.chance.chance(self.weather.rate(fault));
        if struck {
            self.tally.count(fault);
        }
        struck
    }

    fn peer_way(&mut self) -> i64 {
        let most = if self.peer_strikes(SimFault::PeerSlow) { SLOW } else { self.weather.delay };
        self.peers.chance.between(0, most)
    }
}
