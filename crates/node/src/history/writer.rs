//! The thread that writes history: entries go to the database together, and none is dropped before it is durable.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_registry::file_integrity::{FileDamage, FileIntegrity, move_away_command, move_log_command};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::connection::{DatabaseError, HistoryConnection};
use super::entry::{BatchId, HistoryWrite, coalesce};
use super::event::HistoryEvent;
use super::location::HistoryLocation;
use super::notice::Notice;
use super::write::{self, BatchResult};
use super::{retention, store};
use crate::clock;

/// The most entries of one transaction.
const BATCH: usize = 10_000;
/// How long the first entry of a batch waits for others: most attempts end within it and become one row.
const LINGER: Duration = Duration::from_millis(20);
/// How long after a failure the same batch is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How often the file is checked while nothing is to be written.
const LOOK: Duration = Duration::from_secs(1);
/// With this many waiting entries the database is too slow, and the node takes on no more work …
const MUCH: usize = 200_000;
/// … until only this many are left.
const LITTLE: usize = 50_000;

/// Where a writer reports its progress.
pub(super) struct HistoryListeners {
    pub(super) events: mpsc::UnboundedSender<HistoryEvent>,
    /// Notified after each batch.
    pub(super) changed: Arc<Notify>,
    /// How many entries are written or given up.
    pub(super) written: watch::Sender<u64>,
    /// Why it cannot write.
    pub(super) trouble: watch::Sender<Option<String>>,
}

/// The one writer of a node.
pub(super) struct HistoryWriter {
    location: HistoryLocation,
    /// `None` after a failure: reopened for the next try.
    connection: Option<HistoryConnection>,
    /// The file that was damaged.
    harmed: Option<FileIntegrity>,
    entries: mpsc::UnboundedReceiver<HistoryWrite>,
    listeners: HistoryListeners,
    sweeper: retention::RetentionSweeper,
    able: bool,
    stamp: BatchId,
    /// The result of the present batch when its commit was not answered.
    unsure: Option<BatchResult>,
}

impl HistoryWriter {
    /// Opens the database, creates missing tables, and checks that it can be written to.
    pub(super) async fn open(
        place: HistoryLocation,
        name: &str,
        sweeper: retention::RetentionSweeper,
        entries: mpsc::UnboundedReceiver<HistoryWrite>,
        listeners: HistoryListeners,
    ) -> Result<Self, DatabaseError> {
        let mut link = HistoryConnection::open(&place).await?;
        let life = store::enter(&mut link, name, clock::now().wall).await?;
        let stamp = BatchId { name: name.into(), life, batch: 0 };
        Ok(Self {
            location: place,
            connection: Some(link),
            harmed: None,
            entries,
            listeners,
            sweeper,
            able: true,
            stamp,
            unsure: None,
        })
    }

    /// Writes until the last handle is dropped.
    pub(super) async fn run(mut self) {
        while let Some(first) = self.first().await {
            let mut batch = vec![first];
            self.fill(&mut batch);
            if batch.len() < BATCH && !self.entries.is_closed() && !batch.iter().any(is_waited_for) {
                sleep(LINGER).await;
                self.fill(&mut batch);
            }
            let verdicts: Vec<HistoryEvent> = batch.iter().filter_map(acknowledgement).collect();
            let entries = batch.len() as u64;
            let Some(notices) = self.persist(&coalesce(batch)).await else { return };
            let notices = notices.into_iter().map(|notice| HistoryEvent::Notice(Box::new(notice)));
            for event in verdicts.into_iter().chain(notices) {
                // A driver that has stopped needs no events.
                let _ = self.listeners.events.send(event);
            }
            self.listeners.changed.notify_one();
            self.listeners.written.send_modify(|written| *written += entries);
            self.watch_backlog();
        }
    }

    /// Waits for the next entry. Checks the file meanwhile, so that damage is found before the next entry comes.
    async fn first(&mut self) -> Option<HistoryWrite> {
        loop {
            match timeout(LOOK, self.entries.recv()).await {
                Ok(entry) => return entry,
                Err(_) => match self.idle().await {
                    Ok(()) => self.report_writable(true, ""),
                    Err(fault) => self.report_writable(false, &fault.to_string()),
                },
            }
        }
    }

    /// Checks the file, and merges what batches left to be merged.
    async fn idle(&mut self) -> Result<(), DatabaseError> {
        self.reopen().await?;
        // After any error this connection is not used again.
        if let Some(mut link) = self.connection.take() {
            match self.sweeper.merge(&mut link).await {
                Ok(()) => self.connection = Some(link),
                // Entries can be written all the same.
                Err(error) => tracing::warn!("the roll-ups of the history were not merged: {error}"),
            }
        }
        Ok(())
    }

    fn fill(&mut self, batch: &mut Vec<HistoryWrite>) {
        while batch.len() < BATCH
            && let Ok(entry) = self.entries.try_recv()
        {
            batch.push(entry);
        }
    }

    /// Tries until the batch is written; `None` when it is given up, at the node's end.
    async fn persist(&mut self, batch: &[HistoryWrite]) -> Option<Vec<Notice>> {
        self.stamp.batch += 1;
        loop {
            let error = match self.write(batch).await {
                Ok(notices) => return Some(notices),
                Err(error) => error.to_string(),
            };
            self.report_writable(false, &error);
            if self.entries.is_closed() && self.entries.is_empty() {
                tracing::error!("{} entries of the history are lost: {error}", batch.len());
                return None;
            }
            sleep(RETRY).await;
        }
    }

