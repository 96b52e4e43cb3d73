//! The suite on the memory engine.

use std::sync::Arc;

use evenkeel_registry::conformance::Engine;
use evenkeel_registry::memory::Memory;
use evenkeel_registry::{BoxFuture, Registry, RegistryError, conformance};

struct Process(Arc<Memory>);

impl Engine for Process {
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
        Box::pin(async { Ok(self.0.clone() as Arc<dyn Registry>) })
    }
}

conformance!(|clock| Process(Arc::new(Memory::new(clock))));
