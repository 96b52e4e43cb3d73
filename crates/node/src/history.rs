//! History: what became of every attempt, in a SQLite file of its own, written in batches by a thread of its own.
//!
//! The registry holds what is, history what was (`docs/concepts/history.md`). The scheduler never waits for it: entries
//! queue up and go to the disk together. Only a verdict waits, in its lane, until its batch is on the disk (law 9).

mod notice;
mod query;
mod record;
mod retention;
mod schema;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evenkeel_core::words::RunId;
use rusqlite::Connection;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock;
use crate::config::Keep;

pub(crate) use notice::{Notice, Wish};
pub use query::HistoryError;
pub(crate) use query::HistoryReader;
pub use record::{EventFilter, EventRecord, LoadPoint, RunFilter, RunRecord, State};
pub(crate) use write::Entry;
use write::Written;

/// The most entries of one transaction.
const BATCH: usize = 10_000;
/// How long the first entry of a batch waits for company: most attempts end within it and become one row.
const LINGER: Duration = Duration::from_millis(20);
/// How long after a failure the same batch is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// With so many entries waiting the disk cannot keep up, and the node takes on no more work …
const MUCH: usize = 200_000;
/// … until so few are left.
const LITTLE: usize = 50_000;

/// What history tells the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// This verdict is on the disk.
    Recorded { run: RunId, attempt: u32 },
    /// Whether the disk takes entries.
    Able(bool),
    /// This is on the disk and to be told.
    Notice(Box<Notice>),
}

/// The one writer.
pub(crate) struct History {
    queue: mpsc::UnboundedSender<Entry>,
    done: oneshot::Receiver<()>,
}

/// A door for those who may still have something to say when history has ended.
#[derive(Clone)]
pub(crate) struct WeakHistory(mpsc::WeakUnboundedSender<Entry>);

impl WeakHistory {
    /// Hands over an entry, unless history has ended.
    pub(crate) fn put(&self, entry: Entry) {
        if let Some(queue) = self.0.upgrade() {
            let _ = queue.send(entry);
        }
    }
}

impl History {
    /// Opens or creates the file and starts the writer. `changed` is rung after each batch.
    pub(crate) fn open(
        path: &Path,
        keep: Keep,
        told: mpsc::UnboundedSender<Told>,
        changed: Arc<Notify>,
    ) -> Result<(Self, HistoryReader), String> {
        let db = schema::open(path)?;
        let reader = HistoryReader::open(path).map_err(|e| e.to_string())?;
        let (queue, entries) = mpsc::unbounded_channel();
        let (ended, done) = oneshot::channel();
        let sweeper = retention::Sweeper::new(keep);
        let mut writer =
            Writer { path: path.to_path_buf(), db: Some(db), entries, told, changed, sweeper, able: true };
        thread::Builder::new()
            .name("evenkeel-history".into())
            .spawn(move || {
                writer.run();
                drop(writer);
                let _ = ended.send(());
            })
            .map_err(|e| e.to_string())?;
        Ok((Self { queue, done }, reader))
    }

    /// Hands over an entry; it is on the disk a little later.
    pub(crate) fn put(&self, entry: Entry) {
        // The writer ends only after this sender is gone.
        let _ = self.queue.send(entry);
    }

    /// The same for those that must not keep it from ending.
    pub(crate) fn weak(&self) -> WeakHistory {
        WeakHistory(self.queue.downgrade())
    }

    /// Waits until everything handed over is on the disk, at most this long.
    pub(crate) async fn close(self, bound: Duration) {
        drop(self.queue);
        if tokio::time::timeout(bound, self.done).await.is_err() {
            tracing::error!("the history did not take its last entries within {bound:?}");
        }
    }
}

struct Writer {
    path: PathBuf,
    /// `None` after a failure: opened again for the next try.
    db: Option<Connection>,
    entries: mpsc::UnboundedReceiver<Entry>,
    told: mpsc::UnboundedSender<Told>,
    changed: Arc<Notify>,
    sweeper: retention::Sweeper,
    able: bool,
}

