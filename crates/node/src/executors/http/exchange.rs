//! Sends one request and reads its answer, over as many redirects as the job allows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::future::pending;

use evenkeel_core::job::{Http, RunParameters, http};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use url::Url;

use super::connect::{HttpContext, connect, shown};
use crate::logs::LogWriter;
use crate::secrets::{SecretReader, SecretText};
use crate::trace::ids::TRACEPARENT;

/// The longest head of an answer, in bytes.
const HEAD_MAX: usize = 64 * 1024;

/// The headers that carry the run's facts in every request.
const FACTS: [(HeaderName, &str); 8] = [
    (HeaderName::from_static("idempotency-key"), "EVENKEEL_IDEMPOTENCY_KEY"),
    (HeaderName::from_static("evenkeel-fence"), "EVENKEEL_FENCE"),
    (HeaderName::from_static("evenkeel-job"), "EVENKEEL_JOB"),
    (HeaderName::from_static("evenkeel-run"), "EVENKEEL_RUN"),
    (HeaderName::from_static("evenkeel-due"), "EVENKEEL_DUE"),
    (HeaderName::from_static("evenkeel-shard"), "EVENKEEL_SHARD"),
    (HeaderName::from_static("evenkeel-shards"), "EVENKEEL_SHARDS"),
    (HeaderName::from_static("evenkeel-attempt"), "EVENKEEL_ATTEMPT"),
];
/// The headers of a job that every redirect target gets. The others are only for the server that the job names.
const FOR_ANYBODY: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_LANGUAGE, header::CONTENT_TYPE, header::USER_AGENT];

/// One request on behalf of a run.
pub(super) struct HttpCall {
    pub(super) http: Box<Http>,
    /// The run's facts under the names of its environment.
    pub(super) facts: BTreeMap<&'static str, String>,
    pub(super) parameters: RunParameters,
    pub(super) secrets: SecretReader,
}

/// Sends the request, and stores the answer. Returns the status of a good answer, or what went wrong.
pub(super) async fn make(
    call: &HttpCall,
    reach: &HttpContext,
    log: &mut LogWriter,
) -> Result<String, String> {
    let (mut hop, secrets) = Hop::first(call)?;
    // The server may repeat what it was sent.
    log.mask(secrets.iter());
    let mut left = call.http.redirects;
    loop {
        match hop.make(&call.http, reach, left > 0, log).await? {
            HopOutcome::Done(status) => return Ok(status),
            HopOutcome::Redirect(next) => hop = *next,
        }
        left = left.saturating_sub(1);
    }
}

/// What follows an answer.
enum HopOutcome {
    Done(String),
    Redirect(Box<Hop>),
}

/// One request of the redirect chain.
struct Hop {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    /// Whether the body holds a secret.
    secret: bool,
}

