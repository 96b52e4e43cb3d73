//! Reads roll-ups: by hour, by day and by job.

use std::collections::BTreeMap;

use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_registry::sql::{ROWS_MAX, SqlArg, SqlStatement};
use serde::{Deserialize, Serialize};

use super::counts::{COUNT_COLUMNS, FireCounts};
use super::packed::DayCounts;
use super::{CLUSTER, DAY};
use crate::history::connection::{DatabaseError, HistoryConnection, HistoryRow, odd};
use crate::history::history_query::HistoryQuery;
use crate::history::namespace::JobsOfNamespace;

/// The most jobs that an answer in the order of trouble has.
const TROUBLED_MAX: usize = 3_000;
/// The most rows of jobs and days that such an answer reads beyond those with trouble.
const ROWS_READ_MAX: usize = 100_000;

/// What the rows of a summary are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryBy {
    /// Each hour.
    Hour,
    /// Each day, in UTC.
    Day,
    /// Each job.
    Job,
}

/// The order of the jobs of a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryOrder {
    /// By name.
    #[default]
    Name,
    /// The most failed and missed fires first; only jobs that have some.
    Trouble,
}

/// Which fires are summed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummaryFilter {
    /// What the rows are about.
    pub by: SummaryBy,
    /// From this hour on, counted from 1970 in UTC.
    pub since: i64,
    /// Before this hour.
    pub until: i64,
    /// Only of the jobs of this namespace.
    pub namespace: Option<Namespace>,
    /// Only of these jobs, whatever their namespace; of all for none.
    pub jobs: Option<Vec<JobName>>,
    /// The order of jobs, and of nothing else.
    #[serde(default)]
    pub order: SummaryOrder,
    /// Only jobs after this name, in the order of names.
    pub after: Option<JobName>,
    /// At most this many jobs, in the order of names.
    pub limit: u32,
}

/// The counts of one hour, day or job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// The hour, or the first one of the day; none for a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hour: Option<i64>,
    /// The job; none for an hour or a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobName>,
    /// The counts.
    pub counts: FireCounts,
}

/// What one history counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryPart {
    /// The id of the history: nodes that share one give the same answer.
    pub history: String,
    /// The rows, in their order; none without counts.
    pub rows: Vec<SummaryRow>,
    /// The counts of all fires that are asked for, also of those on other pages.
    pub totals: FireCounts,
    /// Where the next page begins: after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<JobName>,
}

impl SummaryFilter {
    /// The days of the range.
    fn days(&self) -> std::ops::RangeInclusive<i64> {
        self.since.div_euclid(DAY)..=(self.until - 1).div_euclid(DAY)
    }

    /// The hours of a day that are in the range.
    fn within<'a>(&self, day: i64, counts: &'a DayCounts) -> impl Iterator<Item = (i64, &'a FireCounts)> {
        let (since, until) = (self.since, self.until);
        let hours = counts.hours().map(move |(hour, counts)| (day * DAY + i64::from(hour), counts));
        hours.filter(move |(hour, _)| (since..until).contains(hour))
    }
}

impl HistoryQuery for SummaryFilter {
    type Item = SummaryPart;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<SummaryPart>, DatabaseError> {
        let state = link.table("rollup_state");
        let id = link.rows(link.statement(format!("SELECT id FROM {state} WHERE one = 1"))).await?;
        let history = id.first().ok_or_else(|| odd(0))?.text(0)?;
        let part = match (&self.jobs, self.by) {
            (Some(jobs), _) => of_jobs(link, self, jobs).await?,
            (None, SummaryBy::Hour | SummaryBy::Day) => {
                let hours = hours(link, self).await?;
                by_time(self, hours.into_iter())
            }
            (None, SummaryBy::Job) => {
                let mut totals = FireCounts::default();
                hours(link, self).await?.iter().for_each(|(_, counts)| totals.add(counts));
                let part = match self.order {
                    SummaryOrder::Name => page(link, self).await?,
                    SummaryOrder::Trouble => troubled(link, self).await?,
                };
                SummaryPart { totals, ..part }
            }
        };
        Ok(vec![SummaryPart { history, ..part }])
    }
}

