//! A writing transaction on the server: reads what a group needs under the counter's lock; `commit.rs` writes in bulk.
//!
//! The counter's row is locked first, so transactions are made one after another in the order of their revisions, and
//! each reads what the last one left.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Guard, LeaseId, Revision, Value, Write};
use evenkeel_core::time::Millis;
use sqlx::Error;

use super::clock_step::{self, ClockObservation, LeaseAdjustment, ServerClockReading};
use super::config::{SqlConfig, SqlLimits, storable};
use super::connection::{SqlAnswer, SqlConnection, SqlRow};
use super::dialect::TableNames;
use super::state::{EntryHead, SqlMeta, SqlState};
use super::statement::{SqlArg, SqlStatement, pieces};
use crate::queue::WriteRequest;

/// A begun transaction.
pub(super) struct SqlSnapshot<'l> {
    pub(super) connection: &'l mut SqlConnection,
    pub(super) config: &'l SqlConfig,
}

/// What a transaction found when it had locked the counter.
pub(super) struct FoundOrder {
    /// The counter. Its revision is the last one that was given, by hot transactions too.
    pub(super) meta: SqlMeta,
    /// The revision of the last ordered writer.
    pub(super) ordered: Revision,
    /// How often the server was rolled back.
    pub(super) generation: i64,
    /// The revision of the hot entry that was asked for.
    pub(super) hot: Revision,
}

/// When a transaction closes the gate to hot ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HotGate {
    /// With its last request, if it changes entries: a few, and cold ones only.
    Late,
    /// Before it reads.
    Early,
}

