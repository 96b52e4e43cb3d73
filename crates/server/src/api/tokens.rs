//! API tokens over HTTP: `/api/v1/tokens` and below. The text of a token is in one answer only.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel::audit::Proof;
use evenkeel_client::requests::{NewTokenBody, RotateTokenBody};
use evenkeel_core::ids::{JobName, PrincipalName};
use evenkeel_core::input::Command;
use evenkeel_core::principal::{FormerSecret, Grants, Principal, PrincipalKind, Role};
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};
use serde_json::Value;

use super::audited::AuditedRequest;
use super::demand::{lacking, on_job, on_run};
use super::error::{done, read_body};
use super::known_caller::KnownCaller;
use super::token_text::TokenText;
use super::users::{known, new, role_warnings, store};
use super::{ApiError, App, jobs, principals};
use crate::queries;
use crate::text_input::ReadTarget;
use evenkeel_client::types::{NewToken, TokenPage, TokenRow, moment};

/// How long a token lasts whose request does not say, and the limits.
const LASTS: &str = "90d";
const LIMITS: SpanLimits = SpanLimits::new(Millis::secs(60), Millis::secs(10 * 366 * 24 * 3_600));

pub(super) async fn list(State(app): State<App>, caller: KnownCaller) -> Json<TokenPage> {
    let all: Vec<(Principal, u64)> = app.handle.with_node(|node| {
        let tokens = node.view().principals(PrincipalKind::Token);
        tokens.map(|(token, version)| (token.clone(), version)).collect()
    });
    let own = all.iter().filter(|(token, _)| may_delete(&app, &caller, token));
    Json(TokenPage { tokens: own.map(|(token, version)| row(token, *version)).collect() })
}

/// Whether the caller may see and delete a token: an administrator may, and an operator of the job of a webhook's token.
fn may_delete(app: &App, caller: &KnownCaller, token: &Principal) -> bool {
    let runs = |job: &JobName| on_run(app, caller, Role::Operator, job).is_ok();
    caller.may_in_cluster(Role::Admin) || token.trigger.as_ref().is_some_and(runs)
}

/// A token that the caller may delete, with its version.
fn deletable(app: &App, caller: &KnownCaller, name: &PrincipalName) -> Result<(Principal, u64), ApiError> {
    let found = known(app, PrincipalKind::Token, name)?;
    match may_delete(app, caller, &found.0) {
        true => Ok(found),
        false => Err(lacking(Role::Admin, "the cluster, or operator on the job of a trigger token")),
    }
}

/// The user of the cluster that the caller is, or to whom its token belongs.
fn own_user(app: &App, caller: &KnownCaller) -> Option<PrincipalName> {
    match (&caller.proof, &caller.token) {
        (Proof::User(name), _) => name.parse().ok(),
        (_, Some(token)) => principals::find(app, PrincipalKind::Token, &token.name)?.owner,
        _ => None,
    }
}

/// The user to whom a new token of this caller belongs.
///
/// # Errors
/// The caller is no administrator, and wants a token that outlives its own rights.
fn owner_of(
    app: &App,
    caller: &KnownCaller,
    named: Option<PrincipalName>,
) -> Result<Option<PrincipalName>, ApiError> {
    if caller.may_in_cluster(Role::Admin) {
        return Ok(named);
    }
    match (own_user(app, caller), named) {
        (Some(own), None) => Ok(Some(own)),
        (Some(own), Some(named)) if own == named => Ok(Some(own)),
        (_, Some(_)) => Err(lacking(Role::Admin, "the cluster, to name another owner")),
        (None, None) => Err(ApiError::lacks_role(
            "a trigger token ends with the rights of the user to whom it belongs, and you are none whom the cluster knows: \
             ask an administrator",
        )),
    }
}

