//! Sends the log.

use std::time::Duration;

use evenkeel_core::ids::{NodeName, counted};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder, BatchLogProcessor, LogBatch, LogExporter, SdkLogger, SdkLoggerProvider,
};

use super::{LAST_BATCHES, LastFault, OtlpEndpoint, cannot_send, queue, resource, sending};
use crate::exit::CliError;

/// The SDK's variable for the size of its queue.
const QUEUE_VARIABLE: &str = "OTEL_BLRP_MAX_QUEUE_SIZE";
/// Parts of the program that sending uses. What they log is not sent: each failure would be one more line to send.
const SENDING: [&str; 4] = ["evenkeel::otlp", "opentelemetry", "rustls", "ureq"];

/// Gives events of the log to the SDK.
pub(crate) type LogBridge = OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger>;

/// Whether events of this part of the program are sent.
pub(crate) fn is_sent(target: &str) -> bool {
    !SENDING.iter().any(|part| target.starts_with(part))
}

/// Sends the log of a node.
#[derive(Debug)]
pub(crate) struct LogSender {
    provider: SdkLoggerProvider,
}

impl LogSender {
    /// Begins to send the log of this node, whose registry has this address, as soon as events go over the bridge.
    ///
    /// # Errors
    /// A variable of OpenTelemetry has a value that cannot be used.
    pub(crate) fn start(endpoint: &OtlpEndpoint, node: &NodeName, registry: &str) -> Result<Self, CliError> {
        let fault = LastFault::default();
        let inner = sending(opentelemetry_otlp::LogExporter::builder().with_http(), endpoint, &fault)
            .build()
            .map_err(|e| cannot_send("the log", &e))?;
        let mut batches = BatchConfigBuilder::default();
        if let Some(queue) = queue(QUEUE_VARIABLE) {
            batches = batches.with_max_queue_size(queue);
        }
        let exporter = BatchLogExporter { inner, host: endpoint.host.clone(), fault };
        let processor = BatchLogProcessor::builder(exporter).with_batch_config(batches.build()).build();
        let provider = SdkLoggerProvider::builder()
            .with_resource(resource(node, registry))
            .with_log_processor(processor)
            .build();
        tracing::info!("the log is sent to {}", endpoint.host);
        Ok(Self { provider })
    }

    /// A bridge for events of the log.
    pub(crate) fn bridge(&self) -> LogBridge {
        LogBridge::new(&self.provider)
    }

    /// Sends what waits, for a few seconds at most. What is logged later is not sent.
    pub(crate) fn close(&self) {
        // The SDK logs that it took too long.
        let _ = self.provider.shutdown_with_timeout(LAST_BATCHES);
    }
}

/// Sends batches, with one line of the log for each that is lost.
#[derive(Debug)]
struct BatchLogExporter {
    inner: opentelemetry_otlp::LogExporter,
    host: String,
    fault: LastFault,
}

impl LogExporter for BatchLogExporter {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let lines = counted(batch.iter().count(), "line");
        if let Err(error) = self.inner.export(batch).await {
            let why = self.fault.take_or(&error);
            tracing::warn!("no log can be sent to {}, and {lines} are lost there: {why}", self.host);
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
    use super::*;

    #[test]
    fn what_sending_itself_logs_is_not_sent() {
        for target in ["evenkeel::otlp::logs", "opentelemetry_sdk", "ureq::run", "rustls::client::hs"] {
            assert!(!is_sent(target), "{target}");
        }
        assert!(is_sent("evenkeel::serve") && is_sent("evenkeel::driver"));
    }
}
