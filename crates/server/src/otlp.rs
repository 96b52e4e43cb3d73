//! Sends traces of runs to a collector of OpenTelemetry, by OTLP over HTTP.
//!
//! The SDK queues spans and sends them in batches from a thread of its own: the node never waits for the collector. Where
//! the queue is full, spans are dropped; the SDK counts them, and logs the first and, at the end, their number.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use evenkeel::{FinishedSpan, SpanValue, TraceSink};
use evenkeel_core::ids::{NodeName, counted};
use evenkeel_core::time::Wall;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanExporter, SpanLinks, SpanProcessor,
};
use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::exit::{CliError, ExitKind};

/// The path of traces below an endpoint.
const PATH: &str = "/v1/traces";
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last batches may take when the node ends.
const LAST_BATCHES: Duration = Duration::from_secs(5);
/// How many spans wait at most, unless the SDK's own variable says otherwise: fires of a full minute come at once.
const QUEUE: usize = 16_384;
/// The SDK's variable for that number.
const QUEUE_VARIABLE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";
/// The most bytes of an answer that are read.
const ANSWER_MAX: u64 = 64 * 1024;

/// The address to which traces are posted. It may have a secret in it, so it is not shown.
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
    /// The endpoint of the settings, or of the variables that OpenTelemetry defines; `None` if neither names one.
    ///
    /// # Errors
    /// It is no address; the text says whose value it is.
    pub(crate) fn resolve(
        written: Option<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, CliError> {
        let named = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        if let Some(base) = written.and_then(named) {
            return Self::below("--otlp-endpoint", &base).map(Some);
        }
        // The one for traces only is used as it is.
        let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        if let Some(url) = variable(own).and_then(named) {
            return Self::new(own, url).map(Some);
        }
        let all = "OTEL_EXPORTER_OTLP_ENDPOINT";
        variable(all).and_then(named).map(|base| Self::below(all, &base)).transpose()
    }

    fn below(setting: &str, base: &str) -> Result<Self, CliError> {
        let base = base.trim_end_matches('/');
        Self::new(setting, if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") })
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

/// Sends the spans of a node.
#[derive(Debug)]
pub(crate) struct TraceExporter {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
}

impl TraceExporter {
    /// Begins to send spans of this node, whose registry has this address.
    ///
    /// # Errors
    /// A variable of OpenTelemetry has a value that cannot be used.
    pub(crate) fn start(endpoint: &OtlpEndpoint, node: &NodeName, registry: &str) -> Result<Self, CliError> {
        let fault = Arc::default();
        let inner = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(OtlpClient::new(endpoint, &fault))
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&endpoint.url)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|e| CliError::new(ExitKind::Failed, format!("traces cannot be sent: {e}")))?;
        let engine = registry.split(':').next().unwrap_or_default().to_owned();
        let version = env!("CARGO_PKG_VERSION");
        let resource = Resource::builder().with_service_name("evenkeel").with_attributes([
            KeyValue::new("service.version", version),
            KeyValue::new("service.instance.id", node.to_string()),
            KeyValue::new("evenkeel.engine", engine),
        ]);
        let mut batches = BatchConfigBuilder::default();
        if std::env::var_os(QUEUE_VARIABLE).is_none() {
            batches = batches.with_max_queue_size(QUEUE);
        }
        let exporter = BatchExporter { inner, host: endpoint.host.clone(), fault };
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches.build()).build();
        processor.set_resource(&resource.build());
        let scope = InstrumentationScope::builder("evenkeel").with_version(version).build();
        tracing::info!("traces are sent to {}", endpoint.host);
        Ok(Self { processor, scope })
    }

    /// Sends what waits, for a few seconds at most.
    pub(crate) fn close(&self) {
        self.close_within(LAST_BATCHES);
    }

    fn close_within(&self, bound: Duration) {
        // The SDK logs that it took too long.
        let _ = self.processor.shutdown_with_timeout(bound);
    }

    fn data(&self, span: FinishedSpan) -> SpanData {
        let context = SpanContext::new(
            TraceId::from_bytes(span.trace.0),
            SpanId::from_bytes(span.span.0),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        );
        SpanData {
            span_context: context,
            parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.0)),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: span.name.into(),
            start_time: moment(span.start),
            end_time: moment(span.end),
            attributes: span.attributes.into_iter().map(attribute).collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: span.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        }
    }
}

impl TraceSink for TraceExporter {
    fn put(&self, span: FinishedSpan) {
        self.processor.on_end(self.data(span));
    }

