//! Who sends a request: a caller that shows the cluster's key, or a browser with a session.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::access_policy::AccessPolicy;
use super::audited::is_question;
use super::error::StandbyMarker;
use super::headers::{set, text};
use super::session::Session;
use super::wrong_keys::{WrongKeyMarker, WrongKeyPenalty, WrongKeys};
use super::{ApiError, App};
use crate::client::LEADER;
use crate::key::ClusterKey;
use crate::listen::Caller;

/// The size limit of a body, and of a body of `jobs/apply`.
const BODY_BYTES_MAX: usize = 1 << 20;
const APPLY_BYTES_MAX: usize = 16 << 20;
/// The time limit for a body to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// The subject of a session that the cluster's key began.
pub(super) const KEY_SUBJECT: &str = "key";

/// What a request shows of its sender.
pub(crate) enum Credential {
    /// The text of the header for keys.
    Key(String),
    /// A session that has not ended.
    Session(Session),
}

impl Credential {
    /// What a request shows; a key before a session.
    pub(crate) fn of(access: &AccessPolicy, request: &Request) -> Option<Self> {
        if let Some(shown) = text(request.headers(), &header::AUTHORIZATION) {
            return Some(Self::Key(shown.strip_prefix("Bearer ").unwrap_or_default().to_owned()));
        }
        Session::of(request.headers(), access.key(), evenkeel::clock::now().wall).map(Self::Session)
    }
}

/// Requires the cluster's key or a session, and then reads the body of the request.
pub(crate) async fn required(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let shown = Credential::of(&app.access, &request);
    if let Some(Credential::Session(_)) = shown
        && !is_question(request.method())
        && !is_of_own_page(&request)
    {
        let text = "a browser's session changes things only from this node's own page";
        return ApiError::forbidden(text).into_response();
    }
    let session = match authenticate(&app.access, shown, caller(&request)).await {
        Ok(session) => session,
        Err(refusal) => return refusal,
    };
    let headers = request.headers().clone();
    if let Some(session) = &session {
        request.extensions_mut().insert(session.clone());
    }
    let mut response = match whole(&app.access, request).await {
        Ok(request) => pointed(&app, next.run(request).await),
        Err(refusal) => refusal.into_response(),
    };
    if let Some(used) = session.and_then(|session| session.refreshed(evenkeel::clock::now().wall)) {
        response.headers_mut().extend([used.set_cookie(&headers, app.access.key())]);
    }
    response
}

/// The address of the caller.
pub(crate) fn caller(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<Caller>().map(|caller| caller.0.ip())
}

/// Lets a caller in that shows the key, or has a session; returns the session.
pub(crate) async fn authenticate(
    access: &AccessPolicy,
    shown: Option<Credential>,
    from: Option<IpAddr>,
) -> Result<Option<Session>, Response> {
    match shown {
        Some(Credential::Key(key)) => check_key(access, &key, from).await.map(|()| None),
        Some(Credential::Session(session)) => Ok(Some(session)),
        None => {
            let fix = "give it with --cluster-key-file or as Authorization: Bearer KEY";
            Err(unauthorized(format!("the key is missing: {fix}")))
        }
    }
}

/// Whether a browser says that a page of this node sends the request. `access::guard` has refused other pages by then;
/// a browser that says nothing could be made to send a cookie by any page.
fn is_of_own_page(request: &Request) -> bool {
    let same_site =
        text(request.headers(), &HeaderName::from_static("sec-fetch-site")) == Some("same-origin");
    same_site || request.headers().contains_key(header::ORIGIN)
}

/// Checks the key that a caller at this address shows; returns the refusal of one that is not let in.
pub(super) async fn check_key(
    access: &AccessPolicy,
    shown: &str,
    from: Option<IpAddr>,
) -> Result<(), Response> {
    unlocked(&access.wrong_keys, (access.key(), shown), from).await
}

async fn unlocked(
    wrong_keys: &WrongKeys,
    (key, shown): (&ClusterKey, &str),
    from: Option<IpAddr>,
) -> Result<(), Response> {
    let now = evenkeel::clock::now().mono;
    if let Some(left) = from.and_then(|from| wrong_keys.locked_for(from, now)) {
        let seconds = left.0.unsigned_abs().div_ceil(1_000);
        let text = format!("too many wrong keys came from your address: try again in {seconds} s");
        let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "locked_out", text).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        return Err(response);
    }
    if key.is(shown.as_bytes()) {
        from.inspect(|from| wrong_keys.forget(*from));
        return Ok(());
    }
    match from.map(|from| (from, wrong_keys.count(from, now))) {
        Some((from, WrongKeyPenalty::Lock(lock, in_a_row))) => {
            tracing::warn!("callers from {from} are locked out for {lock}: {in_a_row} wrong keys in a row");
        }
        Some((_, WrongKeyPenalty::Wait(wait))) => {
            tokio::time::sleep(Duration::from_millis(wait.0.unsigned_abs())).await;
        }
        Some((_, WrongKeyPenalty::None)) | None => {}
    }
    let mut response =
        unauthorized("the key is not the cluster's: look which file its nodes have".to_owned());
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
    let max = if path == Some("/api/v1/jobs/apply") { APPLY_BYTES_MAX } else { BODY_BYTES_MAX };
    let (parts, body) = request.into_parts();
    let bytes = access.bodies.take(body, max, BODY_PATIENCE).await?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_tried_many_keys_is_locked_out_whatever_it_shows_next() {
        let (keys, key) = (WrongKeys::default(), ClusterKey::new("correct-horse-battery".to_owned()));
        let [guesser, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().ok());
        let status = async |shown, from| {
            let refusal = unlocked(&keys, (&key, shown), from).await.err()?;
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
