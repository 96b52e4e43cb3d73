//! Faults in what is passed on to the program that takes a node's place.

use evenkeel_core::baton::Baton;
use evenkeel_core::time::Now;

use crate::tamper::Tamper;

/// Passes on who the node is, and not what it runs.
pub(super) struct ForgetsGiven;

impl Tamper for ForgetsGiven {
    fn baton(&self, _now: Now, baton: &mut Baton) {
        baton.given.clear();
    }
}

/// Counts the lease from when it was passed on, and not from when it was asked for.
pub(super) struct TrustsAnew;

impl Tamper for TrustsAnew {
    fn baton(&self, now: Now, baton: &mut Baton) {
        baton.lease.confirmed = now.mono.0;
    }
}
