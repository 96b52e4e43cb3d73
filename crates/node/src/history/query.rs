//! What history is asked.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::time::Wall;
use evenkeel_core::words::{RunId, Shard, Token, WordError};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::record::{EventFilter, EventRecord, LoadPoint, RunFilter, RunRecord, State};
use super::{schema, write};

/// The most rows one question is answered with.
const LIMIT_MAX: u32 = 10_000;
const COLUMNS: &str =
    "seq, run, attempt, due, node, state, reason, code, token, started, ended, since, output, sent";

/// The history could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the history cannot be read: {0}")]
pub struct HistoryError(String);

/// A door for readers, beside the one writer.
#[derive(Clone)]
pub(crate) struct HistoryReader(Arc<Mutex<Connection>>);

impl HistoryReader {
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(schema::open_to_read(path)?))))
    }

    pub(crate) async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, HistoryError> {
        self.ask(move |db| runs(db, &filter)).await
    }

    pub(crate) async fn run(&self, run: RunId) -> Result<Vec<RunRecord>, HistoryError> {
        self.ask(move |db| {
            db.prepare_cached(&format!("SELECT {COLUMNS} FROM attempt WHERE run = ?1 ORDER BY attempt"))?
                .query_map([run.to_string()], record)?
                .collect()
        })
        .await
    }

    pub(crate) async fn events(&self, filter: EventFilter) -> Result<Vec<EventRecord>, HistoryError> {
        self.ask(move |db| {
            let before = filter.before.map_or(i64::MAX, u64::cast_signed);
            let since = filter.since.map_or(i64::MIN, |at| at.0);
            db.prepare_cached(
                "SELECT seq, at, node, kind, text FROM event
                 WHERE seq < ?1 AND at >= ?2 AND (?3 IS NULL OR node = ?3) AND (?4 IS NULL OR kind = ?4)
                 ORDER BY seq DESC LIMIT ?5",
            )?
            .query_map(params![before, since, filter.node, filter.kind, filter.limit.min(LIMIT_MAX)], event)?
            .collect()
        })
        .await
    }

    pub(crate) async fn loads(
        &self,
        node: String,
        since: Wall,
        limit: u32,
    ) -> Result<Vec<LoadPoint>, HistoryError> {
        self.ask(move |db| {
            db.prepare_cached(
                "SELECT node, at, cpu, memory, busy, slots, score FROM load WHERE node = ?1 AND at >= ?2
                 ORDER BY at DESC LIMIT ?3",
            )?
            .query_map((node, since.0, limit.min(LIMIT_MAX)), load)?
            .collect()
        })
        .await
    }

    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, HistoryError> {
        let db = self.0.clone();
        tokio::task::spawn_blocking(move || question(&db.lock().unwrap_or_else(PoisonError::into_inner)))
            .await
            .map_err(|panic| HistoryError(panic.to_string()))?
            .map_err(|e| HistoryError(e.to_string()))
    }
}

fn load(row: &Row<'_>) -> rusqlite::Result<LoadPoint> {
    Ok(LoadPoint {
        node: row.get(0)?,
        at: Wall(row.get(1)?),
        cpu: row.get(2)?,
        memory: row.get(3)?,
        busy: row.get(4)?,
        slots: row.get(5)?,
        score: row.get(6)?,
    })
}

fn runs(db: &Connection, filter: &RunFilter) -> rusqlite::Result<Vec<RunRecord>> {
    let before = filter.before.map_or(i64::MAX, u64::cast_signed);
    let mut values = vec![before.to_string()];
    let mut sql = format!("SELECT {COLUMNS} FROM attempt WHERE seq < CAST(?1 AS INTEGER)");
    if let Some(job) = &filter.job {
        values.push(job.to_string());
        sql.push_str(" AND job = ?2");
    }
    if !filter.states.is_empty() {
        let list: Vec<String> = filter.states.iter().map(|state| write::number(*state).to_string()).collect();
        sql.push_str(&format!(" AND state IN ({})", list.join(", ")));
        if !filter.states.contains(&State::Succeeded) {
            // Said in the index's own words, or SQLite would not use it.
            sql.push_str(" AND state <> 1");
        }
    }
    sql.push_str(&format!(" ORDER BY seq DESC LIMIT {}", filter.limit.min(LIMIT_MAX)));
    db.prepare_cached(&sql)?.query_map(params_from_iter(values), record)?.collect()
}

fn record(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    let run: RunId = row
        .get::<_, String>(1)?
        .parse()
        .map_err(|e: WordError| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, Box::new(e)))?;
    let number: i64 = row.get(5)?;
    let wall = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Wall));
    Ok(RunRecord {
        seq: row.get::<_, i64>(0)?.cast_unsigned(),
        attempt: row.get(2)?,
        job: run.job.clone(),
        shard: Shard(run.shard.0),
        run,
        due: Wall(row.get(3)?),
        node: row.get(4)?,
        state: write::state(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(5, number))?,
        reason: row.get(6)?,
        code: row.get(7)?,
        token: row.get::<_, Option<i64>>(8)?.map(|token| Token(token.cast_unsigned())),
        started: wall(9)?,
        ended: wall(10)?,
        from: Wall(row.get(11)?),
        output: row.get::<_, i64>(12)?.cast_unsigned(),
        sent: row.get(13)?,
    })
}

fn event(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
    Ok(EventRecord {
        seq: row.get::<_, i64>(0)?.cast_unsigned(),
        at: Wall(row.get(1)?),
        node: row.get(2)?,
        kind: row.get(3)?,
        text: row.get(4)?,
    })
}

/// Late results of one attempt, for tests and curious operators.
#[cfg(test)]
pub(super) fn late(db: &Connection, run: &RunId, attempt: u32) -> Vec<(String, State)> {
    db.prepare("SELECT node, state FROM late WHERE run = ?1 AND attempt = ?2 ORDER BY state")
        .unwrap()
        .query_map(rusqlite::params![run.to_string(), attempt], |row| {
            Ok((row.get(0)?, write::state(row.get(1)?).unwrap()))
        })
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}