/// The counts of a namespace, or of the whole cluster, by hour.
async fn hours(
    link: &mut HistoryConnection,
    filter: &SummaryFilter,
) -> Result<Vec<(i64, FireCounts)>, DatabaseError> {
    let columns = COUNT_COLUMNS.join(", ");
    let asked = format!("SELECT hour, {columns} FROM {} WHERE namespace = ", link.table("rollup_hour"));
    let namespace = filter.namespace.as_ref().map_or(CLUSTER, Namespace::as_str);
    let asked = link.statement(asked).with(SqlArg::Text(namespace));
    let asked = asked.then(" AND hour >= ").with(SqlArg::Int(filter.since));
    let asked = asked.then(" AND hour < ").with(SqlArg::Int(filter.until)).then(" ORDER BY hour");
    link.rows(asked).await?.iter().map(|row| Ok((row.int(0)?, counts(row)?))).collect()
}

fn counts(row: &HistoryRow) -> Result<FireCounts, DatabaseError> {
    let mut counts = [0; COUNT_COLUMNS.len()];
    for (kind, count) in counts.iter_mut().enumerate() {
        *count = row.int(kind + 1)?.max(0).cast_unsigned();
    }
    Ok(FireCounts::from_array(counts))
}

/// Rows by hour or day.
fn by_time(filter: &SummaryFilter, hours: impl Iterator<Item = (i64, FireCounts)>) -> SummaryPart {
    let (mut rows, mut totals): (BTreeMap<i64, FireCounts>, _) = (BTreeMap::new(), FireCounts::default());
    for (hour, counts) in hours {
        let key = if filter.by == SummaryBy::Day { hour - hour.rem_euclid(DAY) } else { hour };
        rows.entry(key).or_default().add(&counts);
        totals.add(&counts);
    }
    let row = |(hour, counts)| SummaryRow { hour: Some(hour), job: None, counts };
    let rows = rows.into_iter().filter(|(_, counts)| *counts != FireCounts::default()).map(row);
    SummaryPart { rows: rows.collect(), totals, ..SummaryPart::default() }
}

/// The counts of these jobs.
async fn of_jobs(
    link: &mut HistoryConnection,
    filter: &SummaryFilter,
    jobs: &[JobName],
) -> Result<SummaryPart, DatabaseError> {
    let found = days_of(link, filter, jobs).await?;
    if filter.by != SummaryBy::Job {
        let hours = found.iter().flat_map(|found| filter.within(found.day, &found.counts));
        return Ok(by_time(filter, hours.map(|(hour, counts)| (hour, *counts))));
    }
    let sums = by_job(filter, &found);
    let mut totals = FireCounts::default();
    sums.values().for_each(|counts| totals.add(counts));
    let part = match filter.order {
        SummaryOrder::Name => {
            let behind =
                sums.into_iter().filter(|(job, _)| filter.after.as_ref().is_none_or(|after| job > after));
            first_page(behind.collect(), false, filter.limit)
        }
        SummaryOrder::Trouble => SummaryPart { rows: by_trouble(sums), ..SummaryPart::default() },
    };
    Ok(SummaryPart { totals, ..part })
}

/// The rows of these jobs, with job and day.
async fn days_of(
    link: &mut HistoryConnection,
    filter: &SummaryFilter,
    jobs: &[JobName],
) -> Result<Vec<JobDay>, DatabaseError> {
    let (table, days, mut found) = (link.table("rollup_job"), filter.days(), Vec::new());
    let asked = format!("SELECT job, day, hours FROM {table} WHERE ");
    let many = days.clone().count();
    if jobs.len() <= many {
        for job in jobs {
            let asked = link.statement(format!("{asked}job = ")).with(SqlArg::Text(job.as_str()));
            let asked = asked.then(" AND day >= ").with(SqlArg::Int(*days.start()));
            let asked = asked.then(" AND day <= ").with(SqlArg::Int(*days.end()));
            found.extend(link.rows(asked.then(" ORDER BY day")).await?);
        }
    } else {
        for day in days {
            for some in jobs.chunks(ROWS_MAX) {
                let asked = link.statement(format!("{asked}day = ")).with(SqlArg::Int(day));
                let names = some.iter().map(|job| SqlArg::Text(job.as_str()));
                found.extend(link.rows(asked.then(" AND job IN ").any_of(names)).await?);
            }
        }
    }
    found.iter().map(job_day).collect()
}

/// What a job counts on a day.
struct JobDay {
    job: JobName,
    /// Counted from 1970 in UTC.
    day: i64,
    counts: DayCounts,
}

fn job_day(row: &HistoryRow) -> Result<JobDay, DatabaseError> {
    let counts = DayCounts::decode(&row.bytes(2)?).ok_or_else(|| odd(2))?;
    Ok(JobDay { job: row.text(0)?.parse().map_err(|_| odd(0))?, day: row.int(1)?, counts })
}

