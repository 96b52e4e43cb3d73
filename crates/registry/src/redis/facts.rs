//! What the engine on Redis promises.

use evenkeel_core::registry::{DurabilityClass, EngineFacts, FeedKind};
use evenkeel_core::time::Millis;

use super::session::ANSWER;
use super::writer::TICK;

/// How far the registry's time advances at most when the server's clock is set forward, which is the most that a
/// lease may end early by.
pub(super) const TIME_STEP: Millis = Millis(500);

/// The facts that are the same for every server.
pub(super) const FACTS: EngineFacts = EngineFacts {
    engine: "redis",
    class: DurabilityClass::C,
    feed: FeedKind::Pushed,
    // A client without deadlines of its own acts at each tick, and waits for the answer.
    notice: Millis(TICK.0 + ANSWER.0),
    early: TIME_STEP,
    ttl_min: Millis::secs(2),
    value_max: 16 << 20,
    operations_max: 4096,
    bytes_max: 32 << 20,
    generation: 0,
};