impl Hop {
    /// The request that the job names, and the secrets in it.
    fn first(call: &HttpCall) -> Result<(Self, Vec<SecretText>), String> {
        let http = &call.http;
        let url = Url::parse(&http.url).map_err(|e| format!("http.url cannot be read: {e}"))?;
        let method = Method::from_bytes(http.method().as_bytes()).map_err(|e| format!("http.method: {e}"))?;
        let given = RefCell::new(Vec::new());
        let filled = |text: &str| {
            http::fill(text, (&call.facts, &call.parameters), |name| {
                let secret = call.secrets.read(name)?;
                let value = secret.value().to_owned();
                given.borrow_mut().push(secret);
                Ok(value)
            })
        };
        let body = filled(&http.body).map_err(|e| format!("http.body, {e}"))?;
        let mut headers = HeaderMap::new();
        let agent = concat!("evenkeel/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        if !body.is_empty() {
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            headers.insert(header::CONTENT_TYPE, text);
        }
        // Before those of the job, which may name another trace.
        if let Some(context) = call.facts.get(TRACEPARENT) {
            let value = HeaderValue::from_str(context).map_err(|e| format!("{TRACEPARENT}: {e}"))?;
            headers.insert(HeaderName::from_static("traceparent"), value);
        }
        for (name, value) in &http.headers {
            let wrong = |e: &dyn Error| format!("http.headers, {name}: {e}");
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|e| wrong(&e))?;
            let filled = filled(value).map_err(|e| format!("http.headers, {name}: {e}"))?;
            let mut filled = HeaderValue::from_str(&filled).map_err(|e| wrong(&e))?;
            filled.set_sensitive(has_secret(value));
            headers.insert(header, filled);
        }
        // Last, so that no header of the job replaces them.
        for (name, variable) in FACTS {
            let value = call.facts.get(variable).ok_or_else(|| format!("no run has {variable}"))?;
            headers.insert(name, HeaderValue::from_str(value).map_err(|e| format!("{variable}: {e}"))?);
        }
        let hop = Self { url, method, headers, body: body.into(), secret: has_secret(&http.body) };
        Ok((hop, given.into_inner()))
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, String> {
        let host = self.url.host_str().unwrap_or_default();
        let host = self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let target = &self.url[url::Position::BeforePath..url::Position::AfterQuery];
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = target.parse().map_err(|e| format!("http.url cannot be asked for: {e}"))?;
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_str(&host).map_err(|e| format!("http.url: {e}"))?);
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        let carries = [Method::POST, Method::PUT, Method::PATCH].contains(&self.method);
        if carries || !self.body.is_empty() {
            headers.insert(header::CONTENT_LENGTH, self.body.len().into());
        }
        Ok(request)
    }

    async fn make(
        self,
        http: &Http,
        reach: &HttpContext,
        may_go_on: bool,
        log: &mut LogWriter,
    ) -> Result<HopOutcome, String> {
        let request = self.request()?;
        let wire = connect(&self.url, http, &reach.egress, &reach.tls).await?;
        let broke = |e: hyper::Error| format!("{}: no whole answer: {}", shown(&self.url), error_chain(&e));
        let handshake = http1::Builder::new().max_buf_size(HEAD_MAX).handshake(TokioIo::new(wire));
        let (mut sender, connection) = handshake.await.map_err(broke)?;
        // A connection error is reported to the task that waits for the answer.
        let driven = async {
            let _ = connection.await;
            pending::<Infallible>().await
        };
        let exchange = async {
            // Sent once: a request that may have arrived is never repeated here.
            let answer = sender.send_request(request).await.map_err(broke)?;
            let status = answer.status();
            let said = format!("HTTP {}", status.as_u16());
            let good = http.success.contains(status.as_u16());
            if !good
                && is_redirect(status)
                && let Some(next) = self.named(&answer)?
            {
                if may_go_on {
                    return self.redirect(status, next).map(|hop| HopOutcome::Redirect(Box::new(hop)));
                }
                keep(answer, log).await.map_err(broke)?;
                return Err(format!("{said}: sent on to {}, {}", shown(&next), how_far(http)));
            }
            let kept = keep(answer, log).await;
            kept.map_err(|e| format!("{said}, but its body broke off: {}", error_chain(&e)))?;
            if good { Ok(HopOutcome::Done(said)) } else { Err(said) }
        };
        tokio::select! {
            biased;
            step = exchange => step,
            never = driven => match never {},
        }
    }

    /// The target of a redirect.
    fn named(&self, answer: &Response<Incoming>) -> Result<Option<Url>, String> {
        let Some(location) = answer.headers().get(header::LOCATION) else { return Ok(None) };
        let status = answer.status().as_u16();
        let url = location.to_str().ok().and_then(|location| self.url.join(location).ok());
        url.map(Some).ok_or_else(|| format!("HTTP {status}: sent on to what is no address"))
    }

    /// The request that follows a redirect (RFC 9110, 15.4).
    fn redirect(&self, status: StatusCode, url: Url) -> Result<Self, String> {
        let refused = |why: &str| Err(format!("HTTP {}: sent on to {}, {why}", status.as_u16(), shown(&url)));
        match (self.url.scheme(), url.scheme()) {
            (_, "https") | ("http", "http") => {}
            ("https", "http") => return refused("which leaves https for http"),
            _ => return Err(format!("HTTP {}: sent on to another protocol than HTTP", status.as_u16())),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("with a user or a password in the address");
        }
        let mut headers = self.headers.clone();
        if url.origin() != self.url.origin() {
            let own = |name: &HeaderName| FACTS.iter().any(|(fact, _)| fact == name);
            let meant = |name: &HeaderName, value: &HeaderValue| {
                !own(name) && (value.is_sensitive() || !FOR_ANYBODY.contains(name))
            };
            let secret = headers.iter().filter(|(name, value)| meant(name, value));
            let secret: Vec<HeaderName> = secret.map(|(name, _)| name.clone()).collect();
            secret.iter().for_each(|name| drop(headers.remove(name)));
        }
        let same = status == StatusCode::TEMPORARY_REDIRECT
            || status == StatusCode::PERMANENT_REDIRECT
            || self.method == Method::HEAD
            || (status != StatusCode::SEE_OTHER && self.method != Method::POST);
        if same && self.secret && url.origin() != self.url.origin() {
            return refused("which is another server, and the body holds a secret");
        }
        if same {
            return Ok(Self {
                url,
                method: self.method.clone(),
                headers,
                body: self.body.clone(),
                secret: self.secret,
            });
        }
        headers.remove(header::CONTENT_TYPE);
        Ok(Self { url, method: Method::GET, headers, body: Bytes::new(), secret: false })
    }
}

fn has_secret(template: &str) -> bool {
    let is_secret = |piece: &http::TemplatePart<'_>| matches!(piece, http::TemplatePart::Secret { .. });
    http::read(template).is_ok_and(|pieces| pieces.iter().any(is_secret))
}

fn is_redirect(status: StatusCode) -> bool {
    [301, 302, 303, 307, 308].contains(&status.as_u16())
}

fn how_far(http: &Http) -> String {
    match http.redirects {
        0 => "and redirects are followed where http.redirects says how many".to_owned(),
        n => format!("which is one more than the {n} of http.redirects"),
    }
}

/// Reads the answer's body to its end, piece by piece.
async fn keep(mut answer: Response<Incoming>, log: &mut LogWriter) -> Result<(), hyper::Error> {
    while let Some(frame) = answer.body_mut().frame().await {
        if let Some(piece) = frame?.data_ref() {
            log.write(piece);
        }
    }
    Ok(())
}

/// An error with its causes.
fn error_chain(error: &hyper::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}
