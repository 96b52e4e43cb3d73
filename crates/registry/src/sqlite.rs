//! The SQLite engine: a file that several processes of one host share. Class A there, and never over a network.
//!
//! One writer thread per process puts all waiting requests into one `BEGIN IMMEDIATE` transaction (a group
//! commit, durable by `synchronous=FULL`); readers see snapshots beside it; a poller detects the commits of other
//! processes.

mod errors;
mod facts;
mod file;
mod health;
mod poller;
mod reader;
mod statements;
mod transaction;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, EngineFacts, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome,
};
use evenkeel_core::time::Millis;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::feed::Feed;
use crate::health::HealthReport;
use crate::{BoxFuture, Registry, RegistryError};
use facts::FACTS;
use file::SqliteFile;
use reader::SqliteReaders;
use writer::SqliteWriter;

pub(crate) use file::connect;

/// A registry in a SQLite file. Dropping it answers the queued requests, then releases the file.
pub struct Sqlite {
    facts: EngineFacts,
    file: Arc<SqliteFile>,
    readers: Arc<SqliteReaders>,
    writer: SqliteWriter,
    bell: Arc<watch::Sender<Revision>>,
    poller_started: OnceLock<()>,
}

impl Sqlite {
    /// Opens the file at `path`, or creates it (mode 0600).
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when the path cannot be used: no such folder, no right to write, not a SQLite file,
    /// the file of another program or of a newer version. [`RegistryError::Unavailable`] while another process locks
    /// the file or the disk is full.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, RegistryError> {
        let path = PathBuf::from(path);
        let opened = tokio::task::spawn_blocking(move || Self::open_now(&path, clock)).await;
        opened.unwrap_or_else(|_| Err(RegistryError::Fatal("opening the registry file was cut short".into())))
    }

    fn open_now(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, RegistryError> {
        let (file, connection) = SqliteFile::open(path)?;
        let file = Arc::new(file);
        let adopted = transaction::adopt_file(&connection, &file, clock.as_ref())?;
        let bell = Arc::new(watch::Sender::new(adopted.revision));
        let writer = SqliteWriter::start(connection, file.clone(), clock, bell.clone())?;
        let facts = EngineFacts { generation: adopted.generation, ..FACTS };
        let readers = Arc::new(SqliteReaders::new(file.clone()));
        Ok(Self { facts, file, readers, writer, bell, poller_started: OnceLock::new() })
    }
}

impl Registry for Sqlite {
    fn facts(&self) -> EngineFacts {
        self.facts
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>> {
        Box::pin(self.writer.handle().open(ttl))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>> {
        Box::pin(self.writer.handle().renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(self.writer.handle().close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        Box::pin(self.writer.handle().commit(txns))
    }

    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>> {
        Box::pin(self.readers.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        Box::pin(self.readers.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        self.poller_started.get_or_init(|| poller::start(self.file.clone(), Arc::downgrade(&self.bell)));
        Box::pin(async move { Ok(Feed::new(self.readers.clone(), self.bell.subscribe(), after)) })
    }

    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        Box::pin(async { Ok(self.file.examine()) })
    }

    fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.writer.handle().last_error()
    }
}
