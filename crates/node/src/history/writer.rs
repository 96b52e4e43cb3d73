//! The thread that writes: entries go to the database together, and nothing is forgotten before they are there.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_registry::witness::{Harm, Witness, move_away, move_log_away};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::link::{Fault, Link};
use super::notice::Notice;
use super::place::Place;
use super::write::{self, Entry, Stamp, Written};
use super::{Told, retention, store};
use crate::clock;

/// The most entries of one transaction.
const BATCH: usize = 10_000;
/// How long the first entry of a batch waits for company: most attempts end within it and become one row.
const LINGER: Duration = Duration::from_millis(20);
/// How long after a failure the same batch is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How often the file is looked at while nothing is to be written.
const LOOK: Duration = Duration::from_secs(1);
/// With so many entries waiting the database cannot keep up, and the node takes on no more work …
const MUCH: usize = 200_000;
/// … until so few are left.
const LITTLE: usize = 50_000;

/// The one writer of a node.
pub(super) struct Writer {
    place: Place,
    /// `None` after a failure: opened again for the next try.
    link: Option<Link>,
    /// The file that something has happened to.
    harmed: Option<Witness>,
    entries: mpsc::UnboundedReceiver<Entry>,
    told: mpsc::UnboundedSender<Told>,
    changed: Arc<Notify>,
    /// How many entries it is done with.
    written: watch::Sender<u64>,
    sweeper: retention::Sweeper,
    able: bool,
    /// Why it is not able.
    trouble: watch::Sender<Option<String>>,
    stamp: Stamp,
    /// What the present batch came to when its commit was not answered.
    unsure: Option<Written>,
}

impl Writer {
    /// Opens the database, makes what is missing there, and sees that it can be written to.
    pub(super) async fn open(
        place: Place,
        name: &str,
        sweeper: retention::Sweeper,
        entries: mpsc::UnboundedReceiver<Entry>,
        (told, changed, written, trouble): (
            mpsc::UnboundedSender<Told>,
            Arc<Notify>,
            watch::Sender<u64>,
            watch::Sender<Option<String>>,
        ),
    ) -> Result<Self, Fault> {
        let mut link = Link::open(&place).await?;
        let life = store::enter(&mut link, name, clock::now().wall).await?;
        let stamp = Stamp { name: name.into(), life, batch: 0 };
        Ok(Self {
            place,
            link: Some(link),
            harmed: None,
            entries,
            told,
            changed,
            written,
            sweeper,
            able: true,
            trouble,
            stamp,
            unsure: None,
        })
    }

    /// Writes until nobody can hand anything over any more.
    pub(super) async fn run(mut self) {
        while let Some(first) = self.first().await {
            let mut batch = vec![first];
            self.fill(&mut batch);
            if batch.len() < BATCH && !self.entries.is_closed() && !batch.iter().any(is_waited_for) {
                sleep(LINGER).await;
                self.fill(&mut batch);
            }
            let verdicts: Vec<Told> = batch.iter().filter_map(acknowledgement).collect();
            let entries = batch.len() as u64;
            let Some(notices) = self.persist(&write::coalesce(batch)).await else { return };
            let notices = notices.into_iter().map(|notice| Told::Notice(Box::new(notice)));
            for told in verdicts.into_iter().chain(notices) {
                let _ = self.told.send(told);
            }
            self.changed.notify_one();
            self.written.send_modify(|written| *written += entries);
            self.watch_backlog();
        }
    }

    /// The next entry. Until it comes the file is looked at, so that what happens to it is not found out with the next entry only.
    async fn first(&mut self) -> Option<Entry> {
        loop {
            match timeout(LOOK, self.entries.recv()).await {
                Ok(entry) => return entry,
                Err(_) => match self.reopen().await {
                    Ok(()) => self.tell_able(true, ""),
                    Err(fault) => self.tell_able(false, &fault.to_string()),
                },
            }
        }
    }

    fn fill(&mut self, batch: &mut Vec<Entry>) {
        while batch.len() < BATCH
            && let Ok(entry) = self.entries.try_recv()
        {
            batch.push(entry);
        }
    }

    /// Tries until the batch is written; `None` when it is given up, at the node's end.
    async fn persist(&mut self, batch: &[Entry]) -> Option<Vec<Notice>> {
        self.stamp.batch += 1;
        loop {
            let error = match self.write(batch).await {
                Ok(notices) => return Some(notices),
                Err(error) => error.to_string(),
            };
            self.tell_able(false, &error);
            if self.entries.is_closed() && self.entries.is_empty() {
                tracing::error!("{} entries of the history are lost: {error}", batch.len());
                return None;
            }
            sleep(RETRY).await;
        }
    }

