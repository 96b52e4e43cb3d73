//! The fires of a schedule before there is a job: `GET /api/v1/preview`.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::{JobFile, Work};
use evenkeel_client::requests::PreviewQuery;
use evenkeel_core::ids::{CalendarName, WrittenName};
use evenkeel_core::job::Job;
use evenkeel_core::principal::Role;

use super::demand::within;
use super::jobs::{self, FireListing};
use super::known_caller::KnownCaller;
use super::{ApiError, App, namespaces};
use evenkeel_client::types::NextFires;

/// The name of the job if none is given. It decides what `H` and a jitter mean.
const NAME: &str = "preview";

/// Lists the next fires that a job with these keys would have.
pub(super) async fn preview(
    State(app): State<App>,
    caller: KnownCaller,
    asked: Result<Query<PreviewQuery>, QueryRejection>,
) -> Result<Json<NextFires>, ApiError> {
    let Query(asked) = asked?;
    namespaces::known(&app, asked.namespace.as_ref())?;
    let name = asked.name.map_or_else(|| NAME.parse(), Ok)?;
    let mut file = JobFile {
        timezone: asked.timezone,
        dst: asked.dst,
        jitter: asked.jitter,
        start_at: asked.start_at,
        end_at: asked.end_at,
        exclude_calendars: calendars(&asked.exclude_calendars)?,
        require_calendars: calendars(&asked.require_calendars)?,
        ..JobFile::new(name, &asked.schedule, Work::Function(NAME.to_owned()))
    };
    if asked.namespace.is_some() {
        file.move_into(asked.namespace.as_ref()).map_err(|e| ApiError::invalid(e.to_string()))?;
    }
    let job = Job::parse(file).map_err(|e| ApiError::invalid(e.to_string()))?;
    within(&caller, Role::Viewer, job.name.namespace())?;
    let (schedule, missing) = app.handle.with_node(|node| {
        let view = node.view();
        (view.schedule_of(&job), view.missing(&job))
    });
    if let Some(missing) = missing.first() {
        return Err(ApiError::not_found(format!(
            "there is no calendar {missing}: see `evenkeel calendar list`"
        )));
    }
    jobs::listed(&job.name, schedule.as_ref(), FireListing { n: asked.n, tz: asked.tz, from: asked.from })
        .map(Json)
}

fn calendars(list: &str) -> Result<Vec<WrittenName<CalendarName>>, ApiError> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| name.parse().map_err(ApiError::from)).collect()
}
