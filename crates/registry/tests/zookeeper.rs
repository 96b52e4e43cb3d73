//! The suite on the ZooKeeper engine.

use evenkeel_core::time::Millis;
use evenkeel_registry::conformance;
use evenkeel_registry::conformance::{Real, Server};

const REAL: Real = Real { ttl: Millis::secs(3), late: Millis::secs(1), shared: true, remembers: None };

conformance!(server: |_| Server::find("ZOOKEEPER", REAL));
