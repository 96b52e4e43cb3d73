//! The writer task of a process: all waiting requests go into one transaction, and are answered after `COMMIT`.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Revision, Txn};
use sqlx::Error;

use super::clock_step::{self, ClockObservation, LOOK};
use super::config::{BYTES_MAX, OrderSeen, PATIENCE, SqlConfig, SqlLimits, SqlServerIdentity};
use super::connection::{SqlConnection, timeout_error};
use super::errors::{self, SqlRemedy};
use super::group::{CounterReading, GroupError, GroupResult, KnownRevisions, apply_group, read_counter};
use super::hot::{self, HotGroup};
use super::layout;
use super::reader::SqlLine;
use super::snapshot::{HotGate, SqlSnapshot};
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
    (line, sight): (Arc<SqlLine>, ClockObservation),
    config: Arc<SqlConfig>,
    limits: SqlLimits,
    adopted: Arc<SqlServerIdentity>,
    seen: Arc<OrderSeen>,
) -> WriterHandle {
    let (asker, queue) = write_queue(MOST);
    let trouble = queue.last_error.clone();
    let writer = SqlWriter {
        line,
        connection: None,
        config,
        limits,
        adopted,
        observation: sight,
        failure: None,
        last_error: trouble,
        seen,
        last_answered: Revision::default(),
        last_ordered: Revision::default(),
        last_hot: None,
    };
    tokio::spawn(writer.run(queue));
    asker
}

/// Why an earlier node's requests are not done any more.
const REPLACED: &str = "the registry was given a new generation, as after a restore: start this node again";

/// The state of the task.
struct SqlWriter {
    /// Where the connection is when it is not its turn.
    line: Arc<SqlLine>,
    connection: Option<SqlConnection>,
    config: Arc<SqlConfig>,
    limits: SqlLimits,
    adopted: Arc<SqlServerIdentity>,
    /// The observation of the server's clock.
    observation: ClockObservation,
    /// Why nothing is done any more.
    failure: Option<WriterFailure>,
    last_error: Arc<LastError>,
    seen: Arc<OrderSeen>,
    /// The last revision in an answer of this process, and the last ordered one.
    last_answered: Revision,
    last_ordered: Revision,
    /// The last hot entry that it wrote beside others.
    last_hot: Option<(Key, Revision)>,
}

/// The permanent failure of the writer.
struct WriterFailure {
    error: RegistryError,
    /// Whether the next connection must find a higher generation, which is not written yet.
    raise_generation: bool,
}

impl SqlWriter {
    async fn run(mut self, mut queue: WriteQueue) {
        loop {
            let asked = tokio::time::timeout(LOOK, queue.wait()).await;
            if asked == Ok(false) {
                return;
            }
            let mut line = self.line.clone().lock_owned().await;
            self.connection = line.take();
            // Hot transactions alone show neither the server's clock nor how far the others have come.
            if asked.is_err() || self.observation.is_old(clock_step::mono()) {
                self.check_server().await;
            }
            if asked.is_ok() {
                let group = queue.take_group();
                self.serve(group).await;
            }
            *line = self.connection.take();
        }
    }

    /// Checks an idle server: whether it is still there, the position of its order and its clock.
    async fn check_server(&mut self) {
        if self.failure.as_ref().is_some_and(|end| end.raise_generation) {
            self.serve(Vec::new()).await;
        }
        let known = self.known();
        let Some(link) = &mut self.connection else {
            // Now, for the next request should not wait for it; and a reported error should be followed by its end.
            if self.failure.is_none() {
                self.serve(Vec::new()).await;
            }
            return;
        };
        let asked = clock_step::mono();
        match tokio::time::timeout(QUIET, read_counter(link, &self.config)).await {
            Ok(Ok(CounterReading { ordered, position, generation, now })) => {
                let ours = position >= known.announced.max(known.answered)
                    && ordered >= known.ordered
                    && generation <= i64::from(self.limits.facts.generation);
                match self.observation.observe(now, asked, clock_step::mono()) {
                    Some(sight) if ours => self.observation = sight,
                    _ => self.serve(Vec::new()).await,
                }
            }
            _ => self.connection = None,
        }
    }

    /// How far the order is known to have come.
    fn known(&self) -> KnownRevisions {
        let ordered = match self.config.dialect.durable_before_visible {
            true => self.seen.ordered(),
            false => self.last_ordered,
        };
        KnownRevisions {
            ordered,
            answered: self.last_answered,
            announced: *self.seen.bell.borrow(),
            hot: self.last_hot.clone(),
        }
    }

