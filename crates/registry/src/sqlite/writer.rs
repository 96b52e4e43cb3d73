//! The one thread of a process that writes: whatever waits goes into one transaction, and is answered after `COMMIT`.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::registry::{Granted, LeaseId, Outcome, Revision, Txn};
use evenkeel_core::time::Millis;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot, watch};

use super::book::Book;
use super::fault::{self, During};
use super::file::File;
use super::queue::{Ask, Queue, Reply};
use super::statements::Statements;
use crate::RegistryError;
use crate::clock::Clock;

/// How many commits may wait; more wait where they come from, so that a slow disk does not fill the memory (I47).
const WAITING_MAX: usize = 64;

/// A little longer than other processes wait between two tries for the lock, so that they get their turn.
const TURN: Duration = Duration::from_micros(1_500);

/// The thread's handle.
pub(super) struct Writer {
    queue: Arc<Queue>,
    room: Semaphore,
    trouble: Arc<Trouble>,
    thread: Option<JoinHandle<()>>,
}

/// Why outcomes are unknown.
#[derive(Default)]
struct Trouble(Mutex<Option<Arc<RegistryError>>>);

impl Writer {
    /// Starts the thread, which rings `bell` after each commit.
    pub(super) fn start(
        connection: Connection,
        file: Arc<File>,
        clock: Arc<dyn Clock>,
        bell: Arc<watch::Sender<Revision>>,
    ) -> Result<Self, RegistryError> {
        let boot = clock.boot().map_err(|error| RegistryError::Unavailable(error.to_string()))?;
        let (queue, trouble) = (Arc::new(Queue::default()), Arc::new(Trouble::default()));
        let desk = Desk { queue: queue.clone(), trouble: trouble.clone(), file, clock, boot, bell };
        let thread = std::thread::Builder::new().name("registry-writer".into());
        let thread = thread.spawn(move || desk.run(&connection));
        let thread = thread.map_err(|error| {
            RegistryError::Unavailable(format!("no thread for the registry's writer: {error}"))
        })?;
        Ok(Self { queue, room: Semaphore::new(WAITING_MAX), trouble, thread: Some(thread) })
    }

    pub(super) async fn open(&self, ttl: Millis) -> Result<Granted, RegistryError> {
        self.ask(|reply| Ask::Open(ttl, reply)).await
    }

    pub(super) async fn renew(&self, lease: LeaseId) -> Result<Option<Granted>, RegistryError> {
        self.ask(|reply| Ask::Renew(lease, reply)).await
    }

