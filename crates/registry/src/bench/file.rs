//! The SQLite baseline: one prepared statement a row, one transaction a batch.

use std::path::Path;

use rusqlite::{Connection, params};

use super::{BaselineClient, BenchError, VALUE, row_key};
use crate::BoxFuture;
use crate::sqlite::connect;

pub(super) struct SqliteBaseline {
    connection: Connection,
    revision: i64,
    revisions: Vec<i64>,
}

impl SqliteBaseline {
    pub(super) fn make(path: &Path, rows: u32) -> rusqlite::Result<Self> {
        drop(Connection::open(path)?);
        let mut connection = connect(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE by_hand (k TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) STRICT, WITHOUT ROWID;",
        )?;
        let fill = connection.transaction()?;
        for row in 0..rows {
            fill.execute("INSERT INTO by_hand VALUES (?1, ?2, 0)", params![row_key(row), VALUE])?;
        }
        fill.commit()?;
        Ok(Self { connection, revision: 0, revisions: vec![0; rows as usize] })
    }

    fn write(&mut self, pairs: &[[u32; 2]]) -> Result<(), BenchError> {
        self.revision += 1;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut update = self
            .connection
            .prepare_cached("UPDATE by_hand SET value = ?2, revision = ?3 WHERE k = ?1 AND revision = ?4")?;
        for row in pairs.as_flattened() {
            let known = &mut self.revisions[*row as usize];
            if update.execute(params![row_key(*row), VALUE, self.revision, *known])? != 1 {
                return Err("a row is not as it was left".into());
            }
            *known = self.revision;
        }
        drop(update);
        Ok(self.connection.execute_batch("COMMIT")?)
    }
}

impl BaselineClient for SqliteBaseline {
    fn commit<'a>(&'a mut self, pairs: &'a [[u32; 2]]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move { tokio::task::block_in_place(|| self.write(pairs)) })
    }
}
