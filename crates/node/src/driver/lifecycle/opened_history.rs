//! Opens the node's history, and what is derived of the cluster for runs and their traces.

use std::sync::Arc;

use evenkeel_core::ids::NodeName;
use tokio::sync::{Notify, mpsc};

use crate::config::Config;
use crate::driver::data_folder::DataFolder;
use crate::error::OpenError;
use crate::history::{History, HistoryEvent, HistoryLocation, HistoryReader};
use crate::metrics::NodeMetrics;
use crate::trace::TraceRecorder;
use crate::trace::ids::{RunEnvironment, TraceIds};

/// A history that is open.
pub(super) struct OpenedHistory {
    /// Takes what is to be remembered.
    pub(super) writer: History,
    /// Answers queries.
    pub(super) reader: HistoryReader,
    /// Whether other nodes write there, too.
    pub(super) is_shared: bool,
}

/// Opens the node's history, with what counts and traces the entries.
///
/// # Errors
/// Its address cannot be read, or nothing can be written there.
pub(super) async fn open_history(
    (config, folder): (&Config, &DataFolder),
    told_by: mpsc::UnboundedSender<HistoryEvent>,
    (changed, metrics): (&Arc<Notify>, &Arc<NodeMetrics>),
    environment: &RunEnvironment,
) -> Result<OpenedHistory, OpenError> {
    let (place, is_shared) = history_location(config, folder)?;
    let url = place.to_string();
    let opened = History::open(place, config.name.as_str(), config.retention, told_by, changed.clone()).await;
    let (history, reader) = opened.map_err(|error| OpenError::History { url, error })?;
    let traces = TraceRecorder::new(environment.ids().clone(), config.traces.clone());
    let writer = history.counted_in(metrics.clone()).traced_by(traces).shared_if(is_shared);
    Ok(OpenedHistory { writer, reader, is_shared })
}

/// The location of history, and whether other nodes write there too.
fn history_location(config: &Config, folder: &DataFolder) -> Result<(HistoryLocation, bool), OpenError> {
    let place = HistoryLocation::of(config.history.as_deref(), &config.registry, folder.path())
        .map_err(OpenError::Setting)?;
    let shared = place.is_shared() || shares_host(config);
    Ok((place, shared))
}

/// Whether the cluster's nodes share a host and the settings name no history.
fn shares_host(config: &Config) -> bool {
    config.history.is_none() && config.registry.starts_with("sqlite:")
}

/// What runs are given. Nodes of a cluster derive the same ids of traces; a registry in memory has no cluster's id.
pub(super) fn run_environment(name: &NodeName, folder: &DataFolder) -> RunEnvironment {
    RunEnvironment::new(name.clone(), TraceIds::new(&folder.cluster().unwrap_or_default()))
}
