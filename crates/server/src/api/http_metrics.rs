//! What the HTTP interface measures, and the answer to a monitoring system that asks for all metrics.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evenkeel::MetricsFormat;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::App;
use super::headers::text;

/// Where the metrics are.
pub(super) const METRICS: &str = "/metrics";

/// The upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 7] = [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The label of a request at an address that does not exist.
const NOWHERE: &str = "none";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

/// What the HTTP interface measures.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    duration: Family<RouteLabels, Histogram, fn() -> Histogram>,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let (requests, duration) = (Family::default(), Family::new_with_constructor(histogram));
        let mut registry = Registry::with_prefix("evenkeel_http");
        registry.register("requests", "HTTP requests, by method, route and status", requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time until the head of a response was ready, by route",
            Unit::Seconds,
            duration.clone(),
        );
        Self { registry, requests, duration }
    }
}

impl HttpMetrics {
    /// Counts a request that was answered. A route is a path with the names of its parameters, so there are few.
    pub(super) fn answered(
        &self,
        method: &Method,
        route: Option<String>,
        status: StatusCode,
        took: Duration,
    ) {
        let route = route.unwrap_or_else(|| NOWHERE.to_owned());
        let labels =
            RequestLabels { method: method_label(method), route: route.clone(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.duration.get_or_create(&RouteLabels { route }).observe(took.as_secs_f64());
    }
}

/// A caller may invent methods, which must not become labels.
fn method_label(method: &Method) -> &'static str {
    const KNOWN: [Method; 6] =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS];
    const WORDS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"];
    KNOWN.iter().position(|known| known == method).map_or("other", |at| WORDS[at])
}

/// All metrics of this node, in the format that the caller accepts.
pub(super) async fn metrics(State(app): State<App>, headers: HeaderMap) -> Response {
    let accepts = text(&headers, &header::ACCEPT).unwrap_or_default();
    let format = match accepts.contains("application/openmetrics-text") {
        true => MetricsFormat::OpenMetrics,
        false => MetricsFormat::Prometheus,
    };
    let mut out = String::new();
    app.handle.write_metrics(format, &mut out);
    format.write(&app.http_metrics.registry, &mut out);
    if format == MetricsFormat::OpenMetrics {
        out.push_str("# EOF\n");
    }
    ([(header::CONTENT_TYPE, format.content_type())], out).into_response()
}
