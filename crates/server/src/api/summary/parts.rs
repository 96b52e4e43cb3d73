//! What each history counted, added up.
//!
//! A fire counts in one history: that of the node that ended its last attempt, or that of the node that judged it. Nodes
//! that share a history give the same answer, which counts once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::http::StatusCode;
use evenkeel::{FireCounts, SummaryBy, SummaryFilter, SummaryOrder, SummaryPart, SummaryRow};
use evenkeel_core::ids::{JobName, NodeName};
use evenkeel_core::job::JobSelector;
use tokio::task::JoinSet;

use crate::api::{ApiError, App, fanout, relay};
use crate::peer::PeerSummaryQuery;
use crate::queries;

/// The most rows of jobs and days that a summary of labelled jobs reads.
const ROWS_READ_MAX: i64 = 100_000;

/// The sum over all histories.
#[derive(Debug, Default)]
pub(super) struct SummarySum {
    pub(super) rows: Vec<SummaryRow>,
    pub(super) totals: FireCounts,
    /// Where the next page of jobs begins.
    pub(super) after: Option<JobName>,
    /// Online nodes that did not answer.
    pub(super) missing: Vec<NodeName>,
}

/// Asks all histories.
///
/// # Errors
/// This node's history cannot be read, the label is no selector, or it fits too many jobs for the range.
pub(super) async fn all(app: &App, asked: PeerSummaryQuery) -> Result<SummarySum, ApiError> {
    let others = others(app, &asked);
    let own = own_part(app, &asked).await?;
    let (mut parts, mut missing) = (vec![own], Vec::new());
    for (name, part) in others.join_all().await {
        match part {
            Some(part) => parts.push(part),
            None => missing.push(name),
        }
    }
    missing.sort();
    Ok(SummarySum { missing, ..add_up(&asked.filter, parts) })
}

/// Asks the other nodes, unless they share this node's history.
fn others(app: &App, asked: &PeerSummaryQuery) -> JoinSet<(NodeName, Option<SummaryPart>)> {
    let mut answers = JoinSet::new();
    if app.handle.shares_history() {
        return answers;
    }
    let body = serde_json::to_vec(asked).unwrap_or_default();
    for name in queries::names(&app.handle) {
        // A node without an address cannot be asked.
        let Ok(Some(other)) = relay::other(app, name.as_str()) else { continue };
        let body = body.clone();
        answers.spawn(async move {
            let answer = other.within(fanout::PATIENCE).post("/peer/v1/summary", body).await;
            let answer = answer.ok().filter(|answer| answer.status == StatusCode::OK);
            (name, answer.and_then(|answer| serde_json::from_slice(&answer.body).ok()))
        });
    }
    answers
}

/// What this node's own history counted.
///
/// # Errors
/// It cannot be read, the label is no selector, or it fits too many jobs for the range.
pub(crate) async fn own_part(app: &App, asked: &PeerSummaryQuery) -> Result<SummaryPart, ApiError> {
    let mut filter = asked.filter.clone();
    if let Some(label) = &asked.label {
        let selector: JobSelector = label.parse()?;
        let mut jobs = queries::jobs_with_labels(&app.handle, filter.namespace.as_ref(), &selector);
        jobs.retain(|job| filter.jobs.as_ref().is_none_or(|only| only.contains(job)));
        let days = (filter.until - filter.since) / 24 + 2;
        if i64::try_from(jobs.len()).unwrap_or(i64::MAX).saturating_mul(days) > ROWS_READ_MAX {
            let text = format!("{} jobs have these labels, which is too many for this range", jobs.len());
            return Err(ApiError::invalid(format!("{text}: give a later since, or another label")));
        }
        filter.jobs = Some(jobs);
    }
    Ok(app.handle.summary(filter).await?)
}

