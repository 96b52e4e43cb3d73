//! What the other nodes' histories have, where each node keeps its own.
//!
//! A run is in the history of the node that made an attempt of it, or said what became of one. So whoever is asked asks
//! all that live, and puts together what they say.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use axum::http::StatusCode;
use evenkeel::audit::{AuditFilter, AuditRecord};
use evenkeel::{EventFilter, EventRecord, RunFilter, RunRecord, State};
use evenkeel_core::time::Wall;
use evenkeel_core::words::{NodeName, RunId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::{ApiError, App, relay};
use crate::board;
use crate::peer::{Found, Wanted};

/// A list is not worth waiting longer for.
const PATIENCE: Duration = Duration::from_secs(2);

/// How far a list has come in each history that has more.
pub(super) type Cursor = BTreeMap<NodeName, u64>;

/// Something that a history keeps.
pub(super) trait Kept: DeserializeOwned + Send + 'static {
    /// What two histories may both tell of.
    type Id: Ord;

    fn id(&self) -> Self::Id;

    /// Its place in the history that it is from.
    fn seq(&self) -> u64;

    /// When it happened.
    fn moment(&self) -> Wall;

    /// Whether this is what stands, of two that tell of the same.
    fn outranks(&self, known: &Self) -> bool;
}

/// What was found in the histories of several nodes, each in its own order.
pub(super) struct Sources<T> {
    found: BTreeMap<NodeName, Vec<T>>,
    /// Nodes that live and did not answer.
    missing: Vec<NodeName>,
}

/// A page of what all have, the latest first.
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    /// Where the next page begins; `None` at the end.
    pub(super) next: Option<Cursor>,
    /// Nodes that live and did not answer.
    pub(super) missing: Vec<NodeName>,
}

impl Kept for RunRecord {
    type Id = (RunId, u32);

    fn id(&self) -> Self::Id {
        (self.run.clone(), self.attempt)
    }

    fn seq(&self) -> u64 {
        self.seq
    }

    fn moment(&self) -> Wall {
        self.started.or(self.ended).unwrap_or(self.due)
    }

    /// An end before none, and the end that came first; what goes on before what waits.
    fn outranks(&self, known: &Self) -> bool {
        let rank = |record: &Self| match record.state {
            State::Waiting => 0,
            State::Running => 1,
            _ => 2,
        };
        match (rank(self), rank(known)) {
            (2, 2) => self.ended < known.ended,
            (mine, other) => mine > other,
        }
    }
}

impl Kept for EventRecord {
    type Id = (Wall, String, String, String);

    fn id(&self) -> Self::Id {
        (self.at, self.node.clone(), self.kind.clone(), self.text.clone())
    }

    fn seq(&self) -> u64 {
        self.seq
    }

    fn moment(&self) -> Wall {
        self.at
    }

    fn outranks(&self, _known: &Self) -> bool {
        false
    }
}

impl Kept for AuditRecord {
    type Id = String;

    fn id(&self) -> Self::Id {
        self.id.clone()
    }

    fn seq(&self) -> u64 {
        self.seq
    }

    fn moment(&self) -> Wall {
        self.at
    }

    fn outranks(&self, known: &Self) -> bool {
        self.outcome.is_end() && !known.outcome.is_end()
    }
}

impl<T: Kept + Clone> Sources<T> {
    /// A page of these and of the asked node's own.
    pub(super) fn page(&self, own: (NodeName, Vec<T>), limit: u32) -> Page<T> {
        let mut sources = self.found.clone();
        sources.extend([own]);
        let (rows, next) = merge(sources, limit as usize);
        Page { rows, next, missing: self.missing.clone() }
    }
}

impl<T> Default for Sources<T> {
    fn default() -> Self {
        Self { found: BTreeMap::new(), missing: Vec::new() }
    }
}

/// Whether this is what stands, of two records of one attempt.
pub(super) fn outranks(record: &RunRecord, known: &RunRecord) -> bool {
    record.outranks(known)
}

/// A page of the runs that all histories have.
pub(super) async fn runs(
    app: &App,
    filter: RunFilter,
    from: Option<Cursor>,
) -> Result<Page<RunRecord>, ApiError> {
    let others = other_runs(app, &filter, from.as_ref(), PATIENCE).await;
    let (own, limit) = (app.handle.name().clone(), filter.limit);
    let runs = match begins_here(app, from.as_ref()) {
        Some(before) => app.handle.runs(RunFilter { before, ..filter }).await?,
        None => Vec::new(),
    };
    Ok(others.page((own, runs), limit))
}

/// What the other nodes' histories have of runs.
pub(super) async fn other_runs(
    app: &App,
    filter: &RunFilter,
    from: Option<&Cursor>,
    patience: Duration,
) -> Sources<RunRecord> {
    let wanted = |node: &NodeName| {
        let before = begins(from, node)?;
        Some(Wanted { run: None, filter: RunFilter { before, ..filter.clone() } })
    };
    ask(app, "/peer/v1/runs", patience, wanted).await
}

