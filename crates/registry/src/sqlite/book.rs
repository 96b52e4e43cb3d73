//! One write transaction on the file, from `BEGIN IMMEDIATE` to `COMMIT`: guards, writes and leases in SQL.
//!
//! It answers exactly as [`Store`](evenkeel_core::store::Store) does; the differential test holds them together.
//! All guards of a transaction are checked before its first write, so a refusal leaves nothing to undo.

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Granted, Guard, LeaseId, Outcome, Revision, Txn, Write};
use evenkeel_core::time::{Millis, Mono, Now};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::FACTS;
use super::fault::{self, During};
use super::file::File;
use super::reader::entry_at;
use super::statements::{Statements, number, number_at};
use crate::clock::Clock;
use crate::{RegistryError, fits};

/// How many changes the feed remembers, and how many more there are before the oldest are forgotten.
const REMEMBERED: i64 = 65_536;
const SLICE: i64 = 4_096;

/// How many heads a book keeps.
const HEADS: usize = 8;

/// The one row of `meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// Where the total order stands.
    pub(super) revision: Revision,
    /// How often the file may have gone back in time.
    pub(super) generation: u16,
    /// Which boot of the host `clock` and the leases' ends count from.
    boot: String,
    /// When anybody last acted.
    clock: Mono,
    /// The file that this row was written in; a copy has another.
    inode: u64,
    /// How many rows `change` has.
    changes: i64,
    /// The feed knows nothing of what happened up to here.
    forgotten: Revision,
}

/// What the guards ask of an entry.
#[derive(Clone, Copy)]
struct Head {
    revision: Revision,
    born: Revision,
    owner: Option<LeaseId>,
}

/// The transaction.
pub(super) struct Book<'s, 'c, 'g> {
    sql: &'s mut Statements<'c>,
    now: Now,
    found: Meta,
    meta: Meta,
    swept: bool,
    /// What was last read and written of some keys, the latest at the end. The write lock keeps it true.
    ///
    /// Few, because the same few keys are named again and again: a node guards on itself in all that it sends.
    heads: Vec<(&'g str, Option<Head>)>,
}

impl<'s, 'c, 'g> Book<'s, 'c, 'g> {
    /// Goes on in a transaction that was begun. Time is read now, under the lock: so no two books disagree on it.
    pub(super) fn new(sql: &'s mut Statements<'c>, clock: &dyn Clock) -> rusqlite::Result<Self> {
        let meta = sql.meta.query_row((), Meta::read)?;
        let found = meta.clone();
        Ok(Self { sql, now: clock.now(), found, meta, swept: false, heads: Vec::with_capacity(HEADS) })
    }

    /// Whether the file's moments are of the boot that this process counts from.
    pub(super) fn same_boot(&self, boot: &str) -> bool {
        self.meta.boot == boot
    }