    fn flush(&self) {
        // What was not sent is logged already.
        let _ = self.processor.force_flush();
    }
}

fn moment(wall: Wall) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(wall.0).unwrap_or(0))
}

fn attribute((name, value): (&'static str, SpanValue)) -> KeyValue {
    let value: Value = match value {
        SpanValue::Text(text) => text.into(),
        SpanValue::Whole(number) => number.into(),
    };
    KeyValue::new(name, value)
}

/// Why the last request failed, in words of the client: the SDK says only that the network did.
type LastFault = Arc<Mutex<Option<String>>>;

/// Sends batches, with one line of the log for each that is lost.
#[derive(Debug)]
struct BatchExporter {
    inner: opentelemetry_otlp::SpanExporter,
    host: String,
    fault: LastFault,
}

impl SpanExporter for BatchExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = counted(batch.len(), "span");
        if let Err(error) = self.inner.export(batch).await {
            let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
            let why = fault.unwrap_or_else(|| error.to_string());
            tracing::warn!("no traces can be sent to {}, and {spans} are lost: {why}", self.host);
        }
        Ok(())
    }

    fn shutdown_with_timeout(&self, bound: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(bound)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
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
        let fault = answer.as_ref().err().map(ToString::to_string);
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        answer.map_err(|e| io::Error::other(e).into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use evenkeel::clock;

    use super::*;

    #[derive(Clone, Default)]
    struct KeptLog(Arc<Mutex<Vec<u8>>>);

    impl Write for KeptLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_silent_collector_blocks_nothing_and_what_is_dropped_is_counted() {
        // Takes connections and never answers.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let endpoint = OtlpEndpoint::resolve(Some(url), |_| None).unwrap().unwrap();
        let traces = TraceExporter::start(&endpoint, &"a".parse().unwrap(), "sqlite:r").unwrap();
        let span = FinishedSpan {
            trace: evenkeel::TraceId([1; 16]),
            span: evenkeel::SpanId([1; 8]),
            parent: None,
            name: "fire",
            start: Wall(1_000),
            end: Wall(2_000),
            attributes: vec![("evenkeel.job", SpanValue::Text("j".to_owned()))],
            error: None,
        };
        let log = KeptLog::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || to.clone()).with_ansi(false).finish();
        let begun = clock::now().mono;
        tracing::subscriber::with_default(subscriber, || {
            // More than wait, with those that are under way.
            for _ in 0..2 * QUEUE {
                traces.put(span.clone());
            }
            traces.close_within(Duration::from_millis(100));
            traces.put(span);
        });
        assert!((clock::now().mono - begun).0 < i64::try_from(TIMEOUT.as_millis()).unwrap());
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(log.matches("dropped a Span due to queue full").count(), 1, "{log}");
        let count =
            log.split("dropped_span_count=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        assert!(count.is_some_and(|count: usize| (1..=QUEUE).contains(&count)), "{log}");
    }

    fn resolved(written: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let endpoint = OtlpEndpoint::resolve(Some(written.to_owned()), variable);
        endpoint.map(|found| found.map(|found| found.url)).map_err(|e| e.to_string())
    }

    #[test]
    fn an_endpoint_is_that_of_the_settings_or_of_opentelemetrys_variables() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://own:4318/here");
        let url = |url: &str| Ok(Some(url.to_owned()));
        assert_eq!(resolved("", &[]), Ok(None));
        assert_eq!(resolved("http://c:4318", &[all, own]), url("http://c:4318/v1/traces"));
        assert_eq!(resolved("https://c/below/", &[]), url("https://c/below/v1/traces"));
        assert_eq!(resolved("http://c:4318/v1/traces", &[]), url("http://c:4318/v1/traces"));
        assert_eq!(resolved(" ", &[all, own]), url("http://own:4318/here"));
        assert_eq!(resolved("", &[all]), url("http://all:4318/v1/traces"));
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        for (text, variables) in [
            ("grpc://token@c:4317", vec![]),
            ("collector:4318", vec![]),
            ("", vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "x")]),
        ] {
            let refused = resolved(text, &variables).expect_err(text);
            assert!(refused.contains("is no address: write http://HOST:4318"), "{refused}");
            assert!(!refused.contains("token"), "{refused}");
        }
        let named = OtlpEndpoint::resolve(Some("https://h/key-1".into()), |_| None).expect("an address");
        let shown = format!("{named:?}");
        assert!(shown.contains("h:443") && !shown.contains("key-1"), "{shown}");
    }
}
