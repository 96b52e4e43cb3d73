//! What became of each fire that was due: `GET /api/v1/report`.
//!
//! - [`timeline`]: what was declared in which part of the span. [`fires`]: the fires that the schedules had then.
//! - [`records`]: what the histories of all nodes have of them. [`judge`]: what became of each.

mod fires;
mod judge;
mod records;
mod timeline;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::EventFilter;
use evenkeel::audit::{AuditFilter, AuditOutcome};
use evenkeel_client::requests::ReportQuery;
use evenkeel_client::types::{FireState, ReportJob, ReportPage, ReportRow, moment, zone};
use evenkeel_core::ids::JobName;
use evenkeel_core::job::JobSelector;
use evenkeel_core::time::{Millis, Wall};

use super::events::when;
use super::row_limit::row_limit;
use super::{ApiError, App, fanout, jobs, namespaces, summary};
use crate::queries::{self, JobSearch, ReportSubject};
use crate::zones;
use fires::DueFires;
use judge::{ReportEvidence, counts};
pub(crate) use records::own_records;
use records::{FoundRecords, ScheduledRuns};
use timeline::JobTransition;

/// The default and the maximum number of jobs of a page.
const PAGE: usize = 100;
const PAGE_MAX: usize = 500;
/// The most fires of one job that an answer looks at, and of all its jobs.
const FIRES_OF_JOB: usize = 5_000;
const FIRES: usize = 50_000;
/// The usual and the longest span.
const DAY: Millis = Millis::secs(86_400);
const SPAN_MAX: Millis = Millis::secs(7 * 86_400);
/// The most switches of a job, and pauses of all jobs, that are read.
const CHANGES_MAX: u32 = 1_000;

/// What a page is made of.
struct ReportInquiry<'a> {
    app: &'a App,
    span: (Wall, Wall),
    now: Wall,
    all: bool,
    found: FoundRecords,
    living: Vec<String>,
    /// When jobs were paused as their runs failed.
    paused: BTreeMap<JobName, Vec<Wall>>,
}

/// The changes of a job within the span.
#[derive(Default)]
struct JobChanges {
    changes: Vec<(Wall, JobTransition)>,
    /// Whether shards, or the job on single nodes, were switched.
    shards_switched: bool,
    missing: Vec<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    query: Result<Query<ReportQuery>, QueryRejection>,
) -> Result<Json<ReportPage>, ApiError> {
    let Query(query) = query?;
    namespaces::known(&app, query.namespace.as_ref())?;
    let now = zones::now();
    let span = span(query.since.as_deref(), query.until.as_deref(), now)?;
    let limit = row_limit("limit", query.limit, (PAGE, PAGE_MAX))?;
    let labels = query.label.as_deref().map(str::parse::<JobSelector>).transpose()?;
    let search = JobSearch { find: "", labels: labels.as_ref(), namespace: query.namespace.as_ref() };
    if let Some(job) = query.job.as_ref().filter(|job| !queries::is_job(&app.handle, job)) {
        return Err(jobs::unknown(&app.handle, job));
    }
    let page = (query.after.as_ref(), limit);
    let (subjects, mut after) = queries::report_subjects(&app.handle, search, query.job.as_ref(), page);
    let inquiry = ReportInquiry::begin(&app, &subjects, span, (now, query.all)).await?;
    let mut room = FIRES;
    let mut found: Vec<ReportJob> = Vec::new();
    let mut missing = inquiry.found.missing.clone();
    for subject in &subjects {
        let (job, looked_at) = inquiry.job(subject, room.min(FIRES_OF_JOB), &mut missing).await?;
        // A job that is cut off by the room of the page alone is the first one of the next page.
        if job.next_since.is_some() && room < FIRES_OF_JOB && !found.is_empty() {
            after = found.last().and_then(|job| job.name.parse().ok());
            break;
        }
        room = room.saturating_sub(looked_at);
        found.push(job);
    }
    Ok(Json(ReportPage {
        since: moment(span.0),
        until: moment(span.1),
        jobs: found,
        after: after.map(String::from),
        missing: missing.iter().map(|(node, why)| format!("{node}: {why}")).collect(),
    }))
}

