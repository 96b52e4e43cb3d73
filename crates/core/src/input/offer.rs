//! What nodes offer and answer each other.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::RunId;

/// One run that another node offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// The run.
    pub run: RunId,
    /// Whether it must be taken, since all other nodes are busy too.
    pub must: bool,
}

/// The reply to an offer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OfferAnswer {
    /// All runs were taken but these, for which there is no slot.
    Taken {
        /// The runs not taken.
        busy: Vec<RunId>,
    },
    /// The node could not be reached; it may or may not have received the offer.
    Unreachable,
}

/// The reply of a node to a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProbeReply {
    /// The epoch under which the node serves as the leader; `None` when it does not serve.
    pub serves: Option<u64>,
}
