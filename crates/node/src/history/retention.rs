//! Deletes old rows of history, a little at a time (`I48`).
//!
//! Where several nodes write one history, each of them sweeps; what one has deleted the next one does
//! not find.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel_core::ids::JobName;
use evenkeel_core::time::{Millis, Mono, Now, Wall};
use evenkeel_registry::sql::{SqlArg, SqlStatement};

use super::connection::{DatabaseError, HistoryConnection, HistoryRow};
use super::job_versions;
use super::rows::change;
use super::summary;
use crate::retention::Retention;

/// How often it sweeps, and how soon again when it left something.
const EVERY: Millis = Millis::secs(5);
const SOON: Millis = Millis(200);
/// The most rows that one sweep deletes for each reason.
const CHUNK: u32 = 5_000;
/// The most jobs whose new rows are counted; beyond them only age and the total bound the history.
const JOBS_MAX: usize = 100_000;
/// The most jobs in one sweep.
const JOBS_AT_ONCE: usize = 200;
/// Tables whose rows are deleted by age alone, and their time columns.
const BY_AGE: [(&str, &str); 7] = [
    ("late", "heard"),
    ("event", "at"),
    ("event_job", "happened"),
    ("load", "at"),
    ("notice", "at"),
    ("writer", "at"),
    (super::parameters::TABLE, "at"),
];

/// Counts new rows, and deletes old ones.
pub(super) struct RetentionSweeper {
    keep: Retention,
    next: Mono,
    grown: BTreeMap<JobName, u32>,
    /// Jobs with new versions, whose number was not looked at since.
    redeclared: BTreeSet<JobName>,
    /// Whether changes of roll-ups may wait to be merged.
    unmerged: bool,
}

impl RetentionSweeper {
    pub(super) fn new(keep: Retention) -> Self {
        Self {
            keep,
            next: Mono(i64::MIN),
            grown: BTreeMap::new(),
            redeclared: BTreeSet::new(),
            unmerged: true,
        }
    }

    /// Notes that these jobs have new versions, so that one of the next sweeps deletes those that are too many.
    pub(super) fn note_versions(&mut self, jobs: BTreeSet<JobName>) {
        let room = JOBS_MAX.saturating_sub(self.redeclared.len());
        self.redeclared.extend(jobs.into_iter().take(room));
    }

    /// Notes that changes of roll-ups wait to be merged.
    pub(super) fn note_counted(&mut self, is_counted: bool) {
        self.unmerged |= is_counted;
    }

    /// Merges changes of roll-ups while nothing else is to be written.
    pub(super) async fn merge(&mut self, link: &mut HistoryConnection) -> Result<(), DatabaseError> {
        // After an error it is tried again behind the next batch that counts.
        if std::mem::take(&mut self.unmerged) {
            link.lock().await?;
            let more = summary::store::merge(link).await?;
            link.commit().await?;
            self.unmerged = more;
        }
        Ok(())
    }

    /// Counts new rows, and deletes old ones when it is due.
    pub(super) async fn sweep(
        &mut self,
        link: &mut HistoryConnection,
        jobs: BTreeMap<JobName, u32>,
        now: Now,
    ) -> Result<(), DatabaseError> {
        for (job, rows) in jobs {
            if self.grown.len() < JOBS_MAX || self.grown.contains_key(&job) {
                *self.grown.entry(job).or_default() += rows;
            }
        }
        if now.mono < self.next {
            return Ok(());
        }
        self.next = now.mono + EVERY;
        let oldest = before(now.wall, self.keep.age);
        link.lock().await?;
        // Before they are deleted, the rows of an earlier version are counted.
        let mut more = summary::backfill::step(link).await?;
        let unmerged = summary::store::merge(link).await?;
        more |= unmerged;
        more |= self.sweep_attempts(link, oldest).await?;
        for (table, at) in BY_AGE {
            more |= sweep_by_age(link, table, at, oldest).await?;
        }
        more |= sweep_by_age(link, "audit", "at", before(now.wall, self.keep.audit)).await?;
        // The age of a version counts from when it was replaced, so the present one has none.
        more |= sweep_by_age(link, "job_version", "replaced", before(now.wall, self.keep.audit)).await?;
        more |= self.sweep_versions(link).await?;
        more |= self.sweep_jobs(link).await?;
        let (hour, day) = summary::sweep::oldest(before(now.wall, self.keep.summary));
        more |= sweep_by_age(link, "rollup_hour", "hour", Wall(hour)).await?;
        more |= summary::sweep::sweep_jobs(link, day, CHUNK).await?;
        link.commit().await?;
        self.unmerged = unmerged;
        if more {
            self.next = now.mono + SOON;
        }
        Ok(())
    }

