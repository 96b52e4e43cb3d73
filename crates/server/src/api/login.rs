//! Log in and out: by a key in a form or by a one-time link, for a session of the browser.

use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Form, Json};
use evenkeel::audit::{AuditAction, AuditOutcome, Proof, Requester};
use evenkeel_core::time::Millis;
use serde::Deserialize;
use serde_json::json;

use super::audited::{client_identity, response_text};
use super::authentication;
use super::demand::ROLE;
use super::known_caller::KnownCaller;
use super::principals;
use super::session::{self, Session};
use super::session_subject::SessionSubject;
use super::{ApiError, App};
use crate::console;
use crate::listen::Caller;

/// How long the link lasts that a caller with the key asks for.
const LINK_LASTS: Millis = Millis::secs(600);

/// The query of a login link.
#[derive(Debug, Deserialize)]
pub(super) struct LinkQuery {
    #[serde(default)]
    code: String,
}

/// The login form. A user gives a name and a password; without a name it is the cluster's key.
#[derive(Deserialize)]
pub(super) struct LoginForm {
    #[serde(default)]
    name: String,
    key: String,
}

/// `GET /login`: the form; with a good code, a session.
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
        return console::login_page("").into_response();
    }
    let now = evenkeel::clock::now();
    if let Some(of) = app.access.login_codes.take(&code, now.mono) {
        return begin(&app, of, caller, &headers).await.unwrap_or_else(IntoResponse::into_response);
    }
    let used = "This link was used already, or is too old: `evenkeel console` prints another one.";
    (StatusCode::UNAUTHORIZED, console::login_page(used)).into_response()
}

/// `POST /login`: a session for a caller that shows the key, or is a user with a password.
pub(super) async fn log_in(
    State(app): State<App>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    form: Result<Form<LoginForm>, FormRejection>,
) -> Response {
    let Ok(Form(LoginForm { name, key })) = form else {
        return (StatusCode::BAD_REQUEST, console::login_page("Type the key, or a name and a password."))
            .into_response();
    };
    let from = caller.as_ref().map(|Extension(caller)| caller.0.ip());
    let compared = async {
        let now = evenkeel::clock::now().wall;
        match name.trim() {
            "" => app.access.key().is(key.trim().as_bytes()).then(|| app.access.key_subject()),
            name => principals::of_password(&app, name, key, now).await,
        }
    };
    let refusal = match authentication::checked(&app, from, compared).await {
        Ok(of) => return begin(&app, of, caller, &headers).await.unwrap_or_else(IntoResponse::into_response),
        Err(refusal) => refusal,
    };
    // The page in place of the body for programs; the audit log reads what the refusal carries.
    let page = console::login_page(&response_text(&refusal)).into_response().into_body();
    let (mut parts, _) = refusal.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, page)
}

/// Begins a session and sends the browser to the console. The page does that itself: a browser that came from elsewhere
/// sends no strict cookie where the answer only redirects.
async fn begin(
    app: &App,
    of: SessionSubject,
    caller: Option<Extension<Caller>>,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let session = Session::begin(&of, evenkeel::clock::now().wall)?;
    let from = caller.map(|Extension(caller)| caller.0.ip().to_string()).unwrap_or_default();
    let asker = Requester::new(of.proof(), &from, &client_identity(headers));
    let action = AuditAction::new("login", "console");
    app.handle.log_decision(asker, action, AuditOutcome::Applied, String::new()).await;
    let mut response = console::logged_in_page().into_response();
    response.headers_mut().extend([session.set_cookie(headers, app.access.seals())]);
    Ok(response)
}

/// `POST /logout`: takes the cookie from the browser.
pub(super) async fn log_out(headers: HeaderMap) -> Response {
    let mut response = Redirect::to("./").into_response();
    response.headers_mut().extend([session::clear_cookie(&headers)]);
    response.headers_mut().insert("clear-site-data", HeaderValue::from_static("\"cache\", \"storage\""));
    response
}

/// `POST /api/v1/login-links`: the path of a one-time link, for a person to open in a browser.
pub(super) async fn link(
    State(app): State<App>,
    caller: KnownCaller,
) -> Result<Json<serde_json::Value>, ApiError> {
    let of = match &caller {
        KnownCaller { session: Some(session), .. } => session.subject(),
        KnownCaller { proof: Proof::Key, .. } => app.access.key_subject(),
        _ => {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                ROLE,
                "a token opens no console: log in as a user",
            ));
        }
    };
    let code = app.access.login_codes.give(of, evenkeel::clock::now().mono, LINK_LASTS)?;
    Ok(Json(json!({ "path": link_path(&code), "lasts_s": LINK_LASTS.0 / 1_000 })))
}

/// The path of the link with this code.
pub(crate) fn link_path(code: &str) -> String {
    format!("/login?code={code}")
}
