//! The HTTP API: one router for people, programs and peers (S0-20).

mod access;
mod access_policy;
mod app;
mod ask_nodes;
mod attempts;
mod attention;
mod audit;
mod audited;
mod authentication;
mod authorization;
mod backfill;
mod body;
mod body_budget;
mod bulk;
mod calendars;
mod change_log;
pub(crate) mod changes;
mod cluster;
mod cluster_health;
mod console_feed;
mod cookies;
mod declared_texts;
pub(crate) mod demand;
mod denials;
mod error;
mod events;
mod explain;
mod fanout;
mod fires;
mod follow;
mod forecast;
mod forwarded;
mod guesses;
mod headers;
mod health;
pub(crate) mod hooks;
mod http_metrics;
mod idempotency;
mod job_runs;
mod jobs;
mod join;
mod join_tokens;
mod known_caller;
mod live;
pub(crate) mod log_tail;
mod login;
mod login_codes;
mod namespaces;
mod nodes;
mod oidc_login;
pub(crate) mod openapi;
mod outcome_order;
pub(crate) mod output;
mod parameters;
mod passwords;
mod plan;
mod precondition;
mod preview;
mod principals;
mod proxy_user;
mod query_keys;
pub(crate) mod reads;
mod reference;
mod relay;
mod report;
mod route_docs;
mod row_limit;
mod run_list;
mod run_target;
mod running;
mod runs;
mod search;
mod secrets;
mod session;
mod session_subject;
mod settings;
mod shards;
mod stream_rights;
mod summary;
mod token_text;
mod tokens;
mod transfer;
mod unsealed;
mod users;
mod versions;
mod waiting;
mod wrong_keys;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use crate::console;
use crate::peer;
use crate::settings::CALLBACK;
pub(crate) use access_policy::AccessPolicy;
pub(crate) use app::App;
pub(crate) use attention::facts as attention_facts;
pub(crate) use authentication::{Credential, authenticate, caller};
pub(crate) use console_feed::{ConsoleSnapshot, RemoteHistories};
pub(crate) use denials::DenialLog;
use error::wrong_method;
pub(crate) use error::{ApiError, PROBLEM, done, message_of, read_body};
pub(crate) use fanout::fetch_rows;
pub(crate) use job_runs::outcomes;
pub(crate) use known_caller::KnownCaller;
pub(crate) use login::link_path;
pub(crate) use plan::PlanLimiter;
pub(crate) use report::own_records;
pub(crate) use search::SearchLimiter;
pub(crate) use summary::own_part;

/// The router of every route that is served.
pub(crate) fn router(app: App) -> Router {
    let open = Router::new()
        .route("/", get(console::page))
        .route("/console.css", get(console::style))
        .route("/plain", get(console::plain_page))
        .route("/assets/{name}", get(console::asset))
        .route("/favicon.svg", get(console::icon))
        .route("/favicon.ico", get(console::icon))
        .route("/login", get(login::open).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route(health::HEALTH, get(health::health))
        .route(health::READY, get(health::ready))
        .route(reference::OPENAPI, get(reference::openapi))
        .route(reference::JOB_SCHEMA, get(reference::job_schema))
        .route(reference::PAGE, get(reference::page))
        .route(crate::join::PATH, post(join::join))
        .layer(axum::middleware::from_fn(query_keys::known));
    // A provider adds to its answers what it likes.
    let provider =
        Router::new().route("/login/oidc", get(oidc_login::begin)).route(CALLBACK, get(oidc_login::callback));
    let reads = reads::add_routes(Router::new()).layer(axum::middleware::from_fn(transfer::validated));
    let keyed = changes::add_routes(reads)
        .layer(axum::middleware::from_fn(query_keys::known))
        .layer(axum::middleware::from_fn_with_state(app.clone(), authorization::authorized))
        .layer(axum::middleware::from_fn_with_state(app.clone(), change_log::noted))
        .layer(axum::middleware::from_fn_with_state(app.clone(), authentication::required));
    Router::new()
        .merge(open)
        .merge(provider)
        .merge(peer::router(&app))
        .merge(keyed)
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        // Body sizes are limited where bodies are read.
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(app.clone(), access::guard))
        .layer(transfer::compression())
        .layer(axum::middleware::from_fn(transfer::understood))
        .with_state(app)
}

async fn nothing() -> ApiError {
    ApiError::not_found("there is nothing at this address: see docs/api.md")
}