    /// Deletes the oldest attempts that are too old or too many; returns whether there may be more.
    async fn sweep_attempts(
        &self,
        link: &mut HistoryConnection,
        oldest: Wall,
    ) -> Result<bool, DatabaseError> {
        let attempt = link.table("attempt");
        let last = link.rows(link.statement(format!("SELECT max(seq) FROM {attempt}"))).await?;
        let last = last.first().map_or(Ok(None), |row| row.maybe(0))?.unwrap_or_default();
        let few = last.saturating_sub(i64::try_from(self.keep.runs).unwrap_or(i64::MAX));
        let found = link.statement(format!(
            "SELECT seq FROM (SELECT seq, ended FROM {attempt} WHERE state <> 0 ORDER BY seq LIMIT {CHUNK}) oldest
             WHERE ended < "
        ));
        let found = found.with(SqlArg::Int(oldest.0)).then(" OR seq <= ").with(SqlArg::Int(few));
        Ok(forget(link, &attempt, found).await? >= CHUNK as usize)
    }

    /// Deletes the attempts beyond the latest ones of jobs that grew; returns whether there may be more.
    async fn sweep_jobs(&mut self, link: &mut HistoryConnection) -> Result<bool, DatabaseError> {
        let (mut gone, mut more) = (0, false);
        for job in self.grown_much() {
            if gone < CHUNK as usize {
                gone += sweep_job(link, &job, self.keep.runs_of_job).await?;
            }
            if gone >= CHUNK as usize {
                // This job may have more, and the ones behind it were not checked.
                self.grown.insert(job, u32::MAX / 2);
                more = true;
            }
        }
        Ok(more)
    }

    /// Deletes the versions beyond the latest ones of jobs with new ones; returns whether there are more such jobs.
    async fn sweep_versions(&mut self, link: &mut HistoryConnection) -> Result<bool, DatabaseError> {
        let some: Vec<JobName> = self.redeclared.iter().take(JOBS_AT_ONCE).cloned().collect();
        job_versions::trim(link, &some).await?;
        some.iter().for_each(|job| {
            self.redeclared.remove(job);
        });
        Ok(!self.redeclared.is_empty())
    }

    /// Takes the jobs with enough new rows to be worth a sweep.
    fn grown_much(&mut self) -> Vec<JobName> {
        let much = (self.keep.runs_of_job / 10).max(1);
        let some = self.grown.iter().filter(|(_, rows)| **rows >= much).map(|(job, _)| job.clone());
        let some: Vec<JobName> = some.take(JOBS_AT_ONCE).collect();
        some.iter().for_each(|job| {
            self.grown.remove(job);
        });
        some
    }
}

/// The moment this long before another.
fn before(at: Wall, age: Duration) -> Wall {
    at - Millis(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// Deletes a job's attempts beyond its latest ones; returns how many.
async fn sweep_job(link: &mut HistoryConnection, job: &JobName, keep: u32) -> Result<usize, DatabaseError> {
    let attempt = link.table("attempt");
    let first =
        link.statement(format!("SELECT seq FROM {attempt} WHERE job = ")).with(SqlArg::Text(job.as_str()));
    let first = link.rows(first.then(&format!(" ORDER BY seq DESC LIMIT 1 OFFSET {keep}"))).await?;
    let Some(first) = first.first() else { return Ok(0) };
    let found =
        link.statement(format!("SELECT seq FROM {attempt} WHERE job = ")).with(SqlArg::Text(job.as_str()));
    let found = found.then(" AND seq <= ").with(SqlArg::Int(first.int(0)?));
    forget(link, &attempt, found.then(&format!(" AND state <> 0 ORDER BY seq LIMIT {CHUNK}"))).await
}

/// Deletes the attempts with the numbers that are found; returns how many.
async fn forget(
    link: &mut HistoryConnection,
    attempt: &str,
    found: SqlStatement<'_>,
) -> Result<usize, DatabaseError> {
    let found = link.rows(found).await?;
    let old = found.iter().map(|row: &HistoryRow| row.int(0)).collect::<Result<_, _>>()?;
    change(link, &format!("DELETE FROM {attempt} WHERE seq IN "), old).await?;
    Ok(found.len())
}

/// Deletes the oldest rows of a table that are too old; returns whether there may be more.
async fn sweep_by_age(
    link: &mut HistoryConnection,
    table: &str,
    at: &str,
    oldest: Wall,
) -> Result<bool, DatabaseError> {
    let here = link.table(table);
    let enough = link.statement(format!("SELECT {at} FROM {here} WHERE {at} < ")).with(SqlArg::Int(oldest.0));
    let enough = link.rows(enough.then(&format!(" ORDER BY {at} LIMIT 1 OFFSET {CHUNK}"))).await?;
    // All rows of one moment go together: they might be more than are deleted at once.
    let cut = enough.first().map_or(Ok(oldest.0 - 1), |row| row.int(0))?;
    let old = link.statement(format!("DELETE FROM {here} WHERE {at} <= ")).with(SqlArg::Int(cut));
    link.run(old).await?;
    Ok(!enough.is_empty())
}
