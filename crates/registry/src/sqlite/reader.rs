//! Reads snapshots beside the writer: lists, entries, and changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::keys::{HOT_ROOTS, Key};
use evenkeel_core::registry::{Change, ChangeBatch, Entry, LeaseId, Revision};
use rusqlite::{Connection, Row};

use super::errors::{self, ErrorPhase};
use super::file::SqliteFile;
use super::statements::number_at;
use crate::feed::ChangeLog;
use crate::{BoxFuture, RegistryError};

/// How many connections are kept for the next reader.
const IDLE_MAX: usize = 4;
/// A text behind all keys.
const AFTER_ALL: &str = "\u{10ffff}";

/// The reading connections.
pub(super) struct SqliteReaders {
    file: Arc<SqliteFile>,
    idle: Mutex<Vec<Connection>>,
}

impl SqliteReaders {
    pub(super) fn new(file: Arc<SqliteFile>) -> Self {
        Self { file, idle: Mutex::default() }
    }

    pub(super) async fn list(self: &Arc<Self>) -> Result<ChangeBatch, RegistryError> {
        self.in_snapshot(|db| {
            let revision = revision(db)?;
            let mut changes = Vec::new();
            // The ranges around the hot roots, so that hot entries are not read.
            let mut select = db.prepare(
                "SELECT key, value, revision, born, owner FROM entry WHERE key >= ?1 AND key < ?2 ORDER BY key",
            )?;
            let ends = HOT_ROOTS.map(|root| root.replace('/', "0"));
            let from = std::iter::once("").chain(ends.iter().map(String::as_str));
            for range in from.zip(HOT_ROOTS.into_iter().chain([AFTER_ALL])) {
                let mut rows = select.query(range)?;
                while let Some(row) = rows.next()? {
                    changes.push(Change { key: key_at(row, 0)?, entry: Some(entry_at(row, 1)?), revision });
                }
            }
            Ok(ChangeBatch { changes, revision })
        })
        .await
    }

    pub(super) async fn read(self: &Arc<Self>, keys: Vec<Key>) -> Result<Vec<Change>, RegistryError> {
        self.in_snapshot(|db| {
            let revision = revision(db)?;
            let mut select =
                db.prepare_cached("SELECT value, revision, born, owner FROM entry WHERE key = ?1")?;
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                let mut rows = select.query([key.as_str()])?;
                let entry = rows.next()?.map(|row| entry_at(row, 0)).transpose()?;
                found.push(Change { key, entry, revision });
            }
            Ok(found)
        })
        .await
    }

    /// Runs a function in one snapshot, on a thread that may wait for the disk.
    async fn in_snapshot<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let readers = self.clone();
        let looked = tokio::task::spawn_blocking(move || readers.in_snapshot_blocking(act)).await;
        looked
            .unwrap_or_else(|_| Err(RegistryError::Unavailable("reading the registry was cut short".into())))
    }

    fn in_snapshot_blocking<T>(
        &self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, RegistryError> {
        self.file.verify()?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| self.file.connect(), Ok)?;
        let looked = connection.unchecked_transaction().and_then(|snapshot| act(&snapshot));
        // A connection that failed is not kept: the next reader opens a new one.
        let looked = looked.map_err(|error| errors::explain(&self.file.path, ErrorPhase::Use, &error))?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        Ok(looked)
    }
}

impl Drop for SqliteReaders {
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner));
        idle.into_iter().for_each(|connection| self.file.close(connection));
    }
}

impl ChangeLog for SqliteReaders {
    fn changes_after(
        self: Arc<Self>,
        after: Revision,
    ) -> BoxFuture<'static, Result<Option<ChangeBatch>, RegistryError>> {
        Box::pin(async move { self.in_snapshot(move |db| changes_after(db, after)).await })
    }
}

/// The changed keys, each once, as they are in the snapshot; an entry's own revision says which change it was.
fn changes_after(db: &Connection, after: Revision) -> rusqlite::Result<Option<ChangeBatch>> {
    let mut meta = db.prepare_cached("SELECT revision, forgotten FROM meta")?;
    let (revision, forgotten) =
        meta.query_row((), |row| Ok((Revision(number_at(row, 0)?), Revision(number_at(row, 1)?))))?;
    if after < forgotten {
        return Ok(None);
    }
    let mut select = db.prepare_cached(
        "SELECT change.revision, change.key, value, entry.revision, born, owner
         FROM change LEFT JOIN entry ON entry.key = change.key
         WHERE change.revision > ?1 ORDER BY change.revision, change.key",
    )?;
    let mut rows = select.query([i64::try_from(after.0).unwrap_or(i64::MAX)])?;
    let (mut changes, mut gone) = (Vec::new(), BTreeMap::new());
    while let Some(row) = rows.next()? {
        let (at, key, alive) = (Revision(number_at(row, 0)?), key_at(row, 1)?, row.get::<_, Option<i64>>(3)?);
        match alive.map(|last| Revision(last.cast_unsigned())) {
            Some(last) if last == at => {
                changes.push(Change { key, entry: Some(entry_at(row, 2)?), revision: at })
            }
            // A later row has it.
            Some(_) => {}
            None => {
                gone.insert(key.clone(), at);
                changes.push(Change { key, entry: None, revision: at });
            }
        }
    }
    // For a deleted key only the last row is its deletion.
    changes.retain(|change| change.entry.is_some() || gone.get(&change.key) == Some(&change.revision));
    Ok(Some(ChangeBatch { changes, revision }))
}

/// The revision of this snapshot. Read first: this read fixes the snapshot.
pub(super) fn revision(db: &Connection) -> rusqlite::Result<Revision> {
    db.prepare_cached("SELECT revision FROM meta")?.query_row((), |row| number_at(row, 0).map(Revision))
}

fn key_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Key> {
    Ok(Key::from_stored(row.get_ref(column)?.as_str()?))
}

/// Reads `value, revision, born, owner` from this column on.
pub(super) fn entry_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Entry> {
    Ok(Entry {
        value: row.get_ref(column)?.as_blob()?.into(),
        revision: Revision(number_at(row, column + 1)?),
        born: Revision(number_at(row, column + 2)?),
        owner: row.get::<_, Option<i64>>(column + 3)?.map(|id| LeaseId(id.cast_unsigned())),
    })
}
