//! The baseline of benchmarks: each engine's own client, used directly with the same rows, batch size and durability.
//!
//! Benchmarks print their own figure as a percentage of this one.

mod client;
mod file;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::EngineUrl;
use crate::clock::Stopwatch;
use crate::sqlite::connect;
pub use client::{BaselineClient, BenchError, VALUE, row_key};

/// The row of the `n`th replacement: all over the table, each once before any comes again.
///
/// `rows` must not be a multiple of 7919.
#[must_use]
pub fn nth_row(n: u32, rows: u32) -> u32 {
    n.wrapping_mul(7_919) % rows
}

/// Rows that SQLite replaces in a second when each of `rounds` transactions replaces `batch` of `rows` by their key,
/// with nothing checked: the ceiling for a program that commits so many together on this disk. Uses a file of its own
/// at `path`.
///
/// # Errors
/// SQLite's error.
pub fn sqlite_ceiling(path: &Path, rows: u32, batch: u32, rounds: u32) -> rusqlite::Result<f64> {
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
    (0..rows).try_for_each(|row| insert.execute(params![row_key(row), VALUE]).map(drop))?;
    drop(insert);
    fill.commit()?;
    let mut spent = Duration::ZERO;
    for round in 0..rounds {
        let keys: Vec<_> = (0..batch).map(|i| row_key(nth_row(round * batch + i, rows))).collect();
        let watch = Stopwatch::start();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut update =
            connection.prepare_cached("UPDATE entry SET value = ?2, revision = ?3 WHERE key = ?1")?;
        for key in &keys {
            update.execute(params![key, VALUE, round])?;
        }
        drop(update);
        connection.execute_batch("COMMIT")?;
        spent += watch.elapsed();
    }
    Ok(f64::from(batch * rounds) / spent.as_secs_f64())
}

/// Connects directly to the engine at a URL (of SQLite: a file that does not exist yet) and creates this many rows
/// there.
///
/// `together`: whether many commits are one transaction. SQL servers, SQLite and Redis are fastest so, and get them so
/// in any case; etcd and ZooKeeper also get them in parallel, each by itself, as an ordinary client sends them.
///
/// # Errors
/// The client's error; an engine that this program was built without.
pub async fn baseline_client(
    url: &str,
    rows: u32,
    together: bool,
) -> Result<Box<dyn BaselineClient>, BenchError> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        return Ok(Box::new(file::SqliteBaseline::make(Path::new(path), rows)?));
    }
    let url = EngineUrl::parse(url)?;
    match url.scheme() {
        #[cfg(feature = "postgres")]
        "postgres" => Ok(Box::new(postgres::SqlBaseline::make(&url, rows).await?)),
        #[cfg(feature = "mysql")]
        "mysql" => Ok(Box::new(mysql::SqlBaseline::make(&url, rows).await?)),
        #[cfg(feature = "redis")]
        "redis" => Ok(Box::new(redis::RedisBaseline::make(&url, rows).await?)),
        #[cfg(feature = "etcd")]
        "etcd" => Ok(Box::new(crate::etcd::EtcdBaseline::make(&url, rows, together).await?)),
        #[cfg(feature = "zookeeper")]
        "zookeeper" => Ok(Box::new(zookeeper::ZookeeperBaseline::make(&url, rows, together).await?)),
        scheme => Err(format!("nobody drives {scheme} by hand").into()),
    }
}
