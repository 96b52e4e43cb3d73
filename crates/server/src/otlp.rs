//! Sends traces of runs and the log to a collector of OpenTelemetry, by OTLP over HTTP.
//!
//! The SDK queues what it is given and sends batches from a thread of its own: the node never waits for the collector.
//! Where the queue is full, spans or lines are dropped; the SDK counts them, and logs the first and, at the end, their
//! number.

pub(crate) mod logs;
pub(crate) mod traces;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use evenkeel_core::ids::NodeName;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::exit::{CliError, ExitKind};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last batches may take when the node ends.
const LAST_BATCHES: Duration = Duration::from_secs(5);
/// How many items wait at most, unless the SDK's own variable says otherwise: fires of a full minute come at once.
const QUEUE: usize = 16_384;
/// The most bytes of an answer that are read.
const ANSWER_MAX: u64 = 64 * 1024;
/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtlpSignal {
    Traces,
    Logs,
}

impl OtlpSignal {
    const ALL: [Self; 2] = [Self::Traces, Self::Logs];

    /// Its path below an endpoint.
    fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Logs => "/v1/logs",
        }
    }

    /// OpenTelemetry's variable with the endpoint of this signal only.
    fn endpoint_variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            Self::Logs => "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        }
    }

    /// OpenTelemetry's variable that says by what this signal is sent: `none` switches it off.
    fn exporter_variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_TRACES_EXPORTER",
            Self::Logs => "OTEL_LOGS_EXPORTER",
        }
    }
}

/// Where the signals are sent; `None` for one that is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OtlpEndpoints {
    /// Where traces are sent.
    pub(crate) traces: Option<OtlpEndpoint>,
    /// Where the log is sent.
    pub(crate) logs: Option<OtlpEndpoint>,
}

impl OtlpEndpoints {
    /// The endpoints of the settings, or of the variables that OpenTelemetry defines.
    ///
    /// # Errors
    /// One is no address; the text says whose value it is.
    pub(crate) fn resolve(
        written: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, CliError> {
        Ok(Self {
            traces: OtlpEndpoint::resolve(OtlpSignal::Traces, written, &variable)?,
            logs: OtlpEndpoint::resolve(OtlpSignal::Logs, written, &variable)?,
        })
    }
}

/// The address to which a signal is posted. It may have a secret in it, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OtlpEndpoint {
    url: String,
    /// Its host and port.
    host: String,
}

impl fmt::Debug for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpEndpoint").field("host", &self.host).finish_non_exhaustive()
    }
}

impl OtlpEndpoint {
    fn resolve(
        signal: OtlpSignal,
        written: Option<&str>,
        variable: &impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, CliError> {
        let named = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let variable = |name: &str| variable(name).and_then(|text| named(&text));
        if variable(signal.exporter_variable()).is_some_and(|exporter| exporter == "none") {
            return Ok(None);
        }
        if let Some(base) = written.and_then(named) {
            return Self::below("--otlp-endpoint", &base, signal).map(Some);
        }
        // The one for this signal only is used as it is.
        let own = signal.endpoint_variable();
        if let Some(url) = variable(own) {
            return Self::new(own, url).map(Some);
        }
        let all = "OTEL_EXPORTER_OTLP_ENDPOINT";
        variable(all).map(|base| Self::below(all, &base, signal)).transpose()
    }

    /// The path of a signal below an address, which may end with that of any signal.
    fn below(setting: &str, base: &str, signal: OtlpSignal) -> Result<Self, CliError> {
        let base = base.trim_end_matches('/');
        let base = OtlpSignal::ALL.iter().find_map(|signal| base.strip_suffix(signal.path())).unwrap_or(base);
        Self::new(setting, format!("{base}{}", signal.path()))
    }

    fn new(setting: &str, url: String) -> Result<Self, CliError> {
        let uri = url.parse::<Uri>().ok().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        let authority =
            uri.as_ref().and_then(Uri::authority).filter(|authority| !authority.host().is_empty());
        let host = authority.map(|authority| {
            let usual = if url.starts_with("https:") { 443 } else { 80 };
            format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(usual))
        });
        let host = host.ok_or_else(|| {
            CliError::usage(format!("{setting} is no address: write http://HOST:4318, or https://…"))
        })?;
        Ok(Self { url, host })
    }
}

/// What all that a node sends has in common, if its registry has this address.
fn resource(node: &NodeName, registry: &str) -> Resource {
    let engine = registry.split(':').next().unwrap_or_default().to_owned();
    let of_node = [
        KeyValue::new("service.version", VERSION),
        KeyValue::new("service.instance.id", node.to_string()),
        KeyValue::new("evenkeel.engine", engine),
    ];
    Resource::builder().with_service_name("evenkeel").with_attributes(of_node).build()
}

