//! Counts the attempts that an earlier version wrote, once, a little at a time.
//!
//! The migration notes up to which row it has to go. A row that a batch has counted meanwhile has a mark already.

use std::collections::BTreeMap;

use evenkeel_core::ids::Fire;
use evenkeel_core::time::Millis;
use evenkeel_registry::sql::SqlArg;

use super::mark::{FireClass, FireMark, contribution, late_start};
use super::tally::CountChanges;
use super::{LATE, store};
use crate::history::connection::{DatabaseError, HistoryConnection};
use crate::history::record::RunRecord;
use crate::history::rows::{COLUMNS, change, record};

/// How many rows are counted at once.
const CHUNK: usize = 5_000;

/// Counts some rows of an earlier version, in a transaction that has begun; returns whether there are more.
///
/// # Errors
/// The database cannot be read or written.
pub(in crate::history) async fn step(link: &mut HistoryConnection) -> Result<bool, DatabaseError> {
    let (state, attempt) = (link.table("rollup_state"), link.table("attempt"));
    let found = link.rows(link.statement(format!("SELECT next, last FROM {state} WHERE one = 1"))).await?;
    let Some(row) = found.first() else { return Ok(false) };
    let (next, last) = (row.int(0)?, row.int(1)?);
    if next >= last {
        return Ok(false);
    }
    let asked = link.statement(format!("SELECT {COLUMNS}, counted FROM {attempt} WHERE seq > "));
    let asked = asked.with(SqlArg::Int(next)).then(" AND seq <= ").with(SqlArg::Int(last));
    let rows = link.rows(asked.then(&format!(" ORDER BY seq LIMIT {CHUNK}"))).await?;
    let rows = rows.iter().map(|row| Ok((record(row)?, FireMark::of(row.int(16)?))));
    let rows = rows.collect::<Result<Vec<_>, DatabaseError>>()?;
    let latest = latest_attempts(link, &rows).await?;
    let (mut tally, mut marks): (CountChanges, BTreeMap<i64, Vec<i64>>) = Default::default();
    for (record, known) in &rows {
        let is_last = latest.get(&record.run.to_string()) == Some(&record.attempt);
        let mark = count(record, *known, is_last, &mut tally);
        if mark != *known {
            marks.entry(mark.number()).or_default().push(record.seq.cast_signed());
        }
    }
    for (mark, rows) in marks {
        change(link, &format!("UPDATE {attempt} SET counted = {mark} WHERE seq IN "), rows).await?;
    }
    store::save(link, &tally).await?;
    let done = rows.last().filter(|_| rows.len() >= CHUNK).map_or(last, |(last, _)| last.seq.cast_signed());
    let moved = link.statement(format!("UPDATE {state} SET next = ")).with(SqlArg::Int(done));
    link.run(moved.then(" WHERE one = 1")).await?;
    Ok(done < last)
}

/// The number of the last attempt of each of these runs.
async fn latest_attempts(
    link: &mut HistoryConnection,
    rows: &[(RunRecord, FireMark)],
) -> Result<BTreeMap<String, u32>, DatabaseError> {
    let mut runs: Vec<String> = rows.iter().map(|(record, _)| record.run.to_string()).collect();
    runs.sort_unstable();
    runs.dedup();
    let asked = format!("SELECT run, attempt FROM {} WHERE run IN ", link.table("attempt"));
    let mut latest: BTreeMap<String, u32> = BTreeMap::new();
    for row in crate::history::rows::any_of(link, &asked, runs.iter().map(String::as_str)).await? {
        let (run, attempt) = (row.text(0)?, row.number(1)?);
        let known = latest.entry(run).or_default();
        *known = (*known).max(attempt);
    }
    Ok(latest)
}

/// Counts a row, and returns its mark. How late its job allows a start is not known any more.
fn count(record: &RunRecord, known: FireMark, is_last: bool, tally: &mut CountChanges) -> FireMark {
    let mut mark = known;
    if mark.class.is_none()
        && is_last
        && let Some(class) = FireClass::of_row(record)
    {
        tally.add(&record.job, record.due, &contribution(record, class));
        mark.class = Some(class);
    }
    let by = record.started.map_or(Millis(0), |started| started - record.due);
    let is_first = record.attempt == 1 && matches!(record.run.fire, Fire::Due(_));
    if !mark.late && is_first && by > LATE {
        tally.add(&record.job, record.due, &late_start());
        mark.late = true;
    }
    mark
}
