//! What the engine on SQLite promises.

use evenkeel_core::registry::{DurabilityClass, EngineFacts, FeedKind};
use evenkeel_core::time::Millis;

use super::poller;

/// The facts that are the same for every file.
pub(super) const FACTS: EngineFacts = EngineFacts {
    engine: "sqlite",
    class: DurabilityClass::A,
    feed: FeedKind::Polled(poller::PERIOD),
    notice: poller::PERIOD,
    early: Millis::ZERO,
    ttl_min: Millis(1_000),
    value_max: 16 << 20,
    operations_max: 4096,
    bytes_max: 32 << 20,
    generation: 0,
};
