//! The routes between nodes: what only the called node knows or can do. Nothing is forwarded.

use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use evenkeel::audit::{AuditFilter, AuditRecord, Proof, Requester};
use evenkeel::{
    AttemptState as RunState, EventFilter, EventRecord, JobVersion, JobVersionFilter, NodeHealth, RunFilter,
    RunRecord, SummaryPart,
};
use evenkeel_core::ids::{Member, RunId};
use evenkeel_core::input::{Answer, Command, ProbeReply};
use serde_json::{Value, json};

use super::OUTPUT_PATIENCE;
use super::facts::{AttentionFacts, AttentionQuery, OutcomeFacts, OutcomeQuery, SuccessFacts, SuccessQuery};
use super::gate::{self, PeerIdentity};
use super::messages::{
    HistoryHealth, LogPieceQuery, LogTailQuery, LogTailReply, OfferReply, PeerHistoryPage, PeerRunQuery,
    PeerSummaryQuery, RunOffers,
};
use super::records::{RecordsQuery, RecordsReply};
use crate::api::{
    ApiError, App, attention_facts, done, fetch_rows, log_tail, outcomes, output, own_part, own_records,
    read_body,
};
use crate::queries;
use crate::text_input::ReadTarget;

/// The maximum number of attempts or events in one response.
const ROWS_MAX: u32 = 1_000;
/// The most bytes of declarations in one response, whose limit is twice that; what else a version has is about so long.
const DECLARED_BYTES_MAX: usize = super::BODY_BYTES_MAX / 2;
const ROW_BYTES: usize = 500;

/// The router for the calls of nodes only.
pub(crate) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/peer/v1/role", get(role))
        .route("/peer/v1/offers", post(offers))
        .route("/peer/v1/runs", post(runs))
        .route("/peer/v1/events", post(events))
        .route("/peer/v1/audit", post(audit))
        .route("/peer/v1/versions", post(versions))
        .route("/peer/v1/history", post(history))
        .route("/peer/v1/health", post(health))
        .route("/peer/v1/attention", post(attention))
        .route("/peer/v1/successes", post(successes))
        .route("/peer/v1/outcomes", post(last_outcomes))
        .route("/peer/v1/summary", post(summary))
        .route("/peer/v1/records", post(records))
        .route("/peer/v1/runs/{run}/kill", post(kill))
        .route("/peer/v1/runs/{run}/logs", get(logs).delete(forget))
        .route("/peer/v1/runs/{run}/logs/tail", get(tail))
        .layer(middleware::from_fn_with_state(app.clone(), gate::gate))
}

/// The response itself names the member.
async fn role(State(app): State<App>) -> Json<ProbeReply> {
    let now = evenkeel::clock::now().mono;
    Json(app.handle.with_node(|node| node.role(now)))
}

/// Accepts offers of runs. An offer only names runs; the node reads in the registry whether they are planned for it.
async fn offers(State(app): State<App>, body: Bytes) -> Result<Json<OfferReply>, ApiError> {
    let RunOffers { runs } = read_body(&body, ReadTarget::Body)?;
    match app.handle.ask(Command::Offer(runs)).await {
        Answer::Busy(busy) => Ok(Json(OfferReply { busy })),
        Answer::Refused(refusal, message) => Err((refusal, message).into()),
        other => Err(ApiError::internal(format!("an offer was answered by {other:?}"))),
    }
}

async fn runs(State(app): State<App>, body: Bytes) -> Result<Json<PeerHistoryPage<RunRecord>>, ApiError> {
    let PeerRunQuery { run, filter } = read_body(&body, ReadTarget::Body)?;
    let found = match run {
        Some(run) => PeerHistoryPage { rows: app.handle.run(&run).await?, next: None },
        None => {
            let now = filter.states == [RunState::Running];
            let filter = RunFilter { limit: filter.limit.min(ROWS_MAX), ..filter };
            let limit = if filter.attempts.is_empty() { filter.limit } else { u32::MAX };
            let mut found = fetch_rows(app.handle.runs(filter).await?, limit);
            found.rows.retain(|record| !now || queries::still_runs(&app.handle, record));
            found
        }
    };
    Ok(Json(found))
}

