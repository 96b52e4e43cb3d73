//! Calendars over HTTP: `/api/v1/calendars` and below.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use evenkeel_client::requests::CalendarListQuery;
use evenkeel_core::calendar::CalendarFile;
use evenkeel_core::ids::{CalendarName, Namespace};
use evenkeel_core::input::{Answer, Command};
use evenkeel_core::record::CalendarSpec;
use evenkeel_core::view::{JobView, View};
use serde_json::{Value, json};

use super::audited::AuditedRequest;
use super::error::{done, read_body};
use super::precondition::WithVersion;
use super::{ApiError, App, namespaces};
use crate::queries;
use crate::text_input::ReadTarget;
use evenkeel_client::types::{CalendarDetail, CalendarPage, CalendarRow, moment};

type CalendarResult = Result<Json<Value>, ApiError>;

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<CalendarListQuery>, QueryRejection>,
) -> Result<Json<CalendarPage>, ApiError> {
    let Query(CalendarListQuery { namespace }) = page?;
    namespaces::known(&app, namespace.as_ref())?;
    let listed = rows(&app, namespace.as_ref(), usize::MAX);
    let all = || app.handle.with_node(|node| node.view().calendars().count());
    let elsewhere = namespace.is_some().then(|| all().saturating_sub(listed.len()));
    Ok(Json(CalendarPage { calendars: listed, elsewhere }))
}

/// The first calendars by name; of one namespace, if one is named.
pub(super) fn rows(app: &App, namespace: Option<&Namespace>, most: usize) -> Vec<CalendarRow> {
    let is_of = |name: &CalendarName| namespace.is_none_or(|of| name.namespace() == of.as_str());
    app.handle.with_node(|node| {
        let view = node.view();
        let listed = view.calendars().filter(|spec| is_of(&spec.calendar.name));
        listed.take(most).map(|spec| row(view, spec)).collect()
    })
}

pub(super) async fn show(
    State(app): State<App>,
    name: Result<Path<CalendarName>, PathRejection>,
) -> Result<WithVersion<CalendarDetail>, ApiError> {
    let Path(name) = name?;
    let found = app.handle.with_node(|node| {
        let view = node.view();
        view.calendar(&name).map(|spec| CalendarDetail {
            name: name.to_string(),
            calendar: spec.calendar.clone(),
            version: spec.version,
            since: moment(spec.since),
            jobs: jobs(view, &name),
        })
    });
    let found = found.map(|found| (found.version, found));
    let (version, found) =
        found.ok_or_else(|| ApiError::not_found(queries::no_calendar(&app.handle, &name)))?;
    Ok(WithVersion(found, version))
}

pub(super) async fn put(
    State(app): State<App>,
    name: Result<Path<CalendarName>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> CalendarResult {
    let Path(name) = name?;
    let file: CalendarFile = read_body(&body, ReadTarget::Calendar)?;
    // The address says it all for a name that is written alone.
    let namespace = name.namespace().parse().ok();
    let calendar = file.calendar(namespace.as_ref()).map_err(|e| ApiError::invalid(e.to_string()))?;
    if calendar.name != name {
        let text = format!("the body is of calendar {}, the address of {name}: send it there", calendar.name);
        return Err(ApiError::invalid(text));
    }
    match asked.ask(&app, Command::Calendar(Box::new(calendar))).await {
        Answer::Calendar(name, applied) => Ok(Json(json!({ "name": name, "applied": applied }))),
        other => done(other),
    }
}

pub(super) async fn delete(
    State(app): State<App>,
    name: Result<Path<CalendarName>, PathRejection>,
    asked: AuditedRequest,
) -> CalendarResult {
    let Path(name) = name?;
    done(asked.ask(&app, Command::DeleteCalendar(name)).await)
}

/// The jobs that use a calendar.
fn jobs(view: &View, name: &CalendarName) -> Vec<String> {
    let mut jobs: Vec<_> =
        view.jobs_under(name).filter(JobView::is_live).map(|job| job.name().to_string()).collect();
    // The view has them in the order in which they arrived.
    jobs.sort_unstable();
    jobs
}

fn row(view: &View, spec: &CalendarSpec) -> CalendarRow {
    let calendar = &spec.calendar;
    CalendarRow {
        name: calendar.name.to_string(),
        lines: calendar.days.len() + calendar.weekdays.len() + calendar.windows.len(),
        jobs: view.jobs_under(&calendar.name).filter(JobView::is_live).count(),
        version: spec.version,
        since: moment(spec.since),
        description: calendar.description.clone(),
    }
}
