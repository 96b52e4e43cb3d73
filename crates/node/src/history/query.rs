//! The queries of history, and the thread that executes them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use evenkeel_core::ids::{Fire, JobName, Namespace, RunId};
use evenkeel_core::time::Wall;
use evenkeel_registry::BoxFuture;
use evenkeel_registry::sql::{SqlArg, SqlStatement};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::attention::{FailingQuery, FailingShard, MissedFires, MissedQuery};
use super::connection::{DatabaseError, HistoryConnection, HistoryRow, odd};
use super::history_query::{HistoryQuery, LIMIT_MAX};
use super::job_records::{JobRecords, JobRecordsQuery};
use super::location::HistoryLocation;
use super::namespace::JobsOfNamespace;
use super::parameters;
use super::progress::WriteProgress;
use super::record::{AttemptState, EventFilter, EventRecord, LoadPoint, RunFilter, RunRecord};
use super::rows::{COLUMNS, any_of, number, record};
use super::summary::{SummaryFilter, SummaryPart};
use crate::audit::{AuditFilter, AuditRecord};
use crate::job_version::{JobVersion, JobVersionFilter};
use crate::retention::Retention;

/// How long a query waits for outcomes that the writer has not written yet.
const OUTCOMES: Duration = Duration::from_secs(2);
/// How many queries a server gets at once.
const AT_ONCE: usize = 4;

/// Why the history could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the history cannot be read: {0}")]
pub struct HistoryError(String);

/// The handle for readers, beside the one writer.
#[derive(Clone)]
pub(crate) struct HistoryReader {
    queries: mpsc::UnboundedSender<Box<dyn ErasedQuery>>,
    /// Why the database accepts no entries; `None` while it does.
    trouble: watch::Receiver<Option<String>>,
    progress: WriteProgress,
    keep: Retention,
}

impl HistoryReader {
    /// Starts the thread that reads. It ends when the last handle is dropped.
    pub(super) fn start(
        place: HistoryLocation,
        trouble: watch::Receiver<Option<String>>,
        progress: WriteProgress,
        keep: Retention,
    ) -> Result<Self, String> {
        let (door, mut errands) = mpsc::unbounded_channel::<Box<dyn ErasedQuery>>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let read = move || {
            runtime.block_on(async move {
                let links = Arc::new(ConnectionPool {
                    location: place,
                    idle: Mutex::default(),
                    free: Semaphore::new(AT_ONCE),
                });
                while let Some(errand) = errands.recv().await {
                    tokio::spawn(links.clone().execute(errand));
                }
            });
        };
        thread::Builder::new().name("evenkeel-reader".into()).spawn(read).map_err(|e| e.to_string())?;
        Ok(Self { queries: door, trouble, progress, keep })
    }

    /// How many entries are not written yet.
    pub(crate) fn waiting(&self) -> u64 {
        self.progress.waiting()
    }

