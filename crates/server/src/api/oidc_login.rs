//! Log in by an OpenID Connect provider: the way there, and the way back.
//!
//! Every failure is a page that says what to do; what is wrong with the provider is in the log, for an administrator.

use axum::extract::{Extension, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evenkeel_core::time::Wall;
use serde::Deserialize;

use super::access::own_origin;
use super::authentication;
use super::cookies::Cookie;
use super::error::ApiError;
use super::login::begin_session;
use super::session_subject::{OidcOwner, SessionOwner, SessionSubject};
use super::{App, audited};
use crate::console;
use crate::listen::Caller;
use crate::oidc::{FLOW_LASTS, LoginFlow, OidcFault, OidcPerson, OidcProvider};
use crate::settings::CALLBACK;

/// The way from the two addresses of this login to the console.
const UP_FROM_START: &str = "../";
const UP_FROM_CALLBACK: &str = "../../";
/// The size limit of a session's cookie: browsers drop larger ones without a word.
const COOKIE_BYTES_MAX: usize = 3_800;

/// What a provider sends a browser back with; it may add more.
#[derive(Debug, Default, Deserialize)]
struct CallbackQuery {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    iss: Option<String>,
    error: Option<String>,
}

/// An answer of the provider to a login that this browser began.
struct ProviderAnswer {
    flow: LoginFlow,
    asked: CallbackQuery,
    /// Where the provider was to send the browser back.
    redirect: String,
}

/// `GET /login/oidc`: sends the browser to the provider.
pub(super) async fn begin(State(app): State<App>, request: Request) -> Response {
    let Some(provider) = app.oidc.clone() else { return unknown() };
    let (headers, redirect) = (request.headers().clone(), redirect_url(&provider, &request));
    drop(request);
    let key = app.access.sessions();
    let flow = match LoginFlow::begin(evenkeel::clock::now().wall) {
        Ok(flow) => flow,
        Err(e) => return ApiError::from(e).into_response(),
    };
    let url = match provider.authorization_url(&flow, key, &redirect).await {
        Ok(url) => url,
        Err(fault) => return failed(UP_FROM_START, &fault),
    };
    let Ok(location) = HeaderValue::try_from(url) else {
        return failed(
            UP_FROM_START,
            &OidcFault::Unavailable("its address has unseen characters".to_owned()),
        );
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().extend([Cookie::LOGIN.set(&headers, &flow.cookie(key), FLOW_LASTS)]);
    response
}

/// `GET /login/oidc/callback`: the provider sends the browser here with a code, or with an error.
pub(super) async fn callback(
    State(app): State<App>,
    caller: Option<Extension<Caller>>,
    request: Request,
) -> Response {
    let Some(provider) = app.oidc.clone() else { return unknown() };
    let (headers, redirect) = (request.headers().clone(), redirect_url(&provider, &request));
    let asked = Query::<CallbackQuery>::try_from_uri(request.uri());
    drop(request);
    let asked = asked.map_or_else(|_| CallbackQuery::default(), |Query(asked)| asked);
    let now = evenkeel::clock::now().wall;
    let flow = flow_of(&app, &headers, &asked.state, now);
    let mut response = match flow {
        Some(flow) => {
            let answer = ProviderAnswer { flow, asked, redirect };
            let finished = finish(&app, &provider, &answer, (caller, &headers)).await;
            finished.unwrap_or_else(|refusal| refusal)
        }
        None => page(
            StatusCode::BAD_REQUEST,
            "This login did not begin in this browser, took longer than ten minutes, or is done already.",
        ),
    };
    // It is of no use a second time.
    let (name, value) = Cookie::LOGIN.clear(&headers);
    response.headers_mut().append(name, value);
    response
}

/// The login that this browser began and to which the answer belongs.
fn flow_of(app: &App, headers: &HeaderMap, state: &str, now: Wall) -> Option<LoginFlow> {
    let key = app.access.sessions();
    let mut begun = Cookie::LOGIN.values(headers).filter_map(|text| LoginFlow::of_cookie(text, key, now));
    begun.find(|flow| flow.is_state(state, key))
}

async fn finish(
    app: &App,
    provider: &OidcProvider,
    answer: &ProviderAnswer,
    (caller, headers): (Option<Extension<Caller>>, &HeaderMap),
) -> Result<Response, Response> {
    let (up, ProviderAnswer { flow, asked, redirect }) = (UP_FROM_CALLBACK, answer);
    if !provider.is_issuer(asked.iss.as_deref()).await.map_err(|fault| failed(up, &fault))? {
        return Err(page(
            StatusCode::BAD_REQUEST,
            "The answer is not from the login provider of this cluster.",
        ));
    }
    if let Some(error) = &asked.error {
        return Err(declined(error));
    }
    let from = caller.as_ref().map(|Extension(caller)| caller.0.ip());
    let mut fault = None;
    let compared = async {
        match provider.person(&asked.code, (flow, app.access.sessions()), redirect).await {
            Ok(person) => Some(Ok(person)),
            // Codes can be guessed as keys can.
            Err(OidcFault::Refused(why)) => {
                fault = Some(OidcFault::Refused(why));
                None
            }
            Err(other) => Some(Err(other)),
        }
    };
    let person = authentication::checked(app, from, compared).await;
    let person = person.map_err(|refusal| match &fault {
        Some(fault) => with_page(refusal, &shown_reason(fault)),
        None => {
            let text = audited::response_text(&refusal);
            with_page(refusal, &text)
        }
    })?;
    let person = person.map_err(|fault| failed(up, &fault))?;
    logged_in(app, provider, person, (caller, headers)).await
}

/// Begins the session of a person, with the roles that its groups have now.
async fn logged_in(
    app: &App,
    provider: &OidcProvider,
    person: OidcPerson,
    (caller, headers): (Option<Extension<Caller>>, &HeaderMap),
) -> Result<Response, Response> {
    let OidcPerson { name, subject, grants } = person;
    let ends = evenkeel::clock::now().wall + provider.settings().session;
    let roles = grants.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let of = SessionSubject {
        owner: SessionOwner::Oidc(Box::new(OidcOwner { name, grants, ends })),
        epoch: provider.epoch(),
    };
    // A name may change or pass to another person; what the provider calls the person does not.
    let detail = format!("sub {subject}, roles {}", if roles.is_empty() { "none" } else { &roles });
    let session =
        begin_session(app, &of, (caller, headers), detail).await.map_err(IntoResponse::into_response)?;
    let (name, cookie) = session.set_cookie(headers, app.access.sessions());
    if cookie.len() > COOKIE_BYTES_MAX {
        let text = "You have more roles than a browser can keep: an administrator gives you fewer with --group-role.";
        return Err(page(StatusCode::FORBIDDEN, text));
    }
    let mut response = console::logged_in_page(UP_FROM_CALLBACK, &of.words()).into_response();
    response.headers_mut().append(name, cookie);
    Ok(response)
}

/// Where the provider sends the browser back: the same on the way there and on the way back.
fn redirect_url(provider: &OidcProvider, request: &Request) -> String {
    let given = provider.settings().redirect_url.clone();
    given.unwrap_or_else(|| format!("{}{CALLBACK}", own_origin(request)))
}

/// The page for an error that the provider itself names.
fn declined(error: &str) -> Response {
    // It is a word, and what is none may be anything.
    let is_word = error.len() <= 40 && error.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let word = if is_word { error } else { "an error" };
    tracing::info!("the login provider declines a login: {word}");
    page(StatusCode::FORBIDDEN, &format!("The login provider does not let you in ({word})."))
}

/// The page for a login that came to nothing, whose reason is in the log.
fn failed(up: &str, fault: &OidcFault) -> Response {
    let status = match fault {
        OidcFault::Unavailable(_) => StatusCode::BAD_GATEWAY,
        OidcFault::Refused(_) => StatusCode::UNAUTHORIZED,
        OidcFault::Unusable(_) => StatusCode::FORBIDDEN,
    };
    (status, console::provider_failed_page(up, &shown_reason(fault))).into_response()
}

/// What the person reads; the log has the rest.
fn shown_reason(fault: &OidcFault) -> String {
    tracing::warn!("a login by the provider comes to nothing: {fault}");
    match fault {
        OidcFault::Unavailable(_) => {
            "The login provider cannot be used now: the node's log says why. Try again later.".to_owned()
        }
        OidcFault::Refused(_) => {
            "The login provider does not confirm this login: try again from the start.".to_owned()
        }
        OidcFault::Unusable(why) => format!("You cannot be let in: {why}."),
    }
}

fn page(status: StatusCode, text: &str) -> Response {
    (status, console::provider_failed_page(UP_FROM_CALLBACK, text)).into_response()
}

/// The same refusal as a page. The audit log reads what the refusal carries.
fn with_page(refusal: Response, text: &str) -> Response {
    let body = console::provider_failed_page(UP_FROM_CALLBACK, text).into_response().into_body();
    let (mut parts, _) = refusal.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(HeaderName::from_static("www-authenticate"));
    Response::from_parts(parts, body)
}

fn unknown() -> Response {
    ApiError::not_found("this cluster has no login provider: start its nodes with --oidc-issuer")
        .into_response()
}
