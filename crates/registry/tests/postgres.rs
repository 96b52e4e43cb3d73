//! The suite on a PostgreSQL server.

use evenkeel_core::time::Millis;
use evenkeel_registry::conformance;
use evenkeel_registry::conformance::{Real, Server};

const REAL: Real = Real { ttl: Millis::secs(3), late: Millis(200), shared: false, remembers: Some(80_000) };

conformance!(server: |_| Server::find("POSTGRES", REAL));
