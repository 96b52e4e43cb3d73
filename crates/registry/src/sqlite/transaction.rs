//! A write transaction on the file, from `BEGIN IMMEDIATE` to `COMMIT`: guards, writes and leases in SQL.
//!
//! It answers exactly as [`Store`](evenkeel_core::store::Store) does; the differential test compares them.
//! All guards of a transaction are checked before its first write, so a refusal leaves nothing to undo.

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Guard, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome, Write};
use evenkeel_core::time::{Millis, Mono, Now};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::errors::{self, ErrorPhase};
use super::facts::FACTS;
use super::file::SqliteFile;
use super::reader::entry_at;
use super::statements::{PreparedStatements, number, number_at};
use crate::clock::Clock;
use crate::{RegistryError, fits};

/// How many changes the feed remembers, and how many more there are before the oldest are forgotten.
const REMEMBERED: i64 = 65_536;
const SLICE: i64 = 4_096;

/// How many entry versions a transaction caches.
const HEADS: usize = 8;

/// The one row of `meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SqliteMeta {
    /// The position of the total order.
    pub(super) revision: Revision,
    /// How often the file may have been rolled back.
    pub(super) generation: u16,
    /// The boot of the host from which `clock` and the leases' ends count.
    boot: String,
    /// When a process last acted on the file.
    clock: Mono,
    /// The inode of the file that this row was written in; a copy has another.
    inode: u64,
    /// How many rows `change` has.
    changes: i64,
    /// The feed has no changes up to here.
    forgotten: Revision,
}

/// The part of an entry that guards check.
#[derive(Clone, Copy)]
struct EntryVersion {
    revision: Revision,
    born: Revision,
    owner: Option<LeaseId>,
}

/// A write transaction in progress.
pub(super) struct SqliteTransaction<'s, 'c, 'g> {
    sql: &'s mut PreparedStatements<'c>,
    now: Now,
    meta_before: SqliteMeta,
    meta: SqliteMeta,
    expired_ended: bool,
    /// The versions last read and written of some keys, the latest at the end. The write lock keeps them true.
    ///
    /// Few, because the same few keys are named again and again: a node guards on its own entry in every request.
    versions: Vec<(&'g str, Option<EntryVersion>)>,
}

impl<'s, 'c, 'g> SqliteTransaction<'s, 'c, 'g> {
    /// Continues a begun transaction. Time is read under the lock, so the clock of transactions never runs backwards.
    pub(super) fn new(sql: &'s mut PreparedStatements<'c>, clock: &dyn Clock) -> rusqlite::Result<Self> {
        let meta = sql.meta.query_row((), SqliteMeta::read)?;
        let found = meta.clone();
        Ok(Self {
            sql,
            now: clock.now(),
            meta_before: found,
            meta,
            expired_ended: false,
            versions: Vec::with_capacity(HEADS),
        })
    }

    /// Whether the file's moments are of this process's boot.
    pub(super) fn same_boot(&self, boot: &str) -> bool {
        self.meta.boot == boot
    }

    /// Stores the position of the order, commits, and returns it.
    pub(super) fn commit(mut self) -> rusqlite::Result<SqliteMeta> {
        while self.meta.changes > REMEMBERED + SLICE {
            let oldest: i64 = self.sql.oldest.query_row([SLICE - 1], |row| row.get(0))?;
            self.meta.changes -= i64::try_from(self.sql.forget.execute([oldest])?).unwrap_or(i64::MAX);
            self.meta.forgotten = Revision(oldest.cast_unsigned());
        }
        if self.meta != self.meta_before {
            let meta = &self.meta;
            self.sql.save.execute(params![
                number(meta.revision.0),
                meta.generation,
                meta.boot,
                meta.clock.0,
                number(meta.inode),
                meta.changes,
                number(meta.forgotten.0)
            ])?;
        }
        self.sql.commit.execute(())?;
        Ok(self.meta)
    }

    /// Grants a new lease.
    pub(super) fn open(&mut self, ttl: Millis) -> rusqlite::Result<LeaseGrant> {
        self.end_expired()?;
        let ttl = ttl.clamp(FACTS.ttl_min, crate::TTL_MAX);
        let id = self.sql.grant.insert(params![ttl.0, (self.now.mono + ttl).0])?;
        self.granted(LeaseId(id.cast_unsigned()), ttl)
    }

