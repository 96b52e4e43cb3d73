//! The attempts of a run, and their output, whichever node has them.

use axum::body::Body;
use evenkeel::{AttemptState as RunState, RunRecord};
use evenkeel_core::ids::RunId;

use super::{ApiError, App, fanout, jobs, output, relay};
use crate::peer::LogPieceQuery;
use crate::queries;
use evenkeel_client::types::AttemptDetail;

/// The other fields of an attempt.
pub(super) fn detail(a: &RunRecord) -> AttemptDetail {
    let (run, token) = (a.run.to_string(), a.token.map(|token| token.0));
    let sent = Some(a.sent.clone()).filter(|sent| !sent.is_empty());
    AttemptDetail { run, attempt: a.attempt, token, code: a.code, output: a.output, sent }
}

/// All attempts of a run; none if it was only requested.
pub(super) async fn of_run(app: &App, run: &RunId) -> Result<Vec<RunRecord>, ApiError> {
    let attempts = fanout::attempts(app, run).await?;
    if attempts.is_empty() && !queries::is_expected(&app.handle, run) {
        return Err(match queries::is_job(&app.handle, &run.job) {
            true => ApiError::not_found(format!("no run is called {run}: see `evenkeel run list`")),
            false => jobs::unknown(&app.handle, &run.job),
        });
    }
    Ok(attempts)
}

/// Whether no attempt follows this one, which has ended. While the registry does not tell, one may.
pub(super) async fn is_over(app: &App, last: &RunRecord) -> bool {
    match last.state {
        RunState::Succeeded | RunState::Killed | RunState::Skipped => true,
        _ => queries::is_open(&app.handle, &last.run).await.is_ok_and(|open| !open),
    }
}

/// Streams the output of an attempt, from the node that made it.
///
/// # Errors
/// That node does not answer, or is offline.
pub(super) async fn output_of(
    app: &App,
    node: &str,
    run: &RunId,
    piece: LogPieceQuery,
) -> Result<Body, ApiError> {
    if let Some(other) = relay::other(app, node)? {
        return other.logs(run, piece).await;
    }
    let name = node.split('@').next().unwrap_or_default();
    if name != app.handle.name().as_str() {
        let attempt = piece.attempt;
        let text = format!("node {name} keeps the output of attempt {attempt} of run {run} and is away");
        return Err(ApiError::unavailable(format!("{text}: start it, then try again")));
    }
    Ok(output::own(app.clone(), run.clone(), piece))
}
