//! The suite on the Redis engine.

use std::sync::Arc;

use evenkeel_registry::clock::HandClock;
use evenkeel_registry::conformance::Engine;
use evenkeel_registry::redis::Redis;
use evenkeel_registry::{BoxFuture, EngineUrl, Registry, RegistryError, conformance};

struct Ns(String);

impl Engine for Ns {
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
        Box::pin(async {
            let url = EngineUrl::parse(&format!("redis://127.0.0.1:16399/0/{}", self.0))?;
            Ok(Arc::new(Redis::connect(&url).await?) as Arc<dyn Registry>)
        })
    }
}

fn ns(_: Arc<HandClock>) -> Ns {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    Ns(format!("t{}", id.trim().replace('-', "")))
}

conformance!(|clock| ns(clock));
