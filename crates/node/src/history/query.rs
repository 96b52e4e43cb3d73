//! What history is asked, and the thread that asks it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use evenkeel_core::time::Wall;
use evenkeel_core::words::RunId;
use evenkeel_registry::BoxFuture;
use evenkeel_registry::sql::{Arg, Statement};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::Progress;
use super::link::{Fault, Link, Row};
use super::place::Place;
use super::record::{EventFilter, EventRecord, LoadPoint, RunFilter, RunRecord, State};
use super::store::{COLUMNS, any_of, number, record};
use crate::audit::{AuditFilter, AuditRecord};

/// The most rows one question is answered with.
pub(super) const LIMIT_MAX: u32 = 10_000;
/// So long are outcomes waited for that the writer was handed.
const OUTCOMES: Duration = Duration::from_secs(2);
/// How many questions a server is asked at once.
const AT_ONCE: usize = 4;

/// The history could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the history cannot be read: {0}")]
pub struct HistoryError(String);

/// A door for readers, beside the one writer.
#[derive(Clone)]
pub(crate) struct HistoryReader {
    door: mpsc::UnboundedSender<Box<dyn Errand>>,
    /// Why the database takes no entries; `None` while it does.
    trouble: watch::Receiver<Option<String>>,
    progress: Progress,
}

impl HistoryReader {
    /// Starts the thread that reads. It ends when nobody can ask it any more.
    pub(super) fn start(
        place: Place,
        trouble: watch::Receiver<Option<String>>,
        progress: Progress,
    ) -> Result<Self, String> {
        let (door, mut errands) = mpsc::unbounded_channel::<Box<dyn Errand>>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let read = move || {
            runtime.block_on(async move {
                let links = Arc::new(Links { place, idle: Mutex::default(), free: Semaphore::new(AT_ONCE) });
                while let Some(errand) = errands.recv().await {
                    tokio::spawn(links.clone().carry_out(errand));
                }
            });
        };
        thread::Builder::new().name("evenkeel-reader".into()).spawn(read).map_err(|e| e.to_string())?;
        Ok(Self { door, trouble, progress })
    }

    /// Why the database takes no entries; `None` while it does.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    pub(crate) async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, HistoryError> {
        self.ask(filter).await
    }

    pub(crate) async fn run(&self, run: RunId) -> Result<Vec<RunRecord>, HistoryError> {
        self.ask(run).await
    }

    pub(crate) async fn events(&self, filter: EventFilter) -> Result<Vec<EventRecord>, HistoryError> {
        self.ask(filter).await
    }

    /// What was answered before the question is in the answer to it: its outcomes are waited for, unless nothing can be written.
    pub(crate) async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, HistoryError> {
        if self.trouble().is_none() {
            self.progress.settle(OUTCOMES).await;
        }
        self.ask(filter).await
    }

    pub(crate) async fn loads(
        &self,
        node: String,
        since: Wall,
        limit: u32,
    ) -> Result<Vec<LoadPoint>, HistoryError> {
        self.ask(Loads { node, since, limit }).await
    }

    async fn ask<Q: Question>(&self, question: Q) -> Result<Vec<Q::Found>, HistoryError> {
        let (reply, replied) = oneshot::channel();
        // Without a thread nobody replies, and that is told below.
        let _ = self.door.send(Box::new(Asked { question, reply: Some(reply) }));
        let answer = replied.await.map_err(|_| HistoryError("its thread has ended: see the log".into()))?;
        answer.map_err(|Fault(why)| HistoryError(why))
    }
}

/// Something that can be asked.
pub(super) trait Question: Send + Sync + 'static {
    type Found: Send;

    fn ask(&self, link: &mut Link) -> impl Future<Output = Result<Vec<Self::Found>, Fault>> + Send;
}

/// A question and who waits for its answer.
struct Asked<Q: Question> {
    question: Q,
    reply: Option<oneshot::Sender<Result<Vec<Q::Found>, Fault>>>,
}