fn by_job(filter: &SummaryFilter, found: &[JobDay]) -> BTreeMap<JobName, FireCounts> {
    let mut sums: BTreeMap<JobName, FireCounts> = BTreeMap::new();
    for JobDay { job, day, counts } in found {
        let sum = sums.entry(job.clone()).or_default();
        filter.within(*day, counts).for_each(|(_, counts)| sum.add(counts));
    }
    sums
}

/// A page of all jobs in the order of names: the first of each day are the first of all.
async fn page(link: &mut HistoryConnection, filter: &SummaryFilter) -> Result<SummaryPart, DatabaseError> {
    let jobs = filter.namespace.as_ref().map(JobsOfNamespace::of);
    let (mut found, mut end) = (Vec::new(), None::<JobName>);
    for day in filter.days() {
        let mut asked = of_day(link, day, jobs.as_ref());
        if let Some(after) = &filter.after {
            asked = asked.then(" AND job > ").with(SqlArg::Text(after.as_str()));
        }
        let limit = filter.limit.saturating_add(1);
        let rows = link.rows(asked.then(&format!(" ORDER BY job LIMIT {limit}"))).await?;
        let rows = rows.iter().map(job_day).collect::<Result<Vec<_>, _>>()?;
        // Behind the last row of a day that has more, nothing is known of that day.
        if let Some(last) = rows.last().filter(|_| rows.len() >= limit as usize) {
            end = Some(end.map_or_else(|| last.job.clone(), |end| end.min(last.job.clone())));
        }
        found.extend(rows);
    }
    let mut sums = by_job(filter, &found);
    if let Some(end) = &end {
        sums.retain(|job, _| job <= end);
    }
    Ok(first_page(sums, end.is_some(), filter.limit))
}

fn of_day<'a>(link: &HistoryConnection, day: i64, jobs: Option<&'a JobsOfNamespace>) -> SqlStatement<'a> {
    let table = link.table("rollup_job");
    let asked =
        link.statement(format!("SELECT job, day, hours FROM {table} WHERE day = ")).with(SqlArg::Int(day));
    match jobs {
        Some(jobs) => jobs.narrow(asked),
        None => asked,
    }
}

/// The first jobs of these, without those that have no counts, and where the next page begins.
fn first_page(sums: BTreeMap<JobName, FireCounts>, more: bool, limit: u32) -> SummaryPart {
    let more = more || sums.len() > limit as usize;
    let some: Vec<_> = sums.into_iter().take(limit as usize).collect();
    let after = some.last().map(|(job, _)| job.clone()).filter(|_| more);
    let rows = some.into_iter().filter(|(_, counts)| *counts != FireCounts::default()).map(job_row);
    SummaryPart { rows: rows.collect(), after, ..SummaryPart::default() }
}

fn job_row((job, counts): (JobName, FireCounts)) -> SummaryRow {
    SummaryRow { hour: None, job: Some(job), counts }
}

/// The jobs with trouble, the most of it first.
fn by_trouble(sums: BTreeMap<JobName, FireCounts>) -> Vec<SummaryRow> {
    let mut rows: Vec<_> = sums.into_iter().filter(|(_, counts)| counts.trouble() > 0).map(job_row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.counts.trouble()));
    rows.truncate(TROUBLED_MAX);
    rows
}

/// The jobs with trouble, with all their counts: an index finds the days with trouble.
async fn troubled(
    link: &mut HistoryConnection,
    filter: &SummaryFilter,
) -> Result<SummaryPart, DatabaseError> {
    let jobs = filter.namespace.as_ref().map(JobsOfNamespace::of);
    let mut found = Vec::new();
    for day in filter.days() {
        let rows = link.rows(of_day(link, day, jobs.as_ref()).then(" AND trouble > 0")).await?;
        found.extend(rows.iter().map(job_day).collect::<Result<Vec<_>, _>>()?);
    }
    let mut rows = by_trouble(by_job(filter, &found));
    rows.truncate((ROWS_READ_MAX / filter.days().count().max(1)).max(1));
    let jobs: Vec<JobName> = rows.into_iter().filter_map(|row| row.job).collect();
    let whole = days_of(link, filter, &jobs).await?;
    Ok(SummaryPart { rows: by_trouble(by_job(filter, &whole)), ..SummaryPart::default() })
}
