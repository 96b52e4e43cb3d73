//! Who sends a request: a caller that shows the cluster's key or a token, a browser with a session, or a person for whom a
//! trusted proxy vouches.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel_core::ids::PrincipalName;
use evenkeel_core::time::Millis;

use super::access_policy::AccessPolicy;
use super::audited::is_question;
use super::error::StandbyMarker;
use super::headers::{set, text};
use super::known_caller::KnownCaller;
use super::principals;
use super::proxy_user::ProxyUser;
use super::session::Session;
use super::stream_rights;
use super::token_text::TokenText;
use super::wrong_keys::{WrongKeyMarker, WrongKeyPenalty, WrongKeys};
use super::{ApiError, App, hooks};
use crate::client::LEADER;
use crate::listen::{Caller, OpenConnection};

/// The size limit of a body, and of a body of `jobs/apply`.
const BODY_BYTES_MAX: usize = 1 << 20;
const APPLY_BYTES_MAX: usize = 16 << 20;
/// The time limit for a body to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// What a request shows of its sender.
pub(crate) enum Credential {
    /// The text of the header for keys and tokens.
    Bearer(String),
    /// The token of a webhook.
    Trigger(String),
    /// A session whose time is not over, and the person that counts if it has ended otherwise.
    Session(Session, Option<ProxyUser>),
    /// A person for whom a trusted proxy vouches.
    Proxy(ProxyUser),
    /// A process of this user of the host, on the node's socket.
    Local(u32),
}

impl Credential {
    /// What a request shows; what it shows itself before what its proxy says.
    pub(crate) fn of(access: &AccessPolicy, request: &Request) -> Option<Self> {
        if let Some(shown) = text(request.headers(), &header::AUTHORIZATION) {
            return Some(Self::Bearer(shown.strip_prefix("Bearer ").unwrap_or_default().to_owned()));
        }
        let proxied = request.extensions().get::<ProxyUser>().cloned();
        match Session::of(request.headers(), access.sessions(), evenkeel::clock::now().wall) {
            Some(session) => Some(Self::Session(session, proxied)),
            None => proxied.map(Self::Proxy).or_else(|| {
                let open = request.extensions().get::<Arc<OpenConnection>>();
                open.and_then(|open| open.local_user()).map(Self::Local)
            }),
        }
    }

    /// Whether any page could make a browser send it.
    fn is_ambient(&self) -> bool {
        matches!(self, Self::Session(..) | Self::Proxy(_))
    }
}

/// Requires a key, a token or a session, and then reads the body of the request.
pub(crate) async fn required(
    State(app): State<App>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    // There, nothing else counts: neither a key, nor a browser's session, nor a proxy's word.
    let shown = match hooks::is_hook(&request) {
        true => hooks::shown(&request, params.as_ref()).map(Credential::Trigger),
        false => Credential::of(&app.access, &request),
    };
    if shown.as_ref().is_some_and(Credential::is_ambient)
        && !is_question(request.method())
        && !is_of_own_page(request.headers())
    {
        let text = "a browser's session changes things only from this node's own page";
        return ApiError::forbidden(text).into_response();
    }
    let known = match authenticate(&app, shown, caller(&request)).await {
        Ok(known) => known,
        Err(refusal) => return refusal,
    };
    let (headers, session) = (request.headers().clone(), known.session.clone());
    request.extensions_mut().insert(known.clone());
    let response = match whole(&app.access, request).await {
        Ok(request) => pointed(&app, next.run(request).await),
        Err(refusal) => refusal.into_response(),
    };
    let mut response = stream_rights::limited(&app, known, response);
    if let Some(used) = session.and_then(|session| session.refreshed(evenkeel::clock::now().wall)) {
        response.headers_mut().extend([used.set_cookie(&headers, app.access.sessions())]);
    }
    response
}

/// The address of the caller.
pub(crate) fn caller(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<Caller>().map(|caller| caller.0.ip())
}

/// Lets a caller in that shows the key, a token or a session.
pub(crate) async fn authenticate(
    app: &App,
    shown: Option<Credential>,
    from: Option<IpAddr>,
) -> Result<KnownCaller, Response> {
    match shown {
        Some(Credential::Bearer(text)) => checked(app, from, async { of_bearer(app, &text) }).await,
        Some(Credential::Trigger(text)) => {
            let compared = async {
                principals::of_trigger(app, Arc::new(text.parse().ok()?), evenkeel::clock::now().wall)
            };
            checked(app, from, compared).await
        }
        Some(Credential::Proxy(user)) => Ok(user.caller()),
        Some(Credential::Local(user)) => of_local(user).ok_or_else(|| {
            unauthorized(format!("the key is missing: user {user} of this host may do nothing without one"))
        }),
        Some(Credential::Session(session, proxied)) => {
            let known = principals::of_session(app, &session, evenkeel::clock::now().wall);
            let known = known.or_else(|| proxied.map(ProxyUser::caller));
            known.ok_or_else(|| unauthorized("the session has ended: log in again".to_owned()))
        }
        None => {
            let fix = "give it with --cluster-key-file or as Authorization: Bearer KEY";
            Err(unauthorized(format!("the key is missing: {fix}")))
        }
    }
}

/// A process of the node's own user, or of root: either could read the cluster's key.
fn of_local(user: u32) -> Option<KnownCaller> {
    let own = rustix::process::geteuid().as_raw();
    [own, 0].contains(&user).then(|| KnownCaller::of_host(user))
}

/// The caller with this key or token.
fn of_bearer(app: &App, text: &str) -> Option<KnownCaller> {
    if TokenText::is_meant(text) {
        return principals::of_token(app, Arc::new(text.parse().ok()?), evenkeel::clock::now().wall);
    }
    app.access.epoch_of_key(text).map(KnownCaller::with_key)
}

