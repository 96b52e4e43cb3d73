//! History: what became of every attempt, in a database of its own, written in batches by a thread of its own.
//!
//! The registry holds what is, history what was (`docs/concepts/history.md`). The scheduler never waits for it: entries
//! queue up and go to the database together. Only a verdict waits, in its lane, until its batch is there for good (law 9).
//!
//! - [`place`] is where: a file, or tables on a server that all nodes share. [`link`] speaks to whichever it is, in the words
//!   of its [`dialect`]; [`schema`] makes the file's tables, [`tables`] a server's. Nothing else knows which it is.
//! - [`writer`] gathers batches and tries until they are written; [`write`](mod@write) writes one: [`store`] reads and writes
//!   rows, [`draft`] and [`notice`] work out what they come to.
//! - [`audit`] is the log of who asked for which change. [`query`] is what is asked; [`retention`] forgets.

mod audit;
mod connection;
mod dialect;
mod draft;
mod location;
mod notice;
mod query;
mod record;
mod retention;
mod schema;
mod store;
mod tables;
mod write;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel_core::ids::RunId;
use evenkeel_core::input::CommandId;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::config::Retention;

pub(crate) use audit::{AuditDisposition, AuditEntry};
pub(crate) use location::HistoryLocation;
pub(crate) use notice::{Notice, NoticePolicy};
pub use query::HistoryError;
pub(crate) use query::HistoryReader;
pub use record::{AttemptState, EventFilter, EventRecord, LoadPoint, RunFilter, RunRecord};
pub(crate) use write::HistoryWrite;
use writer::HistoryWriter;

/// What history tells the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HistoryEvent {
    /// This verdict is there for good.
    Recorded { run: RunId, attempt: u32 },
    /// This entry of the audit log is there for good, so what it tells of may be tried.
    AuditWritten(CommandId),
    /// Whether the database takes entries.
    Writable(bool),
    /// A file was deleted, replaced or damaged while in use, or a folder takes no writes: which one, and what to do.
    StorageFailed(String),
    /// This is there for good and to be told.
    Notice(Box<Notice>),
}

/// The one writer.
pub(crate) struct History {
    queue: mpsc::UnboundedSender<HistoryWrite>,
    progress: WriteProgress,
    done: oneshot::Receiver<()>,
}

/// How far the writer is.
#[derive(Clone)]
struct WriteProgress {
    /// How many entries were handed over.
    put: Arc<AtomicU64>,
    /// How many of them the writer is done with.
    written: watch::Receiver<u64>,
}

impl WriteProgress {
    /// Waits until everything handed over so far is there for good, at most this long. Returns whether it is.
    async fn settle(&self, bound: Duration) -> bool {
        let (put, mut written) = (self.put.load(Ordering::Relaxed), self.written.clone());
        let settled = written.wait_for(|written| *written >= put);
        tokio::time::timeout(bound, settled).await.is_ok_and(|settled| settled.is_ok())
    }
}

/// A door for those who may still have something to say when history has ended.
#[derive(Clone)]
pub(crate) struct WeakHistory(mpsc::WeakUnboundedSender<HistoryWrite>, Arc<AtomicU64>);

impl WeakHistory {
    /// Hands over an entry, unless history has ended.
    pub(crate) fn put(&self, entry: HistoryWrite) {
        if let Some(queue) = self.0.upgrade() {
            self.1.fetch_add(1, Ordering::Relaxed);
            let _ = queue.send(entry);
        }
    }
}

impl History {
    /// Opens or creates the database, as this node, and starts the writer. `changed` is rung after each batch.
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
        let reader = HistoryReader::start(place.clone(), troubled, progress.clone())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let (name, sweeper) = (name.to_owned(), retention::RetentionSweeper::new(keep));
        let write = async move {
            match HistoryWriter::open(place, &name, sweeper, entries, (told, changed, count, trouble)).await {
                Ok(writer) => {
                    // Whoever opened it may have given up; then its queue is closed, and the writer ends.
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
        Ok((Self { queue, progress, done }, reader))
    }

    /// Hands over an entry; it is there for good a little later.
    pub(crate) fn put(&self, entry: HistoryWrite) {
        self.progress.put.fetch_add(1, Ordering::Relaxed);
        // The writer ends only after this sender is gone.
        let _ = self.queue.send(entry);
    }

    /// The same for those that must not keep it from ending.
    pub(crate) fn weak(&self) -> WeakHistory {
        WeakHistory(self.queue.downgrade(), self.progress.put.clone())
    }

    /// Waits until everything handed over so far is there for good, at most this long. Returns whether it is.
    pub(crate) async fn settle(&self, bound: Duration) -> bool {
        self.progress.settle(bound).await
    }

    /// Waits until everything handed over is there for good, at most this long.
    pub(crate) async fn close(self, bound: Duration) {
        drop(self.queue);
        if tokio::time::timeout(bound, self.done).await.is_err() {
            tracing::error!("the history did not take its last entries within {bound:?}");
        }
    }
}

#[cfg(test)]
mod tests;
