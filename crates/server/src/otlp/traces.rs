//! Sends traces of runs.

use std::time::{Duration, SystemTime};

use evenkeel::{FinishedSpan, SpanValue, TraceSink};
use evenkeel_core::ids::{NodeName, counted};
use evenkeel_core::time::Wall;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanExporter, SpanLinks, SpanProcessor,
};

use super::{LAST_BATCHES, LastFault, OtlpEndpoint, VERSION, cannot_send, queue, resource, sending};
use crate::exit::CliError;

/// The SDK's variable for the size of its queue.
const QUEUE_VARIABLE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";

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
        let fault = LastFault::default();
        let inner = sending(opentelemetry_otlp::SpanExporter::builder().with_http(), endpoint, &fault)
            .build()
            .map_err(|e| cannot_send("traces", &e))?;
        let mut batches = BatchConfigBuilder::default();
        if let Some(queue) = queue(QUEUE_VARIABLE) {
            batches = batches.with_max_queue_size(queue);
        }
        let exporter = BatchExporter { inner, host: endpoint.host.clone(), fault };
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches.build()).build();
        processor.set_resource(&resource(node, registry));
        let scope = InstrumentationScope::builder("evenkeel").with_version(VERSION).build();
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
            let why = self.fault.take_or(&error);
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

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use evenkeel::clock;

    use super::super::{QUEUE, TIMEOUT};
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
        let endpoint = OtlpEndpoint::new("it", url).unwrap();
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
}
