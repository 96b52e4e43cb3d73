//! Every change that the API offers, with its handler, and what the audit log calls it.

use axum::Router;
use axum::extract::RawPathParams;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use evenkeel::audit::AuditAction;
use evenkeel_client::requests::{
    AcceptJobBody, ApplyBody, BackfillBody, BulkBody, ClaimQuery, JoinTokenBody, NewTokenBody, PasswordBody,
    RollbackBody, RotateTokenBody, RunNowBody, SecretBody, UserBody,
};
use evenkeel_core::ids::{JobName, NodeName, RunId};
use evenkeel_core::input::{Command, CommandKind, ObjectKind};
use evenkeel_core::principal::Role;
use evenkeel_core::shards::ShardSet;

use super::body::EmptyBody;
use super::demand::{Demand, Scope};
use super::route_docs::{RouteDocs, does};
use super::{
    App, backfill, bulk, calendars, hooks, jobs, join, login, namespaces, nodes, runs, secrets, settings,
    shards, tokens, unsealed, users, versions,
};
use evenkeel_client::types::{
    ApplyAnswer, BackfillAnswer, BulkAnswer, ClaimAnswer, DeclaredAnswer, DoneAnswer, ForgetAnswer,
    JoinTokenAnswer, LayoutRow, LoginLink, NewToken, RollbackAnswer, RunAnswer, SettingsChange, SettingsRow,
    UpgradeAnswer,
};

/// A change that the API offers.
#[derive(Debug)]
pub(crate) struct ApiChange {
    /// The HTTP method.
    pub(crate) method: Method,
    /// The path.
    pub(crate) path: &'static str,
    /// What it demands of the caller.
    pub(crate) demand: Demand,
    /// What the description of the API says of it.
    pub(crate) docs: RouteDocs,
    verbs: RouteVerbs,
    on: MethodFilter,
    handler: RouteHandler,
}

/// The verbs of a route.
#[derive(Clone, Copy, Debug)]
enum RouteVerbs {
    /// One verb, and the kind of object.
    One(CommandKind),
    /// The path names one of the verbs of this kind of object.
    InPath(ObjectKind),
}

use RouteVerbs::{InPath, One};

type RouteHandler = fn(MethodFilter) -> MethodRouter<App>;

const fn post(
    path: &'static str,
    verbs: RouteVerbs,
    demand: Demand,
    handler: RouteHandler,
    docs: RouteDocs,
) -> ApiChange {
    ApiChange { method: Method::POST, path, verbs, demand, on: MethodFilter::POST, handler, docs }
}

const fn put(
    path: &'static str,
    verbs: RouteVerbs,
    demand: Demand,
    handler: RouteHandler,
    docs: RouteDocs,
) -> ApiChange {
    ApiChange { method: Method::PUT, path, verbs, demand, on: MethodFilter::PUT, handler, docs }
}

const fn delete(
    path: &'static str,
    verbs: RouteVerbs,
    demand: Demand,
    handler: RouteHandler,
    docs: RouteDocs,
) -> ApiChange {
    ApiChange { method: Method::DELETE, path, verbs, demand, on: MethodFilter::DELETE, handler, docs }
}

const fn hook(path: &'static str, summary: &'static str) -> ApiChange {
    let docs = does(summary).answers::<RunAnswer>();
    post(path, One(CommandKind::RUN), HOOK, |m| on(m, hooks::run), docs)
}