async fn events(State(app): State<App>, body: Bytes) -> Result<Json<PeerHistoryPage<EventRecord>>, ApiError> {
    let filter: EventFilter = read_body(&body, ReadTarget::Body)?;
    let limit = filter.limit.min(ROWS_MAX);
    Ok(Json(fetch_rows(app.handle.events(EventFilter { limit, ..filter }).await?, limit)))
}

/// Sums up the fires that this node's own history counted.
async fn summary(State(app): State<App>, body: Bytes) -> Result<Json<SummaryPart>, ApiError> {
    let asked: PeerSummaryQuery = read_body(&body, ReadTarget::Body)?;
    Ok(Json(own_part(&app, &asked).await?))
}

/// Reads what this node's own history has of the scheduled fires of jobs.
async fn records(State(app): State<App>, body: Bytes) -> Result<Json<RecordsReply>, ApiError> {
    let query: RecordsQuery = read_body(&body, ReadTarget::Body)?;
    Ok(Json(own_records(&app, &query).await?))
}

async fn history(State(app): State<App>) -> Json<HistoryHealth> {
    Json(HistoryHealth { trouble: app.handle.history_trouble() })
}

async fn health(State(app): State<App>) -> Json<NodeHealth> {
    Json(app.handle.health())
}

async fn attention(State(app): State<App>, body: Bytes) -> Result<Json<AttentionFacts>, ApiError> {
    let query: AttentionQuery = read_body(&body, ReadTarget::Body)?;
    Ok(Json(attention_facts::own(&app.handle, &query).await?))
}

async fn successes(State(app): State<App>, body: Bytes) -> Result<Json<SuccessFacts>, ApiError> {
    let query: SuccessQuery = read_body(&body, ReadTarget::Body)?;
    Ok(Json(attention_facts::successes(&app.handle, &query).await?))
}

async fn last_outcomes(State(app): State<App>, body: Bytes) -> Result<Json<OutcomeFacts>, ApiError> {
    let query: OutcomeQuery = read_body(&body, ReadTarget::Body)?;
    Ok(Json(outcomes(&app.handle, &query).await?))
}

async fn audit(State(app): State<App>, body: Bytes) -> Result<Json<PeerHistoryPage<AuditRecord>>, ApiError> {
    let filter: AuditFilter = read_body(&body, ReadTarget::Body)?;
    let limit = filter.limit.min(ROWS_MAX);
    Ok(Json(fetch_rows(app.handle.audit(AuditFilter { limit, ..filter }).await?, limit)))
}

async fn versions(
    State(app): State<App>,
    body: Bytes,
) -> Result<Json<PeerHistoryPage<JobVersion>>, ApiError> {
    let filter: JobVersionFilter = read_body(&body, ReadTarget::Body)?;
    let limit = filter.limit.min(ROWS_MAX);
    Ok(Json(fitting(app.handle.job_versions(JobVersionFilter { limit, ..filter }).await?)))
}

/// As many versions as fit into one response, at least one, and where the next page begins.
fn fitting(mut rows: Vec<JobVersion>) -> PeerHistoryPage<JobVersion> {
    let mut bytes = 0;
    let size = |row: &JobVersion| row.declared.as_ref().map_or(0, String::len) + ROW_BYTES;
    let fits = |row: &&JobVersion| {
        bytes += size(row);
        bytes <= DECLARED_BYTES_MAX
    };
    let fit = rows.iter().take_while(fits).count().max(1);
    let next = (fit < rows.len()).then(|| rows[fit - 1].version);
    rows.truncate(fit);
    PeerHistoryPage { rows, next }
}

/// Kills a run for a caller of another node. That node names the caller, which is recorded as that node's claim.
async fn kill(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    Extension(PeerIdentity(from)): Extension<PeerIdentity>,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Path(run) = run?;
    done(app.handle.ask_as(on_behalf(&from, &body), Command::Kill(run)).await)
}

