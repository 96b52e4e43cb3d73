//! The suite on the Redis engine.

use evenkeel_core::time::Millis;
use evenkeel_registry::conformance;
use evenkeel_registry::conformance::{ServerEngine, ServerTiming};

const REAL: ServerTiming =
    ServerTiming { ttl: Millis::secs(2), late: Millis::secs(1), shared: false, remembers: Some(70_000) };

conformance!(server: |_| ServerEngine::find("REDIS", REAL));