impl<Q: Question> Asked<Q> {
    fn answer(&mut self, answer: Result<Vec<Q::Found>, Fault>) {
        if let Some(reply) = self.reply.take() {
            // Who asked may be gone.
            let _ = reply.send(answer);
        }
    }
}

/// The same, whatever is asked.
trait Errand: Send {
    /// Asks, and answers if there is an answer.
    fn put<'a>(&'a mut self, link: &'a mut Link) -> BoxFuture<'a, Result<(), Fault>>;

    /// There will be none.
    fn give_up(&mut self, fault: Fault);
}

impl<Q: Question> Errand for Asked<Q> {
    fn put<'a>(&'a mut self, link: &'a mut Link) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let found = self.question.ask(link).await?;
            self.answer(Ok(found));
            Ok(())
        })
    }

    fn give_up(&mut self, fault: Fault) {
        self.answer(Err(fault));
    }
}

/// Connections that are not in use.
struct Links {
    place: Place,
    idle: Mutex<Vec<Link>>,
    free: Semaphore,
}

impl Links {
    async fn carry_out(self: Arc<Self>, mut errand: Box<dyn Errand>) {
        // It is never closed.
        let _turn = self.free.acquire().await;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // One to a file that was deleted, replaced or damaged answers what nobody else would.
        if let Some(mut link) = idle.filter(|link| link.harm().is_none()) {
            // The server may have closed a connection that was silent for long: nothing is wrong with a new one.
            if errand.put(&mut link).await.is_ok() {
                return self.keep(link);
            }
        }
        match Link::open_to_read(&self.place).await {
            Ok(link) if link.harm().is_some() => errand.give_up(Fault("its file is damaged".into())),
            Ok(mut link) => match errand.put(&mut link).await {
                Ok(()) => self.keep(link),
                Err(fault) => errand.give_up(fault),
            },
            Err(fault) => errand.give_up(fault),
        }
    }

    fn keep(&self, link: Link) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }
}

impl Question for RunFilter {
    type Found = RunRecord;

    async fn ask(&self, link: &mut Link) -> Result<Vec<RunRecord>, Fault> {
        if !self.attempts.is_empty() {
            return attempts(link, &self.attempts).await;
        }
        let mut found = Vec::new();
        // Each state apart: so each is found in the order of an index, and not sorted.
        let states: Vec<Option<State>> = match self.states.as_slice() {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        };
        // The runs of a fire are those between its name with this mark behind it and its name with the next mark.
        let ends = self.fire.as_ref().map(|fire| (format!("{fire}:"), format!("{fire};")));
        for state in states {
            let rows = link.rows(runs(link, self, ends.as_ref(), state)).await?;
            found.extend(rows.iter().map(record).collect::<Result<Vec<_>, _>>()?);
        }
        found.sort_by_key(|record| std::cmp::Reverse(record.seq));
        found.dedup_by_key(|record| record.seq);
        found.truncate(self.limit.min(LIMIT_MAX) as usize);
        Ok(found)
    }
}

/// What there is of these attempts.
async fn attempts(link: &mut Link, wanted: &[(RunId, u32)]) -> Result<Vec<RunRecord>, Fault> {
    let runs: BTreeSet<String> = wanted.iter().map(|(run, _)| run.to_string()).collect();
    let asked = format!("SELECT {COLUMNS} FROM {} WHERE run IN ", link.table("attempt"));
    let rows = any_of(link, &asked, runs.iter().map(String::as_str)).await?;
    let mut found = rows.iter().map(record).collect::<Result<Vec<_>, _>>()?;
    let wanted: BTreeSet<(&RunId, u32)> = wanted.iter().map(|(run, attempt)| (run, *attempt)).collect();
    found.retain(|record| wanted.contains(&(&record.run, record.attempt)));
    found.sort_by_key(|record| std::cmp::Reverse(record.seq));
    Ok(found)
}