/// The span that is asked for.
fn span(since: Option<&str>, until: Option<&str>, now: Wall) -> Result<(Wall, Wall), ApiError> {
    let until = until.map_or(Ok(now), |text| when("until", text, now))?;
    let since = since.map_or(Ok(until - DAY), |text| when("since", text, now))?;
    if since >= until {
        let (since, until) = (moment(since), moment(until));
        return Err(ApiError::invalid(format!("the span is empty: since is {since}, until is {until}")));
    }
    // A week in which clocks go back is an hour longer.
    if until - since > SPAN_MAX + Millis::secs(3_600) {
        return Err(ApiError::invalid("the span is longer than 7 days: ask for its parts"));
    }
    Ok((since, until))
}

impl<'a> ReportInquiry<'a> {
    /// Reads what the histories have of these jobs.
    async fn begin(
        app: &'a App,
        subjects: &[ReportSubject],
        span: (Wall, Wall),
        (now, all): (Wall, bool),
    ) -> Result<Self, ApiError> {
        let names: Vec<JobName> = subjects.iter().map(|subject| subject.spec.job.name.clone()).collect();
        let found = records::all(app, &names, span).await?;
        let filter = EventFilter {
            kind: Some("job.paused".to_owned()),
            since: Some(span.0),
            limit: CHANGES_MAX,
            ..EventFilter::default()
        };
        let mut paused: BTreeMap<JobName, Vec<Wall>> = BTreeMap::new();
        for event in fanout::events(app, filter, None).await?.rows {
            let Some(job) = event.job else { continue };
            paused.entry(job).or_default().push(event.at);
        }
        Ok(Self { app, span, now, all, found, living: queries::living_members(&app.handle), paused })
    }

    /// Reports on a job. Returns how many fires were looked at, too.
    async fn job(
        &self,
        subject: &ReportSubject,
        most: usize,
        missing: &mut BTreeMap<String, String>,
    ) -> Result<(ReportJob, usize), ApiError> {
        let ReportSubject { spec, .. } = subject;
        let (name, handle) = (&spec.job.name, &self.app.handle);
        let changed =
            if self.is_changed(subject) { self.changes(subject).await? } else { JobChanges::default() };
        for node in &changed.missing {
            missing.entry(node.clone()).or_insert_with(|| "it does not answer".to_owned());
        }
        let segments = timeline::segments(changed.changes, spec, self.span);
        let due = DueFires::of(handle, &segments, self.now, most);
        let nothing = ScheduledRuns::default();
        let history = self.found.jobs.get(name).unwrap_or(&nothing);
        let given_up_at = segments.iter().map(|segment| segment.until).filter(|at| *at < self.span.1);
        let mut evidence = ReportEvidence {
            now: self.now,
            history,
            live_since: (spec.job.enabled && !spec.paused).then_some(subject.since),
            statuses: BTreeMap::new(),
            hours: BTreeMap::new(),
            living: &self.living,
            gap: missing.first_key_value().map(|(node, why)| match missing.len() {
                1 => format!("the history of {node} was not read: {why}"),
                n => format!("the history of {node} was not read ({why}), nor those of {} more", n - 1),
            }),
            calendars_since: subject.calendars_since,
            off: &spec.off,
            shards_switched: changed.shards_switched,
            given_up_at: given_up_at.max().max(Some(subject.since)),
        };
        let lacking = evidence.lacking(&due);
        if !lacking.is_empty() {
            let statuses = queries::fire_statuses(handle, name, &lacking, self.now).await?;
            evidence.statuses = lacking.iter().copied().zip(statuses).collect();
        }
        if lacking.iter().any(|at| history.kept_from.is_some_and(|kept| *at < kept)) {
            evidence.hours = summary::hours_of_job(self.app, name, self.span).await?;
        }
        let mut findings = evidence.findings(&due, self.span.1);
        let counts = counts(&findings, &due);
        let looked_at = due.fires.len();
        findings.retain(|finding| self.all || finding.state != FireState::Ran);
        let idle = due.idle.iter().map(|idle| ReportRow {
            job: name.to_string(),
            due: moment(idle.first),
            until: (idle.last > idle.first).then(|| moment(idle.last)),
            fires: idle.fires,
            state: FireState::NotExpected,
            reason: Some(idle.why.clone()),
            node: None,
        });
        let mut rows: Vec<ReportRow> = idle.collect();
        rows.extend(findings.into_iter().map(|finding| finding.row(name)));
        // Moments are written so that their texts have their order.
        rows.sort_by(|one, other| one.due.cmp(&other.due));
        let notes = due.notes.iter().cloned().chain(fires::changes(&segments)).collect();
        let next_since = due.next_since.map(moment);
        let (name, timezone) = (name.to_string(), zone(spec.job.timezone()));
        Ok((ReportJob { name, timezone, counts, rows, notes, next_since }, looked_at))
    }

