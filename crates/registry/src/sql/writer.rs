//! The writer task of a process: all waiting requests go into one transaction, and are answered after `COMMIT`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{Change, LeaseGrant, Revision, TxnOutcome};
use evenkeel_core::time::{Millis, Wall};
use sqlx::Error;
use tokio::sync::watch;

use super::clock_step::{self, ClockObservation, LOOK};
use super::config::{BYTES_MAX, PATIENCE, SqlConfig, SqlLimits, SqlServerIdentity};
use super::connection::{SqlConnection, timeout_error};
use super::errors::{self, SqlRemedy};
use super::layout;
use super::snapshot::SqlSnapshot;
use super::state::{SqlReply, SqlState, SqlTxnResult};
use super::statement::SqlStatement;
use crate::RegistryError;
use crate::queue::{GroupLimits, LastError, WriteQueue, WriteRequest, WriterHandle, write_queue};

/// The most requests in one transaction of the server: more wait for the next.
const MOST: GroupLimits = GroupLimits { txns: 1_000, bytes: BYTES_MAX };

/// How often to try a transaction while nothing was made.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(10);

/// How long a connection may stay silent. The server closes those that are silent for longer,
/// and releases their locks.
const QUIET: Duration = Duration::from_secs(2);

/// Starts the task, which announces the revision after each commit.
pub(super) fn start(
    (link, sight): (SqlConnection, ClockObservation),
    config: Arc<SqlConfig>,
    limits: SqlLimits,
    adopted: Arc<SqlServerIdentity>,
    bell: Arc<watch::Sender<Revision>>,
) -> WriterHandle {
    let (asker, queue) = write_queue(MOST);
    let trouble = queue.last_error.clone();
    let link = Some(link);
    let writer = SqlWriter {
        connection: link,
        config,
        limits,
        adopted,
        observation: sight,
        failure: None,
        last_error: trouble,
        bell,
        last_answered: Revision::default(),
    };
    tokio::spawn(writer.run(queue));
    asker
}

/// Why an earlier node's requests are not done any more.
const REPLACED: &str = "the registry was given a new generation, as after a restore: start this node again";

/// The state of the task.
struct SqlWriter {
    connection: Option<SqlConnection>,
    config: Arc<SqlConfig>,
    limits: SqlLimits,
    adopted: Arc<SqlServerIdentity>,
    /// The observation of the server's clock.
    observation: ClockObservation,
    /// Why nothing is done any more.
    failure: Option<WriterFailure>,
    last_error: Arc<LastError>,
    bell: Arc<watch::Sender<Revision>>,
    /// The last revision in an answer of this process.
    last_answered: Revision,
}

/// The permanent failure of the writer.
struct WriterFailure {
    error: RegistryError,
    /// Whether the next connection must find a higher generation, which is not written yet.
    raise_generation: bool,
}

/// The result of a group.
struct GroupResult {
    replies: Vec<SqlReply>,
    revision: Revision,
    now: i64,
    next_end: Option<Millis>,
}

/// The known position of the order.
#[derive(Clone, Copy)]
struct KnownRevisions {
    /// The revision that only a restore can undo.
    durable: Revision,
    /// The revision that the server has shown this process.
    announced: Revision,
}

/// Why a group was not done.
enum GroupError {
    /// It failed before the commit.
    BeforeCommit(Error),
    /// It failed at the commit: the outcome is unknown.
    AtCommit(Error),
    /// It failed before anything was sent, and for good.
    Stopped(RegistryError),
    /// Before any write: the order stands here, before what was answered.
    WentBack(Revision),
    /// Before any write: another node saw the server rolled back, and began a new generation.
    Replaced,
}

