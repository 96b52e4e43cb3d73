//! Deletes roll-ups that are too old, a little at a time (`I48`).

use evenkeel_core::time::Wall;
use evenkeel_registry::sql::SqlArg;

use super::{DAY, hour_of};
use crate::history::connection::{DatabaseError, HistoryConnection};

/// The hour and the day before which roll-ups are too old, if those up to this moment are.
pub(in crate::history) fn oldest(before: Wall) -> (i64, i64) {
    (hour_of(before), hour_of(before).div_euclid(DAY))
}

/// Deletes rows of jobs before this day, at most this many and of one day at once; returns whether there may be more.
///
/// # Errors
/// The database cannot be read or written.
pub(in crate::history) async fn sweep_jobs(
    link: &mut HistoryConnection,
    oldest: i64,
    at_most: u32,
) -> Result<bool, DatabaseError> {
    let table = link.table("rollup_job");
    let first = link.rows(link.statement(format!("SELECT min(day) FROM {table}"))).await?;
    let first = first.first().map_or(Ok(None), |row| row.maybe(0))?;
    let Some(day) = first.filter(|day| *day < oldest) else { return Ok(false) };
    let last = link.statement(format!("SELECT job FROM {table} WHERE day = ")).with(SqlArg::Int(day));
    let last = last.then(&format!(" ORDER BY job LIMIT 1 OFFSET {}", at_most.saturating_sub(1)));
    let last = link.rows(last).await?.first().map(|row| row.text(0)).transpose()?;
    let mut old = link.statement(format!("DELETE FROM {table} WHERE day = ")).with(SqlArg::Int(day));
    if let Some(job) = &last {
        old = old.then(" AND job <= ").with(SqlArg::Text(job));
    }
    link.run(old).await?;
    Ok(true)
}
