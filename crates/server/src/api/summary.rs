//! Summaries of fires over HTTP: `GET /api/v1/summary`.

mod parts;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::{FireCounts, SummaryBy, SummaryFilter, SummaryOrder, SummaryRow};
use evenkeel_client::requests::SummaryQuery;
use evenkeel_core::ids::JobName;
use evenkeel_core::time::{Millis, Wall};

use super::events::when;
use super::row_limit::row_limit;
use super::{ApiError, App, jobs, namespaces};
use crate::peer::PeerSummaryQuery;
use crate::{queries, record_rows, text_input, zones};
use evenkeel_client::types::{SummaryLine, SummaryPage, moment};
pub(crate) use parts::own_part;

/// The maximum and the default number of jobs of a page.
const PAGE_MAX: u32 = 1_000;
const PAGE: u32 = 100;
/// The milliseconds of an hour.
const HOUR: i64 = 3_600_000;
/// The longest range, in hours, and the usual one.
const RANGE_MAX: i64 = 400 * 24;
const RANGE: i64 = 24;

pub(super) async fn show(
    State(app): State<App>,
    page: Result<Query<SummaryQuery>, QueryRejection>,
) -> Result<Json<SummaryPage>, ApiError> {
    let Query(page) = page?;
    namespaces::known(&app, page.namespace.as_ref())?;
    let job = page.job.clone();
    let asked = resolved(page, zones::now())?;
    let (since, until) = (asked.filter.since, asked.filter.until);
    let found = parts::all(&app, asked).await?;
    let is_unknown = |job: &&JobName| {
        found.totals.expected() + found.totals.manual == 0 && !queries::is_job(&app.handle, job)
    };
    if let Some(job) = job.as_ref().filter(is_unknown) {
        return Err(jobs::unknown(&app.handle, job));
    }
    Ok(Json(SummaryPage {
        since: begins(since),
        until: begins(until),
        rows: found.rows.into_iter().map(line).collect(),
        totals: record_rows::summary_counts(found.totals),
        after: found.after.map(String::from),
        missing: found.missing.iter().map(ToString::to_string).collect(),
    }))
}

/// The counts of a job in each hour of a span, from all histories. Hours are counted from 1970 in UTC.
///
/// # Errors
/// This node's history cannot be read.
pub(super) async fn hours_of_job(
    app: &App,
    job: &JobName,
    (since, until): (Wall, Wall),
) -> Result<BTreeMap<i64, FireCounts>, ApiError> {
    let filter = SummaryFilter {
        by: SummaryBy::Hour,
        since: hour_of(since),
        until: hour_of(until) + 1,
        namespace: None,
        jobs: Some(vec![job.clone()]),
        order: SummaryOrder::Name,
        after: None,
        limit: 1,
    };
    let found = parts::all(app, PeerSummaryQuery { filter, label: None }).await?;
    Ok(found.rows.into_iter().filter_map(|row| Some((row.hour?, row.counts))).collect())
}

/// The hour of a moment, counted from 1970 in UTC.
pub(super) fn hour_of(at: Wall) -> i64 {
    at.0.div_euclid(HOUR)
}

/// What to ask each history.
fn resolved(query: SummaryQuery, now: Wall) -> Result<PeerSummaryQuery, ApiError> {
    let by = match word("by", query.by.as_deref(), &["hour", "day", "job"])? {
        Some("day") => SummaryBy::Day,
        Some("job") => SummaryBy::Job,
        _ => SummaryBy::Hour,
    };
    let order = match word("sort", query.sort.as_deref(), &["name", "trouble"])? {
        Some("trouble") => SummaryOrder::Trouble,
        _ => SummaryOrder::Name,
    };
    let of_jobs =
        [("sort", query.sort.is_some()), ("limit", query.limit.is_some()), ("after", query.after.is_some())];
    if let Some((key, _)) = of_jobs.into_iter().find(|(_, given)| *given && by != SummaryBy::Job) {
        return Err(ApiError::invalid(format!("{key} is about jobs: leave it out, or add by=job")));
    }
    if query.after.is_some() && order == SummaryOrder::Trouble {
        return Err(ApiError::invalid("sort=trouble has one page: leave out after, or raise limit"));
    }
    let (since, until) = range(query.since.as_deref(), query.until.as_deref(), now)?;
    let is_elsewhere = |job: &JobName| {
        query.namespace.as_ref().is_some_and(|namespace| job.namespace() != namespace.as_str())
    };
    let jobs = query.job.map(|job| if is_elsewhere(&job) { Vec::new() } else { vec![job] });
    let limit = row_limit("limit", query.limit, (PAGE, PAGE_MAX))?;
    let (namespace, after) = (query.namespace, query.after);
    let filter = SummaryFilter { by, since, until, namespace, jobs, order, after, limit };
    Ok(PeerSummaryQuery { filter, label: query.label })
}

fn word<'a>(key: &str, text: Option<&str>, known: &[&'a str]) -> Result<Option<&'a str>, ApiError> {
    text.map(|text| text_input::one_of(key, text, known)).transpose().map_err(ApiError::invalid)
}

/// The hours from one moment to another.
fn range(since: Option<&str>, until: Option<&str>, now: Wall) -> Result<(i64, i64), ApiError> {
    let until = until.map_or(Ok(now), |text| when("until", text, now))?;
    let since = since.map_or(Ok(until - Millis(RANGE * HOUR)), |text| when("since", text, now))?;
    if since >= until {
        let (since, until) = (moment(since), moment(until));
        return Err(ApiError::invalid(format!("the range is empty: since is {since}, until is {until}")));
    }
    let hours = (since.0.div_euclid(HOUR), (until.0 - 1).div_euclid(HOUR) + 1);
    // Both ends may be in the middle of an hour.
    if hours.1 - hours.0 > RANGE_MAX + 1 {
        return Err(ApiError::invalid("the range is longer than 400 days: give a later since"));
    }
    Ok(hours)
}

fn line(SummaryRow { hour, job, counts }: SummaryRow) -> SummaryLine {
    SummaryLine {
        at: hour.map(begins),
        job: job.map(String::from),
        counts: record_rows::summary_counts(counts),
    }
}

/// When an hour begins.
fn begins(hour: i64) -> String {
    moment(Wall(hour.saturating_mul(HOUR)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_whole_hours_and_400_days_at_most() {
        let now = Wall(1_000 * HOUR + 5);
        let of = |since, until| range(since, until, now).map_err(ApiError::message);
        assert_eq!(of(None, None), Ok((976, 1_001)));
        assert_eq!(of(Some("1970-01-02T00:00:00Z"), Some("1970-01-02T02:00:00Z")), Ok((24, 26)));
        assert_eq!(of(Some("400d"), None), Ok((-8_600, 1_001)));
        assert!(of(Some("402d"), None).is_err_and(|why| why.contains("longer than 400 days")));
        assert!(of(Some("1h"), Some("2h")).is_err_and(|why| why.contains("is empty")));
        assert!(of(None, Some("soon")).is_err());
    }
}