impl SqlWriter {
    async fn run(mut self, mut queue: WriteQueue) {
        loop {
            match tokio::time::timeout(LOOK, queue.wait()).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.check_server().await;
                    continue;
                }
            }
            let group = queue.take_group();
            self.serve(group).await;
        }
    }

    /// Checks an idle server: whether it is still there, the position of its order and its clock.
    async fn check_server(&mut self) {
        if self.failure.as_ref().is_some_and(|end| end.raise_generation) {
            self.serve(Vec::new()).await;
        }
        let Some(link) = &mut self.connection else {
            // Now, for the next request should not wait for it; and a reported error should be followed by its end.
            if self.failure.is_none() {
                self.serve(Vec::new()).await;
            }
            return;
        };
        let (known, asked) = (*self.bell.borrow(), clock_step::mono());
        match tokio::time::timeout(QUIET, read_counter(link, &self.config)).await {
            Ok(Ok(CounterReading { revision, generation, now })) => {
                let ours = revision >= known && generation <= i64::from(self.limits.facts.generation);
                match self.observation.observe(now, asked, clock_step::mono()) {
                    Some(sight) if ours => self.observation = sight,
                    _ => self.serve(Vec::new()).await,
                }
            }
            _ => self.connection = None,
        }
    }

    /// Applies a group, or its parts separately if one of them is at fault.
    async fn serve(&mut self, group: Vec<WriteRequest>) {
        let Some((group, error)) = self.serve_together(group).await else { return };
        if group.len() < 2 {
            self.fail(group, &error);
            return;
        }
        for ask in group {
            if let Some((alone, error)) = self.serve_together(vec![ask]).await {
                self.fail(alone, &error);
            }
        }
    }

    /// Applies a group and answers it. Returns it if a part of it is at fault.
    async fn serve_together(
        &mut self,
        group: Vec<WriteRequest>,
    ) -> Option<(Vec<WriteRequest>, RegistryError)> {
        for left in (0..TRIES).rev() {
            let tried = self.try_once(&group).await;
            let error = match tried {
                Ok(done) => {
                    self.last_error.set(None);
                    self.bell.send_if_modified(|rung| {
                        done.revision > std::mem::replace(rung, done.revision.max(*rung))
                    });
                    done.reply(group);
                    return None;
                }
                Err(GroupError::Stopped(error)) => {
                    self.connection = None;
                    self.fail(group, &error);
                    return None;
                }
                Err(GroupError::WentBack(revision)) => {
                    let error = self.stop_went_back(revision).await;
                    self.fail(group, &error);
                    return None;
                }
                Err(GroupError::Replaced) => {
                    self.connection = None;
                    let why = RegistryError::Fatal(REPLACED.into());
                    self.failure
                        .get_or_insert_with(|| WriterFailure { error: why.clone(), raise_generation: false });
                    self.fail(group, &why);
                    return None;
                }
                Err(GroupError::AtCommit(error)) => {
                    self.connection = None;
                    self.fail(group, &self.explain(&error));
                    return None;
                }
                Err(GroupError::BeforeCommit(error)) => error,
            };
            let remedy = errors::remedy(&error);
            if remedy == SqlRemedy::Reconnect || !self.roll_back().await {
                self.connection = None;
            }
            match remedy {
                SqlRemedy::Retry if left > 0 => tokio::time::sleep(PAUSE).await,
                // Once: a server that is away is reported at once.
                SqlRemedy::Reconnect if left == TRIES - 1 => {}
                SqlRemedy::Split => return Some((group, self.explain(&error))),
                _ => {
                    self.fail(group, &self.explain(&error));
                    return None;
                }
            }
        }
        None
    }

    fn fail(&self, group: Vec<WriteRequest>, error: &RegistryError) {
        self.last_error.set(Some(error));
        group.into_iter().for_each(|ask| ask.fail(error));
    }

    /// Rolls the transaction back, if there is one; `false` when the connection cannot be used any more.
    async fn roll_back(&mut self) -> bool {
        let Some(link) = &mut self.connection else { return true };
        tokio::time::timeout(QUIET, link.execute_text("ROLLBACK")).await.is_ok_and(|said| said.is_ok())
    }

    async fn try_once(&mut self, group: &[WriteRequest]) -> Result<GroupResult, GroupError> {
        if self.failure.is_some() {
            return Err(GroupError::Stopped(self.stop_reason().await));
        }
        if self.connection.is_none() {
            self.connection = Some(self.connect().await.map_err(GroupError::Stopped)?);
        }
        let Some(link) = &mut self.connection else {
            return Err(GroupError::BeforeCommit(Error::WorkerCrashed));
        };
        let mut snapshot =
            SqlSnapshot { connection: link, dialect: self.config.dialect, tables: &self.config.tables };
        let heard = *self.bell.borrow();
        let known = KnownRevisions {
            durable: if self.config.dialect.durable_before_visible { heard } else { self.last_answered },
            announced: heard,
        };
        let work = tokio::time::timeout(
            PATIENCE,
            apply_group(&mut snapshot, self.limits, &self.observation, group, known),
        )
        .await;
        let (done, observation) = match work {
            Ok(done) => done?,
            // A begun transaction ends with the connection.
            Err(_) => return Err(GroupError::Stopped(self.explain(&timeout_error("no answer", PATIENCE)))),
        };
        match tokio::time::timeout(PATIENCE, snapshot.connection.execute_text("COMMIT")).await {
            Ok(Ok(())) => {
                // Not earlier: an unhandled step must not count as handled.
                self.observation = observation;
                self.last_answered = self.last_answered.max(done.revision);
                Ok(done)
            }
            // The server has reported that it rolled back everything.
            Ok(Err(error)) if errors::remedy(&error) == SqlRemedy::Retry => {
                Err(GroupError::BeforeCommit(error))
            }
            Ok(Err(error)) => Err(GroupError::AtCommit(error)),
            Err(_) => Err(GroupError::AtCommit(timeout_error("no answer", PATIENCE))),
        }
    }

    /// A new connection to the adopted server; the writer fails for good if there is another one.
    async fn connect(&mut self) -> Result<SqlConnection, RegistryError> {
        let come = self.config.reconnect(&self.adopted).await;
        if let Err(why @ RegistryError::Fatal(_)) = &come {
            self.failure.get_or_insert_with(|| WriterFailure { error: why.clone(), raise_generation: false });
        }
        come
    }

    /// Stops after the server was rolled back, as by a copy of its data. The server cannot know, so this process raises
    /// the generation: tokens and revisions given since that copy must not be given again.
    async fn stop_went_back(&mut self, revision: Revision) -> RegistryError {
        let known = *self.bell.borrow();
        let why =
            format!("the registry went back from revision {known} to {revision}: start this node again");
        self.failure
            .get_or_insert(WriterFailure { error: RegistryError::Fatal(why), raise_generation: true });
        if !self.roll_back().await {
            self.connection = None;
        }
        self.stop_reason().await
    }

    /// Why nothing is done any more; does first what is left to do.
    async fn stop_reason(&mut self) -> RegistryError {
        if self.failure.as_ref().is_some_and(|end| end.raise_generation) {
            if self.connection.is_none() {
                self.connection = self.connect().await.ok();
            }
            if let Some(link) = &mut self.connection {
                let raise = layout::raise_generation(link, &self.config, self.limits.facts.generation);
                let raised = tokio::time::timeout(PATIENCE, raise).await.is_ok_and(|raised| raised.is_ok());
                self.failure.iter_mut().for_each(|end| end.raise_generation = !raised);
            }
        }
        self.connection = None;
        let stopped = || RegistryError::Fatal("the registry's writer has stopped".into());
        self.failure.as_ref().map_or_else(stopped, |end| end.error.clone())
    }

    fn explain(&self, error: &Error) -> RegistryError {
        errors::explain(&self.config.label, error)
    }
}

