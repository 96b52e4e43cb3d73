//! What a node passes on to the program that takes its place in the same process.
//!
//! Only what neither the registry nor the guard can tell: who the node is, until when it is trusted, and which runs it
//! gave to its executors. Everything else is listed anew.

use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::{JobName, Member, RunId};
use crate::input::RunOutcome;
use crate::job::Backoff;
use crate::local::Given;
use crate::time::{Millis, Mono, Wall};

/// The way this is written. A program reads no other one.
pub const HANDOFF_VERSION: u32 = 1;

/// A node that made nothing new since it was asked to rest, and of whose commits none is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHandoff {
    /// In which life; the incarnation is its lease's number.
    pub member: Member,
    /// What is known of its lease.
    pub lease: HandoffLease,
    /// The runs that were given to executors and whose ends the registry may not know.
    pub given: Vec<HandoffRun>,
    /// Jobs about which this life has written something that no listing tells: its own lanes, and its runs in plans.
    pub written: Vec<JobName>,
}

/// A lease as far as it was confirmed. Moments are in milliseconds since the host booted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffLease {
    /// The term that was granted.
    pub ttl: Millis,
    /// When the last confirmed request was asked: trust counts from there on.
    pub confirmed: i64,
    /// What the registry's clock showed, when it was asked, and when it had answered: whoever goes on must know by how
    /// much his own is off before he looks at a single fire.
    pub clock: Option<(Wall, i64, i64)>,
}

/// A run that was given to an executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRun {
    /// Which run.
    pub run: RunId,
    /// Which attempt.
    pub attempt: u32,
    /// How it ended, once it has, and when, in milliseconds since the host booted.
    pub ended: Option<(RunOutcome, i64)>,
    /// Whether its end was asked for.
    pub stopping: bool,
    /// Whether it is one of a sharded job's.
    pub sharded: bool,
    /// Whether and when another attempt follows it, as declared when it was given.
    pub retry: Option<Box<Backoff>>,
}

impl HandoffRun {
    pub(crate) fn of(given: &Given) -> Self {
        let Given { run, attempt, ended, stopping, sharded, retry } = given.clone();
        Self { run, attempt, ended: ended.map(|(ended, at)| (ended, at.0)), stopping, sharded, retry }
    }

    pub(crate) fn into_given(self) -> Given {
        let Self { run, attempt, ended, stopping, sharded, retry } = self;
        Given { run, attempt, ended: ended.map(|(ended, at)| (ended, Mono(at))), stopping, sharded, retry }
    }
}