    async fn write(&mut self, batch: &[Entry]) -> Result<Vec<Notice>, Fault> {
        let waited = self.link.is_some() && self.place.is_shared();
        match self.write_once(batch).await {
            // A server closes connections that were silent for long: nothing is wrong with a new one.
            Err(_) if waited => self.write_once(batch).await,
            done => done,
        }
    }

    async fn write_once(&mut self, batch: &[Entry]) -> Result<Vec<Notice>, Fault> {
        self.reopen().await?;
        // Whatever fails, this connection is not used again.
        let Some(mut link) = self.link.take() else { return Err(Fault("there is no connection".into())) };
        let now = clock::now();
        let written = write::write(&mut link, batch, &self.stamp, &mut self.unsure, now.wall).await?;
        // What is written is written: that nothing was swept must not write it again, and lose what is to be told.
        match self.sweeper.sweep(&mut link, written.jobs, now).await {
            Ok(()) => self.link = Some(link),
            Err(error) => tracing::warn!("the history was not swept: {error}"),
        }
        Ok(written.notices)
    }

    /// Sees to it that there is a connection, and to the file that the path leads to.
    async fn reopen(&mut self) -> Result<(), Fault> {
        if let Some(harm) = self.link.as_ref().and_then(Link::harm) {
            self.harmed = self.link.take().and_then(Link::abandon);
            let why = self.why(harm);
            let _ = self.told.send(Told::Harmed(why));
        }
        // What is written to a damaged file is lost. One that was put in its place is another, and not to be mixed with its log.
        if let Some(harmed) = &self.harmed
            && let Err(harm) = harmed.look()
            && (harm == Harm::Damaged || harmed.left_its_log())
        {
            return Err(Fault(self.why(harm)));
        }
        self.harmed = None;
        if self.link.is_none() {
            self.link = Some(Link::open(&self.place).await?);
        }
        Ok(())
    }

    fn why(&self, harm: Harm) -> String {
        let fix = match (harm, &self.place) {
            (Harm::Replaced, Place::File(path))
                if self.harmed.as_ref().is_some_and(Witness::left_its_log) =>
            {
                format!(
                    "the log beside it is of the file before, so it is not used: move that away with `{}`; the node goes on then, and \
                     needs no restart",
                    move_log_away(path)
                )
            }
            (Harm::Replaced, _) => {
                "the node goes on with what is there now, or with a new one; put back what was there"
                    .to_owned()
            }
            (Harm::Damaged, Place::File(path)) => {
                format!(
                    "move it away with `{}`; the nodes begin a new one, and need no restart",
                    move_away(path)
                )
            }
            (Harm::Damaged, Place::Server(_)) => "restore the database with its own tools".to_owned(),
        };
        format!("history {} {harm}: {fix}", self.place)
    }

    /// Says so when the database falls behind and when it has caught up.
    fn watch_backlog(&mut self) {
        let waiting = self.entries.len();
        if waiting > MUCH {
            self.tell_able(false, "the database cannot keep up: take work off it, or give it a faster disk");
        } else if waiting < LITTLE {
            self.tell_able(true, "");
        }
    }

    fn tell_able(&mut self, able: bool, why: &str) {
        let why = match &self.harmed {
            Some(_) => why.to_owned(),
            None => format!("the history {} takes no entries: {why}", self.place),
        };
        let trouble = Some(&why).filter(|_| !able);
        // Another reason has another remedy.
        if self.able == able && *self.trouble.borrow() == trouble.cloned() {
            return;
        }
        match able {
            true => tracing::info!("the history takes entries again"),
            false => tracing::error!("{why}; no fire is claimed meanwhile"),
        }
        self.trouble.send_replace(trouble.cloned());
        if std::mem::replace(&mut self.able, able) != able {
            let _ = self.told.send(Told::Able(able));
        }
    }
}

/// Whether somebody cannot go on before this is there.
fn is_waited_for(entry: &Entry) -> bool {
    matches!(entry, Entry::Audit(noted) if noted.ask.is_some())
}

fn acknowledgement(entry: &Entry) -> Option<Told> {
    match entry {
        Entry::Verdict(verdict, _) => {
            Some(Told::Recorded { run: verdict.run.clone(), attempt: verdict.attempt })
        }
        Entry::Audit(noted) => noted.ask.map(Told::Noted),
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