    async fn write(&mut self, batch: &[HistoryWrite]) -> Result<Vec<Notice>, DatabaseError> {
        let waited = self.connection.is_some() && self.location.is_shared();
        match self.write_once(batch).await {
            // A server closes connections that were idle for long: a new one is tried then.
            Err(_) if waited => self.write_once(batch).await,
            done => done,
        }
    }

    async fn write_once(&mut self, batch: &[HistoryWrite]) -> Result<Vec<Notice>, DatabaseError> {
        self.reopen().await?;
        // After any error this connection is not used again.
        let Some(mut link) = self.connection.take() else {
            return Err(DatabaseError("there is no connection".into()));
        };
        let now = clock::now();
        let written = write::write(&mut link, batch, &self.stamp, &mut self.unsure, now.wall).await?;
        self.sweeper.note_versions(written.redeclared);
        self.sweeper.note_counted(written.is_counted);
        // The batch is written: a failed sweep must not write it again, and lose the notices.
        match self.sweeper.sweep(&mut link, written.jobs, now).await {
            Ok(()) => self.connection = Some(link),
            Err(error) => tracing::warn!("the history was not swept: {error}"),
        }
        Ok(written.notices)
    }

    /// Ensures a connection, and checks the file that the path leads to.
    async fn reopen(&mut self) -> Result<(), DatabaseError> {
        if let Some(harm) = self.connection.as_ref().and_then(HistoryConnection::harm) {
            self.harmed = self.connection.take().and_then(HistoryConnection::abandon);
            let why = self.why(harm);
            let _ = self.listeners.events.send(HistoryEvent::StorageFailed(why));
        }
        // Writes to a damaged file are lost. A file that replaced it must not be mixed with its log.
        if let Some(harmed) = &self.harmed
            && let Err(harm) = harmed.verify()
            && (harm == FileDamage::Damaged || harmed.has_stale_log())
        {
            return Err(DatabaseError(self.why(harm)));
        }
        self.harmed = None;
        if self.connection.is_none() {
            self.connection = Some(HistoryConnection::open(&self.location).await?);
        }
        Ok(())
    }

    fn why(&self, harm: FileDamage) -> String {
        let fix = match (harm, &self.location) {
            (FileDamage::Replaced, HistoryLocation::File(path))
                if self.harmed.as_ref().is_some_and(FileIntegrity::has_stale_log) =>
            {
                format!(
                    "the log beside it is of the file before, so it is not used: move that away with `{}`; the node goes on then, and \
                     needs no restart",
                    move_log_command(path)
                )
            }
            (FileDamage::Replaced, _) => {
                "the node goes on with what is there now, or with a new one; put back what was there"
                    .to_owned()
            }
            (FileDamage::Damaged, HistoryLocation::File(path)) => {
                format!(
                    "move it away with `{}`; the nodes begin a new one, and need no restart",
                    move_away_command(path)
                )
            }
            (FileDamage::Damaged, HistoryLocation::Server(_)) => {
                "restore the database with its own tools".to_owned()
            }
        };
        format!("history {} {harm}: {fix}", self.location)
    }

    /// Reports when the database falls behind and when it has caught up.
    fn watch_backlog(&mut self) {
        let waiting = self.entries.len();
        if waiting > MUCH {
            self.report_writable(
                false,
                "the database cannot keep up: take work off it, or give it a faster disk",
            );
        } else if waiting < LITTLE {
            self.report_writable(true, "");
        }
    }

    fn report_writable(&mut self, able: bool, why: &str) {
        let why = match &self.harmed {
            Some(_) => why.to_owned(),
            None => format!("the history {} takes no entries: {why}", self.location),
        };
        let trouble = Some(&why).filter(|_| !able);
        // Another reason has another fix.
        if self.able == able && *self.listeners.trouble.borrow() == trouble.cloned() {
            return;
        }
        match able {
            true => tracing::info!("the history takes entries again"),
            false => tracing::error!("{why}; no fire is claimed meanwhile"),
        }
        self.listeners.trouble.send_replace(trouble.cloned());
        if std::mem::replace(&mut self.able, able) != able {
            let _ = self.listeners.events.send(HistoryEvent::Writable(able));
        }
    }
}

/// Whether something waits until this entry is durable.
fn is_waited_for(entry: &HistoryWrite) -> bool {
    matches!(entry, HistoryWrite::Audit(noted) if noted.ask.is_some())
}

fn acknowledgement(entry: &HistoryWrite) -> Option<HistoryEvent> {
    match entry {
        HistoryWrite::Verdict(verdict, ..) => {
            Some(HistoryEvent::Recorded { run: verdict.run.clone(), attempt: verdict.attempt })
        }
        HistoryWrite::Audit(noted) => noted.ask.map(HistoryEvent::AuditWritten),
        HistoryWrite::Attempt(_)
        | HistoryWrite::Outcome(..)
        | HistoryWrite::NotStarted { .. }
        | HistoryWrite::StartedLate(_)
        | HistoryWrite::Load(_)
        | HistoryWrite::JobVersion(_)
        | HistoryWrite::Event { .. }
        | HistoryWrite::Notice(..)
        | HistoryWrite::NoticeSent(_)
        | HistoryWrite::ResendNotices(_) => None,
    }
}
