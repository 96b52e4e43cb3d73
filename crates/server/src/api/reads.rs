//! Every question that the API answers, with its handler and what it demands of the caller.

use axum::Router;
use axum::routing::{MethodRouter, get};
use evenkeel_core::principal::Role;

use super::demand::{Demand, Scope};
use super::{
    App, audit, calendars, cluster, console_feed, events, explain, http_metrics, jobs, namespaces, nodes,
    runs, search, secrets, settings, shards, tokens, unsealed, users,
};

/// A question that the API answers.
#[derive(Debug)]
pub(crate) struct ApiRead {
    /// The path.
    pub(crate) path: &'static str,
    /// What it demands of the caller.
    pub(crate) demand: Demand,
    handler: fn() -> MethodRouter<App>,
}

const fn read(path: &'static str, scope: Scope, handler: fn() -> MethodRouter<App>) -> ApiRead {
    ApiRead { path, demand: Demand::new(Role::Viewer, scope), handler }
}

const fn read_as(path: &'static str, demand: Demand, handler: fn() -> MethodRouter<App>) -> ApiRead {
    ApiRead { path, demand, handler }
}

const ADMIN: Demand = Demand::new(Role::Admin, Scope::Cluster);

/// All questions that the API answers, each with its handler.
pub(crate) const READS: &[ApiRead] = &[
    read("/api/v1/jobs", Scope::List, || get(jobs::list)),
    read("/api/v1/jobs/{name}", Scope::Job, || get(jobs::show)),
    read("/api/v1/jobs/{name}/next", Scope::Job, || get(jobs::next)),
    read("/api/v1/jobs/{name}/explain", Scope::Job, || get(explain::job)),
    read("/api/v1/jobs/{name}/logs", Scope::Job, || get(search::job)),
    read("/api/v1/jobs/{name}/shards", Scope::Job, || get(shards::list)),
    read("/api/v1/namespaces", Scope::Body, || get(namespaces::list)),
    read("/api/v1/namespaces/{name}", Scope::Namespace, || get(namespaces::show)),
    read("/api/v1/calendars", Scope::List, || get(calendars::list)),
    read("/api/v1/calendars/{name}", Scope::Calendar, || get(calendars::show)),
    read("/api/v1/secrets", Scope::List, || get(secrets::list)),
    read("/api/v1/runs", Scope::List, || get(runs::list)),
    read("/api/v1/runs/running", Scope::List, || get(runs::running)),
    read("/api/v1/runs/{run}", Scope::Run, || get(runs::show)),
    read("/api/v1/runs/{run}/explain", Scope::Run, || get(explain::run)),
    read("/api/v1/runs/{run}/logs", Scope::Run, || get(runs::logs)),
    read("/api/v1/runs/{run}/wait", Scope::Run, || get(runs::wait)),
    read("/api/v1/nodes", Scope::Cluster, || get(nodes::list)),
    read("/api/v1/service", Scope::Cluster, || get(nodes::least_loaded)),
    read("/api/v1/nodes/balance", Scope::Cluster, || get(nodes::balance)),
    read("/api/v1/nodes/{name}/load", Scope::Cluster, || get(nodes::load)),
    read("/api/v1/cluster/view", Scope::Cluster, || get(cluster::tree)),
    read("/api/v1/cluster/settings", Scope::Cluster, || get(settings::show)),
    read("/api/v1/events", Scope::List, || get(events::list)),
    read("/api/v1/audit", Scope::List, || get(audit::list)),
    read(http_metrics::METRICS, Scope::Cluster, || get(http_metrics::metrics)),
    read("/api/v1/live", Scope::List, || get(console_feed::stream)),
    read("/api/v1/whoami", Scope::Caller, || get(users::whoami)),
    read_as("/api/v1/users", ADMIN, || get(users::list)),
    read_as("/api/v1/users/{name}", ADMIN, || get(users::show)),
    read_as("/api/v1/tokens", ADMIN, || get(tokens::list)),
    read_as("/api/v1/unsealed", ADMIN, || get(unsealed::list)),
];

/// Adds the routes of all questions to a router.
pub(super) fn add_routes(router: Router<App>) -> Router<App> {
    READS.iter().fold(router, |router, read| router.route(read.path, (read.handler)()))
}