    /// Writes down where the order stands, commits, and returns it.
    pub(super) fn commit(mut self) -> rusqlite::Result<Meta> {
        while self.meta.changes > REMEMBERED + SLICE {
            let oldest: i64 = self.sql.oldest.query_row([SLICE - 1], |row| row.get(0))?;
            self.meta.changes -= i64::try_from(self.sql.forget.execute([oldest])?).unwrap_or(i64::MAX);
            self.meta.forgotten = Revision(oldest.cast_unsigned());
        }
        if self.meta != self.found {
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
    pub(super) fn open(&mut self, ttl: Millis) -> rusqlite::Result<Granted> {
        self.sweep()?;
        let ttl = ttl.clamp(FACTS.ttl_min, crate::TTL_MAX);
        let id = self.sql.grant.insert(params![ttl.0, (self.now.mono + ttl).0])?;
        self.granted(LeaseId(id.cast_unsigned()), ttl)
    }

    /// Prolongs a living lease by its term. One statement compares and extends (I10).
    pub(super) fn renew(&mut self, lease: LeaseId) -> rusqlite::Result<Option<Granted>> {
        self.sweep()?;
        let ttl = self
            .sql
            .prolong
            .query_row(params![number(lease.0), self.now.mono.0], |row| row.get(0))
            .optional()?;
        ttl.map(|ttl| self.granted(lease, Millis(ttl))).transpose()
    }

    fn granted(&mut self, lease: LeaseId, ttl: Millis) -> rusqlite::Result<Granted> {
        let (end, shortest): (Option<i64>, Option<i64>) =
            self.sql.next_end.query_row((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let next_end = end.zip(shortest).map(|(end, ttl)| (Mono(end) - self.now.mono).min(Millis(ttl / 3)));
        Ok(Granted { lease, ttl, clock: Some(self.now.wall), next_end })
    }

    /// Ends a lease and deletes what lives by it.
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
            self.heads.retain(|(known, _)| *known != key);
            self.note(&Key::from_stored(key))?;
        }
        Ok(())
    }

    /// Ends every lease whose time is over; first prolongs those whose holders had no chance (docs/design/protocol.md).
    fn sweep(&mut self) -> rusqlite::Result<()> {
        if std::mem::replace(&mut self.swept, true) {
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

    /// Makes all of a transaction or nothing of it.
    pub(super) fn make(&mut self, txn: &'g Txn) -> rusqlite::Result<Outcome> {
        self.sweep()?;
        if !fits(&FACTS, txn) {
            return self.refuse(txn);
        }
        if let Some(outcome) = self.make_fast(txn)? {
            return Ok(outcome);
        }
        if !self.all_hold(txn, None)? {
            return self.refuse(txn);
        }
        let mut news = false;
        for write in &txn.writes {
            news |= match write {
                Write::Put { .. } => true,
                Write::Delete { key } => self.head(key)?.is_some(),
            };
        }
        if news {
            self.meta.revision.0 += 1;
        }
        txn.writes.iter().try_for_each(|write| self.write(write))?;
        Ok(Outcome::Applied(self.meta.revision))
    }

    /// The usual transaction replaces, first of all, a persistent entry that it guards by its revision: one statement
    /// can check and replace, which saves a third of the work. `None` when it is not that, or would be refused: then
    /// nothing was written, for this is tried after every other guard and before every other write.
    fn make_fast(&mut self, txn: &'g Txn) -> rusqlite::Result<Option<Outcome>> {
        let Some(Write::Put { key, value, owner: None }) = txn.writes.first() else { return Ok(None) };
        let mut of_key = txn.guards.iter().filter(|guard| guard.key() == Some(key));
        let (Some(guard @ Guard::At(_, at)), None) = (of_key.next(), of_key.next()) else { return Ok(None) };
        if !self.all_hold(txn, Some(guard))? {
            return Ok(None);
        }
        let next = number(self.meta.revision.0 + 1);
        if self.sql.swap.execute(params![key.as_str(), value.as_ref(), next, number(at.0)])? == 0 {
            return Ok(None);
        }
        self.meta.revision.0 += 1;
        self.heads.retain(|(known, _)| *known != key.as_str());
        self.note(key)?;
        txn.writes[1..].iter().try_for_each(|write| self.write(write))?;
        Ok(Some(Outcome::Applied(self.meta.revision)))
    }

    /// Whether all guards hold, one aside, and every lease that an entry is to live by.
    fn all_hold(&mut self, txn: &'g Txn, aside: Option<&Guard>) -> rusqlite::Result<bool> {
        for guard in &txn.guards {
            let holds = match guard {
                guard if aside.is_some_and(|aside| std::ptr::eq(aside, guard)) => true,
                Guard::Absent(key) => self.head(key)?.is_none(),
                Guard::Present(key) => self.head(key)?.is_some(),
                Guard::At(key, revision) => self.head(key)?.is_some_and(|head| head.revision == *revision),
                Guard::Born(key, born) => self.head(key)?.is_some_and(|head| head.born == *born),
                Guard::Open(lease) => self.is_open(*lease)?,
            };
            if !holds {
                return Ok(false);
            }
        }
        // An entry cannot live by a lease that has ended, so the transaction is refused as if it had said so.
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

    fn head(&mut self, key: &'g Key) -> rusqlite::Result<Option<Head>> {
        if let Some(known) = self.heads.iter().rposition(|(known, _)| *known == key.as_str()) {
            let head = self.heads[known].1;
            if known < self.heads.len() / 2 {
                let kept = self.heads.remove(known);
                self.heads.push(kept);
            }
            return Ok(head);
        }
        let head = self.sql.head.query_row([key.as_str()], Head::read).optional()?;
        self.remember(key, head);
        Ok(head)
    }

    fn remember(&mut self, key: &'g Key, head: Option<Head>) {
        if let Some(known) = self.heads.iter_mut().rfind(|(known, _)| *known == key.as_str()) {
            known.1 = head;
            return;
        }
        if self.heads.len() == HEADS {
            self.heads.remove(0);
        }
        self.heads.push((key.as_str(), head));
    }

    fn write(&mut self, write: &'g Write) -> rusqlite::Result<()> {
        let (old, revision) = (self.head(write.key())?, self.meta.revision);
        let new = match (write, old) {
            (Write::Put { key, value, owner }, old) => {
                let (key, value, lease) = (key.as_str(), value.as_ref(), owner.map(|id| number(id.0)));
                let at = number(revision.0);
                match old {
                    None => self.sql.insert.execute(params![key, value, at, lease])?,
                    // The owner's index is left alone where it can be.
                    Some(old) if old.owner == *owner => self.sql.update.execute(params![key, value, at])?,
                    Some(_) => self.sql.hand_over.execute(params![key, value, at, lease])?,
                };
                Some(Head { revision, born: old.map_or(revision, |old| old.born), owner: *owner })
            }
            (Write::Delete { .. }, None) => return Ok(()),
            (Write::Delete { key }, Some(_)) => {
                self.sql.delete.execute([key.as_str()])?;
                None
            }
        };
        self.remember(write.key(), new);
        self.note(write.key())
    }

    /// Tells listeners that a key changed.
    fn note(&mut self, key: &Key) -> rusqlite::Result<()> {
        if key.is_cold() {
            let added = self.sql.note.execute(params![number(self.meta.revision.0), key.as_str()])?;
            self.meta.changes += i64::from(added > 0);
        }
        Ok(())
    }

    /// The refusal, with every key that the transaction names as it stands.
    fn refuse(&mut self, txn: &Txn) -> rusqlite::Result<Outcome> {
        let revision = self.meta.revision;
        let mut found = Vec::new();
        for key in txn.keys() {
            let entry = self.sql.entry.query_row([key.as_str()], |row| entry_at(row, 0)).optional()?;
            found.push(Change { key: key.clone(), entry, revision });
        }
        Ok(Outcome::Refused(found))
    }

    /// Leases of another boot have ended: their moments cannot be compared with ours, and their holders are gone.
    fn begin_boot(&mut self, boot: String) -> rusqlite::Result<()> {
        self.close_until(Mono(i64::MAX))?;
        self.meta.boot = boot;
        self.meta.clock = self.now.mono;
        Ok(())
    }
}

impl Meta {
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

impl Head {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let owner = row.get::<_, Option<i64>>(2)?.map(|id| LeaseId(id.cast_unsigned()));
        Ok(Self { revision: Revision(number_at(row, 0)?), born: Revision(number_at(row, 1)?), owner })
    }
}

/// Makes the file this boot's and this inode's: what was true of others is over.
pub(super) fn adopt(connection: &Connection, file: &File, clock: &dyn Clock) -> Result<Meta, RegistryError> {
    let boot = clock.boot().map_err(|error| {
        let why = format!("cannot tell this boot of the host from another ({error}): mount /proc");
        fault::refused(&file.path, &why)
    })?;
    let adopted = Statements::prepare(connection).and_then(|mut sql| {
        sql.begin.execute(())?;
        let mut book = Book::new(&mut sql, clock)?;
        if !book.same_boot(&boot) {
            book.begin_boot(boot)?;
        }
        // A copy may be old. The first file is no copy, nor is one that knew its inode alone.
        let copied = ![0, file.inode, file.mark].contains(&book.meta.inode);
        book.meta.generation = book.meta.generation.saturating_add(u16::from(copied));
        book.meta.inode = file.mark;
        book.commit()
    });
    adopted.map_err(|error| fault::explain(&file.path, During::Opening, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::HandClock;

    #[test]
    fn a_file_that_knew_its_inode_alone_is_no_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (file, connection) = File::open(&folder.path().join("registry.db")).unwrap();
        let clock = HandClock::default();
        for (known, generation) in [(file.inode, 0), (file.mark, 0), (file.inode + 1, 1), (0, 1)] {
            connection.execute("UPDATE meta SET inode = ?1", [known.cast_signed()]).unwrap();
            for _ in 0..2 {
                let meta = adopt(&connection, &file, &clock).unwrap();
                assert_eq!((meta.generation, meta.inode), (generation, file.mark));
            }
        }
    }

    /// The queue puts leases first, but a book must not rest on that.
    #[test]
    fn what_a_book_remembers_ends_with_the_lease_it_lived_by() {
        let folder = tempfile::tempdir().unwrap();
        let (file, connection) = File::open(&folder.path().join("registry.db")).unwrap();
        let clock = HandClock::default();
        adopt(&connection, &file, &clock).unwrap();
        let mut sql = Statements::prepare(&connection).unwrap();
        sql.begin.execute(()).unwrap();
        let mut book = Book::new(&mut sql, &clock).unwrap();
        let lease = book.open(FACTS.ttl_min).unwrap().lease;
        let key = Key::from_stored("node/a@1");
        let join = Write::Put { key: key.clone(), value: (*b"").into(), owner: Some(lease) };
        let join = Txn { guards: vec![Guard::Absent(key.clone())], writes: vec![join] };
        let gone = Txn { guards: vec![Guard::Absent(key)], writes: vec![] };
        assert!(matches!(book.make(&join).unwrap(), Outcome::Applied(_)));
        assert!(matches!(book.make(&gone).unwrap(), Outcome::Refused(_)));
        book.close(lease).unwrap();
        assert!(matches!(book.make(&gone).unwrap(), Outcome::Applied(_)));
        book.commit().unwrap();
    }
}