    /// Why the database accepts no entries; `None` while it does.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    pub(crate) async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, HistoryError> {
        self.ask(filter).await
    }

    pub(crate) async fn run(&self, run: RunId) -> Result<Vec<RunRecord>, HistoryError> {
        self.ask(run).await
    }

    pub(crate) async fn summary(&self, filter: SummaryFilter) -> Result<SummaryPart, HistoryError> {
        Ok(self.ask(filter).await?.pop().unwrap_or_default())
    }

    pub(crate) async fn events(&self, filter: EventFilter) -> Result<Vec<EventRecord>, HistoryError> {
        self.ask(filter).await
    }

    /// Reads audit entries. Waits for outcomes known before the query, unless nothing can be written.
    pub(crate) async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, HistoryError> {
        if self.trouble().is_none() {
            self.progress.settle(OUTCOMES).await;
        }
        self.ask(filter).await
    }

    /// Reads versions of a job. Waits for those known before the query, unless nothing can be written.
    pub(crate) async fn job_versions(
        &self,
        filter: JobVersionFilter,
    ) -> Result<Vec<JobVersion>, HistoryError> {
        if self.trouble().is_none() {
            self.progress.settle(OUTCOMES).await;
        }
        self.ask(filter).await
    }

    /// Reads the attempts of a job that were due from `since` on, and since when all of its attempts are kept. Waits for
    /// outcomes known before the query, unless nothing can be written.
    pub(crate) async fn job_records(
        &self,
        job: JobName,
        (since, now): (Wall, Wall),
    ) -> Result<JobRecords, HistoryError> {
        if self.trouble().is_none() {
            self.progress.settle(OUTCOMES).await;
        }
        let records = self.ask(JobRecordsQuery { job, since, now, keep: self.keep }).await?.pop();
        records.ok_or_else(|| HistoryError("it gave no answer".into()))
    }

    pub(crate) async fn loads(
        &self,
        node: String,
        since: Wall,
        limit: u32,
    ) -> Result<Vec<LoadPoint>, HistoryError> {
        self.ask(LoadQuery { node, since, limit }).await
    }

    /// The shards whose latest outcome is a failure.
    pub(crate) async fn failing(&self) -> Result<Vec<FailingShard>, HistoryError> {
        self.ask(FailingQuery).await
    }

    /// The jobs with fires that were due from this moment on and were skipped.
    pub(crate) async fn missed(
        &self,
        since: Wall,
        namespace: Option<Namespace>,
    ) -> Result<Vec<MissedFires>, HistoryError> {
        self.ask(MissedQuery { since, namespace }).await
    }

    async fn ask<Q: HistoryQuery>(&self, question: Q) -> Result<Vec<Q::Item>, HistoryError> {
        let (reply, replied) = oneshot::channel();
        // Without a thread there is no reply, and that is reported below.
        let _ = self.queries.send(Box::new(PendingQuery { question, reply: Some(reply) }));
        let answer = replied.await.map_err(|_| HistoryError("its thread has ended: see the log".into()))?;
        answer.map_err(|DatabaseError(why)| HistoryError(why))
    }
}

/// A query and the channel of its answer.
struct PendingQuery<Q: HistoryQuery> {
    question: Q,
    reply: Option<oneshot::Sender<Result<Vec<Q::Item>, DatabaseError>>>,
}

impl<Q: HistoryQuery> PendingQuery<Q> {
    fn answer(&mut self, answer: Result<Vec<Q::Item>, DatabaseError>) {
        if let Some(reply) = self.reply.take() {
            // The caller may be gone.
            let _ = reply.send(answer);
        }
    }
}

/// A query of any type.
trait ErasedQuery: Send {
    /// Executes the query, and sends the answer if there is one.
    fn put<'a>(&'a mut self, link: &'a mut HistoryConnection) -> BoxFuture<'a, Result<(), DatabaseError>>;

    /// Answers with an error.
    fn give_up(&mut self, fault: DatabaseError);
}

impl<Q: HistoryQuery> ErasedQuery for PendingQuery<Q> {
    fn put<'a>(&'a mut self, link: &'a mut HistoryConnection) -> BoxFuture<'a, Result<(), DatabaseError>> {
        Box::pin(async move {
            let found = self.question.ask(link).await?;
            self.answer(Ok(found));
            Ok(())
        })
    }

    fn give_up(&mut self, fault: DatabaseError) {
        self.answer(Err(fault));
    }
}

/// Idle connections.
struct ConnectionPool {
    location: HistoryLocation,
    idle: Mutex<Vec<HistoryConnection>>,
    free: Semaphore,
}

impl ConnectionPool {
    async fn execute(self: Arc<Self>, mut errand: Box<dyn ErasedQuery>) {
        // The semaphore is never closed.
        let _turn = self.free.acquire().await;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // A connection to a file that was deleted, replaced or damaged gives wrong answers.
        if let Some(mut link) = idle.filter(|link| link.harm().is_none()) {
            // The server may have closed a connection that was idle for long: a new one is tried then.
            if errand.put(&mut link).await.is_ok() {
                return self.keep(link);
            }
        }
        match HistoryConnection::open_to_read(&self.location).await {
            Ok(link) if link.harm().is_some() => errand.give_up(DatabaseError("its file is damaged".into())),
            Ok(mut link) => match errand.put(&mut link).await {
                Ok(()) => self.keep(link),
                Err(fault) => errand.give_up(fault),
            },
            Err(fault) => errand.give_up(fault),
        }
    }

