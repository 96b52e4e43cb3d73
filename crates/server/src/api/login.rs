//! Log in and out: by a key or a password in a form or by a one-time link, for a session of the browser.

use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Form, Json};
use evenkeel::audit::{AuditAction, AuditOutcome, Proof, Requester};
use evenkeel_core::ids::PrincipalName;
use evenkeel_core::time::Millis;
use serde::Deserialize;

use super::audited::{TriedUser, client_identity, response_text};
use super::authentication;
use super::body::EmptyBody;
use super::cookies::Cookie;
use super::headers::text;
use super::known_caller::KnownCaller;
use super::principals;
use super::session::Session;
use super::session_subject::{SessionOwner, SessionSubject};
use super::{ApiError, App};
use crate::console::{self, LoginPage};
use crate::listen::Caller;
use evenkeel_client::types::LoginLink;

/// How long the link lasts that a caller with the key asks for.
const LINK_LASTS: Millis = Millis::secs(600);

/// The query of a login link.
#[derive(Debug, Deserialize)]
pub(super) struct LinkQuery {
    #[serde(default)]
    code: String,
}

/// The login form. A user gives a name and a password; without a name it is the cluster's key. The page that a link opens
/// has its code alone.
#[derive(Deserialize)]
pub(super) struct LoginForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    code: String,
}

/// `GET /login`: the form; with a good code, a session. A link that another site's page opened, or that would end another
/// session, asks first: a browser must not be logged in as somebody else without a word about it.
pub(super) async fn open(
    State(app): State<App>,
    method: Method,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    asked: Result<Query<LinkQuery>, QueryRejection>,
) -> Response {
    let code = asked.map_or_else(|_| String::new(), |Query(asked)| asked.code);
    // A program that only looks at a link does not use it up.
    if code.is_empty() || method == Method::HEAD {
        return login_page(&app, "").into_response();
    }
    let now = evenkeel::clock::now();
    let Some(of) = app.access.login_codes.look(&code, now.mono) else { return used_link(&app) };
    let present = Session::of(&headers, app.access.sessions(), now.wall)
        .map(|session| session.subject())
        .filter(|present| principals::grants_of(&app, present, now.wall).is_some());
    let instead_of = present.filter(|present| present.owner != of.owner).map(|present| present.words());
    let site = text(&headers, &HeaderName::from_static("sec-fetch-site"));
    let is_elsewhere = site.is_some_and(|site| !["none", "same-origin"].contains(&site));
    if is_elsewhere || instead_of.is_some() {
        return console::confirm_page(&code, &of.words(), instead_of.as_deref()).into_response();
    }
    by_link(&app, &code, caller, &headers).await
}

/// `POST /login`: a session for a caller that shows the key, is a user with a password, or has a link's code.
pub(super) async fn log_in(
    State(app): State<App>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    form: Result<Form<LoginForm>, FormRejection>,
) -> Response {
    // Another site's page could log a browser in as its author otherwise.
    if !authentication::is_of_own_page(&headers) {
        let refusal = ApiError::forbidden("the login form works from this node's own page only");
        return in_page(&app, refusal.into_response());
    }
    let Ok(Form(LoginForm { name, key, code })) = form else {
        let page = login_page(&app, "Type the key, or a name and a password.");
        return (StatusCode::BAD_REQUEST, page).into_response();
    };
    if !code.is_empty() {
        return by_link(&app, &code, caller, &headers).await;
    }
    let name = name.trim();
    let of = match name {
        "" => by_key(&app, &key, caller.as_ref()).await,
        name => by_password(&app, name, key, caller.as_ref()).await,
    };
    match of {
        Ok(of) => begin(&app, of, caller, &headers).await.unwrap_or_else(IntoResponse::into_response),
        Err(mut refusal) => {
            // What is no name may be a password in the wrong field.
            if let Ok(user) = name.parse::<PrincipalName>() {
                refusal.extensions_mut().insert(TriedUser(user));
            }
            in_page(&app, refusal)
        }
    }
}

async fn by_key(
    app: &App,
    key: &str,
    caller: Option<&Extension<Caller>>,
) -> Result<SessionSubject, Response> {
    let from = caller.map(|Extension(caller)| caller.0.ip());
    let compared = async {
        let epoch = app.access.epoch_of_key(key.trim())?;
        Some(SessionSubject { owner: SessionOwner::Key, epoch })
    };
    authentication::checked(app, from, compared).await
}

