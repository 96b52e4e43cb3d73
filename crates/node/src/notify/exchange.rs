//! Requests to the outside, of webhooks and of heartbeats: one try, with an error that shows no secret.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::shape::ShapedRequest;

/// The most bytes of an answer that are read.
const ANSWER_MAX: u64 = 64 * 1024;
/// The fewest bytes of a part of an address that may be a secret; shorter ones are words.
const SECRET_PART_MIN: usize = 12;
/// How this program calls itself.
const USER_AGENT: &str = concat!("evenkeel/", env!("CARGO_PKG_VERSION"));

/// Checks whether an address, the value of this key, can be asked. The error does not repeat it, since it may be a secret.
pub(super) fn check(key: &str, url: &str) -> Result<(), String> {
    let spoken = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let uri = url.parse::<Uri>().ok().filter(spoken);
    uri.map(|_| ())
        .ok_or_else(|| format!("{key} is no address: write {key} = \"http://HOST:PORT/PATH\", or https://…"))
}

/// The host of an address; the rest may be a secret.
pub(super) fn host(url: &str) -> String {
    let uri = url.parse::<Uri>().ok();
    let usual = if url.starts_with("https:") { 443 } else { 80 };
    let host = uri.as_ref().and_then(|uri| Some((uri.host()?, uri.port_u16().unwrap_or(usual))));
    host.map_or_else(String::new, |(host, port)| format!("{host}:{port}"))
}

/// The certificates that this host trusts.
pub(super) fn trusted() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// Posts a request and reads the answer: its status and its text, without the secret and the address. `roots` are needed
/// only for TLS.
pub(super) fn post(
    request: &ShapedRequest,
    secret: Option<&str>,
    timeout: Duration,
    roots: impl FnOnce() -> Vec<CertificateDer<'static>>,
) -> Result<(u16, String), String> {
    let post = agent(&request.url, timeout, roots).post(&request.url).header("user-agent", USER_AGENT);
    let post = request.headers.iter().fold(post, |post, (name, value)| post.header(*name, value));
    let answer = post.send(request.body.as_slice()).map_err(|e| e.to_string());
    let answered = answer.map(|mut answer| (answer.status().as_u16(), text(&mut answer)));
    let shown = |text: String| redacted(text, &request.url, secret);
    answered.map(|(status, text)| (status, shown(text))).map_err(shown)
}

/// Asks an address, and returns the status of the answer.
pub(super) fn get(url: &str, timeout: Duration) -> Result<u16, String> {
    let request = agent(url, timeout, trusted).get(url).header("user-agent", USER_AGENT);
    let answer = request.call().map_err(|e| redacted(e.to_string(), url, None))?;
    Ok(answer.status().as_u16())
}

fn agent(url: &str, timeout: Duration, roots: impl FnOnce() -> Vec<CertificateDer<'static>>) -> Agent {
    let roots = if url.starts_with("https:") { roots() } else { Vec::new() };
    let roots = roots.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .proxy(None)
        .build();
    config.into()
}

/// Where the text matters, one that cannot be read is judged as one that says nothing.
fn text(answer: &mut Response<Body>) -> String {
    let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec().unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// A text without the secret and the parts of the address: a receiver may repeat them in its answer.
pub(super) fn redacted(text: String, url: &str, secret: Option<&str>) -> String {
    let rest = url.split_once("://").and_then(|(_, rest)| rest.split_once(['/', '?']));
    let parts = rest.map_or("", |(_, rest)| rest).split(['/', '?', '&']);
    let values = parts.map(|part| part.split_once('=').map_or(part, |(_, value)| value));
    let secrets = secret.into_iter().chain(values.filter(|part| part.len() >= SECRET_PART_MIN));
    secrets.fold(text, |text, secret| text.replace(secret, "…"))
}
