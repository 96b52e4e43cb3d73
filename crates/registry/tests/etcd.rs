//! The suite on the etcd engine.
#![cfg(feature = "etcd")]

use evenkeel_core::time::Millis;
use evenkeel_registry::conformance;
use evenkeel_registry::conformance::{ServerEngine, ServerTiming};

/// Little more than the least that etcd grants with its default timings, for a machine that stands still for a moment. It looks
/// for leases that are over twice a second.
const REAL: ServerTiming =
    ServerTiming { ttl: Millis::secs(3), late: Millis(1_500), shared: true, remembers: Some(100_000) };

conformance!(server: |_| ServerEngine::find("ETCD", REAL));
