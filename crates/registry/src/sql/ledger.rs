//! One transaction on the server that writes: what a group needs is read under the counter's lock, then written in bulk.
//!
//! The counter's row is locked first, so transactions come one after another in the order of their revisions, and
//! whatever is read afterwards is as the last of them left it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Guard, LeaseId, Value, Write};
use evenkeel_core::time::Millis;
use sqlx::Error;

use super::book::{Book, Head, Known, Meta};
use super::link::Link;
use super::sight::{self, Passed, Reading, Sight};
use super::statement::{Arg, Dialect, Statement, Tables, pieces};
use super::{Limits, storable};
use crate::queue::Ask;

/// How many changes the feed remembers, and how many more there are before the oldest are forgotten.
const REMEMBERED: i64 = 65_536;
const SLICE: i64 = 4_096;

/// A transaction that was begun.
pub(super) struct Ledger<'l> {
    pub(super) link: &'l mut Link,
    pub(super) dialect: &'static Dialect,
    pub(super) tables: &'l Tables,
}

impl Ledger<'_> {
    /// Begins, waits for the counter, and reads it, and how often the server went back in time.
    pub(super) async fn begin(&mut self) -> Result<(Meta, i64), Error> {
        self.link.say(self.dialect.begin).await?;
        let columns = "SELECT revision, forgotten, changes, leases, clock, generation FROM ";
        let row = self.sql(columns).then(&self.tables.meta).then(" FOR UPDATE");
        let row = self.link.row(row).await?;
        let meta = Meta {
            revision: row.revision(0)?,
            forgotten: row.revision(1)?,
            changes: row.int(2)?,
            leases: row.int(3)?.cast_unsigned(),
            clock: row.int(4)?,
        };
        Ok((meta, row.int(5)?))
    }

    /// Reads all that a group can ask about, and what is seen of the server's clock. Time is read after the counter was
    /// locked: so no two disagree on it.
    pub(super) async fn read(
        &mut self,
        limits: Limits,
        meta: Meta,
        sight: &Sight,
        group: &[Ask],
    ) -> Result<(Book, Sight), Error> {
        let clock = format!("SELECT {}", self.dialect.tongue.now);
        let asked = sight::mono();
        let now = self.link.row(self.sql(&clock)).await?.int(0)?;
        let reading = Reading { clock: meta.clock, now, asked, heard: sight::mono() };
        let (passed, sight) = sight.judge(&reading);
        self.allow_for_absence(&limits, &passed, now).await?;
        let mut book = Book::new(limits, now, meta);
        book.meta.clock = passed.clock;
        let (mut keys, mut leases) = (BTreeSet::new(), BTreeSet::new());
        group.iter().for_each(|ask| name(ask, &mut keys, &mut leases));
        self.read_leases(&mut book, leases).await?;
        let ending =
            book.leases.iter().filter(|(id, lease)| lease.ends <= passed.clock || closes(group, **id));
        let ending: Vec<_> = ending.map(|(id, _)| *id).collect();
        if !ending.is_empty() {
            self.read_entries(&mut book, " owner IN ", ending.iter().map(|id| number(*id))).await?;
        }
        let keys: Vec<_> = keys.into_iter().filter(|key| storable(key)).collect();
        for piece in pieces(&keys, |_| 0) {
            let keys = piece.iter().map(|key| Arg::Text(key.as_str()));
            self.read_entries(&mut book, " k IN ", keys).await?;
        }
        Ok((book, sight))
    }

    /// Nobody could renew while nobody was served, so those leases are prolonged first (docs/design/protocol.md): by their term, or by
    /// as long as the server was out of sight. A step of its clock takes the ends of all leases along. No more is left of
    /// any than its term.
    async fn allow_for_absence(&mut self, limits: &Limits, passed: &Passed, now: i64) -> Result<(), Error> {
        let Passed { step, away, unseen, .. } = *passed;
        if step == 0 && away <= limits.facts.ttl_min.0 / 2 {
            return Ok(());
        }
        let update = self.sql("UPDATE ").then(&self.tables.lease).then(" SET ends = LEAST(ends + ");
        let update = update.with(Arg::Int(step)).then(" + CASE WHEN ttl < ");
        let update = update.with(Arg::Int(away.saturating_mul(2))).then(" THEN GREATEST(ttl, ");
        let update = update.with(Arg::Int(unseen)).then(") ELSE 0 END, ttl + ").with(Arg::Int(now));
        self.link.run(update.then(")")).await.map(drop)
    }

    async fn read_leases(&mut self, book: &mut Book, named: BTreeSet<LeaseId>) -> Result<(), Error> {
        let named: Vec<_> = named.into_iter().collect();
        let over = self.sql("SELECT id, ttl, ends FROM ").then(&self.tables.lease).then(" WHERE ends <= ");
        let mut statements = vec![over.with(Arg::Int(book.meta.clock))];
        for piece in pieces(&named, |_| 0) {
            let some = self.sql("SELECT id, ttl, ends FROM ").then(&self.tables.lease).then(" WHERE id IN ");
            statements.push(some.any_of(piece.iter().map(|id| number(*id))));
        }
        for statement in statements {
            for row in self.link.rows(statement).await? {
                book.found_lease(LeaseId(row.int(0)?.cast_unsigned()), Millis(row.int(1)?), row.int(2)?);
            }
        }
        Ok(())
    }

    async fn read_entries<'a>(
        &mut self,
        book: &mut Book,
        which: &str,
        args: impl IntoIterator<Item = Arg<'a>>,
    ) -> Result<(), Error> {
        let select = self.sql("SELECT k, revision, born, owner FROM ").then(&self.tables.entry);
        for row in self.link.rows(select.then(" WHERE").then(which).any_of(args)).await? {
            let (revision, born, owner) = (row.revision(1)?, row.revision(2)?, row.owner(3)?);
            book.found(row.key(0)?, Head { revision, born, owner, value: None });
        }
        Ok(())
    }

    /// Reads the values of some entries as the transaction found them; to be called before anything is written.
    pub(super) async fn values(&mut self, keys: &[Key]) -> Result<BTreeMap<Key, Value>, Error> {
        let mut values = BTreeMap::new();
        for piece in pieces(keys, |_| 0) {
            let select = self.sql("SELECT k, value FROM ").then(&self.tables.entry).then(" WHERE k IN ");
            let select = select.any_of(piece.iter().map(|key| Arg::Text(key.as_str())));
            for row in self.link.rows(select).await? {
                values.insert(row.key(0)?, row.bytes(1)?.into());
            }
        }
        Ok(values)
    }

    /// Writes what a group came to, but does not commit.
    pub(super) async fn write(&mut self, book: &mut Book, before: &Meta) -> Result<(), Error> {
        self.write_leases(book).await?;
        self.write_entries(book).await?;
        self.write_changes(book).await?;
        let meta = &book.meta;
        if meta == before {
            return Ok(());
        }
        let mut save = self.sql("UPDATE ").then(&self.tables.meta).then(" SET revision = ");
        save = save.number(meta.revision.0).then(", forgotten = ").number(meta.forgotten.0);
        save = save.then(", changes = ").with(Arg::Int(meta.changes)).then(", leases = ").number(meta.leases);
        save = save.then(", clock = ").with(Arg::Int(meta.clock));
        let told = meta.revision.to_string();
        if let Some(notify) = self.dialect.notify.filter(|_| meta.revision != before.revision) {
            save = save.then(" RETURNING ").then(notify).then("(").with(Arg::Text(&self.tables.channel));
            save = save.then(", ").with(Arg::Text(&told)).then(")");
        }
        self.link.run(save).await.map(drop)
    }

    async fn write_leases(&mut self, book: &Book) -> Result<(), Error> {
        let ended: Vec<_> = book.ended.iter().copied().collect();
        for piece in pieces(&ended, |_| 0) {
            let delete = self.sql("DELETE FROM ").then(&self.tables.lease).then(" WHERE id IN ");
            self.link.run(delete.any_of(piece.iter().map(|id| number(*id)))).await?;
        }
        let held: Vec<_> = book.leases.iter().filter(|(_, lease)| lease.touched).collect();
        for piece in pieces(&held, |_| 0) {
            let insert = self.sql("INSERT INTO ").then(&self.tables.lease).then(" (id, ttl, ends) VALUES ");
            let rows =
                piece.iter().map(|(id, lease)| [number(**id), Arg::Int(lease.ttl.0), Arg::Int(lease.ends)]);
            self.link.run(insert.rows(rows).then(self.dialect.replace_lease)).await?;
        }
        Ok(())
    }

    async fn write_entries(&mut self, book: &Book) -> Result<(), Error> {
        let touched = || book.entries.iter().filter(|(_, known)| known.touched);
        let gone: Vec<_> = touched().filter(|(_, known)| known.stored && known.head.is_none()).collect();
        for piece in pieces(&gone, |_| 0) {
            let delete = self.sql("DELETE FROM ").then(&self.tables.entry).then(" WHERE k IN ");
            self.link.run(delete.any_of(piece.iter().map(|(key, _)| Arg::Text(key.as_str())))).await?;
        }
        let put: Vec<_> = touched().filter_map(|(key, known)| row(key, known)).collect();
        for piece in pieces(&put, |row| row.1.len()) {
            let insert = self.sql("INSERT INTO ").then(&self.tables.entry);
            let insert = insert.then(" (k, value, revision, born, owner, cold) VALUES ");
            let rows = piece.iter().map(|(key, value, head)| {
                [
                    Arg::Text(key.as_str()),
                    Arg::Bytes(value),
                    Arg::Int(head.revision.0.cast_signed()),
                    Arg::Int(head.born.0.cast_signed()),
                    Arg::Maybe(head.owner.map(|id| id.0.cast_signed())),
                    Arg::Int(i64::from(key.is_cold())),
                ]
            });
            self.link.run(insert.rows(rows).then(self.dialect.replace_entry)).await?;
        }
        Ok(())
    }

    async fn write_changes(&mut self, book: &mut Book) -> Result<(), Error> {
        let notes: Vec<_> = book.notes.iter().collect();
        for piece in pieces(&notes, |_| 0) {
            let insert =
                self.sql("INSERT INTO ").then(&self.tables.change).then(" (revision, k, gone) VALUES ");
            let gone = |key| i64::from(book.entries.get(key).is_none_or(|known| known.head.is_none()));
            let rows = piece.iter().map(|(key, revision)| {
                [Arg::Int(revision.0.cast_signed()), Arg::Text(key.as_str()), Arg::Int(gone(*key))]
            });
            self.link.run(insert.rows(rows)).await?;
        }
        book.meta.changes += i64::try_from(notes.len()).unwrap_or(i64::MAX);
        while book.meta.changes > REMEMBERED + SLICE {
            let oldest = self.sql("SELECT revision FROM ").then(&self.tables.change);
            let oldest = oldest.then(&format!(" ORDER BY revision LIMIT 1 OFFSET {}", SLICE - 1));
            let oldest = self.link.row(oldest).await?.revision(0)?;
            let forget = self.sql("DELETE FROM ").then(&self.tables.change).then(" WHERE revision <= ");
            let forgotten = self.link.run(forget.number(oldest.0)).await?;
            book.meta.changes -= i64::try_from(forgotten).unwrap_or(i64::MAX);
            book.meta.forgotten = oldest;
        }
        Ok(())
    }

    /// When somebody has to act next, counted from the group's moment: when a lease of anybody ends, or before the pause is so
    /// long for one that it would be prolonged.
    pub(super) async fn next_end(&mut self, now: i64) -> Result<Option<Millis>, Error> {
        let next = self.sql("SELECT min(ends), min(ttl) FROM ").then(&self.tables.lease);
        let row = self.link.row(next).await?;
        let next = row.maybe(0)?.zip(row.maybe(1)?);
        Ok(next.map(|(end, shortest)| Millis((end - now).min(shortest / 3))))
    }

    fn sql<'a>(&self, text: &str) -> Statement<'a> {
        Statement::new(self.dialect, text)
    }
}

