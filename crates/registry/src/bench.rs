//! What the machine gives: SQLite driven by hand with the same rows, the same batch size and the same durability.
//!
//! Benchmarks print their own figure as a share of this one.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::clock::Stopwatch;
use crate::sqlite::connect;

/// How many rows there are to choose from.
pub const ROWS: u32 = 100_000;

/// As long as a lane's value usually is.
pub const VALUE: [u8; 96] = [7; 96];

/// The key of a row.
#[must_use]
pub fn row_key(row: u32) -> String {
    format!("lane/job-{row:07}/claim")
}

/// Rows that SQLite replaces in a second when each of `rounds` transactions replaces `batch` rows by their key, with
/// nothing checked: the ceiling of every engine on this file system. Uses a file of its own at `path`.
///
/// # Errors
/// What SQLite says.
pub fn ceiling(path: &Path, batch: u32, rounds: u32) -> rusqlite::Result<f64> {
    drop(Connection::open(path)?);
    let mut connection = connect(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE IF NOT EXISTS entry (
             key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, born INTEGER NOT NULL, owner INTEGER
         ) STRICT, WITHOUT ROWID;",
    )?;
    let fill = connection.transaction()?;
    let mut insert = fill.prepare("INSERT OR REPLACE INTO entry VALUES (?1, ?2, 1, 1, NULL)")?;
    (0..ROWS).try_for_each(|row| insert.execute(params![row_key(row), VALUE]).map(drop))?;
    drop(insert);
    fill.commit()?;
    let mut spent = Duration::ZERO;
    for round in 0..rounds {
        let keys: Vec<_> =
            (0..batch).map(|i| row_key((round * batch + i).wrapping_mul(7_919) % ROWS)).collect();
        let watch = Stopwatch::start();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut update =
            connection.prepare_cached("UPDATE entry SET value = ?2, revision = ?3 WHERE key = ?1")?;
        for key in &keys {
            update.execute(params![key, VALUE, round])?;
        }
        drop(update);
        connection.execute_batch("COMMIT")?;
        spent += watch.passed();
    }
    Ok(f64::from(batch * rounds) / spent.as_secs_f64())
}
