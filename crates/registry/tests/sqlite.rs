//! The suite on the SQLite engine.

use std::sync::Arc;

use evenkeel_registry::clock::ManualClock;
use evenkeel_registry::conformance::Engine;
use evenkeel_registry::sqlite::Sqlite;
use evenkeel_registry::{BoxFuture, Registry, RegistryError, conformance};

struct SqliteFileEngine(tempfile::TempDir, Arc<ManualClock>);

impl Engine for SqliteFileEngine {
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
        Box::pin(async {
            let opened = Sqlite::open(&self.0.path().join("registry.db"), self.1.clone()).await?;
            Ok(Arc::new(opened) as Arc<dyn Registry>)
        })
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.0.path().join("registry.db").display())
    }
}

conformance!(|clock| SqliteFileEngine(tempfile::tempdir().unwrap(), clock));
