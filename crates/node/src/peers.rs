//! How a node reaches others: whoever opens it brings the means, and without them nobody can be reached.
//!
//! Nothing depends on it but speed: a planned run that no offer told of is found in the registry.

use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

use evenkeel_core::input::{Offer, OfferAnswer, Role};
use evenkeel_core::words::Member;

/// From whom to whom, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
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
pub type Reply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How a node reaches others. It must be the very life that is asked who answers, and nobody else may be able to answer in
/// its place.
pub trait Peers: Debug + Send + Sync {
    /// Asks a node whether it is there, and who it is; `None` when it could not be reached.
    fn probe(&self, call: Call) -> Reply<Option<Role>>;

    /// Offers runs to a node.
    fn offer(&self, call: Call, runs: Vec<Offer>) -> Reply<OfferAnswer>;
}

/// The means of somebody who has none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nobody;

impl Peers for Nobody {
    fn probe(&self, _: Call) -> Reply<Option<Role>> {
        Box::pin(ready(None))
    }

    fn offer(&self, _: Call, _: Vec<Offer>) -> Reply<OfferAnswer> {
        Box::pin(ready(OfferAnswer::Unreachable))
    }
}