    fn keep(&self, link: HistoryConnection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }
}

impl HistoryQuery for RunFilter {
    type Item = RunRecord;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<RunRecord>, DatabaseError> {
        if !self.attempts.is_empty() {
            return attempts(link, &self.attempts).await;
        }
        let mut found = Vec::new();
        // Each state separately: then an index gives the order, and nothing is sorted.
        let states: Vec<Option<AttemptState>> = match self.states.as_slice() {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        };
        // The runs of a fire are those between its name followed by `:` and its name followed by the next character.
        let ends = self.fire.as_ref().map(|fire| (format!("{fire}:"), format!("{fire};")));
        let jobs = self.namespace.as_ref().map(JobsOfNamespace::of);
        // The node of an attempt is its name, or its name and its life: `n1@7`.
        let lives = self.node.as_ref().map(|node| [node.to_string(), format!("{node}@"), format!("{node}A")]);
        for state in states {
            let texts = FilterTexts { ends: ends.as_ref(), jobs: jobs.as_ref(), lives: lives.as_ref() };
            let rows = link.rows(runs(link, self, texts, state)).await?;
            found.extend(rows.iter().map(record).collect::<Result<Vec<_>, _>>()?);
        }
        found.sort_by_key(|record| std::cmp::Reverse(record.seq));
        found.dedup_by_key(|record| record.seq);
        found.truncate(self.limit.min(LIMIT_MAX) as usize);
        Ok(found)
    }
}

/// Reads these attempts.
async fn attempts(
    link: &mut HistoryConnection,
    wanted: &[(RunId, u32)],
) -> Result<Vec<RunRecord>, DatabaseError> {
    let runs: BTreeSet<String> = wanted.iter().map(|(run, _)| run.to_string()).collect();
    let asked = format!("SELECT {COLUMNS} FROM {} WHERE run IN ", link.table("attempt"));
    let rows = any_of(link, &asked, runs.iter().map(String::as_str)).await?;
    let mut found = rows.iter().map(record).collect::<Result<Vec<_>, _>>()?;
    let wanted: BTreeSet<(&RunId, u32)> = wanted.iter().map(|(run, attempt)| (run, *attempt)).collect();
    found.retain(|record| wanted.contains(&(&record.run, record.attempt)));
    found.sort_by_key(|record| std::cmp::Reverse(record.seq));
    Ok(found)
}

/// The texts that a statement refers to.
struct FilterTexts<'a> {
    /// The bounds of the runs of a fire.
    ends: Option<&'a (String, String)>,
    jobs: Option<&'a JobsOfNamespace>,
    /// A node's name, and the bounds of the names of its lives.
    lives: Option<&'a [String; 3]>,
}

fn runs<'a>(
    link: &HistoryConnection,
    filter: &'a RunFilter,
    FilterTexts { ends, jobs, lives }: FilterTexts<'a>,
    state: Option<AttemptState>,
) -> SqlStatement<'a> {
    let before = filter.before.map_or(i64::MAX, u64::cast_signed);
    let asked = link.statement(format!("SELECT {COLUMNS} FROM {} WHERE seq < ", link.table("attempt")));
    let mut asked = asked.with(SqlArg::Int(before));
    if let Some(job) = &filter.job {
        asked = asked.then(" AND job = ").with(SqlArg::Text(job.as_str()));
    }
    if let Some(jobs) = jobs {
        asked = jobs.narrow(asked);
    }
    if let Some((from, to)) = ends {
        asked =
            asked.then(" AND run >= ").with(SqlArg::Text(from)).then(" AND run < ").with(SqlArg::Text(to));
    }
    if let Some([name, from, to]) = lives {
        asked = asked
            .then(" AND (node = ")
            .with(SqlArg::Text(name))
            .then(" OR node >= ")
            .with(SqlArg::Text(from));
        asked = asked.then(" AND node < ").with(SqlArg::Text(to)).then(")");
    }
    for (condition, moment) in [(" AND due >= ", filter.since), (" AND due < ", filter.until)] {
        if let Some(moment) = moment {
            asked = asked.then(condition).with(SqlArg::Int(moment.0));
        }
    }
    asked = match (state.map(number), &filter.job) {
        (None, _) => asked,
        // A job has few attempts, the cluster may have very many in that state: the sum keeps out the states' index.
        (Some(state), Some(_)) => asked.then(&format!(" AND state + 0 = {state}")),
        // Repeats the index's own condition, without which it might not be used.
        (Some(state), None) if state != number(AttemptState::Succeeded) => {
            asked.then(&format!(" AND state = {state} AND state <> 1"))
        }
        (Some(state), None) => asked.then(&format!(" AND state = {state}")),
    };
    asked.then(&format!(" ORDER BY seq DESC LIMIT {}", filter.limit.min(LIMIT_MAX)))
}

