//! Faults in the handoff to the program that replaces a node's.

use evenkeel_core::handoff::NodeHandoff;
use evenkeel_core::time::Now;

use crate::mutation::Mutation;

/// Hands off the identity of the node, and not its runs.
pub(super) struct DropsHandoffRuns;

impl Mutation for DropsHandoffRuns {
    fn handoff(&self, _now: Now, baton: &mut NodeHandoff) {
        baton.given.clear();
    }
}

/// Counts the lease from the handoff, and not from the request.
pub(super) struct CountsLeaseFromHandoff;

impl Mutation for CountsLeaseFromHandoff {
    fn handoff(&self, now: Now, baton: &mut NodeHandoff) {
        baton.lease.confirmed = now.mono.0;
    }
}
