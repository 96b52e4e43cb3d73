//! The HTTP interface: one router for people, programs and peers (S0-20).

mod audit;
mod bodies;
mod body;
mod calendars;
pub(crate) mod changes;
mod cluster;
mod denials;
mod elsewhere;
mod error;
mod events;
mod explain;
mod fires;
mod follow;
mod gate;
mod jobs;
mod live;
mod named;
mod nodes;
pub(crate) mod output;
mod queries;
mod relay;
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
use axum::routing::{get, post};
use evenkeel::Handle;
use evenkeel_core::words::NotifierName;
use serde_json::json;
use tokio::sync::watch;

use crate::board;
use crate::console;
use crate::peer::{self, Ear, Line};
use crate::upgrade::Upgrades;
pub(crate) use denials::Denials;
pub(crate) use elsewhere::found;
pub(crate) use error::{ApiError, REPLAYED, STALE, done, read_body};
pub(crate) use gate::Door;
pub(crate) use live::{Live, Others, Picture};
pub(crate) use search::Searches;

/// What every handler knows.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) door: Arc<Door>,
    pub(crate) live: Arc<Live>,
    /// Who was not let in lately.
    pub(crate) denials: Arc<Denials>,
    /// How other nodes are asked.
    pub(crate) line: Line,
    /// What was asked by them.
    pub(crate) ear: Arc<Ear>,
    /// What jobs may call the notifiers of this node.
    pub(crate) notifiers: Arc<BTreeSet<NotifierName>>,
    /// The turns of searches through output.
    pub(crate) searches: Searches,
    /// Where an upgrade of this node is asked for.
    pub(crate) upgrades: Upgrades,
    /// Whether the process ends, so that answers which would go on for ever end too.
    pub(crate) ending: watch::Receiver<bool>,
}

/// Everything that is served.
pub(crate) fn router(app: App) -> Router {
    let open = Router::new()
        .route("/", get(console::page))
        .route("/console.css", get(console::style))
        .route("/console.js", get(console::script))
        .route("/favicon.svg", get(console::icon))
        .route("/favicon.ico", get(console::icon))
        .route("/api/v1/health", get(health))
        .layer(axum::middleware::from_fn(queries::known));
    let keyed = Router::new()
        .route("/jobs", get(jobs::list))
        .route("/jobs/apply", post(jobs::apply))
        .route("/jobs/claim", post(jobs::claim))
        .route("/jobs/{name}", get(jobs::show).delete(jobs::delete))
        .route("/jobs/{name}/next", get(jobs::next))
        .route("/jobs/{name}/explain", get(explain::job))
        .route("/jobs/{name}/logs", get(search::job))
        .route("/jobs/{name}/shards", get(shards::list))
        .route("/jobs/{name}/shards/{set}/{verb}", post(shards::switch))
        .route("/jobs/{name}/{verb}", post(jobs::switch))
        .route("/calendars", get(calendars::list))
        .route("/calendars/{name}", get(calendars::show).put(calendars::put).delete(calendars::delete))
        .route("/runs", get(runs::list))
        .route("/runs/running", get(runs::running))
        .route("/runs/{run}", get(runs::show))
        .route("/runs/{run}/explain", get(explain::run))
        .route("/runs/{run}/logs", get(runs::logs).delete(runs::forget))
        .route("/runs/{run}/wait", get(runs::wait))
        .route("/runs/{run}/kill", post(runs::kill))
        .route("/runs/{run}/restart", post(runs::restart))
        .route("/nodes", get(nodes::list))
        .route("/service", get(nodes::least_loaded))
        .route("/nodes/balance", get(nodes::balance))
        .route("/nodes/{name}/load", get(nodes::load))
        .route("/nodes/{name}/{verb}", post(nodes::switch))
        .route("/cluster/view", get(cluster::tree))
        .route("/cluster/settings", get(settings::show).post(settings::set))
        .route("/cluster/finalize-upgrade", post(settings::finalize))
        .route("/events", get(events::list))
        .route("/audit", get(audit::list))
        .route("/live", get(live::stream))
        .layer(axum::middleware::from_fn(queries::known))
        .layer(axum::middleware::from_fn_with_state(app.clone(), changes::noted))
        .layer(axum::middleware::from_fn_with_state(app.clone(), gate::key));
    Router::new()
        .merge(open)
        .merge(peer::router(&app))
        .nest("/api/v1", keyed)
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        // Bodies are bounded where they are taken in.
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(app.clone(), gate::guard))
        .with_state(app)
}

/// Whether this node is a member that may act and means to stay; needs no key, so it says nothing else.
async fn health(State(app): State<App>) -> Response {
    let trouble = app.handle.history_trouble();
    let (status, word) = match (board::is_leaving(&app.handle), board::is_member(&app.handle)) {
        _ if board::is_closed(&app.handle) => {
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