impl SqlSnapshot<'_> {
    /// Begins, waits for its turn, and locks and reads the counter; and `hot`, an expression for a revision.
    pub(super) async fn begin(&mut self, gate: HotGate, hot: &str) -> Result<FoundOrder, Error> {
        let TableNames { meta, order, .. } = &self.config.tables;
        let close = if gate == HotGate::Early { order.close_gate.as_str() } else { "" };
        let text = format!(
            "{}; {}{}{close}SELECT m.revision, m.forgotten, m.changes, m.leases, m.clock, m.generation, {}, \
             {hot} FROM {meta} m FOR UPDATE",
            self.config.dialect.begin, order.prepare, order.queue, order.position
        );
        let row = self.connection.ask_one(self.sql(&text)).await?;
        let meta = SqlMeta {
            revision: row.revision(6)?,
            forgotten: row.revision(1)?,
            changes: row.int(2)?,
            leases: row.int(3)?.cast_unsigned(),
            clock: row.int(4)?,
        };
        Ok(FoundOrder { meta, ordered: row.revision(0)?, generation: row.int(5)?, hot: row.revision(7)? })
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
        let (mut keys, mut leases) = (BTreeSet::new(), BTreeSet::new());
        group.iter().for_each(|ask| collect_names(ask, &mut keys, &mut leases));
        let needed = self.needed(&keys, &leases);
        let clock = self.sql(&format!("SELECT {}", self.config.dialect.sql.now));
        let asked = clock_step::mono();
        let mut answers = self.ask_all(std::iter::once(clock).chain(needed.clone())).await?;
        let now =
            answers.next().and_then(|mut answer| answer.rows.pop()).ok_or(Error::RowNotFound)?.int(0)?;
        let reading =
            ServerClockReading { clock: meta.clock, now, sent_at: asked, received_at: clock_step::mono() };
        let (passed, observation) = observation.evaluate(&reading);
        if self.extend_for_absence(&limits, &passed, now).await? {
            answers = self.ask_all(needed).await?;
        }
        let mut state = SqlState::new(limits, now, meta);
        state.meta.clock = passed.clock;
        for row in answers.next().into_iter().chain(answers.by_ref().take(leases_asked(&leases))) {
            for row in row.rows {
                state.add_lease(LeaseId(row.int(0)?.cast_unsigned()), Millis(row.int(1)?), row.int(2)?);
            }
        }
        for answer in answers {
            add_entries(&mut state, answer.rows)?;
        }
        let ending =
            state.leases.iter().filter(|(id, lease)| lease.ends <= passed.clock || closes(group, **id));
        let ending: Vec<_> = ending.map(|(id, _)| *id).collect();
        if !ending.is_empty() {
            let owned = self.entries(" owner IN ").any_of(ending.iter().map(|id| number(*id)));
            add_entries(&mut state, self.connection.ask(owned).await?)?;
        }
        Ok((state, observation))
    }

    /// The questions for leases that may be over, for those that are named, and for entries. The first is answered by
    /// the server's clock, so it may find leases that end a moment later than the group acts.
    fn needed<'a>(&self, keys: &BTreeSet<&'a Key>, leases: &BTreeSet<LeaseId>) -> Vec<SqlStatement<'a>> {
        let lease = |which: &str| {
            let select = self.sql("SELECT id, ttl, ends FROM ").then(&self.config.tables.lease);
            select.then(" WHERE ").then(which)
        };
        let mut needed = vec![lease("ends <= ").then(self.config.dialect.sql.now)];
        let named: Vec<_> = leases.iter().copied().collect();
        for piece in pieces(&named, |_| 0) {
            needed.push(lease("id IN ").any_of(piece.iter().map(|id| number(*id))));
        }
        let keys: Vec<_> = keys.iter().copied().filter(|key| storable(key)).collect();
        for piece in pieces(&keys, |_| 0) {
            let keys = piece.iter().map(|key| SqlArg::Text(key.as_str()));
            needed.push(self.entries(" k IN ").any_of(keys));
        }
        needed
    }

    fn entries<'a>(&self, which: &str) -> SqlStatement<'a> {
        let select = self.sql("SELECT k, revision, born, owner FROM ").then(&self.config.tables.entry);
        select.then(" WHERE").then(which)
    }

    /// Sends statements as one request.
    async fn ask_all<'a>(
        &mut self,
        statements: impl IntoIterator<Item = SqlStatement<'a>>,
    ) -> Result<std::vec::IntoIter<SqlAnswer>, Error> {
        let texts: Vec<_> = statements.into_iter().map(SqlStatement::into_text).collect();
        let answers = self.connection.ask_all(&texts.join("; ")).await.map_err(|(_, error)| error)?;
        if answers.len() == texts.len() { Ok(answers.into_iter()) } else { Err(Error::RowNotFound) }
    }

    /// Extends leases first whose holders could not renew, as no writer was served (docs/design/protocol.md): by their
    /// term, or by the time that the server was out of sight. A step of its clock moves the ends of all leases. No
    /// lease then has more left than its term.
    async fn extend_for_absence(
        &mut self,
        limits: &SqlLimits,
        passed: &LeaseAdjustment,
        now: i64,
    ) -> Result<bool, Error> {
        let LeaseAdjustment { step, away, unobserved: unseen, .. } = *passed;
        if step == 0 && away <= limits.facts.ttl_min.0 / 2 {
            return Ok(false);
        }
        let update = self.sql("UPDATE ").then(&self.config.tables.lease).then(" SET ends = LEAST(ends + ");
        let update = update.with(SqlArg::Int(step)).then(" + CASE WHEN ttl < ");
        let update = update.with(SqlArg::Int(away.saturating_mul(2))).then(" THEN GREATEST(ttl, ");
        let update = update.with(SqlArg::Int(unseen)).then(") ELSE 0 END, ttl + ").with(SqlArg::Int(now));
        self.connection.tell(update.then(")")).await.map(|_| true)
    }

    /// Reads the values of some entries as the transaction found them; call this before any write.
    pub(super) async fn values(&mut self, keys: &[Key]) -> Result<BTreeMap<Key, Value>, Error> {
        let mut values = BTreeMap::new();
        for piece in pieces(keys, |_| 0) {
            let select =
                self.sql("SELECT k, value FROM ").then(&self.config.tables.entry).then(" WHERE k IN ");
            let select = select.any_of(piece.iter().map(|key| SqlArg::Text(key.as_str())));
            for row in self.connection.ask(select).await? {
                values.insert(row.key(0)?, row.bytes(1)?.into());
            }
        }
        Ok(values)
    }

    pub(super) fn sql<'a>(&self, text: &str) -> SqlStatement<'a> {
        SqlStatement::new(self.config.dialect, text)
    }
}

/// How many questions a set of leases takes.
fn leases_asked(leases: &BTreeSet<LeaseId>) -> usize {
    pieces(&leases.iter().collect::<Vec<_>>(), |_| 0).len()
}

fn add_entries(state: &mut SqlState, rows: Vec<SqlRow>) -> Result<(), Error> {
    for row in rows {
        let (revision, born, owner) = (row.revision(1)?, row.revision(2)?, row.owner(3)?);
        state.add_entry(row.key(0)?, EntryHead { revision, born, owner, value: None });
    }
    Ok(())
}

pub(super) fn number<'a>(id: LeaseId) -> SqlArg<'a> {
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
