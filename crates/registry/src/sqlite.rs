//! The engine of one host: a SQLite file that several processes share. Class A there, and never over a network.
//!
//! One writer thread a process puts everything that waits into one `BEGIN IMMEDIATE` transaction (a group
//! commit, durable by `synchronous=FULL`); readers see snapshots beside it; a poller hears what other
//! processes committed.

mod book;
mod doctor;
mod fault;
mod file;
mod poller;
mod reader;
mod statements;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Batch, Change, Class, Facts, FeedKind, Granted, LeaseId, Outcome, Revision, Txn,
};
use evenkeel_core::time::Millis;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::examine::Examined;
use crate::feed::Feed;
use crate::{BoxFuture, Registry, RegistryError};
use file::File;
use reader::Readers;
use writer::Writer;

pub(crate) use file::connect;

/// The facts that are the same for every file.
const FACTS: Facts = Facts {
    engine: "sqlite",
    class: Class::A,
    feed: FeedKind::Polled(poller::PERIOD),
    notice: poller::PERIOD,
    early: Millis::ZERO,
    ttl_min: Millis(1_000),
    value_max: 16 << 20,
    operations_max: 4096,
    bytes_max: 32 << 20,
    generation: 0,
};

/// A registry in a SQLite file. Dropping it answers what was asked so far, then lets go of the file.
pub struct Sqlite {
    facts: Facts,
    file: Arc<File>,
    readers: Arc<Readers>,
    writer: Writer,
    bell: Arc<watch::Sender<Revision>>,
    poller: OnceLock<()>,
}

impl Sqlite {
    /// Opens the file at `path`, and makes it (mode 0600) where there is none.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when the path cannot be used as it is: no such folder, no right to write, not a
    /// SQLite file, the file of another program or of a newer version. [`RegistryError::Unavailable`] while somebody
    /// locks the file or the disk is full.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, RegistryError> {
        let path = PathBuf::from(path);
        let opened = tokio::task::spawn_blocking(move || Self::open_now(&path, clock)).await;
        opened.unwrap_or_else(|_| Err(RegistryError::Fatal("opening the registry file was cut short".into())))
    }

    fn open_now(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, RegistryError> {
        let (file, connection) = File::open(path)?;
        let file = Arc::new(file);
        let adopted = book::adopt(&connection, &file, clock.as_ref())?;
        let bell = Arc::new(watch::Sender::new(adopted.revision));
        let writer = Writer::start(connection, file.clone(), clock, bell.clone())?;
        let facts = Facts { generation: adopted.generation, ..FACTS };
        let readers = Arc::new(Readers::new(file.clone()));
        Ok(Self { facts, file, readers, writer, bell, poller: OnceLock::new() })
    }
}

impl Registry for Sqlite {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<Granted, RegistryError>> {
        Box::pin(self.writer.asker().open(ttl))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<Granted>, RegistryError>> {
        Box::pin(self.writer.asker().renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(self.writer.asker().close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<Outcome>> {
        Box::pin(self.writer.asker().commit(txns))
    }

    fn list(&self) -> BoxFuture<'_, Result<Batch, RegistryError>> {
        Box::pin(self.readers.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        Box::pin(self.readers.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        self.poller.get_or_init(|| poller::start(self.file.clone(), Arc::downgrade(&self.bell)));
        Box::pin(async move { Ok(Feed::new(self.readers.clone(), self.bell.subscribe(), after)) })
    }

    fn examine(&self) -> BoxFuture<'_, Result<Examined, RegistryError>> {
        Box::pin(async { Ok(self.file.examine()) })
    }

    fn trouble(&self) -> Option<Arc<RegistryError>> {
        self.writer.asker().trouble()
    }
}
