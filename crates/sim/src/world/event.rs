//! The events of a world.

use evenkeel_core::effect::{Run, Verdict};
use evenkeel_core::ids::{NodeName, RunId};
use evenkeel_core::input::{Input, RunOutcome};

use super::peer_network::SimCall;
use super::request::SimRequest;

/// An event to come.
#[derive(Clone, Debug)]
pub(super) enum WorldEvent {
    Wake {
        node: NodeName,
        life: u64,
        number: u64,
    },
    Give {
        node: NodeName,
        life: u64,
        input: Input,
    },
    /// A node handles inputs that came together in one step.
    GiveAll {
        node: NodeName,
    },
    Arrive {
        node: NodeName,
        request: SimRequest,
    },
    Start {
        node: NodeName,
        life: u64,
        run: Box<Run>,
    },
    End {
        node: NodeName,
        run: RunId,
        attempt: u32,
        number: u64,
        ended: RunOutcome,
    },
    Guard {
        node: NodeName,
    },
    /// A request of a guard whose node's process has died arrives at the registry.
    GuardRequest {
        node: NodeName,
    },
    Record {
        node: NodeName,
        life: u64,
        verdict: Box<Verdict>,
    },
    /// A call arrives at another node.
    Knock(u64, Box<SimCall>),
    /// The answer of a call arrives.
    Reply {
        number: u64,
        by: NodeName,
        input: Box<Input>,
    },
    /// The caller has stopped waiting.
    GiveUp(u64),
    /// A node has waited for those that may not have noticed the rewind of the registry.
    Waited {
        node: NodeName,
        life: u64,
    },
    Sweep,
}
