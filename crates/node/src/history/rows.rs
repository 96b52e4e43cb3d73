//! Rows of many tables: reads and changes many at once, and turns an attempt into a row and back.

use std::borrow::Cow;

use evenkeel_core::ids::{RunId, Token};
use evenkeel_core::job::RunParameters;
use evenkeel_core::time::Wall;
use evenkeel_registry::sql::{ROWS_MAX, SqlArg};

use super::connection::{DatabaseError, HistoryConnection, HistoryRow, odd};
use super::record::{AttemptState, RunRecord};

/// The columns of an attempt, in the order in which [`record`] reads them.
pub(super) const COLUMNS: &str = "seq, run, attempt, job, shard, due, node, state, reason, code, token, started, ended, \
                                  since, output, sent";

/// A condition that matches any of many values.
pub(super) async fn any_of<'a>(
    link: &mut HistoryConnection,
    text: &str,
    these: impl Iterator<Item = &'a str>,
) -> Result<Vec<HistoryRow>, DatabaseError> {
    let (these, mut found): (Vec<_>, _) = (these.collect(), Vec::new());
    for some in these.chunks(ROWS_MAX) {
        let asked = link.statement(text).any_of(some.iter().map(|text| SqlArg::Text(text)));
        found.extend(link.rows(asked).await?);
    }
    Ok(found)
}

/// Updates or deletes the rows with these numbers.
pub(super) async fn change(
    link: &mut HistoryConnection,
    text: &str,
    rows: Vec<i64>,
) -> Result<(), DatabaseError> {
    for some in rows.chunks(ROWS_MAX) {
        let these = link.statement(text).any_of(some.iter().map(|seq| SqlArg::Int(*seq)));
        link.run(these).await?;
    }
    Ok(())
}

/// An attempt from a row of [`COLUMNS`].
pub(super) fn record(row: &HistoryRow) -> Result<RunRecord, DatabaseError> {
    let run: RunId = row.text(1)?.parse().map_err(|_| odd(1))?;
    let wall = |column| row.maybe(column).map(|at| at.map(Wall));
    Ok(RunRecord {
        seq: row.int(0)?.cast_unsigned(),
        attempt: row.number(2)?,
        job: run.job.clone(),
        shard: run.shard,
        run,
        due: Wall(row.int(5)?),
        node: row.text(6)?,
        state: state(row.int(7)?).ok_or_else(|| odd(7))?,
        reason: row.text(8)?,
        code: row.maybe_number(9)?,
        token: row.maybe(10)?.map(|token| Token(token.cast_unsigned())),
        started: wall(11)?,
        ended: wall(12)?,
        from: Wall(row.int(13)?),
        output: row.int(14)?.cast_unsigned(),
        sent: row.text(15)?,
        parameters: RunParameters::default(),
    })
}

/// A text without the one character that PostgreSQL cannot store.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// The number of a state in the tables.
pub(super) fn number(state: AttemptState) -> i64 {
    AttemptState::ALL.iter().position(|s| *s == state).map_or(0, |n| n as i64)
}

/// The state of a number in the tables.
fn state(number: i64) -> Option<AttemptState> {
    AttemptState::ALL.get(usize::try_from(number).ok()?).copied()
}