    /// Makes the hot transactions of a group that has no others. Returns what is left for an ordered transaction, which
    /// also opens connections, waits for locks again and says why something is refused.
    async fn serve_hot(&mut self, group: Vec<WriteRequest>) -> Option<Vec<WriteRequest>> {
        let config = self.config.clone();
        let Some(sequence) = config.tables.order.sequence.as_ref().filter(|_| self.failure.is_none()) else {
            return Some(group);
        };
        let Some(hot) = HotGroup::of(&group, sequence, &self.limits) else { return Some(group) };
        let request = hot.request(&config, &self.known(), self.limits.facts.generation);
        let Some(link) = &mut self.connection else { return Some(group) };
        let made = match tokio::time::timeout(PATIENCE, link.ask_all(&request.text)).await {
            Ok(Ok(answers)) => hot.made(answers),
            Ok(Err((done, error))) if request.is_undone(done, &error) => {
                if !self.roll_back().await {
                    self.connection = None;
                }
                return Some(group);
            }
            Ok(Err((_, error))) => Err(error),
            Err(_) => Err(timeout_error("no answer", PATIENCE)),
        };
        match made {
            Ok(made) => {
                self.last_hot = hot.last(&made).or(self.last_hot.take());
                self.last_answered = made.iter().flatten().copied().fold(self.last_answered, Ord::max);
                let rest = hot::answer(group, made);
                if rest.is_empty() {
                    self.last_error.set(None);
                }
                Some(rest).filter(|rest| !rest.is_empty())
            }
            Err(error) => {
                self.connection = None;
                self.fail(group, &self.explain(&error));
                None
            }
        }
    }

    /// Applies a group, or its parts separately if one of them is at fault.
    async fn serve(&mut self, group: Vec<WriteRequest>) {
        let Some(group) = self.serve_hot(group).await else { return };
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
        let mut gate = self.gate(&group);
        for left in (0..TRIES).rev() {
            let mut tried = self.try_once(&group, gate).await;
            if matches!(tried, Err(GroupError::GateOpen)) {
                gate = HotGate::Early;
                if !self.roll_back().await {
                    self.connection = None;
                }
                tried = self.try_once(&group, gate).await;
            }
            let error = match tried {
                Ok(done) => {
                    self.last_error.set(None);
                    self.seen.ring(done.revision);
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
                // The server has reported that it rolled back everything.
                Err(GroupError::AtCommit(error)) if errors::remedy(&error) == SqlRemedy::Retry => error,
                Err(GroupError::AtCommit(error)) => {
                    self.connection = None;
                    self.fail(group, &self.explain(&error));
                    return None;
                }
                Err(GroupError::BeforeCommit(error)) => error,
                // Not again, for the gate was closed.
                Err(GroupError::GateOpen) => Error::WorkerCrashed,
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

    /// Who names no hot entry need not keep hot transactions waiting while it reads.
    fn gate(&self, group: &[WriteRequest]) -> HotGate {
        let is_cold = |ask: &WriteRequest| match ask {
            WriteRequest::Commit(txns, _) => txns.iter().flat_map(Txn::keys).all(Key::is_cold),
            _ => true,
        };
        match self.config.tables.order.sequence.is_some() && group.iter().all(is_cold) {
            true => HotGate::Late,
            false => HotGate::Early,
        }
    }

    async fn try_once(&mut self, group: &[WriteRequest], gate: HotGate) -> Result<GroupResult, GroupError> {
        if self.failure.is_some() {
            return Err(GroupError::Stopped(self.stop_reason().await));
        }
        if self.connection.is_none() {
            self.connection = Some(self.connect().await.map_err(GroupError::Stopped)?);
        }
        let known = self.known();
        let Some(link) = &mut self.connection else {
            return Err(GroupError::BeforeCommit(Error::WorkerCrashed));
        };
        let mut snapshot = SqlSnapshot { connection: link, config: &self.config };
        let work = apply_group(&mut snapshot, self.limits, &self.observation, group, &known, gate);
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(done) => {
                let (done, observation) = done?;
                // Not earlier: an unhandled step must not count as handled.
                self.observation = observation;
                self.last_answered = self.last_answered.max(done.revision);
                self.last_ordered = self.last_ordered.max(done.ordered);
                self.seen.note_ordered(done.ordered);
                Ok(done)
            }
            // A begun transaction ends with the connection; if it was at its commit, nothing says how.
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
        let known = *self.seen.bell.borrow();
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
