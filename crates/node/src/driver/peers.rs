//! Requests to other nodes. Each runs beside the driver, and its result comes back as one input.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::ids::Member;
use evenkeel_core::input::{Input, Offer, OfferAnswer};
use tokio::time::timeout;

use super::inbox::{DriverEvent, EventSender};
use crate::clock;
use crate::peers::{PeerCall, PeerRpc};

/// How long the answer to a probe may take; after that the node counts as unreachable (S0-46).
const PROBE_PATIENCE: Duration = Duration::from_secs(2);
/// How long the answer to an offer may take.
const OFFER_PATIENCE: Duration = Duration::from_secs(5);

/// The connection to other nodes.
pub(super) struct DriverPeers(pub(super) Arc<dyn PeerRpc>);

impl DriverPeers {
    /// Probes a node. A node that is no member itself reaches no other.
    pub(super) fn probe(&self, from: Option<Member>, to: Member, address: String, sender: &EventSender) {
        let (peers, inputs) = (self.0.clone(), sender.registry.clone());
        let asked = clock::now().mono;
        tokio::spawn(async move {
            let answer = match from {
                Some(from) => {
                    let call = PeerCall { from, to: to.clone(), address, patience: PROBE_PATIENCE };
                    timeout(PROBE_PATIENCE, peers.probe(call)).await.unwrap_or_default()
                }
                None => None,
            };
            let input = Input::Probed { member: to, asked, answer };
            let _ = inputs.send(DriverEvent::Inputs(vec![input])).await;
        });
    }

    /// Offers runs to a node.
    pub(super) fn offer(
        &self,
        from: Option<Member>,
        to: Member,
        address: String,
        offers: Vec<Offer>,
        sender: &EventSender,
    ) {
        let (peers, inputs) = (self.0.clone(), sender.registry.clone());
        tokio::spawn(async move {
            let runs = offers.iter().map(|offer| offer.run.clone()).collect();
            let answer = match from {
                Some(from) => {
                    let call = PeerCall { from, to: to.clone(), address, patience: OFFER_PATIENCE };
                    let answer = timeout(OFFER_PATIENCE, peers.offer(call, offers)).await;
                    answer.unwrap_or(OfferAnswer::Unreachable)
                }
                None => OfferAnswer::Unreachable,
            };
            let _ = inputs.send(DriverEvent::Inputs(vec![Input::Offered { to, runs, answer }])).await;
        });
    }
}
