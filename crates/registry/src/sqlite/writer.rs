//! The writer thread of a process: all waiting requests go into one transaction, and are answered after `COMMIT`.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::registry::{LeaseGrant, Revision, TxnOutcome};
use rusqlite::Connection;
use tokio::sync::watch;

use super::errors::{self, ErrorPhase};
use super::file::SqliteFile;
use super::statements::PreparedStatements;
use super::transaction::SqliteTransaction;
use crate::RegistryError;
use crate::clock::Clock;
use crate::queue::{GroupLimits, WriteQueue, WriteRequest, WriterHandle, write_queue};

/// The most requests in one transaction: some 50 ms of work.
const MOST: GroupLimits = GroupLimits { txns: 4_096, bytes: usize::MAX };

/// A little longer than other processes wait between two tries for the lock, so that they get their turn.
const TURN: Duration = Duration::from_micros(1_500);

/// The thread's handle.
pub(super) struct SqliteWriter {
    /// `Some` until it is dropped, which tells the thread that no more requests come.
    handle: Option<WriterHandle>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteWriter {
    /// Starts the thread, which announces the revision after each commit.
    pub(super) fn start(
        connection: Connection,
        file: Arc<SqliteFile>,
        clock: Arc<dyn Clock>,
        bell: Arc<watch::Sender<Revision>>,
    ) -> Result<Self, RegistryError> {
        let boot = clock.boot_id().map_err(|error| RegistryError::Unavailable(error.to_string()))?;
        let (asker, queue) = write_queue(MOST);
        let writer = SqliteWriterThread { queue, file, clock, boot_id: boot, bell };
        let thread = std::thread::Builder::new().name("registry-writer".into());
        let thread = thread.spawn(move || {
            let file = writer.file.clone();
            writer.run(&connection);
            file.close(connection);
        });
        let thread = thread.map_err(|error| {
            RegistryError::Unavailable(format!("no thread for the registry's writer: {error}"))
        })?;
        Ok(Self { handle: Some(asker), thread: Some(thread) })
    }

    /// The queue's end for callers.
    pub(super) fn handle(&self) -> &WriterHandle {
        self.handle.as_ref().expect("it is taken when the writer is dropped")
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        drop(self.handle.take());
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing left to wait for.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct SqliteWriterThread {
    queue: WriteQueue,
    file: Arc<SqliteFile>,
    clock: Arc<dyn Clock>,
    boot_id: String,
    bell: Arc<watch::Sender<Revision>>,
}

/// The result of a request, before its commit is certain.
enum SqliteReply {
    Granted(Option<LeaseGrant>),
    Closed,
    Outcomes(Vec<TxnOutcome>),
}

impl SqliteWriterThread {
    fn run(mut self, connection: &Connection) {
        let mut sql = match PreparedStatements::prepare(connection) {
            Ok(sql) => sql,
            Err(error) => {
                let error = errors::explain(&self.file.path, ErrorPhase::Use, &error);
                return self.fail_all(&error);
            }
        };
        while self.queue.wait_blocking() {
            // Requests that arrive while the lock is awaited still get into this group.
            let begun = sql.begin.execute(());
            let group = self.queue.take_group();
            let made = match begun {
                Ok(_) => self.apply_group(&mut sql, &group),
                Err(error) => Err(self.explain(&error)),
            };
            if made.is_err() && !connection.is_autocommit() {
                // Fails only if the transaction is gone already.
                let _ = connection.execute_batch("ROLLBACK");
            }
            self.queue.last_error.set(made.as_ref().err());
            match made {
                Ok(answers) => group.into_iter().zip(answers).for_each(|(ask, answer)| reply(ask, answer)),
                Err(error) => group.into_iter().for_each(|ask| ask.fail(&error)),
            }
            if !self.queue.is_empty() {
                std::thread::sleep(TURN);
            }
        }
    }

    /// Applies a group in the begun transaction, and commits it.
    fn apply_group(
        &self,
        sql: &mut PreparedStatements<'_>,
        group: &[WriteRequest],
    ) -> Result<Vec<SqliteReply>, RegistryError> {
        self.file.verify()?;
        let explain = |error| self.explain(&error);
        let mut transaction = SqliteTransaction::new(sql, self.clock.as_ref()).map_err(explain)?;
        if !transaction.same_boot(&self.boot_id) {
            return Err(RegistryError::Fatal(format!(
                "registry file {} is in use by another host: keep it on a local disk of one host",
                self.file.path.display()
            )));
        }
        let answers: Result<Vec<_>, _> = group.iter().map(|ask| apply(ask, &mut transaction)).collect();
        let answers = answers.map_err(explain)?;
        let revision = transaction.commit().map_err(explain)?.revision;
        self.bell.send_if_modified(|rung| revision > std::mem::replace(rung, revision.max(*rung)));
        Ok(answers)
    }

    fn explain(&self, error: &rusqlite::Error) -> RegistryError {
        errors::explain(&self.file.path, ErrorPhase::Use, error)
    }

    fn fail_all(&mut self, error: &RegistryError) {
        self.queue.last_error.set(Some(error));
        while self.queue.wait_blocking() {
            self.queue.take_group().into_iter().for_each(|ask| ask.fail(error));
        }
    }
}

fn apply<'g>(
    ask: &'g WriteRequest,
    transaction: &mut SqliteTransaction<'_, '_, 'g>,
) -> rusqlite::Result<SqliteReply> {
    Ok(match ask {
        WriteRequest::Open(ttl, _) => SqliteReply::Granted(Some(transaction.open(*ttl)?)),
        WriteRequest::Renew(lease, _) => SqliteReply::Granted(transaction.renew(*lease)?),
        WriteRequest::Close(lease, _) => {
            transaction.close(*lease)?;
            SqliteReply::Closed
        }
        WriteRequest::Commit(txns, _) => SqliteReply::Outcomes(
            txns.iter().map(|txn| transaction.apply_txn(txn)).collect::<Result<_, _>>()?,
        ),
    })
}

/// Answers a request. The caller may be gone.
fn reply(ask: WriteRequest, answer: SqliteReply) {
    match (ask, answer) {
        (WriteRequest::Open(_, reply), SqliteReply::Granted(Some(granted))) => drop(reply.send(Ok(granted))),
        (WriteRequest::Renew(_, reply), SqliteReply::Granted(granted)) => drop(reply.send(Ok(granted))),
        (WriteRequest::Close(_, reply), SqliteReply::Closed) => drop(reply.send(Ok(()))),
        (WriteRequest::Commit(_, reply), SqliteReply::Outcomes(outcomes)) => reply.send(outcomes),
        (ask, _) => ask.fail(&RegistryError::Fatal("the registry's writer answered another question".into())),
    }
}
