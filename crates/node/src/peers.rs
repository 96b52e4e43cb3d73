//! How a node reaches other nodes: the program that opens it provides the connection, and without it no node is
//! reached.
//!
//! Only speed depends on it: a planned run without an offer is found in the registry.

use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

use evenkeel_core::ids::Member;
use evenkeel_core::input::{Offer, OfferAnswer, ProbeReply};

/// A call from one member to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCall {
    /// The calling member.
    pub from: Member,
    /// The called member: this life of it and no other.
    pub to: Member,
    /// Its address.
    pub address: String,
    /// How long to wait for the answer.
    pub patience: Duration,
}

/// The answer to a call, as a future.
pub type PeerReply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Calls other nodes. The implementation must ensure that the very life that is called answers, and that nothing else
/// can answer in its place.
pub trait PeerRpc: Debug + Send + Sync {
    /// Asks a node whether it is there, and who it is; `None` when it could not be reached.
    fn probe(&self, call: PeerCall) -> PeerReply<Option<ProbeReply>>;

    /// Offers runs to a node.
    fn offer(&self, call: PeerCall, runs: Vec<Offer>) -> PeerReply<OfferAnswer>;
}

/// The implementation without a connection: no node is reached.
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
