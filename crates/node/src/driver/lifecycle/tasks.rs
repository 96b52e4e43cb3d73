//! The tasks that run beside the driver: load samples, clean-up of output, and the feed of changes.

use std::sync::Arc;
use tokio::sync::{Notify, mpsc, watch};

use super::{CHANGES, DriverEvent, MEASURE_EVERY, MEASURE_FIRST, TIDY};

use crate::clock;
use crate::host::HostSampler;
use crate::logs::Logs;
use crate::retention::Retention;

/// Measures the host as long as the node exists.
async fn measure(sampled: mpsc::Sender<DriverEvent>) {
    let (mut host, mut wait) = (HostSampler::default(), MEASURE_FIRST);
    loop {
        // Reading a few lines of `/proc` takes too little time to need another thread.
        if sampled.send(DriverEvent::Sampled(host.measure())).await.is_err() {
            return;
        }
        tokio::time::sleep(std::mem::replace(&mut wait, MEASURE_EVERY)).await;
    }
}

/// Starts the tasks beside the driver as long as the node exists.
pub(super) fn run_background(
    sampled: &mpsc::Sender<DriverEvent>,
    watched: impl Future<Output = ()> + Send + 'static,
    tidied: impl Future<Output = ()> + Send + 'static,
) {
    let measured = measure(sampled.clone());
    tokio::spawn(async { tokio::join!(measured, watched, tidied) });
}

/// Keeps the output folder within its bounds.
pub(super) async fn tidy(logs: Logs, keep: Retention) {
    loop {
        let logs = logs.clone();
        let swept = tokio::task::spawn_blocking(move || logs.sweep(clock::now().wall, &keep)).await;
        if let Ok(Err(e)) = swept {
            tracing::warn!("old output could not be removed: {e}");
        }
        tokio::time::sleep(TIDY).await;
    }
}

/// Passes changes on, many as one.
pub(super) fn watch_changes(changed: Arc<Notify>) -> watch::Receiver<u64> {
    let (tell, changes) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            changed.notified().await;
            tell.send_modify(|n: &mut u64| *n += 1);
            tokio::time::sleep(CHANGES).await;
        }
    });
    changes
}