async fn by_password(
    app: &App,
    name: &str,
    password: String,
    caller: Option<&Extension<Caller>>,
) -> Result<SessionSubject, Response> {
    let from = caller.map(|Extension(caller)| caller.0.ip());
    // One that is locked out uses up no guess.
    authentication::unlocked(app, from).map_err(IntoResponse::into_response)?;
    let (user, now) = (name.parse::<PrincipalName>().ok(), evenkeel::clock::now());
    if let Some(user) = &user {
        authentication::guess(app, user, from).map_err(IntoResponse::into_response)?;
    }
    let compared = principals::of_password(app, user.as_ref(), password, now.wall);
    let of = authentication::checked(app, from, compared).await?;
    if let Some(user) = &user {
        app.access.guesses.forgive(user, from, now.mono);
    }
    Ok(of)
}

/// The session of a link's code, which is of no use after that.
async fn by_link(app: &App, code: &str, caller: Option<Extension<Caller>>, headers: &HeaderMap) -> Response {
    let now = evenkeel::clock::now();
    let Some(of) = app.access.login_codes.take(code, now.mono) else { return used_link(app) };
    if principals::grants_of(app, &of, now.wall).is_none() {
        let text =
            "This link is good no more: its user is disabled or deleted, or was logged out everywhere.";
        return (StatusCode::UNAUTHORIZED, login_page(app, text)).into_response();
    }
    begin(app, of, caller, headers).await.unwrap_or_else(IntoResponse::into_response)
}

fn used_link(app: &App) -> Response {
    let used = "This link was used already, or is too old: `evenkeel console` prints another one.";
    (StatusCode::UNAUTHORIZED, login_page(app, used)).into_response()
}

fn login_page(app: &App, notice: &str) -> axum::response::Html<String> {
    LoginPage { notice, provider: app.provider_label(), has_session: false }.html()
}

/// The same refusal as a page. The audit log reads what the refusal carries.
fn in_page(app: &App, refusal: Response) -> Response {
    let page = login_page(app, &response_text(&refusal)).into_response().into_body();
    let (mut parts, _) = refusal.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, page)
}

async fn begin(
    app: &App,
    of: SessionSubject,
    caller: Option<Extension<Caller>>,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let session = begin_session(app, &of, (caller, headers), String::new()).await?;
    let mut response = console::logged_in_page("", &of.words()).into_response();
    response.headers_mut().extend([session.set_cookie(headers, app.access.sessions())]);
    Ok(response)
}

/// Begins a session, and writes it into the audit log with this detail. The page that follows sends the browser on by
/// itself: a browser that came from elsewhere sends no strict cookie where the answer only redirects.
pub(super) async fn begin_session(
    app: &App,
    of: &SessionSubject,
    (caller, headers): (Option<Extension<Caller>>, &HeaderMap),
    detail: String,
) -> Result<Session, ApiError> {
    let session = Session::begin(of, evenkeel::clock::now().wall)?;
    let from = caller.map(|Extension(caller)| caller.0.ip().to_string()).unwrap_or_default();
    let asker = Requester::new(of.proof(), &from, &client_identity(headers));
    let action = AuditAction { what: detail, ..AuditAction::new("login", "console") };
    app.handle.log_decision(asker, action, AuditOutcome::Applied, String::new()).await;
    Ok(session)
}

/// `POST /logout`: takes the cookie from the browser.
pub(super) async fn log_out(headers: HeaderMap) -> Response {
    let mut response = Redirect::to("./").into_response();
    response.headers_mut().extend([Cookie::SESSION.clear(&headers)]);
    response.headers_mut().insert("clear-site-data", HeaderValue::from_static("\"cache\", \"storage\""));
    response
}

/// `POST /api/v1/login-links`: the path of a one-time link, for a person to open in a browser.
pub(super) async fn link(
    State(app): State<App>,
    caller: KnownCaller,
    _: EmptyBody,
) -> Result<Json<LoginLink>, ApiError> {
    let of = match &caller {
        KnownCaller { session: Some(session), .. } => session.subject(),
        KnownCaller { proof: Proof::Key | Proof::Uid(_), .. } => app.access.key_subject(),
        _ => {
            return Err(ApiError::lacks_role("only a user that is logged in, or the key, gets a link"));
        }
    };
    let code = app.access.login_codes.give(of, evenkeel::clock::now().mono, LINK_LASTS)?;
    Ok(Json(LoginLink { path: link_path(&code), lasts_s: LINK_LASTS.0 / 1_000 }))
}

/// The path of the link with this code.
pub(crate) fn link_path(code: &str) -> String {
    format!("/login?code={code}")
}
