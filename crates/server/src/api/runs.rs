//! Runs over HTTP: `/api/v1/runs` and below.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use evenkeel::{RunFilter, RunRecord, State as RunState};
use evenkeel_core::input::{Answer, Command, Refusal};
use evenkeel_core::words::{Fire, JobName, RunId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::changes::Asked;
use super::error::done;
use super::search::{self, Text};
use super::{ApiError, App, elsewhere, jobs, output, relay};
use crate::peer::Piece;
use crate::rows::{RunPage, RunRow, moment};
use crate::{board, request, written};

/// The most rows of a page, and how many there are when nobody says.
const PAGE_MAX: u32 = 1_000;
const PAGE: u32 = 100;
/// The longest wait in one request.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often the other nodes are asked whether a run has ended.
const LOOK_ELSEWHERE: Duration = Duration::from_millis(500);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    job: Option<JobName>,
    state: Option<String>,
    limit: Option<u32>,
    before: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    attempt: Option<u32>,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    follow: bool,
    /// Only the lines that hold this text.
    grep: Option<String>,
    /// To be saved as a file, by a browser.
    #[serde(default)]
    download: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    #[serde(default, deserialize_with = "written::seconds")]
    timeout: Option<u64>,
}

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<RunPage>, ApiError> {
    let Query(page) = page?;
    let states = page.state.as_deref().map(state).transpose()?;
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let from = page.before.as_deref().map(elsewhere::read).transpose()?;
    let filter = RunFilter { job: page.job, states: states.into_iter().collect(), limit, before: None };
    let elsewhere::Page { rows, next, missing } = elsewhere::runs(&app, filter, from).await?;
    Ok(Json(RunPage {
        runs: rows.iter().map(board::run_row).collect(),
        before: next.as_ref().map(elsewhere::written),
        missing: missing.iter().map(ToString::to_string).collect(),
    }))
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
    let attempts = elsewhere::attempts(app, run).await?;
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
    match tokio::time::timeout(bound, ended(&app, &run)).await {
        Ok(last) => Ok(Json(json!({ "done": true, "run": board::run_row(&last?) }))),
        Err(_) => Ok(Json(json!({ "done": false }))),
    }
}

/// Waits for a run's end, whoever's history has it.
async fn ended(app: &App, run: &RunId) -> Result<RunRecord, ApiError> {
    if app.handle.shares_history() {
        return Ok(app.handle.wait(run).await?);
    }
    let here = app.handle.wait(run);
    tokio::pin!(here);
    loop {
        if let Ok(last) = tokio::time::timeout(LOOK_ELSEWHERE, &mut here).await {
            return Ok(last?);
        }
        if let Some(last) = elsewhere::attempts(app, run).await?.pop().filter(|last| last.state.is_end()) {
            return Ok(last);
        }
    }
}

pub(super) async fn kill(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    asked: Asked,
) -> Result<Response, ApiError> {
    let Path(run) = run?;
    let not_here = || {
        let fix = format!("see `evenkeel explain run {run}`, or pause its job");
        let text = format!("no node runs run {run}, nor has claimed it: {fix}");
        Answer::Refused(Refusal::NotFound, text)
    };
    let answer = match app.handle.look(|node| node.executes(&run) || node.awaits(&run)) {
        true => asked.ask(&app, Command::Kill(run.clone())).await,
        false => not_here(),
    };
    match answer {
        Answer::Refused(Refusal::NotFound, message) => {
            let last = attempts(&app, &run).await?.pop();
            // After what was in doubt another attempt may follow.
            let over = |last: &&RunRecord| {
                last.state.is_end() && ![RunState::Lost, RunState::Fenced].contains(&last.state)
            };
            let runs = last.as_ref().filter(|last| last.state == RunState::Running);
            // Where nobody runs it, whoever has it open is to start it.
            let whose = match runs {
                Some(last) => Some(last.node.clone()),
                None if last.as_ref().is_some_and(|last| over(&last)) => None,
                None => board::waits_on(&app.handle, &run).await?.map(|member| member.to_string()),
            };
            if let Some(ended) = last.filter(|last| whose.is_none() && last.state.is_end()) {
                let state = ended.state.as_str();
                return Err((Refusal::Conflict, format!("run {run} has ended already: it is {state}")).into());
            }
            if whose.as_ref().is_some_and(|node| node.split('@').next() == Some(app.handle.name().as_str())) {
                let text =
                    format!("run {run} has just come to this node, or is just starting or ending: try again");
                return Err(ApiError::unavailable(text));
            }
            let other = whose.map(|node| relay::other(&app, &node)).transpose()?.flatten();
            let Some(other) = other else { return Err(ApiError::not_found(message)) };
            asked.goes_elsewhere();
            let said = other.kill(&run, &asked.asker).await?;
            asked.was_elsewhere();
            Ok(said)
        }
        answer => done(answer).map(IntoResponse::into_response),
    }
}

