//! The suite on the ZooKeeper engine.

use evenkeel_core::time::Millis;
use evenkeel_registry::conformance;
use evenkeel_registry::conformance::{ServerEngine, ServerTiming};

const REAL: ServerTiming =
    ServerTiming { ttl: Millis::secs(3), late: Millis::secs(1), shared: true, remembers: None };

conformance!(server: |_| ServerEngine::find("ZOOKEEPER", REAL));