    /// Whether the job may have been another one within the span.
    fn is_changed(&self, subject: &ReportSubject) -> bool {
        let spec = &subject.spec;
        subject.since >= self.span.0
            || !spec.job.enabled
            || spec.paused
            || spec.job.placement.is_sharded()
            || self.paused.contains_key(&spec.job.name)
    }

    /// Reads how a job changed: its versions, and the switches of operators.
    async fn changes(&self, subject: &ReportSubject) -> Result<JobChanges, ApiError> {
        let spec = &subject.spec;
        let name = &spec.job.name;
        let filter = AuditFilter {
            job: Some(name.clone()),
            since: Some(self.span.0),
            limit: CHANGES_MAX,
            ..AuditFilter::default()
        };
        let (versions, audit) =
            tokio::join!(fanout::versions::versions(self.app, name), fanout::audit(self.app, filter, None));
        let ((versions, mut missing), audit) = (versions?, audit?);
        missing.extend(audit.missing);
        let mut found = JobChanges {
            changes: timeline::of_versions(versions),
            shards_switched: subject.switched_on_nodes || spec.operator.off.is_some(),
            missing: missing.iter().map(ToString::to_string).collect(),
        };
        for entry in audit.rows.iter().filter(|entry| entry.outcome == AuditOutcome::Applied) {
            let change = match entry.verb.as_str() {
                "pause" => JobTransition::Paused(true),
                "resume" => JobTransition::Paused(false),
                "enable" => JobTransition::Enabled(true),
                "disable" => JobTransition::Enabled(false),
                _ => continue,
            };
            match entry.about.is_some() || entry.what.starts_with("shards ") {
                true => found.shards_switched = true,
                false => found.changes.push((entry.at, change)),
            }
        }
        let paused = self.paused.get(name).into_iter().flatten().copied();
        let present = spec.operator.paused.as_ref().map(|origin| origin.at);
        let paused = paused.chain(present).map(|at| (at, JobTransition::Paused(true)));
        found.changes.extend(paused);
        let enabled = spec.operator.enabled.as_ref();
        found
            .changes
            .extend(enabled.map(|switch| (switch.origin.at, JobTransition::Enabled(spec.job.enabled))));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_not_empty_and_a_week_at_most() {
        let now = Wall(100 * 86_400_000);
        let of = |since, until| span(since, until, now).map_err(ApiError::message);
        assert_eq!(of(None, None), Ok((now - DAY, now)));
        assert_eq!(of(Some("7d"), None), Ok((now - SPAN_MAX, now)));
        assert!(of(Some("8d"), None).is_err_and(|why| why.contains("7 days")));
        assert!(of(Some("1h"), Some("2h")).is_err_and(|why| why.contains("is empty")));
    }
}
