//! The engine on Redis: hashes and a stream, kept by three small scripts, each of which is atomic.
//!
//! The requests of many callers go to the server in one call (`act.lua`), reads are of one moment (`look.lua`), and
//! each new connection checks whether the server's history is still the known one (`adopt.lua`).

mod connector;
mod erase;
mod errors;
mod facts;
mod health;
mod listener;
mod reader;
mod session;
mod wire;
mod writer;

use std::sync::{Arc, OnceLock};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, EngineFacts, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome,
};
use evenkeel_core::time::Millis;
use tokio::task::AbortHandle;

use crate::feed::Feed;
use crate::health::HealthReport;
use crate::queue::WriterHandle;
use crate::{BoxFuture, EngineUrl, Registry, RegistryError};
use connector::RedisConnector;
use facts::FACTS;
use session::{RedisSession, SharedSession};

/// A registry in one database of a Redis server, below one namespace. Dropping it sends the queued requests.
pub struct Redis {
    facts: EngineFacts,
    session: SharedSession,
    writer: WriterHandle,
    listener: OnceLock<AbortHandle>,
}

impl Redis {
    /// Connects to `redis://[USER[:PASSWORD]@]HOST[:PORT]/DB[/NAMESPACE]`. Of several hosts it takes the first that is
    /// a primary.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] says what to change in the URL or on the server; [`RegistryError::Unavailable`] while
    /// the server is out of reach, loads its data or is a replica.
    pub async fn connect(url: &EngineUrl) -> Result<Self, RegistryError> {
        url.allow_options(&[])?;
        let ([db], namespace) = url.path_segments(["DB"])?;
        let link = Arc::new(RedisSession::new(RedisConnector::new(url, db)?, namespace));
        link.ensure_connected().await?;
        let known = link.state().clone();
        let class = known.class.unwrap_or(FACTS.class);
        let facts = EngineFacts { class, generation: known.generation, ..FACTS };
        Ok(Self { facts, writer: writer::start(link.clone()), session: link, listener: OnceLock::new() })
    }
}

impl Redis {
    /// Whether there is a registry at this URL. Creates nothing.
    pub(crate) async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
        erase::exists(url).await
    }

    /// Deletes all keys of the namespace.
    pub(crate) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
        erase::erase(url).await
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.session.close_feeds();
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

impl Registry for Redis {
    fn facts(&self) -> EngineFacts {
        self.facts
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>> {
        Box::pin(self.writer.open(ttl))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>> {
        Box::pin(self.writer.renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(self.writer.close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        Box::pin(self.writer.commit(txns))
    }

    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>> {
        Box::pin(self.session.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        Box::pin(self.session.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        Box::pin(async move {
            let bell = self.session.subscribe()?;
            self.listener
                .get_or_init(|| tokio::spawn(listener::run(Arc::downgrade(&self.session))).abort_handle());
            Ok(Feed::new(self.session.clone(), bell, after))
        })
    }

    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        Box::pin(self.session.connector().check_health())
    }

    fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.writer.last_error()
    }
}
