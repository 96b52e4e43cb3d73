//! The suite on a PostgreSQL server.

use evenkeel_core::time::Millis;
use evenkeel_registry::conformance;
use evenkeel_registry::conformance::{ServerEngine, ServerTiming};

const REAL: ServerTiming =
    ServerTiming { ttl: Millis::secs(3), late: Millis(200), shared: false, remembers: Some(80_000) };

conformance!(server: |_| ServerEngine::find("POSTGRES", REAL));
