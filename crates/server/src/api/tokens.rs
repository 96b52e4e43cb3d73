//! API tokens over HTTP: `/api/v1/tokens` and below. The text of a token is in one answer only.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel_core::ids::PrincipalName;
use evenkeel_core::input::Command;
use evenkeel_core::principal::{FormerSecret, Grants, Principal, PrincipalKind};
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::audited::AuditedRequest;
use super::error::{done, read_body};
use super::token_text::TokenText;
use super::users::{known, new, role_warnings, store};
use super::{ApiError, App};
use crate::api_types::{NewToken, TokenPage, TokenRow, moment};
use crate::text_input::ReadTarget;

/// How long a token lasts whose request does not say, and the limits.
const LASTS: &str = "90d";
const LIMITS: SpanLimits = SpanLimits::new(Millis::secs(60), Millis::secs(10 * 366 * 24 * 3_600));

/// A new token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTokenBody {
    /// The name.
    #[schemars(with = "String")]
    name: PrincipalName,
    /// The roles, as `author:team-a`, or `author:team-a:team=billing` for jobs with this label.
    #[schemars(with = "Vec<String>")]
    roles: Grants,
    /// A span, or `never`.
    lasts: Option<String>,
    /// The user whose roles limit those of the token.
    #[schemars(with = "Option<String>")]
    owner: Option<PrincipalName>,
    /// A text for people.
    #[serde(default)]
    description: String,
}

pub(super) async fn list(State(app): State<App>) -> Json<TokenPage> {
    let rows: Vec<TokenRow> = app.handle.with_node(|node| {
        node.view().principals(PrincipalKind::Token).map(|(token, version)| row(token, version)).collect()
    });
    Json(TokenPage { tokens: rows })
}

pub(super) async fn create(
    State(app): State<App>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<NewToken>, ApiError> {
    let NewTokenBody { name, roles, lasts, owner, description } = read_body(&body, ReadTarget::Body)?;
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
    let warnings = role_warnings(&app, &roles);
    let token = Principal {
        secret: text.digest(),
        grants: roles,
        owner,
        created,
        expires,
        description,
        ..new(PrincipalKind::Token, &name)
    };
    store(&app, &asked, token, 0).await?;
    let (name, token, expires) = (name.to_string(), text.to_string(), expires.map(moment));
    Ok(Json(NewToken { name, token, expires, warnings }))
}

/// How long the secret of before is accepted, at most.
const OVERLAP: SpanLimits = SpanLimits::new(Millis(0), Millis::secs(7 * 24 * 3_600));

/// How a token gets another secret.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RotateBody {
    /// How long the secret of before is accepted, too; not at all by default.
    overlap: Option<String>,
}

/// Gives a token another secret: the old one is of no use from now on, or after the overlap.
pub(super) async fn rotate(
    State(app): State<App>,
    name: Result<Path<PrincipalName>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<NewToken>, ApiError> {
    let Path(name) = name?;
    let RotateBody { overlap } =
        if body.is_empty() { RotateBody::default() } else { read_body(&body, ReadTarget::Body)? };
    let overlap = overlap.map(|span| TimeSpan::parse("overlap", &span, OVERLAP)).transpose();
    let overlap = overlap.map_err(|e| ApiError::invalid(e.to_string()))?.map(TimeSpan::millis);
    let (token, version) = known(&app, PrincipalKind::Token, &name)?;
    let (text, now) = (TokenText::make(name.clone())?, evenkeel::clock::now().wall);
    // It lasts as long again as it was made for.
    let expires = token.expires.map(|expires| now + (expires - token.created));
    let former = overlap.map(|overlap| FormerSecret {
        secret: token.secret.clone(),
        // Not longer than it would have been accepted.
        until: token.expires.map_or(now + overlap, |expires| expires.min(now + overlap)),
    });
    let token = Principal { secret: text.digest(), former, created: now, expires, last_used: None, ..token };
    store(&app, &asked, token, version).await?;
    let (name, token, expires) = (name.to_string(), text.to_string(), expires.map(moment));
    Ok(Json(NewToken { name, token, expires, warnings: Vec::new() }))
}

pub(super) async fn delete(
    State(app): State<App>,
    name: Result<Path<PrincipalName>, PathRejection>,
    asked: AuditedRequest,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    done(asked.ask(&app, Command::DeletePrincipal(PrincipalKind::Token, name)).await)
}

fn row(token: &Principal, version: u64) -> TokenRow {
    TokenRow {
        name: token.name.to_string(),
        roles: token.grants.0.iter().map(ToString::to_string).collect(),
        owner: token.owner.as_ref().map(ToString::to_string),
        created: moment(token.created),
        expires: token.expires.map(moment),
        last_used: token.last_used.map(moment),
        version,
        description: token.description.clone(),
    }
}
