//! Hot transactions as one statement, which PostgreSQL makes one transaction with the statements before it.

use evenkeel_core::registry::Revision;
use sqlx::Error;

use super::txn::{ABSENT, AT, HotRequest, HotTxn, PRESENT};
use crate::sql::config::SqlConfig;
use crate::sql::connection::SqlAnswer;
use crate::sql::dialect::{RevisionSequence, TableNames};
use crate::sql::statement::{SqlArg, SqlStatement};

/// Passes the gate, then checks all guards, draws revisions and writes.
pub(super) fn request(
    txns: &[HotTxn<'_>],
    config: &SqlConfig,
    sequence: &RevisionSequence,
    condition: &str,
) -> HotRequest {
    let TableNames { meta, entry, order, .. } = &config.tables;
    let draw = &sequence.draw;
    let rows = (0_i64..).zip(txns).map(|(nth, txn)| {
        let value = SqlArg::Bytes(txn.value);
        [SqlArg::Int(nth), SqlArg::Text(txn.key.as_str()), value, SqlArg::Int(txn.replaces)]
    });
    let sql = |text: &str| SqlStatement::new(config.dialect, text);
    let asked = sql(&order.prepare)
        .then(&order.pass_gate)
        .then("WITH asked(nth, k, value, replaces) AS (VALUES ")
        .rows(rows);
    let mut text = asked.into_text();
    text.push_str("), ");
    let guards: Vec<_> = (0_i64..)
        .zip(txns)
        .flat_map(|(nth, txn)| {
            txn.guards.iter().map(move |guard| {
                let key = SqlArg::Text(guard.key.as_str());
                [SqlArg::Int(nth), key, SqlArg::Int(guard.kind), SqlArg::Int(guard.number)]
            })
        })
        .collect();
    let mut unguarded = "";
    if !guards.is_empty() {
        text += &sql("guarded(nth, k, kind, n) AS (VALUES ").rows(guards).into_text();
        text += &format!(
            "), failed AS (SELECT g.nth FROM guarded g LEFT JOIN {entry} c ON c.k = g.k WHERE CASE g.kind \
             WHEN {PRESENT} THEN c.k IS NULL WHEN {ABSENT} THEN c.k IS NOT NULL \
             WHEN {AT} THEN c.revision IS DISTINCT FROM g.n ELSE c.born IS DISTINCT FROM g.n END), "
        );
        unguarded = "AND a.nth NOT IN (SELECT nth FROM failed) ";
    }
    text += &format!(
        "holds AS (SELECT a.* FROM asked a, {meta} m WHERE {condition} {unguarded}), \
         replaced AS (UPDATE {entry} e SET value = h.value, revision = {draw}, owner = NULL \
         FROM holds h WHERE h.replaces <> 0 AND e.k = h.k AND e.revision = h.replaces \
         RETURNING h.nth, e.revision)",
    );
    let mut select = "SELECT nth, revision FROM replaced".to_owned();
    if txns.iter().any(|txn| txn.replaces == 0) {
        text += &format!(
            ", new AS MATERIALIZED (SELECT h.*, {draw} AS drawn FROM holds h \
             WHERE h.replaces = 0), created AS (INSERT INTO {entry} (k, value, revision, born, owner, cold) \
             SELECT k, value, drawn, drawn, NULL, 0 FROM new ON CONFLICT DO NOTHING RETURNING revision)"
        );
        select += " UNION ALL SELECT n.nth, n.drawn FROM new n JOIN created c ON c.revision = n.drawn";
    }
    // What the server says at the end of the request is that it rolled back.
    HotRequest { text: text + " " + &select, before_commit: usize::MAX }
}

/// The revisions of those that were made.
pub(super) fn made(txns: &[HotTxn<'_>], answers: Vec<SqlAnswer>) -> Result<Vec<Option<Revision>>, Error> {
    let mut made = vec![None; txns.len()];
    for row in answers.into_iter().next_back().unwrap_or_default().rows {
        let place = usize::try_from(row.int(0)?).ok().and_then(|nth| made.get_mut(nth));
        *place.ok_or(Error::RowNotFound)? = Some(row.revision(1)?);
    }
    Ok(made)
}
