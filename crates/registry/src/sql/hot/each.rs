//! Hot transactions as one statement each, in a request that begins and commits a transaction: MariaDB.
//!
//! Behind the gate a first statement checks the guards, draws a revision for each call and keeps all of that in variables
//! of the session; each following one writes an entry if they allow it. A statement that fails ends the request, and what
//! has begun is rolled back by the writer, or by the server, which ends a silent transaction and that of a lost connection.
//!
//! All entries of one call get one revision: that is what the contract allows, and a draw is a write.

use evenkeel_core::registry::Revision;
use sqlx::Error;

use super::txn::{ABSENT, AT, ColdGuard, HotRequest, HotTxn, PRESENT};
use crate::sql::config::SqlConfig;
use crate::sql::connection::SqlAnswer;
use crate::sql::dialect::{RevisionSequence, TableNames};
use crate::sql::statement::{SqlArg, SqlStatement};

/// The most transactions of a request. An ordered one writes many with fewer statements.
pub(super) const MOST: usize = 64;

/// The answers before those to the writes: the begin, the gate and the checks.
const CHECKS: usize = 3;

/// Passes the gate, checks all guards, draws revisions, writes and commits.
pub(super) fn request(
    txns: &[HotTxn<'_>],
    config: &SqlConfig,
    sequence: &RevisionSequence,
    condition: &str,
) -> HotRequest {
    let TableNames { meta, entry, order, .. } = &config.tables;
    let sql = |text: String| SqlStatement::new(config.dialect, text);
    let mut guards: Vec<_> = txns.iter().flat_map(|txn| &txn.guards).collect();
    guards.sort_unstable();
    guards.dedup();
    let draws = (0..calls(txns)).map(|call| format!("{} := {}", revision(call), sequence.draw));
    let order_holds = format!("@evenkeel_order := (SELECT count(*) FROM {meta} m WHERE {condition})");
    let guards_hold = guards.iter().enumerate().map(|(nth, guard)| {
        let (exists, with) = test(guard);
        let found = sql(format!("{} := {exists} (SELECT 1 FROM {entry} c WHERE c.k = ", holds(nth)));
        found.with(SqlArg::Text(guard.key.as_str())).then(&with).then(")").into_text()
    });
    let checks: Vec<_> = draws.chain([order_holds]).chain(guards_hold).collect();
    let mut text = format!("{}; {}SELECT {}", config.dialect.begin, order.pass_gate, checks.join(", "));
    // In the order of their keys, so that no two groups wait for each other.
    let mut sorted: Vec<_> = txns.iter().collect();
    sorted.sort_unstable_by_key(|txn| txn.key);
    for txn in sorted {
        let (drawn, key) = (revision(txn.call), SqlArg::Text(txn.key.as_str()));
        let write = match txn.replaces {
            0 => sql(format!("; INSERT IGNORE INTO {entry} (k, value, revision, born, owner, cold) SELECT "))
                .with(key)
                .then(", ")
                .with(SqlArg::Bytes(txn.value))
                .then(&format!(", {drawn}, {drawn}, NULL, 0 FROM DUAL WHERE ")),
            _ => sql(format!("; UPDATE {entry} SET value = "))
                .with(SqlArg::Bytes(txn.value))
                .then(&format!(", revision = {drawn}, owner = NULL WHERE k = "))
                .with(key)
                .then(" AND revision = ")
                .with(SqlArg::Int(txn.replaces))
                .then(" AND "),
        };
        text += &write.into_text();
        text += "@evenkeel_order";
        for nth in txn.guards.iter().filter_map(|guard| guards.binary_search(&guard).ok()) {
            text = text + " AND " + &holds(nth);
        }
    }
    HotRequest { text: text + "; COMMIT", before_commit: CHECKS + txns.len() }
}

/// The revisions of those that were made.
pub(super) fn made(txns: &[HotTxn<'_>], answers: &[SqlAnswer]) -> Result<Vec<Option<Revision>>, Error> {
    let drawn = answers.get(CHECKS - 1).and_then(|answer| answer.rows.first()).ok_or(Error::RowNotFound)?;
    let mut sorted: Vec<_> = txns.iter().enumerate().collect();
    sorted.sort_unstable_by_key(|(_, txn)| txn.key);
    let mut made = vec![None; txns.len()];
    for (statement, (nth, txn)) in sorted.into_iter().enumerate() {
        let wrote = answers.get(CHECKS + statement).ok_or(Error::RowNotFound)?;
        if wrote.affected > 0 {
            made[nth] = Some(drawn.revision(txn.call)?);
        }
    }
    Ok(made)
}

fn calls(txns: &[HotTxn<'_>]) -> usize {
    txns.iter().map(|txn| txn.call + 1).max().unwrap_or_default()
}

fn revision(call: usize) -> String {
    format!("@evenkeel_revision{call}")
}

fn holds(guard: usize) -> String {
    format!("@evenkeel_guard{guard}")
}

/// How a guard is tested: whether its entry is to be there, and what more is to be true of it.
fn test(guard: &ColdGuard<'_>) -> (&'static str, String) {
    match guard.kind {
        PRESENT => ("EXISTS", String::new()),
        ABSENT => ("NOT EXISTS", String::new()),
        AT => ("EXISTS", format!(" AND c.revision = {}", guard.number)),
        _ => ("EXISTS", format!(" AND c.born = {}", guard.number)),
    }
}