impl HistoryQuery for RunId {
    type Item = RunRecord;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<RunRecord>, DatabaseError> {
        let run = self.to_string();
        let asked = link.statement(format!("SELECT {COLUMNS} FROM {} WHERE run = ", link.table("attempt")));
        let rows = link.rows(asked.with(SqlArg::Text(&run)).then(" ORDER BY attempt")).await?;
        let mut records = rows.iter().map(record).collect::<Result<Vec<RunRecord>, _>>()?;
        if matches!(self.fire, Fire::Asked(_)) && !records.is_empty() {
            let parameters = parameters::load(link, self).await?;
            records.iter_mut().for_each(|record| record.parameters = parameters.clone());
        }
        Ok(records)
    }
}

impl HistoryQuery for EventFilter {
    type Item = EventRecord;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<EventRecord>, DatabaseError> {
        let before = self.before.map_or(i64::MAX, u64::cast_signed);
        let (events, of_jobs) = (link.table("event"), link.table("event_job"));
        let asked = format!(
            "SELECT seq, at, node, kind, text, coalesce(job, '') FROM {events} LEFT JOIN {of_jobs} ON of_event = seq WHERE seq < "
        );
        let jobs = self.namespace.as_ref().map(JobsOfNamespace::of);
        let mut asked = link.statement(asked).with(SqlArg::Int(before));
        if let Some(since) = self.since {
            asked = asked.then(" AND at >= ").with(SqlArg::Int(since.0));
        }
        if let Some(jobs) = &jobs {
            asked = jobs.narrow(asked);
        }
        for (column, wanted) in [("node", &self.node), ("kind", &self.kind)] {
            if let Some(wanted) = wanted {
                asked = asked.then(&format!(" AND {column} = ")).with(SqlArg::Text(wanted));
            }
        }
        let asked = asked.then(&format!(" ORDER BY seq DESC LIMIT {}", self.limit.min(LIMIT_MAX)));
        link.rows(asked).await?.iter().map(event).collect()
    }
}

fn event(row: &HistoryRow) -> Result<EventRecord, DatabaseError> {
    let job = Some(row.text(5)?).filter(|job| !job.is_empty());
    Ok(EventRecord {
        seq: row.int(0)?.cast_unsigned(),
        at: Wall(row.int(1)?),
        node: row.text(2)?,
        kind: row.text(3)?,
        text: row.text(4)?,
        job: job.map(|job| job.parse()).transpose().map_err(|_| odd(5))?,
    })
}

/// The query for a node's load.
struct LoadQuery {
    node: String,
    since: Wall,
    limit: u32,
}

impl HistoryQuery for LoadQuery {
    type Item = LoadPoint;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<LoadPoint>, DatabaseError> {
        let load = link.table("load");
        let asked = format!("SELECT node, at, cpu, memory, busy, slots, score FROM {load} WHERE node = ");
        let asked = link
            .statement(asked)
            .with(SqlArg::Text(&self.node))
            .then(" AND at >= ")
            .with(SqlArg::Int(self.since.0));
        let asked = asked.then(&format!(" ORDER BY at DESC LIMIT {}", self.limit.min(LIMIT_MAX)));
        link.rows(asked).await?.iter().map(point).collect()
    }
}

fn point(row: &HistoryRow) -> Result<LoadPoint, DatabaseError> {
    Ok(LoadPoint {
        node: row.text(0)?,
        at: Wall(row.int(1)?),
        cpu: row.maybe_number(2)?,
        memory: row.maybe_number(3)?,
        busy: row.number(4)?,
        slots: row.number(5)?,
        score: row.number(6)?,
    })
}