/// A page of the events that all histories have.
pub(super) async fn events(
    app: &App,
    filter: EventFilter,
    from: Option<Cursor>,
) -> Result<Page<EventRecord>, ApiError> {
    let others = other_events(app, &filter, from.as_ref(), PATIENCE).await;
    let (own, limit) = (app.handle.name().clone(), filter.limit);
    let events = match begins_here(app, from.as_ref()) {
        Some(before) => app.handle.events(EventFilter { before, ..filter }).await?,
        None => Vec::new(),
    };
    Ok(others.page((own, events), limit))
}

/// What the other nodes' histories have of events.
pub(super) async fn other_events(
    app: &App,
    filter: &EventFilter,
    from: Option<&Cursor>,
    patience: Duration,
) -> Sources<EventRecord> {
    let wanted = |node: &NodeName| Some(EventFilter { before: begins(from, node)?, ..filter.clone() });
    ask(app, "/peer/v1/events", patience, wanted).await
}

/// A page of the audit log that all histories have.
pub(super) async fn audit(
    app: &App,
    filter: AuditFilter,
    from: Option<Cursor>,
) -> Result<Page<AuditRecord>, ApiError> {
    let others = other_audit(app, &filter, from.as_ref(), PATIENCE).await;
    let (own, limit) = (app.handle.name().clone(), filter.limit);
    let entries = match begins_here(app, from.as_ref()) {
        Some(before) => app.handle.audit(AuditFilter { before, ..filter }).await?,
        None => Vec::new(),
    };
    Ok(others.page((own, entries), limit))
}

/// What the other nodes' histories have of the audit log.
pub(super) async fn other_audit(
    app: &App,
    filter: &AuditFilter,
    from: Option<&Cursor>,
    patience: Duration,
) -> Sources<AuditRecord> {
    let wanted = |node: &NodeName| Some(AuditFilter { before: begins(from, node)?, ..filter.clone() });
    ask(app, "/peer/v1/audit", patience, wanted).await
}

/// Where a page begins in a node's history; `None` when that has no more.
fn begins(from: Option<&Cursor>, node: &NodeName) -> Option<Option<u64>> {
    match from {
        Some(cursor) => cursor.get(node).copied().map(Some),
        None => Some(None),
    }
}

/// Where a page begins in the history of the node that is asked. Where all share one, another node may have named it.
fn begins_here(app: &App, from: Option<&Cursor>) -> Option<Option<u64>> {
    let shared = from.filter(|cursor| app.handle.shares_history() && cursor.len() == 1);
    match shared.and_then(|cursor| cursor.values().next()) {
        Some(before) => Some(Some(*before)),
        None => begins(from, app.handle.name()),
    }
}

/// All attempts of a run, the first one first.
pub(super) async fn attempts(app: &App, run: &RunId) -> Result<Vec<RunRecord>, ApiError> {
    let mut found: BTreeMap<u32, RunRecord> = BTreeMap::new();
    let own = app.handle.run(run).await?;
    let wanted = |_: &NodeName| Some(Wanted { run: Some(run.clone()), filter: RunFilter::default() });
    let others: Sources<RunRecord> = ask(app, "/peer/v1/runs", PATIENCE, wanted).await;
    for record in own.into_iter().chain(others.found.into_values().flatten()) {
        match found.get(&record.attempt) {
            Some(known) if !record.outranks(known) => {}
            _ => drop(found.insert(record.attempt, record)),
        }
    }
    if found.is_empty() {
        return Ok(board::taken_back(&app.handle, run).into_iter().collect());
    }
    Ok(found.into_values().collect())
}

/// Asks all others at once.
async fn ask<T: Kept, W: Serialize + Send + 'static>(
    app: &App,
    path: &'static str,
    patience: Duration,
    wanted: impl Fn(&NodeName) -> Option<W>,
) -> Sources<T> {
    let mut sources = Sources::default();
    if app.handle.shares_history() {
        return sources;
    }
    let mut asked = JoinSet::new();
    for name in board::names(&app.handle) {
        // A node that answers nowhere has nothing that could be asked for.
        let (Some(wanted), Ok(Some(other))) = (wanted(&name), relay::other(app, name.as_str())) else {
            continue;
        };
        asked.spawn(async move {
            let body = serde_json::to_vec(&wanted).unwrap_or_default();
            let heard = other.within(patience).post(path, body).await;
            let heard = heard.ok().filter(|heard| heard.status == StatusCode::OK);
            (name, heard.and_then(|heard| serde_json::from_slice::<Found<T>>(&heard.body).ok()))
        });
    }
    while let Some(Ok((name, answer))) = asked.join_next().await {
        match answer {
            Some(Found { rows }) => drop(sources.found.insert(name, rows)),
            None => sources.missing.push(name),
        }
    }
    sources.missing.sort();
    sources
}