pub(super) async fn create(
    State(app): State<App>,
    caller: KnownCaller,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<NewToken>, ApiError> {
    let NewTokenBody { name, roles, trigger, lasts, owner, description } =
        read_body(&body, ReadTarget::Body)?;
    let roles = match (&trigger, roles) {
        (Some(job), None) => {
            on_job(&app, &caller, Role::Operator, job)?;
            if !queries::is_job(&app.handle, job) {
                return Err(jobs::unknown(&app.handle, job));
            }
            Grants::default()
        }
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "a token that runs a job has no roles: leave out roles or trigger",
            ));
        }
        (None, _) if !caller.may_in_cluster(Role::Admin) => return Err(lacking(Role::Admin, "the cluster")),
        (None, Some(roles)) => roles,
        (None, None) => return Err(ApiError::invalid("say roles, a list, or trigger, the name of a job")),
    };
    let owner = owner_of(&app, &caller, owner)?;
    let now = evenkeel::clock::now().wall;
    let expires = match lasts.as_deref().unwrap_or(LASTS) {
        "never" => None,
        span => Some(
            now + TimeSpan::parse("lasts", span, LIMITS)
                .map_err(|e| ApiError::invalid(e.to_string()))?
                .millis(),
        ),
    };
    // By whatever clock the owner was created, the token is younger.
    let created = match &owner {
        Some(owner) => known(&app, PrincipalKind::User, owner)?.0.created.max(now),
        None => now,
    };
    let text = TokenText::make(name.clone())?;
    let warnings = if trigger.is_some() { Vec::new() } else { role_warnings(&app, &roles) };
    let runs = trigger.as_ref().map(ToString::to_string);
    let token = Principal {
        secret: text.digest(),
        grants: roles,
        owner,
        trigger,
        created,
        expires,
        description,
        ..new(PrincipalKind::Token, &name)
    };
    store(&app, &asked, token, 0).await?;
    let (name, token, expires) = (name.to_string(), text.to_string(), expires.map(moment));
    Ok(Json(NewToken { name, token, expires, trigger: runs, warnings }))
}

/// How long the secret of before is accepted, at most.
const OVERLAP: SpanLimits = SpanLimits::new(Millis(0), Millis::secs(7 * 24 * 3_600));

/// Gives a token another secret: the old one is of no use from now on, or after the overlap.
pub(super) async fn rotate(
    State(app): State<App>,
    name: Result<Path<PrincipalName>, PathRejection>,
    caller: KnownCaller,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<NewToken>, ApiError> {
    let Path(name) = name?;
    let RotateTokenBody { overlap } =
        if body.is_empty() { RotateTokenBody::default() } else { read_body(&body, ReadTarget::Body)? };
    let overlap = overlap.map(|span| TimeSpan::parse("overlap", &span, OVERLAP)).transpose();
    let overlap = overlap.map_err(|e| ApiError::invalid(e.to_string()))?.map(TimeSpan::millis);
    let (token, version) = deletable(&app, &caller, &name)?;
    // Else the new secret would outlive the rights of the one who has it.
    if !caller.may_in_cluster(Role::Admin)
        && (token.owner.is_none() || token.owner != own_user(&app, &caller))
    {
        return Err(ApiError::lacks_role(format!(
            "token {name} is not yours: delete it and make another one, or ask an administrator"
        )));
    }
    let (text, now) = (TokenText::make(name.clone())?, evenkeel::clock::now().wall);
    // It lasts as long again as it was made for.
    let expires = token.expires.map(|expires| now + (expires - token.created));
    let former = overlap.map(|overlap| FormerSecret {
        secret: token.secret.clone(),
        // Not longer than it would have been accepted.
        until: token.expires.map_or(now + overlap, |expires| expires.min(now + overlap)),
    });
    let runs = token.trigger.as_ref().map(ToString::to_string);
    let token = Principal { secret: text.digest(), former, created: now, expires, last_used: None, ..token };
    store(&app, &asked, token, version).await?;
    let (name, token, expires) = (name.to_string(), text.to_string(), expires.map(moment));
    Ok(Json(NewToken { name, token, expires, trigger: runs, warnings: Vec::new() }))
}

pub(super) async fn delete(
    State(app): State<App>,
    name: Result<Path<PrincipalName>, PathRejection>,
    caller: KnownCaller,
    asked: AuditedRequest,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    // An administrator deletes also an entry that no node wrote.
    if !caller.may_in_cluster(Role::Admin) {
        deletable(&app, &caller, &name)?;
    }
    done(asked.ask(&app, Command::DeletePrincipal(PrincipalKind::Token, name)).await)
}

fn row(token: &Principal, version: u64) -> TokenRow {
    TokenRow {
        name: token.name.to_string(),
        roles: token.grants.0.iter().map(ToString::to_string).collect(),
        owner: token.owner.as_ref().map(ToString::to_string),
        trigger: token.trigger.as_ref().map(ToString::to_string),
        created: moment(token.created),
        expires: token.expires.map(moment),
        last_used: token.last_used.map(moment),
        version,
        description: token.description.clone(),
    }
}
