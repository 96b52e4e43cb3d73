//! The one thread of a process that writes: whatever waits goes into one transaction, and is answered after `COMMIT`.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::registry::{Granted, Outcome, Revision};
use rusqlite::Connection;
use tokio::sync::watch;

use super::book::Book;
use super::fault::{self, During};
use super::file::File;
use super::statements::Statements;
use crate::RegistryError;
use crate::clock::Clock;
use crate::queue::{Ask, Asker, Most, Queue, queue};

/// How much goes into one transaction: some 50 ms of work.
const MOST: Most = Most { txns: 4_096, bytes: usize::MAX };

/// A little longer than other processes wait between two tries for the lock, so that they get their turn.
const TURN: Duration = Duration::from_micros(1_500);

/// The thread's handle.
pub(super) struct Writer {
    /// Until it is dropped, which is how the thread learns that no more will come.
    asker: Option<Asker>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which rings `bell` after each commit.
    pub(super) fn start(
        connection: Connection,
        file: Arc<File>,
        clock: Arc<dyn Clock>,
        bell: Arc<watch::Sender<Revision>>,
    ) -> Result<Self, RegistryError> {
        let boot = clock.boot().map_err(|error| RegistryError::Unavailable(error.to_string()))?;
        let (asker, queue) = queue(MOST);
        let desk = Desk { queue, file, clock, boot, bell };
        let thread = std::thread::Builder::new().name("registry-writer".into());
        let thread = thread.spawn(move || {
            let file = desk.file.clone();
            desk.run(&connection);
            file.close(connection);
        });
        let thread = thread.map_err(|error| {
            RegistryError::Unavailable(format!("no thread for the registry's writer: {error}"))
        })?;
        Ok(Self { asker: Some(asker), thread: Some(thread) })
    }

    /// Whom to ask.
    pub(super) fn asker(&self) -> &Asker {
        self.asker.as_ref().expect("it is taken when the writer is dropped")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.asker.take());
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing left to wait for.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Desk {
    queue: Queue,
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
    fn run(mut self, connection: &Connection) {
        let mut sql = match Statements::prepare(connection) {
            Ok(sql) => sql,
            Err(error) => {
                let error = fault::explain(&self.file.path, During::Use, &error);
                return self.refuse_all(&error);
            }
        };
        while self.queue.wait_here() {
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
            self.queue.trouble.set(made.as_ref().err());
            match made {
                Ok(answers) => group.into_iter().zip(answers).for_each(|(ask, answer)| tell(ask, answer)),
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
        let answers: Result<Vec<_>, _> = group.iter().map(|ask| work(ask, &mut book)).collect();
        let answers = answers.map_err(explain)?;
        let revision = book.commit().map_err(explain)?.revision;
        self.bell.send_if_modified(|rung| revision > std::mem::replace(rung, revision.max(*rung)));
        Ok(answers)
    }

    fn explain(&self, error: &rusqlite::Error) -> RegistryError {
        fault::explain(&self.file.path, During::Use, error)
    }

    fn refuse_all(&mut self, error: &RegistryError) {
        self.queue.trouble.set(Some(error));
        while self.queue.wait_here() {
            self.queue.take().into_iter().for_each(|ask| ask.fail(error));
        }
    }
}

fn work<'g>(ask: &'g Ask, book: &mut Book<'_, '_, 'g>) -> rusqlite::Result<Answer> {
    Ok(match ask {
        Ask::Open(ttl, _) => Answer::Granted(Some(book.open(*ttl)?)),
        Ask::Renew(lease, _) => Answer::Granted(book.renew(*lease)?),
        Ask::Close(lease, _) => {
            book.close(*lease)?;
            Answer::Closed
        }
        Ask::Commit(txns, _) => {
            Answer::Outcomes(txns.iter().map(|txn| book.make(txn)).collect::<Result<_, _>>()?)
        }
    })
}

/// Whoever asked may be gone: then nobody hears.
fn tell(ask: Ask, answer: Answer) {
    match (ask, answer) {
        (Ask::Open(_, reply), Answer::Granted(Some(granted))) => drop(reply.send(Ok(granted))),
        (Ask::Renew(_, reply), Answer::Granted(granted)) => drop(reply.send(Ok(granted))),
        (Ask::Close(_, reply), Answer::Closed) => drop(reply.send(Ok(()))),
        (Ask::Commit(_, reply), Answer::Outcomes(outcomes)) => reply.send(outcomes),
        (ask, _) => ask.fail(&RegistryError::Fatal("the registry's writer answered another question".into())),
    }
}