/// Adds up the answers of several histories, each of which counts once.
fn add_up(filter: &SummaryFilter, parts: Vec<SummaryPart>) -> SummarySum {
    let parts: BTreeMap<String, SummaryPart> =
        parts.into_iter().map(|part| (part.history.clone(), part)).collect();
    // Behind the end of a page that has a next one, nothing is known of that history.
    let end = parts.values().filter_map(|part| part.after.clone()).min();
    let mut sum = SummarySum::default();
    let mut rows: BTreeMap<(Option<i64>, Option<JobName>), FireCounts> = BTreeMap::new();
    for part in parts.into_values() {
        sum.totals.add(&part.totals);
        for SummaryRow { hour, job, counts } in part.rows {
            rows.entry((hour, job)).or_default().add(&counts);
        }
    }
    let known = |job: Option<&JobName>| end.as_ref().is_none_or(|end| job.is_none_or(|job| job <= end));
    let rows = rows.into_iter().filter(|((_, job), _)| known(job.as_ref()));
    sum.rows = rows.map(|((hour, job), counts)| SummaryRow { hour, job, counts }).collect();
    sum.after = end;
    if filter.by == SummaryBy::Job {
        let limit = filter.limit as usize;
        if filter.order == SummaryOrder::Trouble {
            sum.rows.sort_by_key(|row| Reverse(row.counts.trouble()));
        } else if sum.rows.len() > limit {
            sum.after = sum.rows[limit - 1].job.clone();
        }
        sum.rows.truncate(limit);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(history: &str, rows: &[(&str, u64, u64)], after: Option<&str>) -> SummaryPart {
        let mut totals = FireCounts::default();
        let row = |(job, ran, failed): &(&str, u64, u64)| {
            let counts = FireCounts { ran: *ran, failed: *failed, ..FireCounts::default() };
            SummaryRow { hour: None, job: Some(job.parse().expect("a name")), counts }
        };
        let rows: Vec<SummaryRow> = rows.iter().map(row).collect();
        rows.iter().for_each(|row| totals.add(&row.counts));
        let after = after.map(|job| job.parse().expect("a name"));
        SummaryPart { history: history.to_owned(), rows, totals, after }
    }

    fn sum(
        order: SummaryOrder,
        limit: u32,
        parts: Vec<SummaryPart>,
    ) -> (Vec<(String, u64)>, Option<String>, u64) {
        let filter = SummaryFilter {
            by: SummaryBy::Job,
            since: 0,
            until: 24,
            namespace: None,
            jobs: None,
            order,
            after: None,
            limit,
        };
        let sum = add_up(&filter, parts);
        let row = |row: SummaryRow| (row.job.map(String::from).unwrap_or_default(), row.counts.expected());
        (sum.rows.into_iter().map(row).collect(), sum.after.map(String::from), sum.totals.expected())
    }

    fn rows(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
        rows.iter().map(|(job, count)| ((*job).to_owned(), *count)).collect()
    }

    #[test]
    fn histories_add_up_and_one_that_several_nodes_share_counts_once() {
        let of = |history| part(history, &[("a", 2, 0), ("b", 1, 1)], None);
        let found = sum(SummaryOrder::Name, 9, vec![of("x"), of("y"), of("x")]);
        assert_eq!(found, (rows(&[("a", 4), ("b", 4)]), None, 8));
    }

    #[test]
    fn a_page_ends_where_the_first_history_ends_or_at_the_limit() {
        let first = part("x", &[("a", 1, 0), ("b", 1, 0)], Some("b"));
        let second = part("y", &[("b", 1, 0), ("c", 1, 0)], Some("c"));
        let found = sum(SummaryOrder::Name, 2, vec![first, second.clone()]);
        assert_eq!(found, (rows(&[("a", 1), ("b", 2)]), Some("b".to_owned()), 4));
        let whole = part("x", &[("a", 1, 0), ("d", 1, 0)], None);
        let found = sum(SummaryOrder::Name, 2, vec![whole, second]);
        assert_eq!(found, (rows(&[("a", 1), ("b", 1)]), Some("b".to_owned()), 4));
        let troubled = part("x", &[("a", 9, 1), ("b", 0, 2)], None);
        let found = sum(SummaryOrder::Trouble, 1, vec![troubled, part("y", &[("c", 0, 3)], None)]);
        assert_eq!(found, (rows(&[("c", 3)]), None, 15));
    }
}
