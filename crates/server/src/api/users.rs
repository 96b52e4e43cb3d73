//! Users over HTTP: `/api/v1/users` and below, and the caller itself.

use evenkeel_client::requests::{PasswordBody, UserBody};
use std::net::IpAddr;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use evenkeel_core::ids::PrincipalName;
use evenkeel_core::input::{Answer, Command};
use evenkeel_core::principal::{Grants, Principal, PrincipalKind, SecretDigest};
use evenkeel_core::time::Wall;
use serde_json::{Value, json};

use super::audited::AuditedRequest;
use super::body::EmptyBody;
use super::error::{ROLE, done, read_body};
use super::known_caller::KnownCaller;
use super::precondition::WithVersion;
use super::session_subject::SessionOwner;
use super::{ApiError, App, authentication, principals};
use crate::listen::Caller;
use crate::request;
use crate::text_input::ReadTarget;
use evenkeel_client::types::{CallerRow, UserPage, UserRow, moment};

pub(super) async fn list(State(app): State<App>) -> Json<UserPage> {
    let rows: Vec<UserRow> = app.handle.with_node(|node| {
        node.view().principals(PrincipalKind::User).map(|(user, version)| row(user, version)).collect()
    });
    Json(UserPage { users: rows })
}

pub(super) async fn show(
    State(app): State<App>,
    name: Result<Path<PrincipalName>, PathRejection>,
) -> Result<WithVersion<UserRow>, ApiError> {
    let Path(name) = name?;
    let (user, version) = known(&app, PrincipalKind::User, &name)?;
    Ok(WithVersion(row(&user, version), version))
}

pub(super) async fn put(
    State(app): State<App>,
    name: Result<Path<PrincipalName>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    let body: UserBody =
        if body.is_empty() { UserBody::default() } else { read_body(&body, ReadTarget::Body)? };
    let (old, replaces) = match known(&app, PrincipalKind::User, &name) {
        Ok((user, version)) => (user, version),
        // A number of its own: no session of an earlier user of this name is good again.
        Err(_) => (Principal { sessions: first_epoch()?, ..new(PrincipalKind::User, &name) }, 0),
    };
    let secret = match body.password {
        Some(password) => app.access.passwords.hash(password).await?,
        None => old.secret.clone(),
    };
    let user = Principal {
        // A session that the old password began ends, and so does one of a user that is disabled, for good.
        sessions: old.sessions
            + u64::from(secret != old.secret || body.disabled == Some(true) && !old.disabled),
        secret,
        grants: body.roles.unwrap_or_else(|| old.grants.clone()),
        disabled: body.disabled.unwrap_or(old.disabled),
        description: body.description.unwrap_or_else(|| old.description.clone()),
        ..old
    };
    let warnings = role_warnings(&app, &user.grants);
    let applied = store(&app, &asked, user, body.version.unwrap_or(replaces)).await?;
    Ok(Json(json!({ "name": name, "applied": applied, "warnings": warnings })))
}

pub(super) async fn delete(
    State(app): State<App>,
    name: Result<Path<PrincipalName>, PathRejection>,
    asked: AuditedRequest,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    done(asked.ask(&app, Command::DeletePrincipal(PrincipalKind::User, name)).await)
}

/// Ends all sessions of a user.
pub(super) async fn log_out(
    State(app): State<App>,
    name: Result<Path<PrincipalName>, PathRejection>,
    asked: AuditedRequest,
    _: EmptyBody,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    let (user, version) = known(&app, PrincipalKind::User, &name)?;
    let user = Principal { sessions: user.sessions + 1, ..user };
    store(&app, &asked, user, version).await.map(|_| Json(json!({ "done": true })))
}

/// Who the caller is, and what it may do.
pub(super) async fn whoami(caller: KnownCaller) -> Json<CallerRow> {
    let roles = caller.grants.0.iter().map(ToString::to_string).collect();
    Json(CallerRow { who: caller.proof.to_string(), roles })
}

