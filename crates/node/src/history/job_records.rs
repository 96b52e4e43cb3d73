//! The attempts of one job, and since when all of them are kept: what a report on its fires needs to know.
//!
//! Retention deletes the oldest rows. So a fire without a row is one that left no record only if it was due after the
//! moment from which every row is kept.

use evenkeel_core::ids::JobName;
use evenkeel_core::time::{Millis, Wall};
use evenkeel_registry::sql::SqlArg;

use super::connection::{DatabaseError, HistoryConnection};
use super::history_query::{HistoryQuery, LIMIT_MAX};
use super::record::{RunFilter, RunRecord};
use crate::retention::Retention;

/// The attempts of a job in one history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecords {
    /// The attempts that were due from the moment of the query on, the latest first.
    pub rows: Vec<RunRecord>,
    /// Attempts of fires that were due at this moment or later are all kept; earlier ones may have been deleted by retention.
    pub kept_from: Wall,
}

/// The query for [`JobRecords`].
#[derive(Debug)]
pub(super) struct JobRecordsQuery {
    pub(super) job: JobName,
    pub(super) since: Wall,
    pub(super) now: Wall,
    pub(super) keep: Retention,
}

impl HistoryQuery for JobRecordsQuery {
    type Item = JobRecords;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<JobRecords>, DatabaseError> {
        let filter = RunFilter {
            job: Some(self.job.clone()),
            since: Some(self.since),
            limit: LIMIT_MAX,
            ..RunFilter::default()
        };
        let rows = filter.ask(link).await?;
        let mut kept_from = self.kept_from(link).await?;
        if rows.len() >= LIMIT_MAX as usize {
            let unread = rows.iter().map(|record| record.due).min();
            kept_from = unread.map_or(kept_from, |due| kept_from.max(due + Millis(1)));
        }
        Ok(vec![JobRecords { rows, kept_from }])
    }
}

impl JobRecordsQuery {
    /// The moment from which retention has deleted no row of the job: by age, by the number of rows of the job, and by the
    /// number of all rows.
    async fn kept_from(&self, link: &mut HistoryConnection) -> Result<Wall, DatabaseError> {
        let attempt = link.table("attempt");
        let age = Millis(i64::try_from(self.keep.age.as_millis()).unwrap_or(i64::MAX));
        let mut kept = Wall(self.now.0.saturating_sub(age.0));
        let last = link.rows(link.statement(format!("SELECT max(seq) FROM {attempt}"))).await?;
        let last = last.first().map_or(Ok(None), |row| row.maybe(0))?.unwrap_or_default();
        if u64::try_from(last).unwrap_or_default() > self.keep.runs {
            let oldest = format!("SELECT due FROM {attempt} WHERE state <> 0 ORDER BY seq LIMIT 1");
            let oldest = link.rows(link.statement(oldest)).await?;
            kept = oldest.first().map_or(Ok(kept), |row| row.int(0).map(|due| kept.max(Wall(due))))?;
        }
        let before = self.keep.runs_of_job.saturating_sub(1);
        let first = link.statement(format!("SELECT due FROM {attempt} WHERE job = "));
        let first = first.with(SqlArg::Text(self.job.as_str()));
        let first = link.rows(first.then(&format!(" ORDER BY seq DESC LIMIT 1 OFFSET {before}"))).await?;
        first.first().map_or(Ok(kept), |row| row.int(0).map(|due| kept.max(Wall(due))))
    }
}
