//! Faults with the limits of pools.

use evenkeel_core::input::Input;
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{PermitsRecord, decode, encode};
use evenkeel_core::time::Now;

use super::commits::declarations;
use super::sharding::heard_changes;
use crate::mutation::Mutation;

/// Starts runs without a permit.
pub(super) struct SkipsPoolPermit;

impl Mutation for SkipsPoolPermit {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| job.pool = None);
    }
}

/// Counts no permits but its own.
pub(super) struct CountsOwnPermits;

impl Mutation for CountsOwnPermits {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        let me = node.member();
        for entry in
            heard_changes(input).iter_mut().filter(|c| matches!(parse(&c.key), Some(ParsedKey::Permits(_))))
        {
            if let Some(entry) = &mut entry.entry
                && let Some(mut pool) = decode::<PermitsRecord>(&entry.value)
            {
                pool.permits.retain(|permit| Some(&permit.by) == me.as_ref());
                entry.value = encode(&pool);
            }
        }
    }
}