/// Removes what was written by a run, wherever an attempt of it was made.
pub(super) async fn forget(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    let Path(run) = run?;
    let attempts = attempts(&app, &run).await?;
    let own = app.handle.name().as_str();
    let names = attempts.iter().filter_map(|attempt| attempt.node.split('@').next());
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty() && *name != own).collect();
    // All are looked up before anything goes: else some of it would be gone and the answer say that it was refused.
    let others = names.into_iter().map(|name| {
        relay::other(&app, name)?.ok_or_else(|| {
            let why =
                format!("node {name} has output of run {run} and is no member: start it, then try again");
            ApiError::unavailable(why)
        })
    });
    let others = others.collect::<Result<Vec<_>, ApiError>>()?;
    asked.may_be_half_done();
    output::forget(&app, &run).await?;
    for other in others {
        other.forget(&run).await?;
    }
    asked.is_done();
    done(Answer::Done)
}

/// Runs the job of a run that has ended once more. The request is named after the run, so asking twice asks once.
pub(super) async fn restart(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    let Path(run) = run?;
    let attempts = attempts(&app, &run).await?;
    let Some(last) = attempts.last().filter(|last| last.state.is_end()) else {
        let fix = format!("wait for its end, or end it with `evenkeel run kill {run}`");
        return Err(ApiError::conflict(format!("run {run} has not ended yet: {fix}")));
    };
    let request = request::named_after(&run)?;
    // The registry forgets requests in time, the history says longer what became of them.
    let again = RunId { fire: Fire::Asked(request.clone()), ..run };
    if let Some(known) = app.handle.run(&again).await?.first() {
        return Ok(Json(json!({ "run": again, "asked": moment(known.due) })));
    }
    jobs::run_now(&app, &asked, last.job.clone(), None, request).await
}

pub(super) async fn logs(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    asked: Result<Query<Output>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (Path(run), Query(asked)) = (run?, asked?);
    let text = asked.grep.as_deref().map(Text::of).transpose()?;
    let attempts = attempts(&app, &run).await?;
    let wanted = match asked.attempt {
        None => attempts.last(),
        Some(n) => Some(attempts.iter().find(|a| a.attempt == n).ok_or_else(|| {
            ApiError::not_found(format!("run {run} has no attempt {n}: see `evenkeel run show {run}`"))
        })?),
    };
    let attempt = wanted.map_or(1, |a| a.attempt);
    let piece = Piece { attempt, offset: asked.offset, follow: asked.follow };
    let node = wanted.map(|a| a.node.clone()).unwrap_or_default();
    let body = output_of(&app, &node, &run, piece).await?;
    let body = match text {
        Some(text) => search::lines(body, text),
        None => body,
    };
    let disposition = match asked.download {
        true => format!("attachment; filename=\"{}\"", file_name(&run, attempt)),
        false => "inline".to_owned(),
    };
    let kind = "text/plain; charset=utf-8".to_owned();
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, disposition)];
    Ok((headers, body).into_response())
}

/// The output of an attempt, from the node that made it; from this one where nobody else can have it.
///
/// # Errors
/// That node does not answer.
pub(super) async fn output_of(app: &App, node: &str, run: &RunId, piece: Piece) -> Result<Body, ApiError> {
    match relay::other(app, node)? {
        Some(other) => other.logs(run, piece).await,
        None => Ok(output::own(app.clone(), run.clone(), piece)),
    }
}

/// What an attempt's output is called as a file, on any system.
fn file_name(run: &RunId, attempt: u32) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    format!("{}.{attempt}.log", run.to_string().chars().map(plain).collect::<String>())
}