    pub(super) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        self.ask(|reply| Ask::Close(lease, reply)).await
    }

    pub(super) async fn commit(&self, txns: Vec<Txn>) -> Vec<Outcome> {
        let asked = txns.len();
        let _room = self.room.acquire().await;
        let (reply, answer) = oneshot::channel();
        self.queue.push(Ask::Commit(txns, reply));
        answer.await.unwrap_or_else(|_| vec![Outcome::Unknown; asked])
    }

    pub(super) fn trouble(&self) -> Option<Arc<RegistryError>> {
        self.trouble.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask<T>(&self, ask: impl FnOnce(Reply<T>) -> Ask) -> Result<T, RegistryError> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(ask(reply));
        answer.await.unwrap_or_else(|_| Err(RegistryError::Fatal("the registry's writer has stopped".into())))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing left to wait for.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Desk {
    queue: Arc<Queue>,
    trouble: Arc<Trouble>,
    file: Arc<File>,
    clock: Arc<dyn Clock>,
    boot: String,
    bell: Arc<watch::Sender<Revision>>,
}

/// What a verb came to, before it is known whether it was committed.
enum Answer {
    Granted(Option<Granted>),
    Closed,
    Outcomes(Vec<Outcome>),
}

impl Desk {
    fn run(self, connection: &Connection) {
        let mut sql = match Statements::prepare(connection) {
            Ok(sql) => sql,
            Err(error) => return self.refuse_all(&fault::explain(&self.file.path, During::Use, &error)),
        };
        while self.queue.wait() {
            // Whatever comes while the lock is waited for still gets into this group.
            let begun = sql.begin.execute(());
            let group = self.queue.take();
            let made = match begun {
                Ok(_) => self.make(&mut sql, &group),
                Err(error) => Err(self.explain(&error)),
            };
            if made.is_err() && !connection.is_autocommit() {
                // Fails only where the transaction is gone already.
                let _ = connection.execute_batch("ROLLBACK");
            }
            self.trouble.set(made.as_ref().err());
            match made {
                Ok(answers) => group.into_iter().zip(answers).for_each(|(ask, answer)| ask.answer(answer)),
                Err(error) => group.into_iter().for_each(|ask| ask.fail(&error)),
            }
            if !self.queue.is_empty() {
                std::thread::sleep(TURN);
            }
        }
    }

    /// Does a group's work in the transaction that was begun, and commits it.
    fn make(&self, sql: &mut Statements<'_>, group: &[Ask]) -> Result<Vec<Answer>, RegistryError> {
        self.file.verify()?;
        let explain = |error| self.explain(&error);
        let mut book = Book::new(sql, self.clock.as_ref()).map_err(explain)?;
        if !book.same_boot(&self.boot) {
            return Err(RegistryError::Fatal(format!(
                "registry file {} is in use by another host: keep it on a local disk of one host",
                self.file.path.display()
            )));
        }
        let answers: Result<Vec<_>, _> = group.iter().map(|ask| ask.work(&mut book)).collect();
        let answers = answers.map_err(explain)?;
        let revision = book.commit().map_err(explain)?.revision;
        self.bell.send_if_modified(|rung| revision > std::mem::replace(rung, revision.max(*rung)));
        Ok(answers)
    }

    fn explain(&self, error: &rusqlite::Error) -> RegistryError {
        fault::explain(&self.file.path, During::Use, error)
    }

    fn refuse_all(&self, error: &RegistryError) {
        self.trouble.set(Some(error));
        while self.queue.wait() {
            self.queue.take().into_iter().for_each(|ask| ask.fail(error));
        }
    }
}

impl Ask {
    fn work<'g>(&'g self, book: &mut Book<'_, '_, 'g>) -> rusqlite::Result<Answer> {
        Ok(match self {
            Self::Open(ttl, _) => Answer::Granted(Some(book.open(*ttl)?)),
            Self::Renew(lease, _) => Answer::Granted(book.renew(*lease)?),
            Self::Close(lease, _) => {
                book.close(*lease)?;
                Answer::Closed
            }
            Self::Commit(txns, _) => {
                Answer::Outcomes(txns.iter().map(|txn| book.make(txn)).collect::<Result<_, _>>()?)
            }
        })
    }

    /// Whoever asked may be gone: then nobody hears.
    fn answer(self, answer: Answer) {
        match (self, answer) {
            (Self::Open(_, reply), Answer::Granted(Some(granted))) => drop(reply.send(Ok(granted))),
            (Self::Renew(_, reply), Answer::Granted(granted)) => drop(reply.send(Ok(granted))),
            (Self::Close(_, reply), Answer::Closed) => drop(reply.send(Ok(()))),
            (Self::Commit(_, reply), Answer::Outcomes(outcomes)) => drop(reply.send(outcomes)),
            (ask, _) => {
                ask.fail(&RegistryError::Fatal("the registry's writer answered another question".into()))
            }
        }
    }

    fn fail(self, error: &RegistryError) {
        match self {
            Self::Open(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Renew(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Close(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Commit(txns, reply) => drop(reply.send(vec![Outcome::Unknown; txns.len()])),
        }
    }
}

impl Trouble {
    fn set(&self, error: Option<&RegistryError>) {
        let mut trouble = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_deref() != error {
            *trouble = error.cloned().map(Arc::new);
        }
    }
}
