//! The public interface to a running node: send commands, inspect it, read the results of its runs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_core::ids::{JobName, LockName, Member, NodeName, Operation, RunId, Token};
use evenkeel_core::input::{Answer, ApplyResult, Command, CommandKind, Refusal};
use evenkeel_core::job::{Job, JobFile};
use evenkeel_core::keys::{self, Key};
use evenkeel_core::node::Node;
use evenkeel_core::record::{Plan, RunState, ShardRunState, decode};
use evenkeel_core::registry::{Change, EngineFacts};
use evenkeel_core::time::Wall;
use tokio::sync::{mpsc, oneshot, watch};

use crate::audit::{AuditAction, AuditFilter, AuditOutcome, AuditRecord, Requester, UPGRADE_BEGINS};
use crate::clock;
use crate::history::{
    EventFilter, EventRecord, HistoryError, HistoryReader, JobRecords, LoadPoint, RunFilter, RunRecord,
    SummaryFilter, SummaryPart,
};
use crate::job_version::{JobVersion, JobVersionFilter};
use crate::lock::LockGuard;
use crate::logs::{LogChunk, Logs};
use crate::metrics::{MetricsFormat, NodeMetrics, NodeState};
use crate::published_loads::{NodeLoads, PublishedLoads};
use crate::request::{ENDED, HandleRequest, NodeUpgrade};
use crate::secrets::NodeSecrets;
use crate::upgrade::ProgramFile;

/// How often [`Handle::wait`] checks when another node executes the run.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A handle to a running node. Clones refer to the same node; when the last one is dropped the node stops.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<HandleState>,
}

/// The state that all clones of a handle share.
pub(crate) struct HandleState {
    pub(crate) name: NodeName,
    pub(crate) facts: EngineFacts,
    pub(crate) node: Arc<RwLock<Node>>,
    pub(crate) requests: mpsc::Sender<HandleRequest>,
    pub(crate) history: HistoryReader,
    pub(crate) metrics: Arc<NodeMetrics>,
    /// Whether the other nodes write into the same history.
    pub(crate) shares_history: bool,
    pub(crate) logs: Logs,
    pub(crate) secrets: NodeSecrets,
    pub(crate) loads: PublishedLoads,
    pub(crate) changes: watch::Receiver<u64>,
    /// `None` while the node runs; then why it stopped by itself, or an empty text.
    pub(crate) stopped: watch::Receiver<Option<String>>,
}

/// How a node left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveOutcome {
    /// Its runs ended, its jobs are free and its lease is closed.
    Cleanly,
    /// The time was up first: what still ran was ended, and its jobs become free when its lease ends.
    InHaste,
}

/// An operation of the cluster that this caller performs in one beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The beat's number.
    pub beat: u64,
    /// The fencing token for the systems that the operation writes to: a later beat's is larger.
    pub token: Token,
}

/// Why jobs were not applied. The text says the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplyError(String);

/// Why run states were not read. The text says the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunStateError(String);