/// All changes that the API offers, each with its handler.
pub(crate) const CHANGES: &[ApiChange] = &[
    post(
        "/api/v1/jobs/apply",
        One(CommandKind::APPLY_JOBS),
        author(Scope::Body),
        |m| on(m, jobs::apply),
        does("Declares jobs: all, or none if one of them is invalid")
            .body::<ApplyBody>()
            .answers::<ApplyAnswer>(),
    ),
    post(
        "/api/v1/jobs/claim",
        One(CommandKind::CLAIM),
        operator(Scope::Cluster),
        |m| on(m, jobs::claim),
        does("Makes the node that answers claim free jobs now")
            .may_have::<EmptyBody>()
            .answers::<ClaimAnswer>(),
    ),
    post(
        "/api/v1/bulk/jobs/{verb}",
        InPath(ObjectKind::Jobs),
        operator(Scope::Body),
        |m| on(m, bulk::switch),
        does("Does something to many jobs, with an answer for each")
            .body::<BulkBody>()
            .answers::<BulkAnswer>(),
    ),
    put(
        "/api/v1/jobs/{name}",
        One(CommandKind::APPLY_JOB),
        author(Scope::Job),
        |m| on(m, jobs::put),
        does("Declares a job").body_as(evenkeel_client::types::declared::job).answers::<ApplyAnswer>(),
    ),
    delete(
        "/api/v1/jobs/{name}",
        One(CommandKind::DELETE_JOB),
        author(Scope::Job),
        |m| on(m, jobs::delete),
        does("Deletes a job").answers::<DoneAnswer>(),
    ),
    post(
        "/api/v1/jobs/{name}/accept",
        One(CommandKind::ACCEPT_JOB),
        Demand::new(Role::Admin, Scope::Job),
        |m| on(m, unsealed::accept),
        does("Accepts the entry of a job that no node of the cluster wrote")
            .body::<AcceptJobBody>()
            .answers::<DoneAnswer>(),
    ),
    post(
        "/api/v1/jobs/{name}/rollback",
        One(CommandKind::ROLLBACK),
        author(Scope::Job),
        |m| on(m, versions::rollback),
        does("Declares an earlier version of a job again").body::<RollbackBody>().answers::<RollbackAnswer>(),
    ),
    post(
        "/api/v1/jobs/{name}/backfill",
        One(CommandKind::BACKFILL),
        operator(Scope::Job),
        |m| on(m, backfill::request),
        does("Makes up for the fires of a span of the past")
            .body::<BackfillBody>()
            .answers::<BackfillAnswer>(),
    ),
    delete(
        "/api/v1/jobs/{name}/backfill/{id}",
        One(CommandKind::CANCEL_BACKFILL),
        operator(Scope::Job),
        |m| on(m, backfill::cancel),
        does("Ends a backfill: no further run of it begins").answers::<BackfillAnswer>(),
    ),
    post(
        "/api/v1/jobs/{name}/{verb}",
        InPath(ObjectKind::Job),
        operator(Scope::Job),
        |m| on(m, jobs::switch),
        does("Runs a job now, or switches it")
            .query::<ClaimQuery>()
            .may_have::<RunNowBody>()
            .answers_either::<RunAnswer, DoneAnswer>(),
    ),
    hook(hooks::HOOKS, "Runs the job of the trigger token in the head; query keys are parameters of the run"),
    hook(hooks::HOOKS_WITH_TOKEN, "Runs the job of this trigger token; query keys are parameters of the run"),
    post(
        "/api/v1/jobs/{name}/shards/{set}/{verb}",
        InPath(ObjectKind::Job),
        operator(Scope::Job),
        |m| on(m, shards::switch),
        does("Switches shards of a job").may_have::<EmptyBody>().answers::<DoneAnswer>(),
    ),
    put(
        "/api/v1/calendars/{name}",
        One(CommandKind::APPLY_CALENDAR),
        author(Scope::Calendar),
        |m| on(m, calendars::put),
        does("Declares a calendar")
            .body_as(evenkeel_client::types::declared::calendar)
            .answers::<DeclaredAnswer>(),
    ),
    delete(
        "/api/v1/calendars/{name}",
        One(CommandKind::DELETE_CALENDAR),
        author(Scope::Calendar),
        |m| on(m, calendars::delete),
        does("Deletes a calendar").answers::<DoneAnswer>(),
    ),
    put(
        "/api/v1/secrets/{name}",
        One(CommandKind::SET_SECRET),
        SECRETS,
        |m| on(m, secrets::put),
        does("Sets a secret").body::<SecretBody>().answers::<DeclaredAnswer>(),
    ),
    delete(
        "/api/v1/secrets/{name}",
        One(CommandKind::DELETE_SECRET),
        SECRETS,
        |m| on(m, secrets::delete),
        does("Deletes a secret").answers::<DoneAnswer>(),
    ),
    put(
        "/api/v1/namespaces/{name}",
        One(CommandKind::APPLY_NAMESPACE),
        ADMIN,
        |m| on(m, namespaces::put),
        does("Declares a namespace")
            .body_as(evenkeel_client::types::declared::namespace_body)
            .answers::<DeclaredAnswer>(),
    ),
    delete(
        "/api/v1/namespaces/{name}",
        One(CommandKind::DELETE_NAMESPACE),
        ADMIN,
        |m| on(m, namespaces::delete),
        does("Deletes an empty namespace").answers::<DoneAnswer>(),
    ),
    delete(
        "/api/v1/runs/{run}/logs",
        One(CommandKind::FORGET),
        Demand::new(Role::Admin, Scope::Run),
        |m| on(m, runs::forget),
        does("Deletes the output of a run on every node").answers::<ForgetAnswer>(),
    ),
    post(
        "/api/v1/runs/{run}/kill",
        One(CommandKind::KILL),
        operator(Scope::Run),
        |m| on(m, runs::kill),
        does("Ends a run, or withdraws its request").may_have::<EmptyBody>().answers::<DoneAnswer>(),
    ),
    post(
        "/api/v1/runs/{run}/restart",
        One(CommandKind::RESTART),
        operator(Scope::Run),
        |m| on(m, runs::restart),
        does("Runs the job of an ended run once more").may_have::<EmptyBody>().answers::<RunAnswer>(),
    ),
    post(
        "/api/v1/nodes/{name}/{verb}",
        InPath(ObjectKind::Node),
        operator(Scope::Cluster),
        |m| on(m, nodes::switch),
        does("Drains, cordons or upgrades a node, or ends that")
            .may_have_as(nodes::verb_body)
            .answers_either::<UpgradeAnswer, DoneAnswer>(),
    ),
    post(
        "/api/v1/login-links",
        One(CommandKind::LOGIN_LINK),
        CALLER,
        |m| on(m, login::link),
        does("Makes a link that logs a browser in once, as the caller")
            .may_have::<EmptyBody>()
            .answers::<LoginLink>(),
    ),
    put(
        "/api/v1/users/{name}",
        One(CommandKind::APPLY_USER),
        ADMIN,
        |m| on(m, users::put),
        does("Creates or changes a user").body::<UserBody>().answers::<DeclaredAnswer>(),
    ),
    delete(
        "/api/v1/users/{name}",
        One(CommandKind::DELETE_USER),
        ADMIN,
        |m| on(m, users::delete),
        does("Deletes a user").answers::<DoneAnswer>(),
    ),
    post(
        "/api/v1/users/{name}/logout",
        One(CommandKind::LOG_OUT),
        ADMIN,
        |m| on(m, users::log_out),
        does("Ends all sessions of a user").may_have::<EmptyBody>().answers::<DoneAnswer>(),
    ),
    post(
        "/api/v1/whoami/password",
        One(CommandKind::PASSWORD),
        CALLER,
        |m| on(m, users::set_password),
        does("Changes the caller's own password").body::<PasswordBody>().answers::<DoneAnswer>(),
    ),
    post(
        "/api/v1/tokens",
        One(CommandKind::APPLY_TOKEN),
        operator(Scope::Body),
        |m| on(m, tokens::create),
        does("Creates an API token").body::<NewTokenBody>().answers::<NewToken>(),
    ),
    post(
        "/api/v1/tokens/{name}/rotate",
        One(CommandKind::ROTATE_TOKEN),
        operator(Scope::Body),
        |m| on(m, tokens::rotate),
        does("Gives an API token another secret").may_have::<RotateTokenBody>().answers::<NewToken>(),
    ),
    delete(
        "/api/v1/tokens/{name}",
        One(CommandKind::DELETE_TOKEN),
        operator(Scope::Body),
        |m| on(m, tokens::delete),
        does("Deletes an API token").answers::<DoneAnswer>(),
    ),
    post(
        "/api/v1/cluster/settings",
        One(CommandKind::CONFIGURE),
        ADMIN,
        |m| on(m, settings::set),
        does("Changes settings of the cluster").body::<SettingsChange>().answers::<SettingsRow>(),
    ),
    post(
        "/api/v1/cluster/finalize-upgrade",
        One(CommandKind::FINALIZE_UPGRADE),
        ADMIN,
        |m| on(m, settings::finalize),
        does("Allows nodes to write the newest layout of entries")
            .may_have::<EmptyBody>()
            .answers::<LayoutRow>(),
    ),
    post(
        "/api/v1/cluster/join-tokens",
        One(CommandKind::JOIN_TOKEN),
        ADMIN,
        |m| on(m, join::make),
        does("Makes a token by which a node joins").may_have::<JoinTokenBody>().answers::<JoinTokenAnswer>(),
    ),
];

