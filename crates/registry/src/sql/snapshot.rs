//! A writing transaction on the server: reads what a group needs under the counter's lock, then writes in bulk.
//!
//! The counter's row is locked first, so transactions are made one after another in the order of their revisions, and
//! each reads what the last one left.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Guard, LeaseId, Value, Write};
use evenkeel_core::time::Millis;
use sqlx::Error;

use super::clock_step::{self, ClockObservation, LeaseAdjustment, ServerClockReading};
use super::config::{SqlLimits, storable};
use super::connection::SqlConnection;
use super::dialect::{RegistryDialect, TableNames};
use super::state::{EntryHead, KeyState, SqlMeta, SqlState};
use super::statement::{SqlArg, SqlStatement, pieces};
use crate::queue::WriteRequest;

/// How many changes the feed remembers, and how many more there are before the oldest are forgotten.
const REMEMBERED: i64 = 65_536;
const SLICE: i64 = 4_096;

/// A begun transaction.
pub(super) struct SqlSnapshot<'l> {
    pub(super) connection: &'l mut SqlConnection,
    pub(super) dialect: &'static RegistryDialect,
    pub(super) tables: &'l TableNames,
}

impl SqlSnapshot<'_> {
    /// Begins, locks and reads the counter, and reads how often the server was rolled back.
    pub(super) async fn begin(&mut self) -> Result<(SqlMeta, i64), Error> {
        self.connection.execute_text(self.dialect.begin).await?;
        let columns = "SELECT revision, forgotten, changes, leases, clock, generation FROM ";
        let row = self.sql(columns).then(&self.tables.meta).then(" FOR UPDATE");
        let row = self.connection.query_one(row).await?;
        let meta = SqlMeta {
            revision: row.revision(0)?,
            forgotten: row.revision(1)?,
            changes: row.int(2)?,
            leases: row.int(3)?.cast_unsigned(),
            clock: row.int(4)?,
        };
        Ok((meta, row.int(5)?))
    }

    /// Reads everything that a group needs, and the server's clock. Time is read after the counter was
    /// locked, so no two transactions disagree on it.
    pub(super) async fn read(
        &mut self,
        limits: SqlLimits,
        meta: SqlMeta,
        observation: &ClockObservation,
        group: &[WriteRequest],
    ) -> Result<(SqlState, ClockObservation), Error> {
        let clock = format!("SELECT {}", self.dialect.sql.now);
        let asked = clock_step::mono();
        let now = self.connection.query_one(self.sql(&clock)).await?.int(0)?;
        let reading =
            ServerClockReading { clock: meta.clock, now, sent_at: asked, received_at: clock_step::mono() };
        let (passed, observation) = observation.evaluate(&reading);
        self.extend_for_absence(&limits, &passed, now).await?;
        let mut state = SqlState::new(limits, now, meta);
        state.meta.clock = passed.clock;
        let (mut keys, mut leases) = (BTreeSet::new(), BTreeSet::new());
        group.iter().for_each(|ask| collect_names(ask, &mut keys, &mut leases));
        self.read_leases(&mut state, leases).await?;
        let ending =
            state.leases.iter().filter(|(id, lease)| lease.ends <= passed.clock || closes(group, **id));
        let ending: Vec<_> = ending.map(|(id, _)| *id).collect();
        if !ending.is_empty() {
            self.read_entries(&mut state, " owner IN ", ending.iter().map(|id| number(*id))).await?;
        }
        let keys: Vec<_> = keys.into_iter().filter(|key| storable(key)).collect();
        for piece in pieces(&keys, |_| 0) {
            let keys = piece.iter().map(|key| SqlArg::Text(key.as_str()));
            self.read_entries(&mut state, " k IN ", keys).await?;
        }
        Ok((state, observation))
    }

    /// Extends leases first whose holders could not renew, as no writer was served (docs/design/protocol.md): by their
    /// term, or by the time that the server was out of sight. A step of its clock moves the ends of all leases. No
    /// lease then has more left than its term.
    async fn extend_for_absence(
        &mut self,
        limits: &SqlLimits,
        passed: &LeaseAdjustment,
        now: i64,
    ) -> Result<(), Error> {
        let LeaseAdjustment { step, away, unobserved: unseen, .. } = *passed;
        if step == 0 && away <= limits.facts.ttl_min.0 / 2 {
            return Ok(());
        }
        let update = self.sql("UPDATE ").then(&self.tables.lease).then(" SET ends = LEAST(ends + ");
        let update = update.with(SqlArg::Int(step)).then(" + CASE WHEN ttl < ");
        let update = update.with(SqlArg::Int(away.saturating_mul(2))).then(" THEN GREATEST(ttl, ");
        let update = update.with(SqlArg::Int(unseen)).then(") ELSE 0 END, ttl + ").with(SqlArg::Int(now));
        self.connection.execute(update.then(")")).await.map(drop)
    }

    async fn read_leases(&mut self, state: &mut SqlState, named: BTreeSet<LeaseId>) -> Result<(), Error> {
        let named: Vec<_> = named.into_iter().collect();
        let over = self.sql("SELECT id, ttl, ends FROM ").then(&self.tables.lease).then(" WHERE ends <= ");
        let mut statements = vec![over.with(SqlArg::Int(state.meta.clock))];
        for piece in pieces(&named, |_| 0) {
            let some = self.sql("SELECT id, ttl, ends FROM ").then(&self.tables.lease).then(" WHERE id IN ");
            statements.push(some.any_of(piece.iter().map(|id| number(*id))));
        }
        for statement in statements {
            for row in self.connection.query(statement).await? {
                state.add_lease(LeaseId(row.int(0)?.cast_unsigned()), Millis(row.int(1)?), row.int(2)?);
            }
        }
        Ok(())
    }

    async fn read_entries<'a>(
        &mut self,
        state: &mut SqlState,
        which: &str,
        args: impl IntoIterator<Item = SqlArg<'a>>,
    ) -> Result<(), Error> {
        let select = self.sql("SELECT k, revision, born, owner FROM ").then(&self.tables.entry);
        for row in self.connection.query(select.then(" WHERE").then(which).any_of(args)).await? {
            let (revision, born, owner) = (row.revision(1)?, row.revision(2)?, row.owner(3)?);
            state.add_entry(row.key(0)?, EntryHead { revision, born, owner, value: None });
        }
        Ok(())
    }

    /// Reads the values of some entries as the transaction found them; call this before any write.
    pub(super) async fn values(&mut self, keys: &[Key]) -> Result<BTreeMap<Key, Value>, Error> {
        let mut values = BTreeMap::new();
        for piece in pieces(keys, |_| 0) {
            let select = self.sql("SELECT k, value FROM ").then(&self.tables.entry).then(" WHERE k IN ");
            let select = select.any_of(piece.iter().map(|key| SqlArg::Text(key.as_str())));
            for row in self.connection.query(select).await? {
                values.insert(row.key(0)?, row.bytes(1)?.into());
            }
        }
        Ok(values)
    }

    /// Writes the results of a group, but does not commit.
    pub(super) async fn write(&mut self, state: &mut SqlState, before: &SqlMeta) -> Result<(), Error> {
        self.write_leases(state).await?;
        self.write_entries(state).await?;
        self.write_changes(state).await?;
        let meta = &state.meta;
        if meta == before {
            return Ok(());
        }
        let mut save = self.sql("UPDATE ").then(&self.tables.meta).then(" SET revision = ");
        save = save.number(meta.revision.0).then(", forgotten = ").number(meta.forgotten.0);
        save =
            save.then(", changes = ").with(SqlArg::Int(meta.changes)).then(", leases = ").number(meta.leases);
        save = save.then(", clock = ").with(SqlArg::Int(meta.clock));
        let told = meta.revision.to_string();
        if let Some(notify) = self.dialect.notify.filter(|_| meta.revision != before.revision) {
            save = save.then(" RETURNING ").then(notify).then("(").with(SqlArg::Text(&self.tables.channel));
            save = save.then(", ").with(SqlArg::Text(&told)).then(")");
        }
        self.connection.execute(save).await.map(drop)
    }

    async fn write_leases(&mut self, state: &SqlState) -> Result<(), Error> {
        let ended: Vec<_> = state.ended.iter().copied().collect();
        for piece in pieces(&ended, |_| 0) {
            let delete = self.sql("DELETE FROM ").then(&self.tables.lease).then(" WHERE id IN ");
            self.connection.execute(delete.any_of(piece.iter().map(|id| number(*id)))).await?;
        }
        let held: Vec<_> = state.leases.iter().filter(|(_, lease)| lease.touched).collect();
        for piece in pieces(&held, |_| 0) {
            let insert = self.sql("INSERT INTO ").then(&self.tables.lease).then(" (id, ttl, ends) VALUES ");
            let rows = piece
                .iter()
                .map(|(id, lease)| [number(**id), SqlArg::Int(lease.ttl.0), SqlArg::Int(lease.ends)]);
            self.connection.execute(insert.rows(rows).then(self.dialect.replace_lease)).await?;
        }
        Ok(())
    }

    async fn write_entries(&mut self, state: &SqlState) -> Result<(), Error> {
        let touched = || state.entries.iter().filter(|(_, known)| known.touched);
        let gone: Vec<_> = touched().filter(|(_, known)| known.stored && known.head.is_none()).collect();
        for piece in pieces(&gone, |_| 0) {
            let delete = self.sql("DELETE FROM ").then(&self.tables.entry).then(" WHERE k IN ");
            self.connection
                .execute(delete.any_of(piece.iter().map(|(key, _)| SqlArg::Text(key.as_str()))))
                .await?;
        }
        let put: Vec<_> = touched().filter_map(|(key, known)| row(key, known)).collect();
        for piece in pieces(&put, |row| row.1.len()) {
            let insert = self.sql("INSERT INTO ").then(&self.tables.entry);
            let insert = insert.then(" (k, value, revision, born, owner, cold) VALUES ");
            let rows = piece.iter().map(|(key, value, head)| {
                [
                    SqlArg::Text(key.as_str()),
                    SqlArg::Bytes(value),
                    SqlArg::Int(head.revision.0.cast_signed()),
                    SqlArg::Int(head.born.0.cast_signed()),
                    SqlArg::Maybe(head.owner.map(|id| id.0.cast_signed())),
                    SqlArg::Int(i64::from(key.is_cold())),
                ]
            });
            self.connection.execute(insert.rows(rows).then(self.dialect.replace_entry)).await?;
        }
        Ok(())
    }

    async fn write_changes(&mut self, state: &mut SqlState) -> Result<(), Error> {
        let notes: Vec<_> = state.changed.iter().collect();
        for piece in pieces(&notes, |_| 0) {
            let insert =
                self.sql("INSERT INTO ").then(&self.tables.change).then(" (revision, k, gone) VALUES ");
            let gone = |key| i64::from(state.entries.get(key).is_none_or(|known| known.head.is_none()));
            let rows = piece.iter().map(|(key, revision)| {
                [SqlArg::Int(revision.0.cast_signed()), SqlArg::Text(key.as_str()), SqlArg::Int(gone(*key))]
            });
            self.connection.execute(insert.rows(rows)).await?;
        }
        state.meta.changes += i64::try_from(notes.len()).unwrap_or(i64::MAX);
        while state.meta.changes > REMEMBERED + SLICE {
            let oldest = self.sql("SELECT revision FROM ").then(&self.tables.change);
            let oldest = oldest.then(&format!(" ORDER BY revision LIMIT 1 OFFSET {}", SLICE - 1));
            let oldest = self.connection.query_one(oldest).await?.revision(0)?;
            let forget = self.sql("DELETE FROM ").then(&self.tables.change).then(" WHERE revision <= ");
            let forgotten = self.connection.execute(forget.number(oldest.0)).await?;
            state.meta.changes -= i64::try_from(forgotten).unwrap_or(i64::MAX);
            state.meta.forgotten = oldest;
        }
        Ok(())
    }

    /// When the next act is due, from the group's moment: when any lease ends, or before a pause becomes so
    /// long that a lease would be extended.
    pub(super) async fn next_end(&mut self, now: i64) -> Result<Option<Millis>, Error> {
        let next = self.sql("SELECT min(ends), min(ttl) FROM ").then(&self.tables.lease);
        let row = self.connection.query_one(next).await?;
        let next = row.optional_int(0)?.zip(row.optional_int(1)?);
        Ok(next.map(|(end, shortest)| Millis((end - now).min(shortest / 3))))
    }

    fn sql<'a>(&self, text: &str) -> SqlStatement<'a> {
        SqlStatement::new(self.dialect, text)
    }
}

/// An entry that has to be written completely.
fn row<'b>(key: &'b Key, known: &'b KeyState) -> Option<(&'b Key, &'b [u8], &'b EntryHead)> {
    let head = known.head.as_ref()?;
    Some((key, head.value.as_deref()?, head))
}

fn number<'a>(id: LeaseId) -> SqlArg<'a> {
    SqlArg::Int(id.0.cast_signed())
}

fn closes(group: &[WriteRequest], id: LeaseId) -> bool {
    group.iter().any(|ask| matches!(ask, WriteRequest::Close(closed, _) if *closed == id))
}

/// Collects the keys and leases of a request.
fn collect_names<'a>(ask: &'a WriteRequest, keys: &mut BTreeSet<&'a Key>, leases: &mut BTreeSet<LeaseId>) {
    match ask {
        WriteRequest::Open(..) => {}
        WriteRequest::Renew(id, _) | WriteRequest::Close(id, _) => drop(leases.insert(*id)),
        WriteRequest::Commit(txns, _) => {
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
