//! The handoff: the state that a node passes to the program that takes its place in the same process.
//!
//! It has only what neither the registry nor the guard knows: the identity of the node, how long its lease is trusted,
//! and the runs it gave to its executors. Everything else is listed anew.

use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::{JobName, Member, RunId};
use crate::input::RunOutcome;
use crate::job::Backoff;
use crate::time::{Millis, Wall};

/// The version of this format. A program reads no other one.
pub const HANDOFF_VERSION: u32 = 1;

/// The state of a resting node: it makes nothing new, and none of its commits is in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHandoff {
    /// The life; the incarnation is its lease's number.
    pub member: Member,
    /// The lease as far as it is known.
    pub lease: HandoffLease,
    /// The runs that were given to executors and whose ends the registry may not have.
    pub given: Vec<HandoffRun>,
    /// Jobs for which this life has written entries that no listing shows: its own run states, and its runs in plans.
    pub written: Vec<JobName>,
}

/// A lease as far as it was confirmed. Moments are in milliseconds since the host booted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffLease {
    /// The term that was granted.
    pub ttl: Millis,
    /// When the last confirmed request was sent: trust counts from there on.
    pub confirmed: i64,
    /// What the registry's clock showed, when it was asked, and when it had answered: the next program must know how
    /// far its own clock is off before it looks at a single fire.
    pub clock: Option<(Wall, i64, i64)>,
}

/// A run that was given to an executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRun {
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: u32,
    /// Its outcome, once it has ended, and when, in milliseconds since the host booted.
    pub ended: Option<(RunOutcome, i64)>,
    /// Whether its end was asked for.
    pub stopping: bool,
    /// Whether it belongs to a sharded job.
    pub sharded: bool,
    /// Whether and when another attempt follows it, as declared when it was given.
    pub retry: Option<Box<Backoff>>,
}
