//! The suite on the etcd engine.
#![cfg(feature = "etcd")]

use evenkeel_core::time::Millis;
use evenkeel_registry::conformance;
use evenkeel_registry::conformance::{Real, Server};

/// Little more than the least that etcd grants with its default timings, for a machine that stands still for a moment. It looks
/// for leases that are over twice a second.
const REAL: Real = Real { ttl: Millis::secs(3), late: Millis(1_500), shared: true, remembers: Some(100_000) };

conformance!(server: |_| Server::find("ETCD", REAL));