const ADMIN: Demand = Demand::new(Role::Admin, Scope::Cluster);
/// Who may declare jobs may name a secret, and need not know it.
const SECRETS: Demand = Demand::new(Role::Admin, Scope::Secret);
const HOOK: Demand = Demand::new(Role::Operator, Scope::Trigger);
const CALLER: Demand = Demand::new(Role::Viewer, Scope::Caller);

const fn author(scope: Scope) -> Demand {
    Demand::new(Role::Author, scope)
}

const fn operator(scope: Scope) -> Demand {
    Demand::new(Role::Operator, scope)
}

/// Adds the routes of all changes to a router.
pub(super) fn add_routes(router: Router<App>) -> Router<App> {
    CHANGES.iter().fold(router, |router, change| router.route(change.path, (change.handler)(change.on)))
}

impl ApiChange {
    /// The verbs that its path may have.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        let (Ok(job), Ok(node)) = ("x".parse(), "x".parse()) else { return Vec::new() };
        let (commands, more) = match self.verbs {
            One(_) => return Vec::new(),
            InPath(ObjectKind::Node) => (Command::on_node(&node), Some(CommandKind::UPGRADE)),
            InPath(_) if self.path.contains("/shards/") => {
                (Command::on_shards(&job, &ShardSet::default()), None)
            }
            InPath(_) => (Command::on_job(&job, None), Some(CommandKind::RUN)),
        };
        let described = commands.iter().filter_map(|command| Some(command.describe()?.verb));
        described.chain(more.map(|kind| kind.verb)).collect()
    }

    /// Its verb, empty where the path has it, and the kind of object.
    pub(super) fn kind(&self) -> CommandKind {
        match self.verbs {
            One(kind) => kind,
            InPath(object) => CommandKind::new("", object),
        }
    }

    /// The audit action that a request at this address stands for.
    pub(super) fn audit_action(&self, params: Option<&RawPathParams>) -> AuditAction {
        let param = |name: &str| params?.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        let (verb, object) = match self.verbs {
            One(kind) => (kind.verb, kind.object),
            InPath(object) => (param("verb").unwrap_or_default(), object),
        };
        let (kind, name) = (object.as_str(), param("name").or_else(|| param("run")));
        let named = name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"));
        let job: Option<JobName> = match object {
            ObjectKind::Job => name.and_then(|name| name.parse().ok()),
            ObjectKind::Run => name.and_then(|run| run.parse::<RunId>().ok()).map(|run| run.job),
            _ => None,
        };
        let node: Option<NodeName> =
            name.filter(|_| object == ObjectKind::Node).and_then(|name| name.parse().ok());
        AuditAction::new(verb, &named).of_job(job).of_node(node)
    }
}
