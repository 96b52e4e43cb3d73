//! What each address demands of its caller: the one table of roles. An address that is not in it is refused.

use std::collections::BTreeSet;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, Query, RawPathParams, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel_core::ids::{CalendarName, JobName, Namespace, SecretName};
use evenkeel_core::input::CommandKind;
use evenkeel_core::principal::Role;

use super::changes::CHANGES;
use super::demand::{Demand, Scope, lacking, on_job, on_run, within};
use super::error::{ROLE, wrong_method};
use super::known_caller::KnownCaller;
use super::{ApiError, App, reads};

/// Refuses a request whose caller lacks the role that the address demands.
pub(super) async fn authorized(
    State(app): State<App>,
    path: Option<MatchedPath>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    let Some(caller) = request.extensions().get::<KnownCaller>() else {
        return ApiError::internal("the sender of this request is not known").into_response();
    };
    let param = |name: &str| {
        let params = params.as_ref().ok()?;
        params.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    // What is not in the table has no handler either.
    let Some(demand) = demand(request.method(), path, param("verb")) else {
        return wrong_method().await.into_response();
    };
    match check(&app, caller, demand, param, request.uri()) {
        Ok(None) => next.run(request).await,
        Ok(Some(limited)) => {
            *request.uri_mut() = limited;
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// What an address demands; `None` for one that is not in the table.
fn demand(method: &Method, path: &str, verb: Option<&str>) -> Option<Demand> {
    if let Some(read) = reads::find(method, path) {
        return Some(read.demand);
    }
    let change = CHANGES.iter().find(|change| change.method == *method && change.path == path)?;
    // An operator may drain a node; its program is the cluster's.
    let upgrades = verb == Some(CommandKind::UPGRADE.verb) && change.demand.scope == Scope::Cluster;
    Some(if upgrades { Demand::new(Role::Admin, Scope::Cluster) } else { change.demand })
}

/// Whether the caller has what is demanded; the address to use instead, if the caller sees only a part of a list.
fn check<'a>(
    app: &App,
    caller: &KnownCaller,
    Demand { role, scope }: Demand,
    param: impl Fn(&str) -> Option<&'a str>,
    address: &Uri,
) -> Result<Option<Uri>, ApiError> {
    let named = |text: Option<&str>, of: fn(&str) -> Option<String>| match text.and_then(of) {
        Some(namespace) => within(caller, role, &namespace),
        // A name that is none is the handler's to refuse.
        None => somewhere(caller, role),
    };
    let on_named = |text: Option<&str>, on: OnJob| match text.and_then(|name| name.parse().ok()) {
        Some(job) => on(app, caller, role, &job),
        None => somewhere(caller, role),
    };
    match scope {
        Scope::Caller => Ok(()),
        Scope::Trigger if caller.trigger.is_some() => Ok(()),
        Scope::Trigger => Err(ApiError::lacks_role("this takes the token of a webhook")),
        Scope::Cluster if caller.may_in_cluster(role) => Ok(()),
        Scope::Cluster => Err(lacking(role, "the cluster")),
        Scope::Body => somewhere(caller, role),
        Scope::Job => on_named(param("name"), on_job),
        Scope::Run => on_named(param("run").and_then(|run| run.split(':').next()), on_run),
        Scope::Calendar => {
            named(param("name"), |name| Some(name.parse::<CalendarName>().ok()?.namespace().to_owned()))
        }
        Scope::Secret => {
            named(param("name"), |name| Some(name.parse::<SecretName>().ok()?.namespace().to_owned()))
        }
        Scope::Namespace => named(param("name"), |name| Some(name.parse::<Namespace>().ok()?.to_string())),
        Scope::List => return limited(caller, role, address),
    }
    .map(|()| None)
}

/// Checks a caller's role on a job.
type OnJob = fn(&App, &KnownCaller, Role, &JobName) -> Result<(), ApiError>;

fn of_job(name: &str) -> Option<String> {
    Some(name.parse::<JobName>().ok()?.namespace().to_owned())
}

fn somewhere(caller: &KnownCaller, role: Role) -> Result<(), ApiError> {
    match caller.grants.0.iter().any(|grant| grant.role >= role) {
        true => Ok(()),
        false => Err(lacking(role, "any namespace")),
    }
}

/// Limits a list to what the caller may see.
fn limited(caller: &KnownCaller, role: Role, address: &Uri) -> Result<Option<Uri>, ApiError> {
    let Query(query) = Query::<Vec<(String, String)>>::try_from_uri(address)?;
    // The name of a job says its namespace.
    if let Some(job) = query.iter().find(|(key, _)| key == "job").and_then(|(_, job)| of_job(job)) {
        within(caller, role, &job)?;
    }
    if let Some((_, namespace)) = query.iter().find(|(key, _)| key == "namespace") {
        return within(caller, role, namespace).map(|()| None);
    }
    if caller.may_in_cluster(role) {
        return Ok(None);
    }
    let granted = caller.grants.0.iter().filter(|grant| grant.role >= role);
    let may: BTreeSet<&str> =
        granted.filter_map(|grant| grant.namespace.as_ref().map(Namespace::as_str)).collect();
    match may.into_iter().collect::<Vec<_>>().as_slice() {
        [] => Err(lacking(role, "the cluster")),
        [only] => {
            let path = address.path();
            let query = address.query().map_or_else(String::new, |query| format!("{query}&"));
            let limited = format!("{path}?{query}namespace={only}").parse();
            limited.map(Some).map_err(|_| ApiError::invalid("the address makes no sense"))
        }
        several => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            ROLE,
            format!(
                "you see a part of the cluster only: name one namespace of {} (--namespace NS)",
                several.join(", ")
            ),
        )),
    }
}