impl Writer {
    fn run(&mut self) {
        while let Some(first) = self.entries.blocking_recv() {
            let mut batch = vec![first];
            self.fill(&mut batch);
            if batch.len() < BATCH && !self.entries.is_closed() {
                thread::sleep(LINGER);
                self.fill(&mut batch);
            }
            let verdicts: Vec<Told> = batch.iter().filter_map(acknowledgement).collect();
            let batch = write::coalesce(batch);
            let notices = loop {
                let error = match self.write(&batch) {
                    Ok(notices) => break notices,
                    Err(error) => error,
                };
                self.tell_able(false, &error);
                if self.entries.is_closed() && self.entries.is_empty() {
                    tracing::error!("{} entries of the history are lost: {error}", batch.len());
                    return;
                }
                thread::sleep(RETRY);
            };
            let notices = notices.into_iter().map(|notice| Told::Notice(Box::new(notice)));
            for told in verdicts.into_iter().chain(notices) {
                let _ = self.told.send(told);
            }
            self.changed.notify_one();
            self.watch_backlog();
        }
    }

    fn fill(&mut self, batch: &mut Vec<Entry>) {
        while batch.len() < BATCH
            && let Ok(entry) = self.entries.try_recv()
        {
            batch.push(entry);
        }
    }

    fn write(&mut self, batch: &[Entry]) -> Result<Vec<Notice>, String> {
        let db = match &mut self.db {
            Some(db) => db,
            None => self.db.insert(schema::open(&self.path)?),
        };
        let now = clock::now();
        let Written { jobs, notices } = match write::write(db, batch, now.wall) {
            Ok(written) => written,
            Err(error) => {
                self.db = None;
                return Err(error.to_string());
            }
        };
        // What is written is written: that nothing was swept must not write it again, and lose what is to be told.
        if let Err(error) = self.sweeper.sweep(db, jobs, now) {
            tracing::warn!("the history was not swept: {error}");
            self.db = None;
        }
        Ok(notices)
    }

    /// Says so when the disk falls behind and when it has caught up.
    fn watch_backlog(&mut self) {
        let waiting = self.entries.len();
        if waiting > MUCH {
            self.tell_able(false, "the disk cannot keep up");
        } else if waiting < LITTLE {
            self.tell_able(true, "");
        }
    }

    fn tell_able(&mut self, able: bool, why: &str) {
        if self.able == able {
            return;
        }
        self.able = able;
        match able {
            true => tracing::info!("the history takes entries again"),
            false => tracing::error!(
                "the history {} takes no entries ({why}): free the disk; no fire is claimed meanwhile",
                self.path.display()
            ),
        }
        let _ = self.told.send(Told::Able(able));
    }
}

fn acknowledgement(entry: &Entry) -> Option<Told> {
    match entry {
        Entry::Verdict(verdict, _) => {
            Some(Told::Recorded { run: verdict.run.clone(), attempt: verdict.attempt })
        }
        Entry::Attempt(_)
        | Entry::Outcome(..)
        | Entry::NotStarted { .. }
        | Entry::Load(_)
        | Entry::Event { .. }
        | Entry::Notice(..)
        | Entry::Noticed(_)
        | Entry::Untold(_) => None,
    }
}

/// Where history is kept when nobody says: beside the registry's file, shared by the nodes of the host, or else in the
/// data folder.
///
/// # Errors
/// The URL is none that history knows.
pub(crate) fn path(url: Option<&str>, registry: &str, data: &Path) -> Result<PathBuf, String> {
    match (url, registry.strip_prefix("sqlite:")) {
        (Some(url), _) => match url.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
            _ => Err(format!("history {url:?} is not known: use sqlite:PATH")),
        },
        (None, Some(registry)) => Ok(PathBuf::from(format!("{registry}-history"))),
        (None, None) => Ok(data.join("history")),
    }
}

#[cfg(test)]
mod tests;
