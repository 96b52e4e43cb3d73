//! The lease's requests, each in a task of its own, so that renewals never wait.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::input::{Input, LeaseEvent};
use evenkeel_core::lease::usable;
use evenkeel_core::node::Node;
use evenkeel_core::record::RegistryBookmark;
use evenkeel_core::registry::LeaseId;
use evenkeel_core::time::{Millis, Now};
use evenkeel_registry::{Registry, RegistryError};
use tokio::task::{AbortHandle, JoinSet};

use super::commits::CommitProgress;
use super::data_folder::DataFolder;
use super::inbox::{DriverEvent, EventSender};
use crate::clock;
use crate::executor::TrustDeadline;
use crate::history::HistoryEvent;

/// Opens, renews and closes the node's lease.
pub(super) struct Leases {
    folder: Arc<DataFolder>,
    /// How long to wait for an answer.
    patience: Duration,
    /// The request to open that is in flight. A node that was frozen opens again; then the first lease would have no
    /// owner, so its answer is not awaited and it ends by itself.
    opening: Option<AbortHandle>,
    /// How far this node's latest writes have moved the registry.
    progress: CommitProgress,
    /// Closings and writes to the data folder that are in flight; the end waits for them.
    closing: JoinSet<()>,
}

impl Leases {
    pub(super) fn new(folder: Arc<DataFolder>, ttl: Duration) -> Self {
        Self {
            folder,
            patience: ttl / 3,
            opening: None,
            progress: CommitProgress::default(),
            closing: JoinSet::new(),
        }
    }

    /// Remembers the registry's position by the latest writes of this node.
    pub(super) fn note_progress(&mut self, made: CommitProgress) {
        self.progress.add(made);
    }

    pub(super) fn progress(&self) -> &CommitProgress {
        &self.progress
    }

    /// Until when the guard may let runs live. The rest of the term after the trust deadline is halved: one half for
    /// runs to end by themselves, one for the kernel to remove killed ones (law 4).
    pub(super) fn trust(node: &Node, now: Now) -> Option<TrustDeadline> {
        let until = node.trusted_until(now.mono)?;
        let local = node.local();
        let (ttl, early) = (local.lease().ttl(), local.settings().early);
        let rest = ttl - early - usable(ttl, early);
        Some(TrustDeadline { until, kill: until + Millis((rest.0 / 2).max(0)) })
    }

    /// The deadline for a trust that the node lost early, as when its entry was deleted. Its successors need not wait,
    /// so runs end now, with as much time to end as they would have had at the deadline.
    pub(super) fn withdrawn(trust: TrustDeadline, now: Now) -> TrustDeadline {
        let grace = trust.kill - trust.until;
        TrustDeadline { until: now.mono, kill: trust.kill.min(now.mono + grace) }
    }

    /// Opens a lease. Its id is in the data folder before any node can see a member with that lease (law 8).
    pub(super) fn open(&mut self, ttl: Millis, registry: &Arc<dyn Registry>, sender: &EventSender) {
        let asked = clock::now().mono;
        let (registry, sender, folder) = (registry.clone(), sender.clone(), self.folder.clone());
        let patience = self.patience;
        let opening = tokio::spawn(async move {
            let event = match tokio::time::timeout(patience, registry.open(ttl)).await {
                Ok(Ok(granted)) => match folder.note_incarnation(granted.lease).await {
                    Ok(()) => LeaseEvent::Opened { asked, granted },
                    Err(e) => {
                        tracing::error!(
                            "the data folder takes no writes ({e}): free the disk; joining waits"
                        );
                        let _ = registry.close(granted.lease).await;
                        LeaseEvent::Failed
                    }
                },
                Ok(Err(e)) => return sender.failed("open a lease", e).await,
                Err(_) => LeaseEvent::Failed,
            };
            sender.send_lease_event(event).await;
        });
        if let Some(before) = self.opening.replace(opening.abort_handle()) {
            before.abort();
        }
    }

    /// Records the registry's position in the data folder.
    pub(super) fn note(&mut self, seen: RegistryBookmark) {
        let folder = self.folder.clone();
        self.closing.spawn_blocking(move || folder.note_seen(seen));
        while self.closing.try_join_next().is_some() {}
    }

    pub(super) fn renew(&self, lease: LeaseId, registry: &Arc<dyn Registry>, sender: &EventSender) {
        let asked = clock::now().mono;
        let (registry, sender, patience) = (registry.clone(), sender.clone(), self.patience);
        let folder = self.folder.clone();
        tokio::spawn(async move {
            // A node whose folder is gone cannot know in its next life what ran in this one.
            if let Err(why) = folder.verify().await {
                let _ = sender.lease.send(DriverEvent::Failed(why)).await;
                return;
            }
            if let Some(why) = folder.trouble() {
                let _ = sender.lease.send(DriverEvent::History(HistoryEvent::StorageFailed(why))).await;
            }
            let event = match tokio::time::timeout(patience, registry.renew(lease)).await {
                Ok(Ok(Some(granted))) => LeaseEvent::Renewed { asked, granted },
                Ok(Ok(None)) => LeaseEvent::Gone(lease),
                Ok(Err(e)) => return sender.failed("renew the lease", e).await,
                Err(_) => {
                    tracing::warn!("the registry did not renew the lease within {patience:?}");
                    LeaseEvent::Failed
                }
            };
            sender.send_lease_event(event).await;
        });
    }

    pub(super) fn close(&mut self, lease: LeaseId, registry: &Arc<dyn Registry>) {
        let (registry, patience) = (registry.clone(), self.patience);
        self.closing.spawn(async move {
            if !matches!(tokio::time::timeout(patience, registry.close(lease)).await, Ok(Ok(()))) {
                tracing::warn!("lease {lease} could not be closed and will end by itself");
            }
        });
        while self.closing.try_join_next().is_some() {}
    }

    /// Waits until closings have an answer or time out, and the data folder is written.
    pub(super) async fn finish(&mut self) {
        while self.closing.join_next().await.is_some() {}
    }
}

impl EventSender {
    async fn send_lease_event(&self, event: LeaseEvent) {
        self.metrics.lease_replied(&event);
        // A driver that has stopped needs no events.
        let _ = self.lease.send(DriverEvent::Inputs(vec![Input::Lease(event)])).await;
    }

    async fn failed(&self, what: &str, error: RegistryError) {
        tracing::warn!("the registry did not {what}: {error}");
        match error {
            RegistryError::Unavailable(_) | RegistryError::Refused(_) => {
                self.send_lease_event(LeaseEvent::Failed).await
            }
            RegistryError::Fatal(why) => {
                let _ = self.lease.send(DriverEvent::Failed(why)).await;
            }
        }
    }
}
