//! The calls between nodes that are under way, and which pairs of nodes are cut.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::{Member, NodeName};
use evenkeel_core::input::{CommandId, Input, Offer, OfferAnswer, ProbeReply};
use evenkeel_core::time::Mono;

use crate::random::SimRandom;

/// One node's call to another.
#[derive(Clone, Debug)]
pub(crate) struct SimCall {
    pub from: NodeName,
    /// The caller's process.
    pub(super) life: u64,
    pub to: Member,
    /// The time of the call, by the caller's clock.
    pub(super) asked: Mono,
    /// The offered runs; `None` for a probe.
    pub offers: Option<Vec<Offer>>,
}

/// All pending calls, and the cut pairs.
#[derive(Clone, Debug)]
pub(super) struct PeerNetwork {
    pub(super) chance: SimRandom,
    pub(super) number: u64,
    /// The calls whose callers wait.
    pub(super) open: BTreeMap<u64, SimCall>,
    /// The call behind each command.
    pub(super) asks: BTreeMap<CommandId, (u64, SimCall)>,
    /// The pairs of which the first cannot reach the second.
    pub(super) cut: BTreeSet<(NodeName, NodeName)>,
}

impl PeerNetwork {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            chance: SimRandom::new(seed, "peers"),
            number: 0,
            open: BTreeMap::new(),
            asks: BTreeMap::new(),
            cut: BTreeSet::new(),
        }
    }
}

impl SimCall {
    /// The caller's input with the result.
    pub(super) fn result(self, role: Option<ProbeReply>, answer: OfferAnswer) -> Input {
        match self.offers {
            None => Input::Probed { member: self.to, asked: self.asked, answer: role },
            Some(offers) => {
                let runs = offers.into_iter().map(|offer| offer.run).collect();
                Input::Offered { to: self.to, runs, answer }
            }
        }
    }
}