/// How an exporter of any signal sends to this endpoint.
fn sending<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    endpoint: &OtlpEndpoint,
    fault: &LastFault,
) -> B {
    builder
        .with_http_client(OtlpClient::new(endpoint, fault))
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&endpoint.url)
        .with_timeout(TIMEOUT)
}

/// The refusal to start where a variable of OpenTelemetry has a value that cannot be used.
fn cannot_send(what: &str, error: &ExporterBuildError) -> CliError {
    CliError::new(ExitKind::Failed, format!("{what} cannot be sent: {error}"))
}

/// The size of a queue; `None` where this variable gives it.
fn queue(variable: &str) -> Option<usize> {
    std::env::var_os(variable).is_none().then_some(QUEUE)
}

/// Why the last request failed, in words of the client: the SDK says only that the network did.
#[derive(Clone, Debug, Default)]
struct LastFault(Arc<Mutex<Option<String>>>);

impl LastFault {
    fn set(&self, fault: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// The reason, or what the SDK says.
    fn take_or(&self, error: &impl ToString) -> String {
        let fault = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        fault.unwrap_or_else(|| error.to_string())
    }
}

/// Posts batches by the client that this program has for other requests, on the SDK's thread, which may wait.
#[derive(Debug)]
struct OtlpClient {
    agent: Agent,
    fault: LastFault,
}

impl OtlpClient {
    fn new(endpoint: &OtlpEndpoint, fault: &LastFault) -> Self {
        let is_tls = endpoint.url.starts_with("https:");
        let roots = if is_tls { rustls_native_certs::load_native_certs().certs } else { Vec::new() };
        let roots = roots.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .proxy(None)
            .build();
        Self { agent: config.into(), fault: fault.clone() }
    }

    fn send(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let mut post = ureq::http::Request::post(request.uri());
        for (name, value) in request.headers() {
            post = post.header(name, value);
        }
        let mut answer = self.agent.run(post.body(request.body().as_ref())?)?;
        let body = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec()?;
        let mut whole = Response::new(Bytes::from(body));
        *whole.status_mut() = answer.status();
        *whole.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(whole)
    }
}

#[async_trait]
impl HttpClient for OtlpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(&request);
        self.fault.set(answer.as_ref().err().map(ToString::to_string));
        answer.map_err(|e| io::Error::other(e).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(
        signal: OtlpSignal,
        written: &str,
        variables: &[(&str, &str)],
    ) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let endpoint = OtlpEndpoint::resolve(signal, Some(written), &variable);
        endpoint.map(|found| found.map(|found| found.url)).map_err(|e| e.to_string())
    }

    #[test]
    fn an_endpoint_is_that_of_the_settings_or_of_opentelemetrys_variables() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://own:4318/here");
        let url = |url: &str| Ok(Some(url.to_owned()));
        let traces = |written: &str, variables: &[_]| resolved(OtlpSignal::Traces, written, variables);
        let logs = |written: &str, variables: &[_]| resolved(OtlpSignal::Logs, written, variables);
        assert_eq!(traces("", &[]), Ok(None));
        assert_eq!(traces("http://c:4318", &[all, own]), url("http://c:4318/v1/traces"));
        assert_eq!(traces("https://c/below/", &[]), url("https://c/below/v1/traces"));
        assert_eq!(traces("http://c:4318/v1/traces", &[]), url("http://c:4318/v1/traces"));
        assert_eq!(traces(" ", &[all, own]), url("http://own:4318/here"));
        assert_eq!(traces("", &[all]), url("http://all:4318/v1/traces"));
        assert_eq!(logs("", &[own]), Ok(None));
        assert_eq!(logs("http://c:4318/v1/traces/", &[own]), url("http://c:4318/v1/logs"));
        assert_eq!(logs("", &[all, own]), url("http://all:4318/v1/logs"));
    }

    #[test]
    fn a_signal_is_switched_off_by_its_variable() {
        let off = [("OTEL_LOGS_EXPORTER", "none"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")];
        assert_eq!(resolved(OtlpSignal::Logs, "http://c:4318", &off), Ok(None));
        let traces = resolved(OtlpSignal::Traces, "", &off);
        assert_eq!(traces, Ok(Some("http://c:4318/v1/traces".to_owned())));
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        for (text, variables) in [
            ("grpc://token@c:4317", vec![]),
            ("collector:4318", vec![]),
            ("", vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "x")]),
        ] {
            let refused = resolved(OtlpSignal::Traces, text, &variables).expect_err(text);
            assert!(refused.contains("is no address: write http://HOST:4318"), "{refused}");
            assert!(!refused.contains("token"), "{refused}");
        }
        let named = OtlpEndpoint::new("it", "https://h/key-1".into()).expect("an address");
        let shown = format!("{named:?}");
        assert!(shown.contains("h:443") && !shown.contains("key-1"), "{shown}");
    }
}
