//! The cluster in the data formats of other schedulers: `/api/v1/cluster` and below.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::Handle;
use evenkeel_client::requests::ClusterViewQuery;
use evenkeel_core::ids::JobName;
use evenkeel_core::job::Placement;
use evenkeel_core::view::View;
use serde_json::{Value, json};

use super::jobs::unknown;
use super::{ApiError, App};
use crate::compat::{self, CompatFormat, CompatJob};
use crate::queries;
use crate::zones;

/// The maximum number of jobs' trees in one response.
const PAGE: usize = 20;
/// How often records are read again that do not match each other.
const LOOKS: usize = 5;

pub(super) async fn tree(
    State(app): State<App>,
    which: Result<Query<ClusterViewQuery>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let Query(ClusterViewQuery { form, job, after }) = which?;
    let form: CompatFormat = form.unwrap_or_default().parse().map_err(ApiError::invalid)?;
    if form.is_whole() {
        if let Some(job) = job.as_ref().filter(|job| queries::job(&app.handle, job).is_none()) {
            return Err(unknown(&app.handle, job));
        }
        let whole = queries::compat_cluster(&app.handle, job.as_ref()).await;
        let whole = whole.map_err(|e| ApiError::unavailable(e.to_string()))?;
        let shown = tokio::task::spawn_blocking(move || compat::render_whole(form, &whole)).await;
        let entries = shown.map_err(|e| ApiError::internal(e.to_string()))?;
        return Ok(Json(json!({ "tree": entries, "after": null })));
    }
    let (jobs, after) = match job {
        Some(job) => (vec![checked(&app.handle, job)?], None),
        None => page(&app.handle, after.as_ref()),
    };
    let mut entries = Vec::new();
    for job in jobs {
        // A job that was deleted just now is left out.
        let Some(seen) = seen(&app.handle, &job).await? else { continue };
        let shown = tokio::task::spawn_blocking(move || compat::render(form, &seen)).await;
        entries.extend(shown.map_err(|e| ApiError::internal(e.to_string()))?);
    }
    Ok(Json(json!({ "tree": entries, "after": after })))
}

/// Checks that a job exists and is sharded.
fn checked(handle: &Handle, job: JobName) -> Result<JobName, ApiError> {
    let placement = handle.with_node(|node| Some(node.view().find(&job)?.spec()?.job.placement.kind()));
    match placement {
        Some(Placement::Sharded | Placement::Broadcast) => Ok(job),
        Some(Placement::Claimed | Placement::Dispatched) => Err(ApiError::conflict(format!(
            "job {job} is not sharded, so it has no such tree: see `evenkeel job show {job}`"
        ))),
        None => Err(unknown(handle, &job)),
    }
}

/// A page of the sharded jobs after this name, and the name after which the next page begins.
fn page(handle: &Handle, after: Option<&JobName>) -> (Vec<JobName>, Option<JobName>) {
    let mut names: Vec<JobName> = handle.with_node(|node| {
        let view = node.view();
        let jobs = view.sharded().map(|id| view.job(id)).filter(|job| job.is_live() && job.is_sharded());
        jobs.map(|job| job.name().clone()).filter(|name| after.is_none_or(|after| name > after)).collect()
    });
    names.sort_unstable();
    let more = names.len() > PAGE;
    names.truncate(PAGE);
    let next = names.last().cloned().filter(|_| more);
    (names, next)
}

/// The records of a job, with run states that match its shard assignments.
async fn seen(handle: &Handle, job: &JobName) -> Result<Option<CompatJob>, ApiError> {
    for _ in 0..LOOKS {
        let run_states =
            handle.shard_run_states(job).await.map_err(|e| ApiError::unavailable(e.to_string()))?;
        let Some(mut seen) = handle.with_node(|node| copied(node.view(), job)) else { return Ok(None) };
        let number = seen.sharding.shard_map.number;
        let fits = |member| run_states.get(member).is_some_and(|run_state| run_state.map_number == number);
        if seen.sharding.run_states.iter().all(fits) {
            seen.run_states = run_states;
            return Ok(Some(seen));
        }
    }
    Err(ApiError::unavailable(format!("the shards of job {job} change hands all the time: try again")))
}

/// The view's records of a job, without run states.
fn copied(view: &View, job: &JobName) -> Option<CompatJob> {
    let job = view.find(job)?;
    let spec = queries::timed(view, &job).filter(|spec| spec.job.placement.is_sharded())?;
    let drained = view.members().map(|(member, _)| &member.node).filter(|node| view.intent(node).is_some());
    let counts = view.counts(job.name()).map(|(node, count)| (node.clone(), *count)).collect();
    Some(CompatJob {
        counts,
        calendars: view.calendars_of(&spec.job),
        spec,
        sharding: job.sharding().cloned().unwrap_or_default(),
        run_states: std::collections::BTreeMap::new(),
        members: view.members().map(|(member, state)| (member.clone(), state.info.clone())).collect(),
        switches: job.switched().map(|(node, switches)| (node.clone(), switches.clone())).collect(),
        drained: drained.cloned().collect(),
        triggers: job.triggers().and_then(|known| known.value.clone()).unwrap_or_default(),
        now: zones::now(),
    })
}