/// An entry that is to be written whole.
fn row<'b>(key: &'b Key, known: &'b Known) -> Option<(&'b Key, &'b [u8], &'b Head)> {
    let head = known.head.as_ref()?;
    Some((key, head.value.as_deref()?, head))
}

fn number<'a>(id: LeaseId) -> Arg<'a> {
    Arg::Int(id.0.cast_signed())
}

fn closes(group: &[Ask], id: LeaseId) -> bool {
    group.iter().any(|ask| matches!(ask, Ask::Close(closed, _) if *closed == id))
}

/// Collects what is asked about.
fn name<'a>(ask: &'a Ask, keys: &mut BTreeSet<&'a Key>, leases: &mut BTreeSet<LeaseId>) {
    match ask {
        Ask::Open(..) => {}
        Ask::Renew(id, _) | Ask::Close(id, _) => drop(leases.insert(*id)),
        Ask::Commit(txns, _) => {
            for txn in txns {
                keys.extend(txn.guards.iter().filter_map(Guard::key));
                leases.extend(txn.guards.iter().filter_map(|guard| match guard {
                    Guard::Open(id) => Some(*id),
                    _ => None,
                }));
                for write in &txn.writes {
                    keys.insert(write.key());
                    if let Write::Put { owner: Some(id), .. } = write {
                        leases.insert(*id);
                    }
                }
            }
        }
    }
}
