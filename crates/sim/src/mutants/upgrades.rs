//! Faults in what is passed on to the program that takes a node's place.

use evenkeel_core::handoff::NodeHandoff;
use evenkeel_core::time::Now;

use crate::mutation::Mutation;

/// Passes on who the node is, and not what it runs.
pub(super) struct DropsHandoffRuns;

impl Mutation for DropsHandoffRuns {
    fn handoff(&self, _now: Now, baton: &mut NodeHandoff) {
        baton.given.clear();
    }
}

/// Counts the lease from when it was passed on, and not from when it was asked for.
pub(super) struct CountsLeaseFromHandoff;

impl Mutation for CountsLeaseFromHandoff {
    fn handoff(&self, now: Now, baton: &mut NodeHandoff) {
        baton.lease.confirmed = now.mono.0;
    }
}