fn runs<'a>(
    link: &Link,
    filter: &'a RunFilter,
    ends: Option<&'a (String, String)>,
    state: Option<State>,
) -> Statement<'a> {
    let before = filter.before.map_or(i64::MAX, u64::cast_signed);
    let asked = link.says(format!("SELECT {COLUMNS} FROM {} WHERE seq < ", link.table("attempt")));
    let mut asked = asked.with(Arg::Int(before));
    if let Some(job) = &filter.job {
        asked = asked.then(" AND job = ").with(Arg::Text(job.as_str()));
    }
    if let Some((from, to)) = ends {
        asked = asked.then(" AND run >= ").with(Arg::Text(from)).then(" AND run < ").with(Arg::Text(to));
    }
    asked = match (state.map(number), &filter.job) {
        (None, _) => asked,
        // A job has few attempts, and the cluster may have very many in that state: the sum keeps the states' index out.
        (Some(state), Some(_)) => asked.then(&format!(" AND state + 0 = {state}")),
        // Said in the index's own words too, or it might not be used.
        (Some(state), None) if state != number(State::Succeeded) => {
            asked.then(&format!(" AND state = {state} AND state <> 1"))
        }
        (Some(state), None) => asked.then(&format!(" AND state = {state}")),
    };
    asked.then(&format!(" ORDER BY seq DESC LIMIT {}", filter.limit.min(LIMIT_MAX)))
}

impl Question for RunId {
    type Found = RunRecord;

    async fn ask(&self, link: &mut Link) -> Result<Vec<RunRecord>, Fault> {
        let run = self.to_string();
        let asked = link.says(format!("SELECT {COLUMNS} FROM {} WHERE run = ", link.table("attempt")));
        let rows = link.rows(asked.with(Arg::Text(&run)).then(" ORDER BY attempt")).await?;
        rows.iter().map(record).collect()
    }
}

impl Question for EventFilter {
    type Found = EventRecord;

    async fn ask(&self, link: &mut Link) -> Result<Vec<EventRecord>, Fault> {
        let before = self.before.map_or(i64::MAX, u64::cast_signed);
        let asked = format!("SELECT seq, at, node, kind, text FROM {} WHERE seq < ", link.table("event"));
        let mut asked = link.says(asked).with(Arg::Int(before));
        if let Some(since) = self.since {
            asked = asked.then(" AND at >= ").with(Arg::Int(since.0));
        }
        for (column, wanted) in [("node", &self.node), ("kind", &self.kind)] {
            if let Some(wanted) = wanted {
                asked = asked.then(&format!(" AND {column} = ")).with(Arg::Text(wanted));
            }
        }
        let asked = asked.then(&format!(" ORDER BY seq DESC LIMIT {}", self.limit.min(LIMIT_MAX)));
        link.rows(asked).await?.iter().map(event).collect()
    }
}

fn event(row: &Row) -> Result<EventRecord, Fault> {
    Ok(EventRecord {
        seq: row.int(0)?.cast_unsigned(),
        at: Wall(row.int(1)?),
        node: row.text(2)?,
        kind: row.text(3)?,
        text: row.text(4)?,
    })
}

/// How busy a node was.
struct Loads {
    node: String,
    since: Wall,
    limit: u32,
}

impl Question for Loads {
    type Found = LoadPoint;

    async fn ask(&self, link: &mut Link) -> Result<Vec<LoadPoint>, Fault> {
        let load = link.table("load");
        let asked = format!("SELECT node, at, cpu, memory, busy, slots, score FROM {load} WHERE node = ");
        let asked =
            link.says(asked).with(Arg::Text(&self.node)).then(" AND at >= ").with(Arg::Int(self.since.0));
        let asked = asked.then(&format!(" ORDER BY at DESC LIMIT {}", self.limit.min(LIMIT_MAX)));
        link.rows(asked).await?.iter().map(point).collect()
    }
}

fn point(row: &Row) -> Result<LoadPoint, Fault> {
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
