//! Every question that the API answers, with its handler and what it demands of the caller.

use axum::Router;
use axum::http::Method;
use axum::routing::{MethodRouter, get, post};
use evenkeel_client::requests::{
    AttentionListQuery, AuditListQuery, CalendarListQuery, ClusterViewQuery, EventListQuery, ForecastQuery,
    JobListQuery, JobVersionListQuery, JobVersionQuery, LiveQuery, LogQuery, LogSearchQuery, NextFiresQuery,
    NodeLoadQuery, PlanBody, PreviewQuery, ReportQuery, RunListQuery, RunningQuery, SecretListQuery,
    ShardListQuery, SummaryQuery, WaitQuery, WhatIfQuery,
};
use evenkeel_core::principal::Role;

use super::demand::{Demand, Scope};
use super::route_docs::{RouteDocs, does};
use super::{
    App, attention, audit, calendars, cluster, cluster_health, events, explain, forecast, http_metrics, jobs,
    live, namespaces, nodes, plan, preview, report, run_list, runs, search, secrets, settings, shards,
    summary, tokens, unsealed, users, versions,
};
use evenkeel_client::types::{
    AttentionPage, AuditPage, BalanceReport, CalendarDetail, CalendarPage, CallerRow, ClusterHealth,
    EventPage, ExplanationRow, ForecastAnswer, JobDetail, JobPage, JobVersionDetail, JobVersionPage,
    LoadPage, NamespacePage, NamespaceRow, NextFires, NodePage, PlanAnswer, ReportPage, RunDetail, RunPage,
    RunningRow, SecretPage, ServiceRow, SettingsRow, ShardPage, ShardRangeRow, ShardRow, SummaryPage,
    TokenPage, TreePage, UnsealedPage, UserPage, UserRow, WaitAnswer,
};

/// A question that the API answers.
#[derive(Debug)]
pub(crate) struct ApiRead {
    /// The HTTP method: `POST` for a question that does not fit in an address.
    pub(crate) method: Method,
    /// The path.
    pub(crate) path: &'static str,
    /// What it demands of the caller.
    pub(crate) demand: Demand,
    /// What the description of the API says of it.
    pub(crate) docs: RouteDocs,
    handler: ReadHandler,
}

type ReadHandler = fn() -> MethodRouter<App>;

const fn read(path: &'static str, scope: Scope, handler: ReadHandler, docs: RouteDocs) -> ApiRead {
    read_as(path, Demand::new(Role::Viewer, scope), handler, docs)
}

const fn read_as(path: &'static str, demand: Demand, handler: ReadHandler, docs: RouteDocs) -> ApiRead {
    ApiRead { method: Method::GET, path, demand, handler, docs }
}

/// A question with a body. It changes nothing, so the audit log has none.
const fn ask(path: &'static str, scope: Scope, handler: ReadHandler, docs: RouteDocs) -> ApiRead {
    ApiRead { method: Method::POST, path, demand: Demand::new(Role::Viewer, scope), handler, docs }
}

/// The media type of output.
const TEXT: &str = "text/plain";

const ADMIN: Demand = Demand::new(Role::Admin, Scope::Cluster);