/// Applies a group in a transaction, all but the `COMMIT`.
async fn apply_group(
    snapshot: &mut SqlSnapshot<'_>,
    limits: SqlLimits,
    observation: &ClockObservation,
    group: &[WriteRequest],
    known: KnownRevisions,
) -> Result<(GroupResult, ClockObservation), GroupError> {
    let (found, generation) = snapshot.begin().await.map_err(GroupError::BeforeCommit)?;
    if found.revision < known.durable {
        return Err(GroupError::WentBack(found.revision));
    }
    let mut before = found.clone();
    if before.revision < known.announced {
        // Some saw revisions that the server then lost in a crash, unanswered. So one is skipped, and they list again.
        before.revision = Revision(known.announced.0 + 1);
        before.forgotten = before.revision;
    }
    if generation > i64::from(limits.facts.generation) {
        return Err(GroupError::Replaced);
    }
    let read = snapshot.read(limits, before, observation, group).await;
    let (mut state, seen) = read.map_err(GroupError::BeforeCommit)?;
    state.end_expired();
    let mut answers: Vec<_> = group.iter().map(|ask| state.apply(ask)).collect();
    load_values(snapshot, &mut answers).await.map_err(GroupError::BeforeCommit)?;
    snapshot.write(&mut state, &found).await.map_err(GroupError::BeforeCommit)?;
    let granted = answers.iter().any(|answer| matches!(answer, SqlReply::Granted(Some(_))));
    let SqlState { now, meta, .. } = state;
    let next_end =
        if granted { snapshot.next_end(now).await.map_err(GroupError::BeforeCommit)? } else { None };
    let next_end = next_end.map(|end| end.max(clock_step::earliest_end(meta.clock, now)));
    Ok((GroupResult { replies: answers, revision: meta.revision, now, next_end }, seen))
}

