//! What of the history may need a person: jobs whose latest outcome is a failure, and fires that were missed.

use evenkeel_core::ids::{JobName, Namespace, Shard};
use evenkeel_core::time::Wall;
use evenkeel_registry::sql::SqlArg;

use super::connection::{DatabaseError, HistoryConnection, HistoryRow, odd};
use super::history_query::{HistoryQuery, LIMIT_MAX};
use super::namespace::JobsOfNamespace;
use super::record::AttemptState;
use super::rows::number;
use super::summary::mark::{FireClass, FireMark};

/// The most failing shards of one answer.
const FAILING_MAX: u32 = 100_000;

/// A shard of a job whose latest outcome in this history is a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingShard {
    /// The job.
    pub job: JobName,
    /// The shard; 0 of a job without shards.
    pub shard: Shard,
    /// When the history got the first failure after the latest success.
    pub since: Wall,
}

/// The fires of a job that were skipped since a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedFires {
    /// The job.
    pub job: JobName,
    /// How many records of skipped fires there are. One covers several fires in a row that were skipped together; a
    /// fire of several shards has one for each.
    pub records: u64,
    /// When the first of these fires was due.
    pub first: Wall,
    /// When the last of them was due.
    pub last: Wall,
}

/// The query for all failing shards, by the names of their jobs.
pub(super) struct FailingQuery;

impl HistoryQuery for FailingQuery {
    type Item = FailingShard;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<FailingShard>, DatabaseError> {
        let table = link.table("failing");
        let asked = format!("SELECT job, shard, since FROM {table} ORDER BY job, shard LIMIT {FAILING_MAX}");
        let rows = link.rows(link.statement(asked)).await?;
        rows.iter().map(failing).collect()
    }
}

fn failing(row: &HistoryRow) -> Result<FailingShard, DatabaseError> {
    Ok(FailingShard { job: job(row)?, shard: Shard(row.number(1)?), since: Wall(row.int(2)?) })
}

/// The query for the jobs with fires that were skipped, the latest first.
pub(super) struct MissedQuery {
    /// Only fires that were due at this moment or later.
    pub(super) since: Wall,
    /// Only of the jobs of this namespace.
    pub(super) namespace: Option<Namespace>,
}

impl HistoryQuery for MissedQuery {
    type Item = MissedFires;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<MissedFires>, DatabaseError> {
        let (table, skipped) = (link.table("attempt"), number(AttemptState::Skipped));
        let missed_mark = FireMark { class: Some(FireClass::Missed), late: false }.number();
        // The second condition is the one of the index. What the job or an operator wanted to be skipped was not missed,
        // a skipped retry belongs to a run that failed, and a request that was taken back is no fire.
        let asked = format!(
            "SELECT job, count(*), min(since), max(due) FROM {table} WHERE state = {skipped} AND state <> 1 \
             AND counted = {missed_mark} AND attempt <= 1 AND run NOT LIKE '%:ask-%' AND due >= "
        );
        let jobs = self.namespace.as_ref().map(JobsOfNamespace::of);
        let mut asked = link.statement(asked).with(SqlArg::Int(self.since.0));
        if let Some(jobs) = &jobs {
            asked = jobs.narrow(asked);
        }
        let asked = asked.then(&format!(" GROUP BY job ORDER BY max(due) DESC, job LIMIT {LIMIT_MAX}"));
        link.rows(asked).await?.iter().map(missed).collect()
    }
}

fn missed(row: &HistoryRow) -> Result<MissedFires, DatabaseError> {
    let records = row.int(1)?.cast_unsigned();
    Ok(MissedFires { job: job(row)?, records, first: Wall(row.int(2)?), last: Wall(row.int(3)?) })
}

fn job(row: &HistoryRow) -> Result<JobName, DatabaseError> {
    row.text(0)?.parse().map_err(|_| odd(0))
}