/// Changes the caller's own password, and ends all other sessions of it.
pub(super) async fn set_password(
    State(app): State<App>,
    caller: KnownCaller,
    address: Option<Extension<Caller>>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<Value>, Response> {
    let from = address.map(|Extension(caller)| caller.0.ip());
    let user = own_user(&caller).map_err(IntoResponse::into_response)?;
    authentication::guess(&app, &user, from).map_err(IntoResponse::into_response)?;
    change_password(&app, &asked, (&user, from), &body).await.map_err(IntoResponse::into_response)
}

/// The user whose password the caller may change.
fn own_user(caller: &KnownCaller) -> Result<PrincipalName, ApiError> {
    match caller.session.as_ref().map(|session| session.subject().owner) {
        Some(SessionOwner::User(name)) => Ok(name),
        _ => Err(lacking_user("only a user that is logged in has a password")),
    }
}

async fn change_password(
    app: &App,
    asked: &AuditedRequest,
    (name, from): (&PrincipalName, Option<IpAddr>),
    body: &Bytes,
) -> Result<Json<Value>, ApiError> {
    let PasswordBody { old, new } = read_body(body, ReadTarget::Body)?;
    let (user, version) = known(app, PrincipalKind::User, name)?;
    if !app.access.passwords.is_right(Some(user.secret.clone()), old).await? {
        return Err(ApiError::invalid("the old password is wrong"));
    }
    app.access.guesses.forgive(name, from, evenkeel::clock::now().mono);
    let secret = app.access.passwords.hash(new).await?;
    let user = Principal { secret, sessions: user.sessions + 1, ..user };
    store(app, asked, user, version).await.map(|_| Json(json!({ "done": true })))
}

fn lacking_user(text: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, ROLE, text)
}

/// The number with which the sessions of a new user begin.
fn first_epoch() -> Result<u64, ApiError> {
    Ok(u64::from_be_bytes(request::chance()?) >> 16)
}

/// What is unusual about roles: they allow nothing now.
pub(super) fn role_warnings(app: &App, grants: &Grants) -> Vec<String> {
    if grants.0.is_empty() {
        return vec!["it has no role, so it may do nothing: give it one with --role".to_owned()];
    }
    app.handle.with_node(|node| {
        let named = grants.0.iter().filter_map(|grant| Some((grant, grant.namespace.as_ref()?)));
        let missing = named.filter(|(_, namespace)| !node.view().has_namespace(namespace));
        let text = |(grant, namespace)| {
            format!("the role {grant} allows nothing yet: there is no namespace {namespace}")
        };
        missing.map(text).collect()
    })
}

/// A principal that does nothing yet.
pub(super) fn new(kind: PrincipalKind, name: &PrincipalName) -> Principal {
    Principal {
        kind,
        name: name.clone(),
        secret: SecretDigest::default(),
        former: None,
        grants: Grants::default(),
        disabled: false,
        sessions: 0,
        owner: None,
        trigger: None,
        created: evenkeel::clock::now().wall,
        expires: None,
        last_used: None,
        description: String::new(),
    }
}

/// A principal that exists, with its version.
///
/// # Errors
/// There is none of this name, or no node of this cluster wrote it.
pub(super) fn known(
    app: &App,
    kind: PrincipalKind,
    name: &PrincipalName,
) -> Result<(Principal, u64), ApiError> {
    let version = app.handle.with_node(|node| {
        let entry = node.view().principal_entry(kind, name)?;
        entry.value.as_ref().map(evenkeel_core::record::PrincipalRecord::version)
    });
    let found = principals::find(app, kind, name).zip(version);
    found.ok_or_else(|| {
        let kind = kind.as_str();
        ApiError::not_found(format!(
            "there is no {kind} {name}: `evenkeel {kind} list` shows those there are"
        ))
    })
}

/// Stores a principal; `created`, `updated` or `unchanged`.
pub(super) async fn store(
    app: &App,
    asked: &AuditedRequest,
    principal: Principal,
    replaces: u64,
) -> Result<&'static str, ApiError> {
    match asked.ask(app, Command::Principal(Box::new(principal), replaces)).await {
        Answer::Done => Ok(if replaces == 0 { "created" } else { "updated" }),
        Answer::Unchanged => Ok("unchanged"),
        other => Err(done(other).err().unwrap_or_else(|| ApiError::internal("it was not stored"))),
    }
}

fn row(user: &Principal, version: u64) -> UserRow {
    UserRow {
        name: user.name.to_string(),
        roles: user.grants.0.iter().map(ToString::to_string).collect(),
        disabled: user.disabled,
        password: !user.secret.expose().is_empty(),
        created: moment(user.created),
        expires: user.expires.map(|at: Wall| moment(at)),
        version,
        description: user.description.clone(),
    }
}
