//! The HTTP API: one router for people, programs and peers (S0-20).

mod access;
mod audit;
mod body;
mod body_budget;
mod calendars;
pub(crate) mod changes;
mod cluster;
mod console_feed;
mod denials;
mod error;
mod events;
mod explain;
mod fanout;
mod fires;
mod follow;
mod jobs;
mod nodes;
pub(crate) mod output;
mod query_keys;
mod relay;
mod run_target;
mod running;
mod runs;
mod search;
mod settings;
mod shards;
mod waiting;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use evenkeel::Handle;
use evenkeel_core::ids::NotifierName;
use serde_json::json;
use tokio::sync::watch;

use crate::console;
use crate::peer::{self, PeerHttpClient, PeerServer};
use crate::queries;
use crate::upgrade::UpgradeHandle;
pub(crate) use access::AccessPolicy;
pub(crate) use console_feed::{ConsoleFeed, ConsoleSnapshot, RemoteHistories};
pub(crate) use denials::DenialLog;
pub(crate) use error::{ApiError, REPLAYED, STALE, done, read_body};
pub(crate) use fanout::fetch_rows;
pub(crate) use search::SearchLimiter;

/// The state that every handler shares.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) access: Arc<AccessPolicy>,
    pub(crate) live: Arc<ConsoleFeed>,
    /// Denied callers, counted so that they cannot fill the audit log.
    pub(crate) denials: Arc<DenialLog>,
    /// The client that calls other nodes.
    pub(crate) line: PeerHttpClient,
    /// The state of the server side for calls of other nodes.
    pub(crate) peer_server: Arc<PeerServer>,
    /// The notifiers of this node that jobs may use.
    pub(crate) notifiers: Arc<BTreeSet<NotifierName>>,
    /// The limit of concurrent searches through output.
    pub(crate) searches: SearchLimiter,
    /// Takes requests to upgrade this node.
    pub(crate) upgrades: UpgradeHandle,
    /// Whether the process ends; endless responses end then too.
    pub(crate) ending: watch::Receiver<bool>,
}

/// The router of every route that is served.
pub(crate) fn router(app: App) -> Router {
    let open = Router::new()
        .route("/", get(console::page))
        .route("/console.css", get(console::style))
        .route("/console.js", get(console::script))
        .route("/favicon.svg", get(console::icon))
        .route("/favicon.ico", get(console::icon))
        .route("/api/v1/health", get(health))
        .layer(axum::middleware::from_fn(query_keys::known));
    let keyed = Router::new()
        .route("/jobs", get(jobs::list))
        .route("/jobs/{name}", get(jobs::show))
        .route("/jobs/{name}/next", get(jobs::next))
        .route("/jobs/{name}/explain", get(explain::job))
        .route("/jobs/{name}/logs", get(search::job))
        .route("/jobs/{name}/shards", get(shards::list))
        .route("/calendars", get(calendars::list))
        .route("/calendars/{name}", get(calendars::show))
        .route("/runs", get(runs::list))
        .route("/runs/running", get(runs::running))
        .route("/runs/{run}", get(runs::show))
        .route("/runs/{run}/explain", get(explain::run))
        .route("/runs/{run}/logs", get(runs::logs))
        .route("/runs/{run}/wait", get(runs::wait))
        .route("/nodes", get(nodes::list))
        .route("/service", get(nodes::least_loaded))
        .route("/nodes/balance", get(nodes::balance))
        .route("/nodes/{name}/load", get(nodes::load))
        .route("/cluster/view", get(cluster::tree))
        .route("/cluster/settings", get(settings::show))
        .route("/events", get(events::list))
        .route("/audit", get(audit::list))
        .route("/live", get(console_feed::stream));
    let keyed = changes::add_routes(keyed, "/api/v1")
        .layer(axum::middleware::from_fn(query_keys::known))
        .layer(axum::middleware::from_fn_with_state(app.clone(), changes::noted))
        .layer(axum::middleware::from_fn_with_state(app.clone(), access::key));
    Router::new()
        .merge(open)
        .merge(peer::router(&app))
        .nest("/api/v1", keyed)
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        // Body sizes are limited where bodies are read.
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(app.clone(), access::guard))
        .with_state(app)
}

/// Reports whether this node is a member that may act and stays. Needs no key, so it reports nothing else.
async fn health(State(app): State<App>) -> Response {
    let trouble = app.handle.history_trouble();
    let (status, word) = match (queries::is_leaving(&app.handle), queries::is_member(&app.handle)) {
        _ if queries::is_closed(&app.handle) => {
            (StatusCode::SERVICE_UNAVAILABLE, "closed from outside: start it again")
        }
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "leaving"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "not a member"),
        (false, true) => match &trouble {
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why.as_str()),
            None => (StatusCode::OK, "member"),
        },
    };
    let body = json!({ "status": word, "node": app.handle.name(), "version": env!("CARGO_PKG_VERSION") });
    (status, Json(body)).into_response()
}

async fn nothing() -> ApiError {
    ApiError::not_found("there is nothing at this address: see docs/api.md")
}

async fn wrong_method() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong_method",
        "this address knows other methods: see docs/api.md",
    )
}
