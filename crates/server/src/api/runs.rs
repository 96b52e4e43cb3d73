//! Runs over HTTP: `/api/v1/runs` and below.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use evenkeel::{RunFilter, RunRecord, State as RunState};
use evenkeel_core::input::{Answer, Command, Refusal};
use evenkeel_core::words::{JobName, RunId};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::error::done;
use super::relay;
use super::{ApiError, App};
use crate::board;
use crate::rows::{RunPage, RunRow};

/// The most rows of a page, and how many there are when nobody says.
const PAGE_MAX: u32 = 1_000;
const PAGE: u32 = 100;
/// The longest wait in one request.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How much output is read at once.
const PIECE: usize = 64 * 1024;
/// How often output is looked for again while it is followed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    job: Option<JobName>,
    state: Option<String>,
    limit: Option<u32>,
    before: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    attempt: Option<u32>,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    follow: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    timeout: Option<u64>,
}

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<RunPage>, ApiError> {
    let Query(page) = page?;
    let states = page.state.as_deref().map(state).transpose()?;
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let filter =
        RunFilter { job: page.job, states: states.into_iter().collect(), limit, before: page.before };
    let records = app.handle.runs(filter).await?;
    let full = records.len() == limit as usize;
    let before = records.last().filter(|_| full).map(|last| last.seq.to_string());
    Ok(Json(RunPage { runs: records.iter().map(board::run_row).collect(), before }))
}

fn state(text: &str) -> Result<RunState, ApiError> {
    RunState::parse(text).ok_or_else(|| {
        let all: Vec<_> = RunState::ALL.iter().map(|state| state.as_str()).collect();
        ApiError::invalid(format!("no state is called {text:?}: use one of {}", all.join(", ")))
    })
}

pub(super) async fn show(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(run) = run?;
    let attempts = attempts(&app, &run).await?;
    let rows: Vec<RunRow> = attempts.iter().map(board::run_row).collect();
    let tokens: Vec<Value> = attempts
        .iter()
        .map(|a| json!({ "attempt": a.attempt, "token": a.token, "code": a.code, "output": a.output }))
        .collect();
    Ok(Json(json!({ "run": run, "attempts": rows, "details": tokens })))
}

/// All attempts of a run; none while it was only asked for.
pub(super) async fn attempts(app: &App, run: &RunId) -> Result<Vec<RunRecord>, ApiError> {
    let attempts = app.handle.run(run).await?;
    if attempts.is_empty() && !board::is_expected(&app.handle, run) {
        return Err(ApiError::not_found(format!("no run is called {run}: see `evenkeel run list`")));
    }
    Ok(attempts)
}

pub(super) async fn wait(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    wait: Result<Query<Wait>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let (Path(run), Query(wait)) = (run?, wait?);
    attempts(&app, &run).await?;
    let bound = wait.timeout.map_or(WAIT_MAX, Duration::from_secs).min(WAIT_MAX);
    match tokio::time::timeout(bound, app.handle.wait(&run)).await {
        Ok(last) => Ok(Json(json!({ "done": true, "run": board::run_row(&last?) }))),
        Err(_) => Ok(Json(json!({ "done": false }))),
    }
}

pub(super) async fn kill(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let Path(run) = run?;
    match app.handle.ask(Command::Kill(run.clone())).await {
        Answer::Refused(Refusal::NotFound, message) => {
            let last = attempts(&app, &run).await?.pop();
            if let Some(ended) = last.as_ref().filter(|last| last.state.is_end()) {
                let state = ended.state.as_str();
                return Err((Refusal::Conflict, format!("run {run} has ended already: it is {state}")).into());
            }
            let other = last.and_then(|last| relay::other(&app, &last.node, &headers));
            let Some(other) = other else { return Err(ApiError::not_found(message)) };
            other.kill(&run).await.map(Json)
        }
        answer => done(answer),
    }
}

pub(super) async fn logs(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    output: Result<Query<Output>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (Path(run), Query(output)) = (run?, output?);
    let attempts = attempts(&app, &run).await?;
    let wanted = match output.attempt {
        None => attempts.last(),
        Some(n) => Some(attempts.iter().find(|a| a.attempt == n).ok_or_else(|| {
            ApiError::not_found(format!("run {run} has no attempt {n}: see `evenkeel run show {run}`"))
        })?),
    };
    let attempt = wanted.map_or(1, |a| a.attempt);
    let body = match wanted.and_then(|a| relay::other(&app, &a.node, &headers)) {
        Some(other) => other.logs(&run, attempt, output.offset, output.follow).await?,
        None => own_logs(app, run, attempt, output),
    };
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CONTENT_DISPOSITION, "inline")];
    Ok((kind, body).into_response())
}

/// Output as it is, and as it comes when it is followed.
fn own_logs(app: App, run: RunId, attempt: u32, output: Output) -> Body {
    let (send, receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(4);
    tokio::spawn(async move {
        let mut ending = app.ending.clone();
        let mut offset = output.offset;
        let mut ended = !output.follow;
        loop {
            let piece = match app.handle.log(&run, attempt, offset, PIECE).await {
                Ok(piece) => piece,
                Err(e) => return drop(send.send(Err(e)).await),
            };
            offset = piece.next;
            if !piece.data.is_empty() {
                if send.send(Ok(piece.data.into())).await.is_err() {
                    return;
                }
                continue;
            }
            if ended || *ending.borrow_and_update() || send.is_closed() {
                return;
            }
            // The end is looked up before the last piece is read, so that nothing written before it is missed.
            let records = app.handle.run(&run).await.unwrap_or_default();
            ended = records.iter().any(|r| r.attempt == attempt && r.state.is_end());
            if !ended {
                let _ = tokio::time::timeout(LOOK_AGAIN, ending.changed()).await;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receive))
}