/// The position of the order, its generation, and the time by the server's clock.
struct CounterReading {
    revision: Revision,
    generation: i64,
    now: i64,
}

async fn read_counter(link: &mut SqlConnection, config: &SqlConfig) -> Result<CounterReading, Error> {
    let select = format!("SELECT revision, generation, {} FROM ", config.dialect.sql.now);
    let row = link.query_one(SqlStatement::new(config.dialect, select).then(&config.tables.meta)).await?;
    Ok(CounterReading { revision: row.revision(0)?, generation: row.int(1)?, now: row.int(2)? })
}

/// Reads the values for refusals. Nothing has been written yet, so the table has them as they were found.
async fn load_values(snapshot: &mut SqlSnapshot<'_>, answers: &mut [SqlReply]) -> Result<(), Error> {
    let told = answers.iter_mut().filter_map(|answer| match answer {
        SqlReply::Txns(verdicts) => Some(verdicts),
        SqlReply::Granted(_) | SqlReply::Closed => None,
    });
    let refused = told.flatten().filter_map(|verdict| match verdict {
        SqlTxnResult::Refused(found, _) => Some(found),
        SqlTxnResult::Applied(_) => None,
    });
    let mut bare: Vec<_> = refused
        .flatten()
        .filter_map(|(key, head)| head.as_mut().filter(|head| head.value.is_none()).map(|head| (&*key, head)))
        .collect();
    let keys: BTreeSet<_> = bare.iter().map(|(key, _)| (*key).clone()).collect();
    let values = snapshot.values(&keys.into_iter().collect::<Vec<_>>()).await?;
    for (key, head) in &mut bare {
        head.value = Some(values.get(*key).cloned().ok_or(Error::RowNotFound)?);
    }
    Ok(())
}

impl GroupResult {
    /// Answers the requests. The callers may be gone.
    fn reply(self, group: Vec<WriteRequest>) {
        let Self { replies: answers, now, next_end, .. } = self;
        let granted = |(lease, ttl)| LeaseGrant { lease, ttl, clock: Some(Wall(now)), next_end };
        for (ask, answer) in group.into_iter().zip(answers) {
            match (ask, answer) {
                (WriteRequest::Open(_, reply), SqlReply::Granted(Some(lease))) => {
                    drop(reply.send(Ok(granted(lease))))
                }
                (WriteRequest::Renew(_, reply), SqlReply::Granted(lease)) => {
                    drop(reply.send(Ok(lease.map(granted))))
                }
                (WriteRequest::Close(_, reply), SqlReply::Closed) => drop(reply.send(Ok(()))),
                (WriteRequest::Commit(_, reply), SqlReply::Txns(verdicts)) => {
                    reply.send(verdicts.into_iter().map(outcome).collect());
                }
                (ask, _) => {
                    ask.fail(&RegistryError::Fatal("the registry's writer answered another question".into()));
                }
            }
        }
    }
}

fn outcome(verdict: SqlTxnResult) -> TxnOutcome {
    match verdict {
        SqlTxnResult::Applied(revision) => TxnOutcome::Applied(revision),
        SqlTxnResult::Refused(found, revision) => {
            let change = |(key, head): (_, Option<super::state::EntryHead>)| Change {
                key,
                entry: head.and_then(super::state::EntryHead::entry),
                revision,
            };
            TxnOutcome::Refused(found.into_iter().map(change).collect())
        }
    }
}