/// Whether a browser says that a page of this node sends the request. `access::guard` has refused other pages by then;
/// a browser that says nothing could be made to send a cookie by any page.
pub(super) fn is_of_own_page(headers: &HeaderMap) -> bool {
    let same_site = text(headers, &HeaderName::from_static("sec-fetch-site")) == Some("same-origin");
    same_site || headers.contains_key(header::ORIGIN)
}

/// Compares what a caller at this address shows, unless the address is locked out; returns the refusal of one that is not
/// let in.
pub(super) async fn checked<T>(
    app: &App,
    from: Option<IpAddr>,
    compared: impl Future<Output = Option<T>>,
) -> Result<T, Response> {
    compared_unlocked(&app.access.wrong_keys, from, compared).await
}

/// Refuses a caller whose address is locked out.
///
/// # Errors
/// It is locked out.
pub(super) fn unlocked(app: &App, from: Option<IpAddr>) -> Result<(), TooManyGuesses> {
    check_lock(&app.access.wrong_keys, from)
}

/// Counts a guess of a user's password before it is compared.
///
/// # Errors
/// There were too many of this user's, from wherever they came.
pub(super) fn guess(app: &App, user: &PrincipalName, from: Option<IpAddr>) -> Result<(), TooManyGuesses> {
    app.access.guesses.take(user, from, evenkeel::clock::now().mono).map_err(|left| {
        tracing::warn!("guesses of the password of user {user} are slowed: too many were wrong");
        TooManyGuesses { what: "too many wrong passwords were tried for this user", left }
    })
}

fn check_lock(wrong_keys: &WrongKeys, from: Option<IpAddr>) -> Result<(), TooManyGuesses> {
    let now = evenkeel::clock::now().mono;
    match from.and_then(|from| wrong_keys.locked_for(from, now)) {
        Some(left) => Err(TooManyGuesses { what: "too many wrong keys came from your address", left }),
        None => Ok(()),
    }
}

/// The refusal of a caller that may try again after this time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyGuesses {
    what: &'static str,
    left: Millis,
}

impl IntoResponse for TooManyGuesses {
    fn into_response(self) -> Response {
        let seconds = self.left.0.unsigned_abs().div_ceil(1_000);
        let text = format!("{}: try again in {seconds} s", self.what);
        let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "locked_out", text).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        response
    }
}

async fn compared_unlocked<T>(
    wrong_keys: &WrongKeys,
    from: Option<IpAddr>,
    compared: impl Future<Output = Option<T>>,
) -> Result<T, Response> {
    check_lock(wrong_keys, from).map_err(IntoResponse::into_response)?;
    if let Some(right) = compared.await {
        from.inspect(|from| wrong_keys.forget(*from));
        return Ok(right);
    }
    match from.map(|from| (from, wrong_keys.count(from, evenkeel::clock::now().mono))) {
        Some((from, WrongKeyPenalty::Lock(lock, in_a_row))) => {
            tracing::warn!("callers from {from} are locked out for {lock}: {in_a_row} wrong keys in a row");
        }
        Some((_, WrongKeyPenalty::Wait(wait))) => {
            tokio::time::sleep(Duration::from_millis(wait.0.unsigned_abs())).await;
        }
        Some((_, WrongKeyPenalty::None)) | None => {}
    }
    let text = "the key is not the cluster's, or the token or password is wrong, expired, disabled or not for this address: \
                give another one with --cluster-key-file or as Authorization: Bearer KEY";
    let mut response = unauthorized(text.to_owned());
    response.extensions_mut().insert(WrongKeyMarker);
    Err(response)
}

fn unauthorized(text: String) -> Response {
    let mut response = ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", text).into_response();
    set(response.headers_mut(), header::WWW_AUTHENTICATE, "Bearer");
    response
}

/// Adds the address of the serving leader to a refusal of a standby node.
fn pointed(app: &App, mut response: Response) -> Response {
    if response.extensions().get::<StandbyMarker>().is_some() {
        let address =
            app.handle.with_node(|node| node.leader_elsewhere().map(|(_, address)| address.to_owned()));
        let value = address.and_then(|address| {
            let scheme = app.tls_mode.scheme(&address);
            HeaderValue::try_from(format!("{scheme}://{address}")).ok()
        });
        response.headers_mut().extend(value.map(|value| (HeaderName::from_static(LEADER), value)));
    }
    response
}

/// Reads the whole body, bounded in size and time, so that no handler has to.
async fn whole(access: &AccessPolicy, request: Request) -> Result<Request, ApiError> {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let max = match path {
        Some("/api/v1/jobs/apply" | "/api/v1/plan") => APPLY_BYTES_MAX,
        _ if hooks::is_hook(&request) => hooks::BODY_BYTES_MAX,
        _ => BODY_BYTES_MAX,
    };
    let (parts, body) = request.into_parts();
    let bytes = access.bodies.take(body, max, BODY_PATIENCE).await?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_tried_many_keys_is_locked_out_whatever_it_shows_next() {
        let keys = WrongKeys::default();
        let [guesser, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().ok());
        let status = async |shown: &str, from| {
            let compared = async { (shown == "correct-horse-battery").then_some(()) };
            let refusal = compared_unlocked(&keys, from, compared).await.err()?;
            Some((refusal.status().as_u16(), refusal.headers().contains_key(header::RETRY_AFTER)))
        };
        for _ in 0..6 {
            assert_eq!(status("wrong", guesser).await, Some((401, false)));
        }
        assert_eq!(status("wrong", guesser).await, Some((429, true)));
        assert_eq!(status("correct-horse-battery", guesser).await, Some((429, true)));
        assert_eq!(status("correct-horse-battery", other).await, None);
    }
}
