//! Writes the changes of counts, in the transaction of the batch that makes them.
//!
//! The counts by namespace are few rows, and change at once. Those by job may be as many rows as the batch has attempts:
//! their changes are written together in one row, and [merged](merge) soon after, for many batches together.

use std::collections::BTreeMap;

use evenkeel_registry::sql::SqlArg;

use super::counts::{COUNT_COLUMNS, CountDelta};
use super::packed::DayCounts;
use super::tally::{CountChanges, DayChanges};
use crate::history::connection::{DatabaseError, HistoryConnection, odd};
use crate::history::rows::{any_of, change};

/// How many changes are merged at once, or those of one batch if it has more.
const MERGED_MAX: usize = 5_000;
/// The most batches that are read at once.
const BATCHES_MAX: usize = 200;

/// Writes the changes of a batch; returns whether there are any.
///
/// # Errors
/// The database cannot be read or written.
pub(in crate::history) async fn save(
    link: &mut HistoryConnection,
    tally: &CountChanges,
) -> Result<bool, DatabaseError> {
    let Some(changes) = tally.encode() else { return Ok(false) };
    let table = link.table("rollup_pending");
    let last = link.rows(link.statement(format!("SELECT max(seq) FROM {table}"))).await?;
    let last = last.first().map_or(Ok(None), |row| row.maybe(0))?.unwrap_or_default();
    let added = link.statement(format!("INSERT INTO {table} (seq, changes) VALUES "));
    link.run(added.rows([[SqlArg::Int(last + 1), SqlArg::Text(&changes)]])).await?;
    save_hours(link, &tally.by_namespace()).await?;
    Ok(true)
}

/// Merges the changes of some batches into the rows of jobs, in a transaction that has begun; returns whether there are
/// more.
///
/// # Errors
/// The database cannot be read or written, or it holds a row that history never writes.
pub(in crate::history) async fn merge(link: &mut HistoryConnection) -> Result<bool, DatabaseError> {
    let table = link.table("rollup_pending");
    let asked = link.statement(format!("SELECT seq FROM {table} ORDER BY seq LIMIT {BATCHES_MAX}"));
    let pending = link.rows(asked).await?;
    let (mut tally, mut done) = (CountChanges::default(), Vec::new());
    for row in &pending {
        if tally.len() >= MERGED_MAX {
            break;
        }
        let seq = row.int(0)?;
        let asked =
            link.statement(format!("SELECT changes FROM {table} WHERE seq = ")).with(SqlArg::Int(seq));
        let found = link.rows(asked).await?;
        let changes = found.first().ok_or_else(|| odd(0))?.text(0)?;
        tally.decode(&changes).ok_or_else(|| odd(1))?;
        done.push(seq);
    }
    for (day, jobs) in tally.by_day() {
        save_day(link, day, &jobs).await?;
    }
    let more = done.len() < pending.len() || pending.len() >= BATCHES_MAX;
    change(link, &format!("DELETE FROM {table} WHERE seq IN "), done).await?;
    Ok(more)
}

/// Changes the rows of these jobs on one day.
async fn save_day(
    link: &mut HistoryConnection,
    day: i64,
    jobs: &DayChanges<'_>,
) -> Result<(), DatabaseError> {
    let table = link.table("rollup_job");
    let asked = format!("SELECT job, hours FROM {table} WHERE day = {day} AND job IN ");
    let mut known: BTreeMap<String, DayCounts> = BTreeMap::new();
    for row in any_of(link, &asked, jobs.keys().map(|job| job.as_str())).await? {
        known.insert(row.text(0)?, DayCounts::decode(&row.bytes(1)?).ok_or_else(|| odd(1))?);
    }
    let changed = jobs.iter().map(|(job, hours)| {
        let mut counts = known.remove(job.as_str()).unwrap_or_default();
        hours.iter().for_each(|(hour, delta)| counts.apply(*hour, delta));
        (job.as_str(), counts.encode(), counts.trouble())
    });
    let changed: Vec<_> = changed.collect();
    let each = changed.iter().map(|(job, hours, trouble)| {
        [SqlArg::Int(day), SqlArg::Text(job), SqlArg::Bytes(hours), SqlArg::Int(trouble.cast_signed())]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {table} (day, job, hours, trouble) VALUES ");
    let behind = link.dialect.update("day, job", &["hours", "trouble"]);
    link.insert((&before, &behind), &rows).await
}

/// Adds to the rows of these namespaces and hours.
async fn save_hours(
    link: &mut HistoryConnection,
    hours: &BTreeMap<(&str, i64), CountDelta>,
) -> Result<(), DatabaseError> {
    let each = hours.iter().map(|((namespace, hour), CountDelta(counts))| {
        let [ran, failed, killed, missed, skipped, late, manual, millis] = counts.map(SqlArg::Int);
        let (namespace, hour) = (SqlArg::Text(namespace), SqlArg::Int(*hour));
        [namespace, hour, ran, failed, killed, missed, skipped, late, manual, millis]
    });
    let rows: Vec<_> = each.collect();
    let table = link.table("rollup_hour");
    let before = format!("INSERT INTO {table} (namespace, hour, {}) VALUES ", COUNT_COLUMNS.join(", "));
    let behind = link.dialect.increase(&table, "namespace, hour", &COUNT_COLUMNS);
    link.insert((&before, &behind), &rows).await
}
