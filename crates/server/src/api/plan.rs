//! What declarations or switches would change: `POST /api/v1/plan`. It is a question, so each viewer may ask it.

mod limiter;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use evenkeel_client::requests::PlanBody;
use evenkeel_core::ids::JobName;
use evenkeel_core::job::Job;
use evenkeel_core::principal::Role;

use super::demand::within;
use super::error::read_body;
use super::jobs::declared_once;
use super::known_caller::KnownCaller;
use super::{ApiError, App};
use crate::queries::{self, PlanRequest};
use crate::text_input::ReadTarget;
use evenkeel_client::types::{PlanAnswer, PlanRefusal};
pub(crate) use limiter::PlanLimiter;

/// Says what the body would change.
pub(super) async fn plan(
    State(app): State<App>,
    caller: KnownCaller,
    body: Bytes,
) -> Result<Json<PlanAnswer>, ApiError> {
    let turn = app.plans.0.clone().acquire_owned().await;
    let turn = turn.map_err(|e| ApiError::internal(e.to_string()))?;
    let work = move || {
        let _turn = turn;
        let request = request(&caller, read_body(&body, ReadTarget::Jobs)?)?;
        Ok(Json(queries::plan(&app.handle, request, |namespace| caller.may(Role::Viewer, namespace))))
    };
    tokio::task::spawn_blocking(work).await.map_err(|e| ApiError::internal(e.to_string()))?
}

/// The declarations, parsed; those that are invalid are refused one by one.
fn request(caller: &KnownCaller, body: PlanBody) -> Result<PlanRequest, ApiError> {
    let PlanBody { jobs, calendars, resume, enable, delete } = body;
    let names = [&resume, &enable, &delete];
    if jobs.is_empty() && calendars.is_empty() && names.iter().all(|names| names.is_empty()) {
        return Err(ApiError::invalid("nothing is planned: give jobs, calendars, resume, enable or delete"));
    }
    let mut request = PlanRequest::default();
    let mut refuse = |kind: &str, name: String, detail: String| {
        let (kind, code) = (kind.to_owned(), "invalid".to_owned());
        request.refused.push(PlanRefusal { kind, name, code, detail });
    };
    for file in calendars {
        let name = file.name.name().to_string();
        match file.calendar(None) {
            Ok(calendar) => request.calendars.push(calendar),
            Err(wrong) => refuse("calendar", name, wrong.to_string()),
        }
    }
    for file in jobs {
        let name = file.name.name().to_string();
        match Job::parse(file) {
            Ok(job) => request.jobs.push(job),
            Err(wrong) => refuse("job", name, wrong.to_string()),
        }
    }
    (request.resume, request.enable, request.delete) = (resume, enable, delete);
    declared_once(request.jobs.iter().map(|job| &job.name).chain(&request.delete))?;
    let named = request.resume.iter().chain(&request.enable).chain(&request.delete);
    let jobs = request.jobs.iter().map(|job| &job.name).chain(named);
    let namespaces = jobs.map(JobName::namespace);
    let calendars = request.calendars.iter().map(|calendar| calendar.name.namespace());
    namespaces.chain(calendars).try_for_each(|namespace| within(caller, Role::Viewer, namespace))?;
    Ok(request)
}
