//! Faults in how many runs of a pool go on at once.

use evenkeel_core::input::Input;
use evenkeel_core::keys::{Parsed, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{PoolRecord, decode, encode};
use evenkeel_core::time::Now;

use super::commits::declarations;
use super::shares::heard;
use crate::tamper::Tamper;

/// Starts runs without a seat.
pub(super) struct TakesNoSeat;

impl Tamper for TakesNoSeat {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| job.pool = None);
    }
}

/// Sees no seats but its own.
pub(super) struct SeesOwnSeats;

impl Tamper for SeesOwnSeats {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        let me = node.member();
        for entry in heard(input).iter_mut().filter(|c| matches!(parse(&c.key), Some(Parsed::Pool(_)))) {
            if let Some(entry) = &mut entry.entry
                && let Some(mut pool) = decode::<PoolRecord>(&entry.value)
            {
                pool.seats.retain(|seat| Some(&seat.by) == me.as_ref());
                entry.value = encode(&pool);
            }
        }
    }
}