/// Merges lists that are each in the order of their history, up to a page, and says how far each was used.
fn merge<T: Kept>(sources: BTreeMap<NodeName, Vec<T>>, limit: usize) -> (Vec<T>, Option<Cursor>) {
    let mut next = Cursor::new();
    let mut heads: Vec<_> = sources
        .into_iter()
        .map(|(name, rows)| (name, rows.len() >= limit, None, rows.into_iter().peekable()))
        .collect();
    let (mut rows, mut told): (Vec<T>, BTreeMap<T::Id, usize>) = (Vec::new(), BTreeMap::new());
    while rows.len() < limit {
        let latest = heads.iter_mut().filter_map(|(name, _, used, list)| {
            let head = list.peek()?;
            Some((head.moment(), name, used, list))
        });
        let Some((_, _, used, list)) = latest.max_by_key(|(at, ..)| *at) else { break };
        let Some(record) = list.next() else { break };
        *used = Some(record.seq());
        match told.entry(record.id()) {
            Entry::Vacant(place) => {
                place.insert(rows.len());
                rows.push(record);
            }
            Entry::Occupied(place) => {
                let known = &mut rows[*place.get()];
                if record.outranks(known) {
                    *known = record;
                }
            }
        }
    }
    for (name, full, used, mut list) in heads {
        let unused = list.peek().map(|head| head.seq() + 1);
        if let Some(before) = used.filter(|_| full || unused.is_some()).or(unused) {
            next.insert(name, before);
        }
    }
    (rows, Some(next).filter(|next| !next.is_empty()))
}

/// A cursor as text: `a:17,b:4`.
pub(super) fn written(cursor: &Cursor) -> String {
    cursor.iter().map(|(name, seq)| format!("{name}:{seq}")).collect::<Vec<_>>().join(",")
}

/// The way back.
pub(super) fn read(text: &str) -> Result<Cursor, ApiError> {
    let part = |part: &str| {
        let (name, seq) = part.rsplit_once(':')?;
        Some((name.parse().ok()?, seq.parse().ok()?))
    };
    text.split(',').map(part).collect::<Option<Cursor>>().ok_or_else(|| {
        ApiError::invalid(format!("before is {text:?}: give what the page before named, such as a:17,b:4"))
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    fn record(run: &str, seq: u64, at: i64, state: State) -> RunRecord {
        let run: RunId = run.parse().expect("a run");
        RunRecord {
            seq,
            attempt: 1,
            job: run.job.clone(),
            shard: run.shard,
            due: Wall(at),
            node: "a@1".into(),
            state,
            reason: String::new(),
            sent: String::new(),
            code: None,
            token: None,
            started: Some(Wall(at)),
            ended: state.is_end().then_some(Wall(at + 1)),
            from: Wall(at),
            output: 0,
            run,
        }
    }

    fn sources(lists: &[(&str, &[(u64, i64)])]) -> BTreeMap<NodeName, Vec<RunRecord>> {
        let list = |runs: &[(u64, i64)]| {
            runs.iter().map(|(seq, at)| record(&format!("j:{at}:0"), *seq, *at, State::Succeeded)).collect()
        };
        lists.iter().map(|(name, runs)| (name.parse().expect("a name"), list(runs))).collect()
    }

    #[test]
    fn pages_of_several_histories_are_one_list() {
        let (a, b): (&[_], &[_]) = (&[(9, 90), (8, 70), (7, 50)], &[(4, 80), (3, 60)]);
        let (runs, next) = merge(sources(&[("a", a), ("b", b)]), 3);
        assert_eq!(runs.iter().map(|run| run.due.0).collect::<Vec<_>>(), [90, 80, 70]);
        let next = next.expect("there is more");
        assert_eq!(written(&next), "a:8,b:4");
        assert_eq!(read("a:8,b:4").ok(), Some(next));
        let (runs, next) = merge(sources(&[("a", &a[2..]), ("b", &b[1..])]), 3);
        assert_eq!(runs.iter().map(|run| run.due.0).collect::<Vec<_>>(), [60, 50]);
        assert_eq!(next, None);
    }

    #[test]
    fn a_history_of_which_nothing_was_used_begins_where_it_began() {
        let (_, next) = merge(sources(&[("a", &[(9, 90), (8, 80)]), ("b", &[(4, 10)])]), 2);
        assert_eq!(next.as_ref().map(written).as_deref(), Some("a:8,b:5"));
    }

    #[test]
    fn an_attempt_that_two_tell_of_is_one_and_its_end_stands() {
        let (lost, running) = (record("j:90:0", 3, 90, State::Lost), record("j:90:0", 7, 90, State::Running));
        let names = ["a", "b"].map(|name| name.parse::<NodeName>().expect("a name"));
        let lists = names.into_iter().zip([vec![running], vec![lost.clone()]]).collect();
        assert_eq!(merge(lists, 5).0, [lost]);
        assert!(read("nonsense").is_err() && read("a:x").is_err());
    }
}