/// All questions that the API answers, each with its handler.
pub(crate) const READS: &[ApiRead] = &[
    read(
        "/api/v1/jobs",
        Scope::List,
        || get(jobs::list),
        does("Lists jobs, in the order of their names").query::<JobListQuery>().answers::<JobPage>(),
    ),
    read("/api/v1/jobs/{name}", Scope::Job, || get(jobs::show), does("Shows a job").answers::<JobDetail>()),
    read(
        "/api/v1/jobs/{name}/next",
        Scope::Job,
        || get(jobs::next),
        does("Lists the next fires of a job").query::<NextFiresQuery>().answers::<NextFires>(),
    ),
    read(
        "/api/v1/jobs/{name}/explain",
        Scope::Job,
        || get(explain::job),
        does("Says why a job runs where it does, or why not").answers::<ExplanationRow>(),
    ),
    read(
        "/api/v1/jobs/{name}/logs",
        Scope::Job,
        || get(search::job),
        does("Searches the output of the latest attempts of a job").query::<LogSearchQuery>().text(TEXT),
    ),
    read(
        "/api/v1/jobs/{name}/shards",
        Scope::Job,
        || get(shards::list),
        does("Lists the shards of a job, and where they are")
            .query::<ShardListQuery>()
            .answers_either::<ShardPage<ShardRow>, ShardPage<ShardRangeRow>>(),
    ),
    read(
        "/api/v1/jobs/{name}/versions",
        Scope::Job,
        || get(versions::list),
        does("Lists the versions of a job, the latest first: who changed it, when and which keys")
            .query::<JobVersionListQuery>()
            .answers::<JobVersionPage>(),
    ),
    read(
        "/api/v1/jobs/{name}/versions/{version}",
        Scope::Job,
        || get(versions::show),
        does("Shows a version of a job, and what it changed")
            .query::<JobVersionQuery>()
            .answers::<JobVersionDetail>(),
    ),
    read(
        "/api/v1/preview",
        Scope::List,
        || get(preview::preview),
        does("Lists the fires that a job with this schedule would have")
            .query::<PreviewQuery>()
            .answers::<NextFires>(),
    ),
    ask(
        "/api/v1/plan",
        Scope::Body,
        || post(plan::plan),
        does(
            "Says what declarations of jobs and calendars would change, and which fires, and changes nothing",
        )
        .body::<PlanBody>()
        .answers::<PlanAnswer>(),
    ),
    read(
        "/api/v1/forecast",
        Scope::List,
        || get(forecast::forecast),
        does("Counts the fires of all jobs that are due in the next hours, by minute or by hour")
            .query::<ForecastQuery>()
            .answers::<ForecastAnswer>(),
    ),
    read(
        "/api/v1/namespaces",
        Scope::Body,
        || get(namespaces::list),
        does("Lists the namespaces in which the caller has a role").answers::<NamespacePage>(),
    ),
    read(
        "/api/v1/namespaces/{name}",
        Scope::Namespace,
        || get(namespaces::show),
        does("Shows a namespace").answers::<NamespaceRow>(),
    ),
    read(
        "/api/v1/calendars",
        Scope::List,
        || get(calendars::list),
        does("Lists calendars").query::<CalendarListQuery>().answers::<CalendarPage>(),
    ),
    read(
        "/api/v1/calendars/{name}",
        Scope::Calendar,
        || get(calendars::show),
        does("Shows a calendar").answers::<CalendarDetail>(),
    ),
    read(
        "/api/v1/secrets",
        Scope::List,
        || get(secrets::list),
        does("Lists the secrets in the registry, without their values")
            .query::<SecretListQuery>()
            .answers::<SecretPage>(),
    ),
    read(
        "/api/v1/runs",
        Scope::List,
        || get(run_list::list),
        does("Lists runs, the latest first").query::<RunListQuery>().answers::<RunPage>(),
    ),
    read(
        "/api/v1/runs/running",
        Scope::List,
        || get(runs::running),
        does("Lists all runs that execute now").query::<RunningQuery>().answers::<RunningRow>(),
    ),
    read(
        "/api/v1/runs/{run}",
        Scope::Run,
        || get(runs::show),
        does("Shows a run or a fire with its attempts").answers::<RunDetail>(),
    ),
    read(
        "/api/v1/runs/{run}/explain",
        Scope::Run,
        || get(explain::run),
        does("Says why a run ran where it did, or why it waits").answers::<ExplanationRow>(),
    ),
    read(
        "/api/v1/runs/{run}/logs",
        Scope::Run,
        || get(runs::logs),
        does("Reads the output of a run").query::<LogQuery>().text(TEXT),
    ),
    read(
        "/api/v1/runs/{run}/wait",
        Scope::Run,
        || get(runs::wait),
        does("Waits until a run has ended, or for half a minute")
            .query::<WaitQuery>()
            .answers::<WaitAnswer>(),
    ),
    read(
        "/api/v1/attention",
        Scope::List,
        || get(attention::list),
        does("Lists jobs and nodes that need a person, the worst first")
            .query::<AttentionListQuery>()
            .answers::<AttentionPage>(),
    ),
    read(
        "/api/v1/summary",
        Scope::List,
        || get(summary::show),
        does("Counts fires by outcome, for each hour, day or job")
            .query::<SummaryQuery>()
            .answers::<SummaryPage>(),
    ),
    read(
        "/api/v1/report",
        Scope::List,
        || get(report::show),
        does("Says of each fire that was due in a span of time what became of it")
            .query::<ReportQuery>()
            .answers::<ReportPage>(),
    ),
    read("/api/v1/nodes", Scope::Cluster, || get(nodes::list), does("Lists the nodes").answers::<NodePage>()),
    read(
        "/api/v1/service",
        Scope::Cluster,
        || get(nodes::least_loaded),
        does("Names the node with the lowest load").answers::<ServiceRow>(),
    ),
    read(
        "/api/v1/nodes/balance",
        Scope::Cluster,
        || get(nodes::balance),
        does("Shows how jobs are distributed over nodes, or would be")
            .query::<WhatIfQuery>()
            .answers::<BalanceReport>(),
    ),
    read(
        "/api/v1/nodes/{name}/load",
        Scope::Cluster,
        || get(nodes::load),
        does("Shows the load of a node over time").query::<NodeLoadQuery>().answers::<LoadPage>(),
    ),
    read(
        "/api/v1/cluster/health",
        Scope::Cluster,
        || get(cluster_health::show),
        does("Shows the health of the cluster and of its nodes").answers::<ClusterHealth>(),
    ),
    read(
        "/api/v1/cluster/view",
        Scope::Cluster,
        || get(cluster::tree),
        does("Shows the cluster in another scheduler's format")
            .query::<ClusterViewQuery>()
            .answers::<TreePage>(),
    ),
    read(
        "/api/v1/cluster/settings",
        Scope::Cluster,
        || get(settings::show),
        does("Shows the settings of the cluster").answers::<SettingsRow>(),
    ),
    read(
        "/api/v1/events",
        Scope::List,
        || get(events::list),
        does("Lists events, the latest first").query::<EventListQuery>().answers::<EventPage>(),
    ),
    read(
        "/api/v1/audit",
        Scope::List,
        || get(audit::list),
        does("Lists changes and refusals, the latest first").query::<AuditListQuery>().answers::<AuditPage>(),
    ),
    read(
        http_metrics::METRICS,
        Scope::Cluster,
        || get(http_metrics::metrics),
        does("Reads the metrics of this node, for Prometheus").text("text/plain"),
    ),
    read(
        "/api/v1/live",
        Scope::List,
        || get(live::stream),
        does(
            "Sends what the console shows as one document, and then each change of it as a JSON Merge Patch",
        )
        .query::<LiveQuery>()
        .text("text/event-stream"),
    ),
    read(
        "/api/v1/whoami",
        Scope::Caller,
        || get(users::whoami),
        does("Says who the caller is, and what it may do").answers::<CallerRow>(),
    ),
    read_as("/api/v1/users", ADMIN, || get(users::list), does("Lists the users").answers::<UserPage>()),
    read_as("/api/v1/users/{name}", ADMIN, || get(users::show), does("Shows a user").answers::<UserRow>()),
    read_as(
        "/api/v1/tokens",
        Demand::new(Role::Operator, Scope::Body),
        || get(tokens::list),
        does("Lists the API tokens that the caller may delete").answers::<TokenPage>(),
    ),
    read_as(
        "/api/v1/unsealed",
        ADMIN,
        || get(unsealed::list),
        does("Lists entries that no node of the cluster wrote").answers::<UnsealedPage>(),
    ),
];

/// The question at this path, by this method.
pub(super) fn find(method: &Method, path: &str) -> Option<&'static ApiRead> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    READS.iter().find(|read| read.method == *method && read.path == path)
}

/// Adds the routes of all questions to a router.
pub(super) fn add_routes(router: Router<App>) -> Router<App> {
    READS.iter().fold(router, |router, read| router.route(read.path, (read.handler)()))
}