impl Handle {
    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.shared.name
    }

    /// The facts of the registry's engine.
    #[must_use]
    pub fn facts(&self) -> EngineFacts {
        self.shared.facts
    }

    /// Sends a command to the node and waits for the answer, which may take as long as the registry does. A change
    /// appears in the audit log as requested by this process.
    pub async fn ask(&self, command: Command) -> Answer {
        self.ask_as(Requester::process(), command).await
    }

    /// Sends a command in the name of this requester, for programs that know who calls them.
    pub async fn ask_as(&self, asker: Requester, command: Command) -> Answer {
        let (answer, answered) = oneshot::channel();
        let gone = || Answer::Refused(Refusal::Unavailable, ENDED.into());
        if self.shared.requests.send(HandleRequest::Change(asker, command, answer)).await.is_err() {
            return gone();
        }
        answered.await.unwrap_or_else(|_| gone())
    }

    /// Writes an audit entry about a decision made beside the node, such as a refusal of the program's own.
    pub async fn log_decision(
        &self,
        asker: Requester,
        action: AuditAction,
        outcome: AuditOutcome,
        why: String,
    ) {
        // A node that has stopped decides nothing more, and has no history to write to.
        let _ = self.shared.requests.send(HandleRequest::LogDecision(asker, action, (outcome, why))).await;
    }

    /// Why this node could not give a run of the job its secrets: a reason for each that it cannot read now. It contains
    /// nothing of a secret.
    #[must_use]
    pub fn missing_secrets(&self, job: &Job) -> Vec<String> {
        let reader = self.shared.secrets.of(&job.name);
        job.work.secrets().into_iter().filter_map(|name| reader.read(name).err()).collect()
    }

    /// Reads the audit log, the latest entries first, as far as this history has it.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, HistoryError> {
        self.shared.history.audit(filter).await
    }

    /// Reads the versions of a job, the latest first, as far as this history has them. The present declaration is in the
    /// registry, and may not be among them.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn job_versions(&self, filter: JobVersionFilter) -> Result<Vec<JobVersion>, HistoryError> {
        self.shared.history.job_versions(filter).await
    }

    /// Declares jobs: creates them, or replaces those that differ (`S1-86` … `S1-88`). Programs do this at each start.
    ///
    /// # Errors
    /// A declaration is invalid, then none is applied; or the registry is out of reach.
    pub async fn apply(&self, mut jobs: Vec<JobFile>) -> Result<Vec<(JobName, ApplyResult)>, ApplyError> {
        // The audit log names each job as it is meant.
        jobs.iter_mut().try_for_each(|job| job.move_into(None)).map_err(|e| ApplyError(e.to_string()))?;
        match self.ask(Command::Apply(jobs)).await {
            Answer::Applied(applied) => Ok(applied),
            Answer::Refused(_, why) => Err(ApplyError(why)),
            other => Err(ApplyError(format!("jobs were answered by {other:?}"))),
        }
    }

    /// Reads the node's state. The node waits meanwhile, so keep it short and copy what is needed.
    pub fn with_node<R>(&self, f: impl FnOnce(&Node) -> R) -> R {
        f(&self.shared.node.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the run states of a sharded job's shards at this moment, by member, from the registry.
    ///
    /// # Errors
    /// The registry is out of reach, or the node has stopped.
    pub async fn shard_run_states(
        &self,
        job: &JobName,
    ) -> Result<BTreeMap<Member, ShardRunState>, RunStateError> {
        let sharding = self.with_node(|node| node.view().find(job).and_then(|job| job.sharding().cloned()));
        let sharding = sharding.unwrap_or_default();
        let keys = sharding.run_states.iter().map(|member| keys::shard_run_state(job, member)).collect();
        let found = self.read(keys).await?;
        let run_state = |member: &Member| {
            let entry = found.get(&keys::shard_run_state(job, member))?.entry.as_ref()?;
            decode::<ShardRunState>(&entry.value)
        };
        let adopted =
            |member: &Member| (member.clone(), sharding.run_state_of(member, run_state(member).as_ref()));
        Ok(sharding.run_states.iter().map(adopted).collect())
    }

    /// Reads the run states of claimed jobs at this moment, with watermark and open fires, from the registry. A job
    /// that never fired has none.
    ///
    /// # Errors
    /// The registry is out of reach, or the node has stopped.
    pub async fn claimed_run_states(
        &self,
        jobs: &[JobName],
    ) -> Result<BTreeMap<JobName, RunState>, RunStateError> {
        let found = self.read(jobs.iter().map(keys::run_state).collect()).await?;
        let run_state =
            |job: &JobName| decode::<RunState>(&found.get(&keys::run_state(job))?.entry.as_ref()?.value);
        Ok(jobs.iter().filter_map(|job| Some((job.clone(), run_state(job)?))).collect())
    }

    /// Reads the plans of dispatched jobs at this moment from the registry. A job for which nothing was
    /// ever planned has none.
    ///
    /// # Errors
    /// The registry is out of reach, or the node has stopped.
    pub async fn plans(&self, jobs: &[JobName]) -> Result<BTreeMap<JobName, Plan>, RunStateError> {
        let found = self.read(jobs.iter().map(keys::plan).collect()).await?;
        let plan = |job: &JobName| decode::<Plan>(&found.get(&keys::plan(job))?.entry.as_ref()?.value);
        Ok(jobs.iter().filter_map(|job| Some((job.clone(), plan(job)?))).collect())
    }

    /// Returns the loads that the members published last, at most a second old. While the registry does not answer, they
    /// are those that were read last: each says when it was measured.
    pub async fn published_loads(&self) -> Arc<NodeLoads> {
        let members =
            self.with_node(|node| node.view().members().map(|(member, _)| member.clone()).collect());
        self.shared.loads.of(members, async |keys| self.read(keys).await).await
    }

    async fn read(&self, keys: Vec<Key>) -> Result<BTreeMap<Key, Change>, RunStateError> {
        let (answer, answered) = oneshot::channel();
        let gone = || RunStateError("this node has stopped: ask another one".into());
        self.shared.requests.send(HandleRequest::Read(keys, answer)).await.map_err(|_| gone())?;
        let found = answered.await.map_err(|_| gone())?.map_err(|e| RunStateError(e.to_string()))?;
        Ok(found.into_iter().map(|change| (change.key.clone(), change)).collect())
    }

    /// Why this node's history accepts no entries, so that the node claims nothing and refuses changes; else `None`.
    #[must_use]
    pub fn history_trouble(&self) -> Option<String> {
        self.shared.history.trouble()
    }

    /// Appends what this node measures of itself, for a monitoring system; `docs/metrics.md` has the table. A program may
    /// append metrics of its own with [`MetricsFormat::write`]; OpenMetrics wants the line `# EOF` at the end.
    pub fn write_metrics(&self, format: MetricsFormat, out: &mut String) {
        let state = self.with_node(|node| {
            let namespaces = node.view().namespaces().map(|namespace| namespace.namespace.name.as_str());
            self.shared.metrics.begin_namespaces(namespaces);
            let state = NodeState {
                node,
                now: clock::now(),
                engine: self.shared.facts.engine,
                history_waiting: self.shared.history.waiting(),
                history_writable: self.shared.history.trouble().is_none(),
            };
            state.gauges()
        });
        self.shared.metrics.write(state, format, out);
    }

    /// Whether all nodes of the cluster share one history: it is a database on a server, or they share a host and the
    /// settings name no history. Otherwise other nodes may have histories of their own, which have to be queried.
    #[must_use]
    pub fn shares_history(&self) -> bool {
        self.shared.shares_history
    }

    /// Reads attempts from the history, the latest first.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, HistoryError> {
        self.shared.history.runs(filter).await
    }

    /// Reads the attempts of a job that were due from `since` on, and since when all of its attempts are kept. What this node
    /// has put into its history before is in the answer, unless the history accepts no entries.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn job_records(&self, job: &JobName, since: Wall) -> Result<JobRecords, HistoryError> {
        self.shared.history.job_records(job.clone(), (since, clock::now().wall)).await
    }

    /// Reads all attempts of one run, the first one first; empty when the history has none.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn run(&self, run: &RunId) -> Result<Vec<RunRecord>, HistoryError> {
        self.shared.history.run(run.clone()).await
    }

    /// Waits until the run has ended, wherever it is executed, and returns its last attempt.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn wait(&self, run: &RunId) -> Result<RunRecord, HistoryError> {
        let mut changes = self.changes();
        loop {
            let attempts = self.run(run).await?;
            if let Some(last) = attempts.into_iter().next_back().filter(|attempt| attempt.state.is_end()) {
                return Ok(last);
            }
            let _ = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await;
        }
    }

    /// Reads at most `max` bytes of an attempt's output from `offset` on.
    ///
    /// # Errors
    /// The file cannot be read. Output that was never written, or was deleted by retention, is an empty chunk.
    pub async fn log(&self, run: &RunId, attempt: u32, offset: u64, max: usize) -> std::io::Result<LogChunk> {
        let (logs, run) = (self.shared.logs.clone(), run.clone());
        tokio::task::spawn_blocking(move || logs.read(&run, attempt, offset, max))
            .await
            .unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
    }

    /// Deletes this node's output files of a run; returns how many attempts had one. The history of the run stays. A
    /// run in progress loses what it has written and what it still writes.
    ///
    /// # Errors
    /// A file cannot be deleted.
    pub async fn remove_log(&self, run: &RunId) -> std::io::Result<usize> {
        let removed = self.remove_log_unaudited(run).await;
        let action =
            AuditAction::new(CommandKind::FORGET.verb, &format!("run {run}")).of_job(Some(run.job.clone()));
        let (outcome, why) = match &removed {
            Ok(0) => (AuditOutcome::Unchanged, String::new()),
            Ok(_) => (AuditOutcome::Applied, String::new()),
            // Some of it may be deleted.
            Err(e) => (AuditOutcome::Unknown, e.to_string()),
        };
        self.log_decision(Requester::process(), action, outcome, why).await;
        removed
    }

    /// Deletes a run's output for a program that writes the audit entry itself, by
    /// [`log_decision`](Self::log_decision).
    ///
    /// # Errors
    /// A file cannot be deleted.
    pub async fn remove_log_unaudited(&self, run: &RunId) -> std::io::Result<usize> {
        let (logs, run) = (self.shared.logs.clone(), run.clone());
        tokio::task::spawn_blocking(move || logs.remove(&run))
            .await
            .unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
    }

    /// Reads the events of nodes that share this history, the latest first.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn events(&self, filter: EventFilter) -> Result<Vec<EventRecord>, HistoryError> {
        self.shared.history.events(filter).await
    }

    /// Sums up the fires that this node's history counted.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn summary(&self, filter: SummaryFilter) -> Result<SummaryPart, HistoryError> {
        self.shared.history.summary(filter).await
    }

    /// Reads a node's load since a moment, the latest first: a point a minute.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn loads(
        &self,
        node: &NodeName,
        since: Wall,
        limit: u32,
    ) -> Result<Vec<LoadPoint>, HistoryError> {
        self.shared.history.loads(node.to_string(), since, limit).await
    }

    /// Takes an operation of the cluster for the present beat (`S0-24`): one caller gets it, whichever node it asks. It
    /// is not given back, for in the next beat it is free. Callers at idle nodes usually come first.
    ///
    /// # Errors
    /// It is taken, or this node takes no beats; the text says which.
    pub async fn beat(&self, operation: Operation) -> Result<Beat, String> {
        match self.ask(Command::Beat(operation)).await {
            Answer::Beat { beat, token } => Ok(Beat { beat, token }),
            Answer::Refused(_, why) => Err(why),
            other => Err(format!("a beat was answered by {other:?}")),
        }
    }

    /// Notifies when anything may have changed, at most ten times a second.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.clone()
    }

    /// Takes a lock of the cluster, or takes it once more when this node holds it (`S1-09`). Waits for another holder
    /// as long as it takes; dropping the future gives up, and gives back a lock that was granted meanwhile.
    ///
    /// Every write that the lock protects should carry [`LockGuard::token`], and the system written to should refuse
    /// one lower than it has seen: a lock by lease alone does not exclude a paused holder.
    ///
    /// # Errors
    /// The node's reason when it can take no lock at all.
    pub async fn lock(&self, name: LockName) -> Result<LockGuard, String> {
        LockGuard::take(self.clone(), name).await
    }

    /// Leaves the cluster gracefully: claims nothing more, lets runs finish, frees the jobs, closes the lease, stops.
    ///
    /// What is not done within `bound` is cut short as by [`stop_now`](Self::stop_now).
    pub async fn leave(&self, bound: Duration) -> LeaveOutcome {
        let answer = tokio::time::timeout(bound, self.ask(Command::Leave)).await;
        let left = if answer == Ok(Answer::Done) { LeaveOutcome::Cleanly } else { LeaveOutcome::InHaste };
        self.stop_now().await;
        left
    }

    /// Continues the process in this program, with its running commands. Does not return if that succeeds: the next
    /// program calls [`ReceivedHandoff::receive`](crate::upgrade::ReceivedHandoff::receive), which also has the
    /// listener.
    ///
    /// Functions and requests run inside the process and cannot continue: while there are any the node works as usual,
    /// at most `wait`.
    ///
    /// # Errors
    /// The upgrade was not possible, and the node works on unchanged; the text says why and the fix.
    pub async fn upgrade(
        &self,
        program: ProgramFile,
        listener: Option<OwnedFd>,
        wait: Duration,
    ) -> Result<Infallible, String> {
        let action = AuditAction::on_node(CommandKind::UPGRADE.verb, self.name());
        self.log_decision(Requester::process(), action, AuditOutcome::Applied, UPGRADE_BEGINS.to_owned())
            .await;
        self.upgrade_unaudited(program, listener, wait).await
    }

    /// Upgrades for a program that writes the audit entry itself, by [`log_decision`](Self::log_decision).
    ///
    /// # Errors
    /// Same as of [`upgrade`](Self::upgrade).
    pub async fn upgrade_unaudited(
        &self,
        program: ProgramFile,
        listener: Option<OwnedFd>,
        wait: Duration,
    ) -> Result<Infallible, String> {
        let (refused, why) = oneshot::channel();
        let order = HandleRequest::Upgrade(Box::new(NodeUpgrade { program, listener, wait, refused }));
        let gone = || "this node has stopped".to_owned();
        self.shared.requests.send(order).await.map_err(|_| gone())?;
        Err(why.await.unwrap_or_else(|_| gone()))
    }

    /// Stops the node at once: runs are ended, the history is written, the lease is left to end by itself. The node's
    /// next life on the same data folder ends it (law 8).
    pub async fn stop_now(&self) {
        let _ = self.shared.requests.send(HandleRequest::Halt).await;
        let _ = self.stopped().await;
    }

    /// Waits until the node has stopped, for whatever reason.
    ///
    /// # Errors
    /// It stopped without a request; the text says why and the fix.
    pub async fn stopped(&self) -> Result<(), String> {
        let mut stopped = self.shared.stopped.clone();
        match stopped.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(why)) if why.is_empty() => Ok(()),
            Ok(Some(why)) => Err(why.clone()),
            Ok(None) | Err(_) => Err("the node's thread ended unexpectedly: see the log".to_string()),
        }
    }
}
