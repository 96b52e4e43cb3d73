//! History: the outcome of every attempt, in a database of its own, written in batches by a thread of its own.
//!
//! The registry holds the present, history the past (`docs/concepts/history.md`). The scheduler never waits for it:
//! entries queue up and go to the database together. Only a verdict waits, in its run state, until its batch is durable
//! (law 9).
//!
//! - [`location`] is a file, or tables on a server that all nodes share. [`connection`] talks to either, in its
//!   [`dialect`]; [`schema`] creates the file's tables, [`tables`] a server's. Other modules do not know which it is.
//! - [`writer`] collects batches and tries until they are written; [`write`](mod@write) writes one: [`store`] reads and
//! - [`summary`] has the roll-ups, which outlive the rows.
//!   writes rows, [`draft`] and [`notice`] work out their contents.
//! - [`audit`] is the log of requested changes, [`job_versions`] what was declared of each job. [`query`] answers queries,
//!   [`attention`] those about what may need a person; [`retention`] deletes old rows.

mod attention;
mod audit;
mod connection;
mod dialect;
mod draft;
mod entry;
mod event;
mod history_query;
mod job_records;
mod job_versions;
mod location;
mod namespace;
mod notice;
mod parameters;
mod progress;
mod query;
mod record;
mod retention;
mod rows;
mod schema;
mod settlement;
mod store;
mod summary;
mod tables;
mod write;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::clock;
use crate::metrics::NodeMetrics;
use crate::retention::Retention;
use crate::trace::TraceRecorder;

pub use attention::{FailingShard, MissedFires};
pub(crate) use audit::{AuditDisposition, AuditEntry};
pub(crate) use draft::shards_of;
pub(crate) use entry::{HistoryWrite, VerdictFires};
pub(crate) use event::HistoryEvent;
pub use job_records::JobRecords;
pub(crate) use job_versions::JobVersionEntry;
pub(crate) use location::HistoryLocation;
pub(crate) use notice::{Notice, NoticePolicy};
use progress::WriteProgress;
pub use query::HistoryError;
pub(crate) use query::HistoryReader;
pub use record::{AttemptState, EventFilter, EventRecord, LoadPoint, RunFilter, RunRecord};
pub(crate) use summary::LATE;
pub use summary::{FireClass, FireCounts, SummaryBy, SummaryFilter, SummaryOrder, SummaryPart, SummaryRow};
use writer::{HistoryListeners, HistoryWriter};

/// The handle of the node's one history writer.
pub(crate) struct History {
    queue: mpsc::UnboundedSender<HistoryWrite>,
    progress: WriteProgress,
    done: oneshot::Receiver<()>,
    /// Counts what is put.
    metrics: Arc<NodeMetrics>,
    /// Builds spans of what is put.
    traces: TraceRecorder,
    /// Whether the other nodes write into the same history.
    is_shared: bool,
}

/// A handle that does not keep history open, for tasks that may write entries after history has ended.
#[derive(Clone)]
pub(crate) struct WeakHistory {
    queue: mpsc::WeakUnboundedSender<HistoryWrite>,
    put: Arc<AtomicU64>,
    metrics: Arc<NodeMetrics>,
}

impl WeakHistory {
    /// Queues an entry, unless history has ended.
    pub(crate) fn put(&self, entry: HistoryWrite) {
        if let Some(queue) = self.queue.upgrade() {
            self.metrics.recorded(&entry);
            self.put.fetch_add(1, Ordering::Relaxed);
            let _ = queue.send(entry);
        }
    }

    /// The metrics of the node.
    pub(crate) fn metrics(&self) -> &NodeMetrics {
        &self.metrics
    }
}

impl History {
    /// Opens or creates the database, as this node, and starts the writer. `changed` is notified after each batch.
    ///
    /// # Errors
    /// It cannot be written to; the text says why.
    pub(crate) async fn open(
        place: HistoryLocation,
        name: &str,
        keep: Retention,
        told: mpsc::UnboundedSender<HistoryEvent>,
        changed: Arc<Notify>,
    ) -> Result<(Self, HistoryReader), String> {
        let (queue, entries) = mpsc::unbounded_channel();
        let (count, written) = watch::channel(0);
        let (opened, ready) = oneshot::channel();
        let (ended, done) = oneshot::channel();
        let (trouble, troubled) = watch::channel(None);
        let progress = WriteProgress { put: Arc::default(), written };
        let reader = HistoryReader::start(place.clone(), troubled, progress.clone(), keep)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let (name, sweeper) = (name.to_owned(), retention::RetentionSweeper::new(keep));
        let listeners = HistoryListeners { events: told, changed, written: count, trouble };
        let write = async move {
            match HistoryWriter::open(place, &name, sweeper, entries, listeners).await {
                Ok(writer) => {
                    // The caller may have given up; then its queue is closed, and the writer ends.
                    let _ = opened.send(Ok(()));
                    writer.run().await;
                }
                Err(error) => drop(opened.send(Err(error.to_string()))),
            }
        };
        thread::Builder::new()
            .name("evenkeel-history".into())
            .spawn(move || {
                runtime.block_on(write);
                drop(runtime);
                let _ = ended.send(());
            })
            .map_err(|e| e.to_string())?;
        ready.await.map_err(|_| "its thread ended unexpectedly: see the log".to_owned())??;
        Ok((
            Self {
                queue,
                progress,
                done,
                metrics: Arc::default(),
                traces: TraceRecorder::default(),
                is_shared: false,
            },
            reader,
        ))
    }

    /// Counts from now on in these metrics.
    pub(crate) fn counted_in(self, metrics: Arc<NodeMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Builds spans from now on with this recorder.
    pub(crate) fn traced_by(self, traces: TraceRecorder) -> Self {
        Self { traces, ..self }
    }

    /// Notes that the other nodes write into the same history.
    pub(crate) fn shared_if(self, is_shared: bool) -> Self {
        Self { is_shared, ..self }
    }

    /// Whether the other nodes write into the same history.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Queues an entry; it becomes durable a little later.
    pub(crate) fn put(&self, entry: HistoryWrite) {
        self.metrics.recorded(&entry);
        self.traces.recorded(&entry, || clock::now().wall);
        self.progress.put.fetch_add(1, Ordering::Relaxed);
        // The writer ends only after this sender is gone.
        let _ = self.queue.send(entry);
    }

    /// A handle that does not keep history open.
    pub(crate) fn weak(&self) -> WeakHistory {
        WeakHistory {
            queue: self.queue.downgrade(),
            put: self.progress.put.clone(),
            metrics: self.metrics.clone(),
        }
    }

    /// Waits until everything queued so far is durable, at most this long. Returns whether it is.
    pub(crate) async fn settle(&self, bound: Duration) -> bool {
        self.progress.settle(bound).await
    }

    /// Lets the receiver of spans send what it has, for this long at most.
    pub(crate) async fn flush_traces(&self, bound: Duration) {
        self.traces.flush(bound).await;
    }

    /// Waits until everything queued is durable, at most this long.
    pub(crate) async fn close(self, bound: Duration) {
        drop(self.queue);
        if tokio::time::timeout(bound, self.done).await.is_err() {
            tracing::error!("the history did not take its last entries within {bound:?}");
        }
    }
}

#[cfg(test)]
mod tests;
