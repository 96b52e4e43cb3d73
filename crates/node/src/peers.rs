//! How a node reaches others: whoever opens it brings the means, and without them nobody can be reached.
//!
//! Nothing depends on it but speed: a planned run that no offer told of is found in the registry.

use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

use evenkeel_core::ids::Member;
use evenkeel_core::input::{Offer, OfferAnswer, ProbeReply};

/// From whom to whom, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCall {
    /// Who asks.
    pub from: Member,
    /// Who is asked: this life of it and no other.
    pub to: Member,
    /// Where it answers.
    pub address: String,
    /// How long to wait for the answer.
    pub patience: Duration,
}

/// An answer that comes in its own time.
pub type PeerReply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How a node reaches others. It must be the very life that is asked who answers, and nobody else may be able to answer in
/// its place.
pub trait PeerRpc: Debug + Send + Sync {
    /// Asks a node whether it is there, and who it is; `None` when it could not be reached.
    fn probe(&self, call: PeerCall) -> PeerReply<Option<ProbeReply>>;

    /// Offers runs to a node.
    fn offer(&self, call: PeerCall, runs: Vec<Offer>) -> PeerReply<OfferAnswer>;
}

/// The means of somebody who has none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoPeers;

impl PeerRpc for NoPeers {
    fn probe(&self, _: PeerCall) -> PeerReply<Option<ProbeReply>> {
        Box::pin(ready(None))
    }

    fn offer(&self, _: PeerCall, _: Vec<Offer>) -> PeerReply<OfferAnswer> {
        Box::pin(ready(OfferAnswer::Unreachable))
    }
}