    /// Extends a living lease by its term. One statement compares and extends (I10).
    pub(super) fn renew(&mut self, lease: LeaseId) -> rusqlite::Result<Option<LeaseGrant>> {
        self.end_expired()?;
        let ttl = self
            .sql
            .prolong
            .query_row(params![number(lease.0), self.now.mono.0], |row| row.get(0))
            .optional()?;
        ttl.map(|ttl| self.granted(lease, Millis(ttl))).transpose()
    }

    fn granted(&mut self, lease: LeaseId, ttl: Millis) -> rusqlite::Result<LeaseGrant> {
        let (end, shortest): (Option<i64>, Option<i64>) =
            self.sql.next_end.query_row((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let next_end = end.zip(shortest).map(|(end, ttl)| (Mono(end) - self.now.mono).min(Millis(ttl / 3)));
        Ok(LeaseGrant { lease, ttl, clock: Some(self.now.wall), next_end })
    }

    /// Ends a lease and deletes the entries that it owns.
    pub(super) fn close(&mut self, lease: LeaseId) -> rusqlite::Result<()> {
        if self.sql.end.execute([number(lease.0)])? == 0 {
            return Ok(());
        }
        let owned: Vec<String> =
            self.sql.owned.query_map([number(lease.0)], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if !owned.is_empty() {
            self.meta.revision.0 += 1;
        }
        for key in owned {
            self.sql.delete.execute([&key])?;
            self.versions.retain(|(known, _)| *known != key);
            self.record_change(&Key::from_stored(key))?;
        }
        Ok(())
    }

    /// Ends every expired lease; first extends those whose holders had no chance to renew (docs/design/protocol.md).
    fn end_expired(&mut self) -> rusqlite::Result<()> {
        if std::mem::replace(&mut self.expired_ended, true) {
            return Ok(());
        }
        let away = self.now.mono - self.meta.clock;
        self.meta.clock = self.meta.clock.max(self.now.mono);
        if away.0 > FACTS.ttl_min.0 / 2 {
            self.sql.prolong_all.execute([away.0])?;
        }
        self.close_until(self.now.mono)
    }

    fn close_until(&mut self, end: Mono) -> rusqlite::Result<()> {
        let over: Vec<u64> =
            self.sql.over.query_map([end.0], |row| number_at(row, 0))?.collect::<Result<_, _>>()?;
        over.into_iter().try_for_each(|id| self.close(LeaseId(id)))
    }

    /// Makes a transaction completely or not at all.
    pub(super) fn apply_txn(&mut self, txn: &'g Txn) -> rusqlite::Result<TxnOutcome> {
        self.end_expired()?;
        if !fits(&FACTS, txn) {
            return self.refusal(txn);
        }
        if let Some(outcome) = self.try_fast_path(txn)? {
            return Ok(outcome);
        }
        if !self.guards_hold(txn, None)? {
            return self.refusal(txn);
        }
        let mut news = false;
        for write in &txn.writes {
            news |= match write {
                Write::Put { .. } => true,
                Write::Delete { key } => self.version(key)?.is_some(),
            };
        }
        if news {
            self.meta.revision.0 += 1;
        }
        txn.writes.iter().try_for_each(|write| self.write(write))?;
        Ok(TxnOutcome::Applied(self.meta.revision))
    }

    /// The fast path. The usual transaction first replaces a persistent entry that it guards by its revision: one
    /// statement can check and replace, which saves a third of the work. `None` if it is another kind, or would be
    /// refused: then nothing was written, for this is tried after every other guard and before every other write.
    fn try_fast_path(&mut self, txn: &'g Txn) -> rusqlite::Result<Option<TxnOutcome>> {
        let Some(Write::Put { key, value, owner: None }) = txn.writes.first() else { return Ok(None) };
        let mut of_key = txn.guards.iter().filter(|guard| guard.key() == Some(key));
        let (Some(guard @ Guard::At(_, at)), None) = (of_key.next(), of_key.next()) else { return Ok(None) };
        if !self.guards_hold(txn, Some(guard))? {
            return Ok(None);
        }
        let next = number(self.meta.revision.0 + 1);
        if self.sql.swap.execute(params![key.as_str(), value.as_ref(), next, number(at.0)])? == 0 {
            return Ok(None);
        }
        self.meta.revision.0 += 1;
        self.versions.retain(|(known, _)| *known != key.as_str());
        self.record_change(key)?;
        txn.writes[1..].iter().try_for_each(|write| self.write(write))?;
        Ok(Some(TxnOutcome::Applied(self.meta.revision)))
    }

    /// Whether all guards but one hold, and every owning lease is open.
    fn guards_hold(&mut self, txn: &'g Txn, aside: Option<&Guard>) -> rusqlite::Result<bool> {
        for guard in &txn.guards {
            let holds = match guard {
                guard if aside.is_some_and(|aside| std::ptr::eq(aside, guard)) => true,
                Guard::Absent(key) => self.version(key)?.is_none(),
                Guard::Present(key) => self.version(key)?.is_some(),
                Guard::At(key, revision) => self.version(key)?.is_some_and(|head| head.revision == *revision),
                Guard::Born(key, born) => self.version(key)?.is_some_and(|head| head.born == *born),
                Guard::Open(lease) => self.is_open(*lease)?,
            };
            if !holds {
                return Ok(false);
            }
        }
        // An entry cannot be owned by an ended lease, so the transaction is refused as if by a guard.
        for write in &txn.writes {
            if let Write::Put { owner: Some(lease), .. } = write
                && !self.is_open(*lease)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_open(&mut self, lease: LeaseId) -> rusqlite::Result<bool> {
        self.sql.term.exists([number(lease.0)])
    }

    fn version(&mut self, key: &'g Key) -> rusqlite::Result<Option<EntryVersion>> {
        if let Some(known) = self.versions.iter().rposition(|(known, _)| *known == key.as_str()) {
            let head = self.versions[known].1;
            if known < self.versions.len() / 2 {
                let kept = self.versions.remove(known);
                self.versions.push(kept);
            }
            return Ok(head);
        }
        let head = self.sql.head.query_row([key.as_str()], EntryVersion::read).optional()?;
        self.cache_version(key, head);
        Ok(head)
    }

    fn cache_version(&mut self, key: &'g Key, head: Option<EntryVersion>) {
        if let Some(known) = self.versions.iter_mut().rfind(|(known, _)| *known == key.as_str()) {
            known.1 = head;
            return;
        }
        if self.versions.len() == HEADS {
            self.versions.remove(0);
        }
        self.versions.push((key.as_str(), head));
    }

    fn write(&mut self, write: &'g Write) -> rusqlite::Result<()> {
        let (old, revision) = (self.version(write.key())?, self.meta.revision);
        let new = match (write, old) {
            (Write::Put { key, value, owner }, old) => {
                let (key, value, lease) = (key.as_str(), value.as_ref(), owner.map(|id| number(id.0)));
                let at = number(revision.0);
                match old {
                    None => self.sql.insert.execute(params![key, value, at, lease])?,
                    // The owner's index is left unchanged if possible.
                    Some(old) if old.owner == *owner => self.sql.update.execute(params![key, value, at])?,
                    Some(_) => self.sql.hand_over.execute(params![key, value, at, lease])?,
                };
                Some(EntryVersion { revision, born: old.map_or(revision, |old| old.born), owner: *owner })
            }
            (Write::Delete { .. }, None) => return Ok(()),
            (Write::Delete { key }, Some(_)) => {
                self.sql.delete.execute([key.as_str()])?;
                None
            }
        };
        self.cache_version(write.key(), new);
        self.record_change(write.key())
    }

    /// Records for listeners that a key changed.
    fn record_change(&mut self, key: &Key) -> rusqlite::Result<()> {
        if key.is_cold() {
            let added = self.sql.note.execute(params![number(self.meta.revision.0), key.as_str()])?;
            self.meta.changes += i64::from(added > 0);
        }
        Ok(())
    }

    /// The refusal, with the present state of every key that the transaction names.
    fn refusal(&mut self, txn: &Txn) -> rusqlite::Result<TxnOutcome> {
        let revision = self.meta.revision;
        let mut found = Vec::new();
        for key in txn.keys() {
            let entry = self.sql.entry.query_row([key.as_str()], |row| entry_at(row, 0)).optional()?;
            found.push(Change { key: key.clone(), entry, revision });
        }
        Ok(TxnOutcome::Refused(found))
    }

    /// Ends the leases of an earlier boot: their moments cannot be compared with this boot's, and the holders are gone.
    fn begin_boot(&mut self, boot: String) -> rusqlite::Result<()> {
        self.close_until(Mono(i64::MAX))?;
        self.meta.boot = boot;
        self.meta.clock = self.now.mono;
        Ok(())
    }
}

impl SqliteMeta {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            revision: Revision(number_at(row, 0)?),
            generation: row.get(1)?,
            boot: row.get(2)?,
            clock: Mono(row.get(3)?),
            inode: number_at(row, 4)?,
            changes: row.get(5)?,
            forgotten: Revision(number_at(row, 6)?),
        })
    }
}

impl EntryVersion {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let owner = row.get::<_, Option<i64>>(2)?.map(|id| LeaseId(id.cast_unsigned()));
        Ok(Self { revision: Revision(number_at(row, 0)?), born: Revision(number_at(row, 1)?), owner })
    }
}

/// Adopts the file for this boot and this inode.
pub(super) fn adopt_file(
    connection: &Connection,
    file: &SqliteFile,
    clock: &dyn Clock,
) -> Result<SqliteMeta, RegistryError> {
    let boot = clock.boot_id().map_err(|error| {
        let why = format!("cannot tell this boot of the host from another ({error}): mount /proc");
        errors::refusal(&file.path, &why)
    })?;
    let adopted = PreparedStatements::prepare(connection).and_then(|mut sql| {
        sql.begin.execute(())?;
        let mut transaction = SqliteTransaction::new(&mut sql, clock)?;
        if !transaction.same_boot(&boot) {
            transaction.begin_boot(boot)?;
        }
        // A copy may be old. The first file is no copy, nor is one that recorded only its inode.
        let copied = ![0, file.inode, file.fingerprint].contains(&transaction.meta.inode);
        transaction.meta.generation = transaction.meta.generation.saturating_add(u16::from(copied));
        transaction.meta.inode = file.fingerprint;
        transaction.commit()
    });
    adopted.map_err(|error| errors::explain(&file.path, ErrorPhase::Opening, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn a_file_that_knew_its_inode_alone_is_no_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (file, connection) = SqliteFile::open(&folder.path().join("registry.db")).unwrap();
        let clock = ManualClock::default();
        for (known, generation) in [(file.inode, 0), (file.fingerprint, 0), (file.inode + 1, 1), (0, 1)] {
            connection.execute("UPDATE meta SET inode = ?1", [known.cast_signed()]).unwrap();
            for _ in 0..2 {
                let meta = adopt_file(&connection, &file, &clock).unwrap();
                assert_eq!((meta.generation, meta.inode), (generation, file.fingerprint));
            }
        }
    }

    /// The queue puts leases first, but a transaction must not rely on that.
    #[test]
    fn what_a_book_remembers_ends_with_the_lease_it_lived_by() {
        let folder = tempfile::tempdir().unwrap();
        let (file, connection) = SqliteFile::open(&folder.path().join("registry.db")).unwrap();
        let clock = ManualClock::default();
        adopt_file(&connection, &file, &clock).unwrap();
        let mut sql = PreparedStatements::prepare(&connection).unwrap();
        sql.begin.execute(()).unwrap();
        let mut transaction = SqliteTransaction::new(&mut sql, &clock).unwrap();
        let lease = transaction.open(FACTS.ttl_min).unwrap().lease;
        let key = Key::from_stored("node/a@1");
        let join = Write::Put { key: key.clone(), value: (*b"").into(), owner: Some(lease) };
        let join = Txn { guards: vec![Guard::Absent(key.clone())], writes: vec![join] };
        let gone = Txn { guards: vec![Guard::Absent(key)], writes: vec![] };
        assert!(matches!(transaction.apply_txn(&join).unwrap(), TxnOutcome::Applied(_)));
        assert!(matches!(transaction.apply_txn(&gone).unwrap(), TxnOutcome::Refused(_)));
        transaction.close(lease).unwrap();
        assert!(matches!(transaction.apply_txn(&gone).unwrap(), TxnOutcome::Applied(_)));
        transaction.commit().unwrap();
    }
}
