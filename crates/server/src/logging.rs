//! The log of a node on standard error: its format, its filter, and its panics.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing::Level;
use tracing_subscriber::filter::{Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::exit::{CliError, ExitKind};
use crate::log_dedup::RepeatFilter;
use crate::otlp::logs::{LogBridge, is_sent};

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object on each line: `timestamp`, `level`, `message`, `target` and the event's own fields.
    Json,
}

/// The format of this process's log, once it has one.
static STARTED: OnceLock<LogFormat> = OnceLock::new();

/// Where a bridge to a collector is put, once the log has begun.
static BRIDGE: OnceLock<reload::Handle<Option<LogBridge>, Registry>> = OnceLock::new();

/// Gives what is logged from now on to a collector, too.
pub(crate) fn send_over(bridge: LogBridge) {
    let sent = BRIDGE.get().map(|place| place.reload(Some(bridge)));
    if let Some(Err(error)) = sent {
        tracing::warn!("the log cannot be sent: {error}");
    }
}

/// Whether this process's log has begun, and is JSON.
pub(crate) fn is_json() -> bool {
    STARTED.get() == Some(&LogFormat::Json)
}

/// Writes the log to standard error, filtered by `EVENKEEL_LOG`: a level, or levels of single modules such as
/// `info,evenkeel=debug`. Without it, `level` holds for all. Repeated faults are folded.
///
/// # Errors
/// The filter cannot be read.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<RepeatFilter, CliError> {
    let filter: Targets = match std::env::var("EVENKEEL_LOG").ok().filter(|text| !text.is_empty()) {
        Some(text) => text.parse().map_err(|e| CliError::usage(format!("EVENKEEL_LOG: {e}")))?,
        None => level.parse().map_err(|e| CliError::new(ExitKind::Failed, format!("log level: {e}")))?,
    };
    let repeats = RepeatFilter::new();
    let (bridge, place) = reload::Layer::new(None::<LogBridge>);
    let bridge = bridge.with_filter(filter_fn(|event| is_sent(event.target()))).boxed();
    let _ = BRIDGE.set(place);
    tracing_subscriber::registry()
        .with(vec![lines(format), bridge])
        .with(filter)
        .with(filter_fn(|event| is_ours_or_short(event.target(), *event.level())))
        .with(repeats.clone())
        .init();
    let _ = STARTED.set(format);
    if format == LogFormat::Json {
        evenkeel::guard::report_as_json();
        // A panic is a line like any other: what reads the log reads JSON only.
        std::panic::set_hook(Box::new(|panic| {
            let thread = std::thread::current();
            tracing::error!(thread = thread.name().unwrap_or_default(), "{panic}");
        }));
    }
    Ok(repeats)
}

/// Writes events as lines of this format.
fn lines(format: LogFormat) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).boxed(),
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
    }
}

/// Whether a log line may be written at all. Libraries log addresses, headers and queries in full at verbose levels,
/// and a token may be in them: libraries log only up to `info`, whatever the settings.
fn is_ours_or_short(target: &str, level: Level) -> bool {
    target.starts_with("evenkeel") || level <= Level::INFO
}