/// The requester behind a calling node. This node has authenticated that node and nothing else; what its body says of the
/// requester is a claim, whatever proof it names.
fn on_behalf(from: &Member, body: &[u8]) -> Requester {
    // A node of an earlier version does not name its caller.
    let Ok(Requester { proof: claimed, from: address, claims }) = serde_json::from_slice(body) else {
        return Requester::new(Proof::Node, &format!("via {from}"), "");
    };
    let address = if address.is_empty() { String::new() } else { format!(" from {address}") };
    Requester::new(Proof::Node, &format!("via {from}, claims {claimed}{address}"), &claims)
}

/// Deletes this node's output of a run.
async fn forget(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(run) = run?;
    let removed = output::forget(&app, &run).await?;
    Ok(Json(json!({ "done": true, "removed": removed })))
}

/// A piece of output; empty if there is none yet, and status "no content" if there will be no more.
async fn logs(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    piece: Result<Query<LogPieceQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (Path(run), Query(piece)) = (run?, piece?);
    let found = output::piece(&app, &run, piece, OUTPUT_PATIENCE).await;
    match found.map_err(|e| ApiError::internal(e.to_string()))? {
        Some(data) => Ok(data.into_response()),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Where the last lines of output begin.
async fn tail(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    wanted: Result<Query<LogTailQuery>, QueryRejection>,
) -> Result<Json<LogTailReply>, ApiError> {
    let (Path(run), Query(wanted)) = (run?, wanted?);
    Ok(Json(LogTailReply { offset: log_tail::begin_here(&app, &run, wanted).await? }))
}

#[cfg(test)]
mod tests {
    use evenkeel::JobChange;
    use evenkeel_core::time::Wall;

    use super::*;

    fn version(version: u64, bytes: usize) -> JobVersion {
        JobVersion {
            job: "j".parse().expect("a name"),
            version,
            at: Wall(0),
            node: "a".into(),
            asker: None,
            change: JobChange::Found,
            restored: None,
            declared: Some("x".repeat(bytes)),
        }
    }

    #[test]
    fn versions_that_do_not_fit_are_on_the_next_page_and_one_always_comes() {
        let page = |sizes: &[usize]| {
            let rows = sizes.iter().zip((1..=9).rev()).map(|(bytes, n)| version(n, *bytes)).collect();
            let page = fitting(rows);
            (page.rows.iter().map(|row| row.version).collect::<Vec<_>>(), page.next)
        };
        assert_eq!(page(&[]), (vec![], None));
        assert_eq!(page(&[9, 9, 9]), (vec![9, 8, 7], None));
        assert_eq!(page(&[DECLARED_BYTES_MAX / 2; 3]), (vec![9], Some(9)), "with what else they have");
        assert_eq!(page(&[DECLARED_BYTES_MAX / 3; 3]), (vec![9, 8], Some(8)));
        assert_eq!(page(&[DECLARED_BYTES_MAX * 3 / 2, 9]), (vec![9], Some(9)));
    }

    #[test]
    fn what_a_body_says_of_a_caller_is_a_claim_whatever_proof_it_names() {
        let from = "b@2".parse().expect("a member");
        for claimed in ["process", "key", "local", "nobody", "node"] {
            let body = format!(r#"{{"proof":"{claimed}","from":"10.0.0.7","claims":"ann@ops1"}}"#);
            let asker = on_behalf(&from, body.as_bytes());
            assert_eq!(asker.proof, Proof::Node, "it is proved of the node that asks");
            assert_eq!(asker.from, format!("via b@2, claims {claimed} from 10.0.0.7"));
            assert_eq!(asker.claims, "ann@ops1");
        }
        let inside = on_behalf(&from, br#"{"proof":"process","from":"","claims":""}"#);
        assert_eq!(inside, Requester::new(Proof::Node, "via b@2, claims process", ""));
        for silent in ["", "{}", r#"{"proof":"king","from":"","claims":""}"#] {
            assert_eq!(on_behalf(&from, silent.as_bytes()), Requester::new(Proof::Node, "via b@2", ""));
        }
    }
}
