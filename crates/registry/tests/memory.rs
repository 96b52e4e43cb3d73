//! The suite on the memory engine.

use std::sync::Arc;

use evenkeel_registry::conformance::Engine;
use evenkeel_registry::memory::Memory;
use evenkeel_registry::{BoxFuture, Registry, RegistryError, conformance};

struct MemoryEngine(Arc<Memory>);

impl Engine for MemoryEngine {
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
        Box::pin(async { Ok(self.0.clone() as Arc<dyn Registry>) })
    }

    fn url(&self) -> String {
        "memory:".into()
    }
}

conformance!(|clock| MemoryEngine(Arc::new(Memory::new(clock))));
