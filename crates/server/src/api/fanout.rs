//! Collects records from the histories of all nodes, if each node keeps its own.
//!
//! A run is in the history of the node that made an attempt of it, or reported its outcome. So a node asks all
//! online nodes and merges the answers. [`latest`] decides which of several records of an attempt is current.

pub(super) mod latest;
pub(super) mod versions;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use axum::http::StatusCode;
use evenkeel::audit::{AuditFilter, AuditRecord};
use evenkeel::{AttemptState, EventFilter, EventRecord, RunFilter, RunRecord};
use evenkeel_core::ids::{NodeName, RunId};
use evenkeel_core::time::Wall;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::{ApiError, App, relay};
use crate::peer::{HistoryHealth, PeerHistoryPage, PeerRunQuery};
use crate::queries;
use crate::queries::explain::HistoryFaults;

/// The time limit for a list.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The position of a list in each history that has more.
pub(super) type FanoutCursor = BTreeMap<NodeName, u64>;

/// A record that a history keeps.
pub(crate) trait MergeableRecord: DeserializeOwned + Send + 'static {
    /// The identity of a record that two histories may both have.
    type Id: Ord;

    fn id(&self) -> Self::Id;

    /// Its position in its history.
    fn seq(&self) -> u64;

    /// When it happened.
    fn moment(&self) -> Wall;

    /// Whether this record is current rather than the other, of two with the same identity.
    fn outranks(&self, known: &Self) -> bool;
}

/// The records of several nodes' histories, each in its own order.
pub(super) struct HistorySources<T> {
    found: BTreeMap<NodeName, PeerHistoryPage<T>>,
    /// Online nodes that did not answer.
    missing: Vec<NodeName>,
}

/// A page of all histories, the latest first.
pub(super) struct MergedPage<T> {
    pub(super) rows: Vec<T>,
    /// Where the next page begins; `None` at the end.
    pub(super) next: Option<FanoutCursor>,
    /// Online nodes that did not answer.
    pub(super) missing: Vec<NodeName>,
}

impl MergeableRecord for RunRecord {
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

    /// An end outranks no end, an earlier end a later one, a running attempt a waiting one.
    fn outranks(&self, known: &Self) -> bool {
        let rank = |record: &Self| match record.state {
            AttemptState::Waiting => 0,
            AttemptState::Running => 1,
            _ => 2,
        };
        match (rank(self), rank(known)) {
            (2, 2) => self.ended < known.ended,
            (mine, other) => mine > other,
        }
    }
}

impl MergeableRecord for EventRecord {
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

impl MergeableRecord for AuditRecord {
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

impl<T: MergeableRecord + Clone> HistorySources<T> {
    /// A page of these records and this node's own.
    pub(super) fn page(&self, own: (NodeName, Vec<T>), limit: u32) -> MergedPage<T> {
        let mut sources = self.found.clone();
        sources.insert(own.0, fetch_rows(own.1, limit));
        let (rows, next) = merge(sources, limit as usize);
        MergedPage { rows: once(rows), next, missing: self.missing.clone() }
    }
}

impl<T> Default for HistorySources<T> {
    fn default() -> Self {
        Self { found: BTreeMap::new(), missing: Vec::new() }
    }
}

/// Whether this record is current, of two records of one attempt.
pub(super) fn outranks(record: &RunRecord, known: &RunRecord) -> bool {
    record.outranks(known)
}

/// A page of the runs of all histories. Each attempt appears once, by its current record, and only if that record
/// matches the filter.
pub(super) async fn runs(
    app: &App,
    filter: RunFilter,
    from: Option<FanoutCursor>,
) -> Result<MergedPage<RunRecord>, ApiError> {
    let latest::LatestAttempts { rows, next, missing, .. } =
        latest::runs(app, filter, from, PATIENCE).await?;
    Ok(MergedPage { rows: rows.into_iter().map(|(_, record)| record).collect(), next, missing })
}

/// A page of the events of all histories.
pub(super) async fn events(
    app: &App,
    filter: EventFilter,
    from: Option<FanoutCursor>,
) -> Result<MergedPage<EventRecord>, ApiError> {
    let others = other_events(app, &filter, from.as_ref(), PATIENCE).await;
    let (own, limit) = (app.handle.name().clone(), filter.limit);
    let events = match begins_here(app, from.as_ref()) {
        Some(before) => app.handle.events(EventFilter { before, ..filter }).await?,
        None => Vec::new(),
    };
    Ok(others.page((own, events), limit))
}

/// The events in the other nodes' histories.
pub(super) async fn other_events(
    app: &App,
    filter: &EventFilter,
    from: Option<&FanoutCursor>,
    patience: Duration,
) -> HistorySources<EventRecord> {
    let wanted = |node: &NodeName| Some(EventFilter { before: begins(from, node)?, ..filter.clone() });
    ask(app, "/peer/v1/events", (patience, filter.limit), wanted).await
}

/// A page of the audit log of all histories.
pub(super) async fn audit(
    app: &App,
    filter: AuditFilter,
    from: Option<FanoutCursor>,
) -> Result<MergedPage<AuditRecord>, ApiError> {
    let others = other_audit(app, &filter, from.as_ref(), PATIENCE).await;
    let (own, limit) = (app.handle.name().clone(), filter.limit);
    let entries = match begins_here(app, from.as_ref()) {
        Some(before) => app.handle.audit(AuditFilter { before, ..filter }).await?,
        None => Vec::new(),
    };
    Ok(others.page((own, entries), limit))
}

/// The audit entries in the other nodes' histories.
pub(super) async fn other_audit(
    app: &App,
    filter: &AuditFilter,
    from: Option<&FanoutCursor>,
    patience: Duration,
) -> HistorySources<AuditRecord> {
    let wanted = |node: &NodeName| Some(AuditFilter { before: begins(from, node)?, ..filter.clone() });
    ask(app, "/peer/v1/audit", (patience, filter.limit), wanted).await
}

/// The position at which a page begins in a node's history; `None` if that has no more.
fn begins(from: Option<&FanoutCursor>, node: &NodeName) -> Option<Option<u64>> {
    match from {
        Some(cursor) => cursor.get(node).copied().map(Some),
        None => Some(None),
    }
}

/// The position at which a page begins in this node's history. If all nodes share one, another node may have set it.
fn begins_here(app: &App, from: Option<&FanoutCursor>) -> Option<Option<u64>> {
    let shared = from.filter(|cursor| app.handle.shares_history() && cursor.len() == 1);
    match shared.and_then(|cursor| cursor.values().next()) {
        Some(before) => Some(Some(*before)),
        None => begins(from, app.handle.name()),
    }
}

/// Why histories of online nodes take no entries, by node; without the healthy and those that do not report.
pub(super) async fn troubles(app: &App) -> HistoryFaults {
    let own = app.handle.history_trouble().map(|why| (app.handle.name().clone(), why));
    let mut asked = JoinSet::new();
    for name in queries::names(&app.handle) {
        let Ok(Some(other)) = relay::other(app, name.as_str()) else { continue };
        asked.spawn(async move {
            let heard = other.within(PATIENCE).post("/peer/v1/history", b"{}".to_vec()).await.ok();
            // A node of an earlier version does not have this address.
            let heard = heard.filter(|heard| heard.status == StatusCode::OK)?;
            let told: HistoryHealth = serde_json::from_slice(&heard.body).ok()?;
            Some((name, told.trouble?))
        });
    }
    let mut troubles: HistoryFaults = own.into_iter().collect();
    while let Some(Ok(told)) = asked.join_next().await {
        troubles.extend(told);
    }
    troubles
}

/// All attempts of a run, in order.
pub(super) async fn attempts(app: &App, run: &RunId) -> Result<Vec<RunRecord>, ApiError> {
    let mut found: BTreeMap<u32, RunRecord> = BTreeMap::new();
    let own = app.handle.run(run).await?;
    let wanted = |_: &NodeName| Some(PeerRunQuery { run: Some(run.clone()), filter: RunFilter::default() });
    let others: HistorySources<RunRecord> = ask(app, "/peer/v1/runs", (PATIENCE, u32::MAX), wanted).await;
    for record in own.into_iter().chain(others.found.into_values().flat_map(|found| found.rows)) {
        match found.get(&record.attempt) {
            Some(known) if !record.outranks(known) => {}
            _ => drop(found.insert(record.attempt, record)),
        }
    }
    if found.is_empty() {
        return Ok(queries::withdrawn_run(&app.handle, run).into_iter().collect());
    }
    Ok(found.into_values().collect())
}

/// The rows of a history for a request of at most `limit` rows, as a page.
pub(crate) fn fetch_rows<T: MergeableRecord>(rows: Vec<T>, limit: u32) -> PeerHistoryPage<T> {
    let next = rows.last().map(MergeableRecord::seq).filter(|_| rows.len() >= limit as usize);
    PeerHistoryPage { rows, next }
}

/// Asks all other nodes at once, for at most `limit` rows each.
async fn ask<T: MergeableRecord, W: Serialize + Send + 'static>(
    app: &App,
    path: &'static str,
    (patience, limit): (Duration, u32),
    wanted: impl Fn(&NodeName) -> Option<W>,
) -> HistorySources<T> {
    let mut sources = HistorySources::default();
    if app.handle.shares_history() {
        return sources;
    }
    let mut asked = JoinSet::new();
    for name in queries::names(&app.handle) {
        // A node without an address cannot be asked.
        let (Some(wanted), Ok(Some(other))) = (wanted(&name), relay::other(app, name.as_str())) else {
            continue;
        };
        asked.spawn(async move {
            let body = serde_json::to_vec(&wanted).unwrap_or_default();
            let heard = other.within(patience).post(path, body).await;
            let heard = heard.ok().filter(|heard| heard.status == StatusCode::OK);
            (name, heard.and_then(|heard| serde_json::from_slice::<PeerHistoryPage<T>>(&heard.body).ok()))
        });
    }
    while let Some(Ok((name, answer))) = asked.join_next().await {
        match answer {
            // A node of an earlier version does not report whether there is more.
            Some(PeerHistoryPage { rows, next: None }) => {
                drop(sources.found.insert(name, fetch_rows(rows, limit)))
            }
            Some(more) => drop(sources.found.insert(name, more)),
            None => sources.missing.push(name),
        }
    }
    sources.missing.sort();
    sources
}

/// Merges lists that are each in the order of their history, up to a page, and returns how far each was used. Each row
/// comes with the node whose history it is from.
fn merge<T: MergeableRecord>(
    sources: BTreeMap<NodeName, PeerHistoryPage<T>>,
    limit: usize,
) -> (Vec<(NodeName, T)>, Option<FanoutCursor>) {
    let mut heads: Vec<_> = sources
        .into_iter()
        .map(|(name, found)| (name, found.next, None, found.rows.into_iter().peekable()))
        .collect();
    let mut rows = Vec::new();
    // What a history has beyond its rows may precede the rows of the others.
    while rows.len() < limit
        && !heads.iter_mut().any(|(_, more, _, list)| more.is_some() && list.peek().is_none())
    {
        let latest = heads.iter_mut().filter_map(|(name, _, used, list)| {
            let head = list.peek()?;
            Some((head.moment(), name, used, list))
        });
        let Some((_, name, used, list)) = latest.max_by_key(|(at, ..)| *at) else { break };
        let Some(record) = list.next() else { break };
        *used = Some(record.seq());
        rows.push((name.clone(), record));
    }
    let next = heads.into_iter().filter_map(|(name, more, used, mut list)| {
        let before = match list.peek() {
            Some(head) => Some(used.unwrap_or(head.seq() + 1)),
            None => more,
        };
        Some((name, before?))
    });
    (rows, Some(next.collect::<FanoutCursor>()).filter(|next| !next.is_empty()))
}

/// Each record once: of several with the same identity the current one.
fn once<T: MergeableRecord>(rows: Vec<(NodeName, T)>) -> Vec<T> {
    let (mut each, mut told): (Vec<T>, BTreeMap<T::Id, usize>) = (Vec::new(), BTreeMap::new());
    for (_, record) in rows {
        match told.entry(record.id()) {
            Entry::Vacant(place) => {
                place.insert(each.len());
                each.push(record);
            }
            Entry::Occupied(place) => {
                let known = &mut each[*place.get()];
                if record.outranks(known) {
                    *known = record;
                }
            }
        }
    }
    each
}

/// A cursor as text: `a:17,b:4`.
pub(super) fn written(cursor: &FanoutCursor) -> String {
    cursor.iter().map(|(name, seq)| format!("{name}:{seq}")).collect::<Vec<_>>().join(",")
}

/// Parses the text of a cursor.
pub(super) fn read(text: &str) -> Result<FanoutCursor, ApiError> {
    let part = |part: &str| {
        let (name, seq) = part.rsplit_once(':')?;
        Some((name.parse().ok()?, seq.parse().ok()?))
    };
    text.split(',').map(part).collect::<Option<FanoutCursor>>().ok_or_else(|| {
        ApiError::invalid(format!("before is {text:?}: give what the page before named, such as a:17,b:4"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn record(run: &str, seq: u64, at: i64, state: AttemptState) -> RunRecord {
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
            parameters: evenkeel_core::job::RunParameters::default(),
            run,
        }
    }

    pub(super) fn name(name: &str) -> NodeName {
        name.parse().expect("a name")
    }

    fn sources(
        limit: u32,
        lists: &[(&str, &[(u64, i64)])],
    ) -> BTreeMap<NodeName, PeerHistoryPage<RunRecord>> {
        let list = |runs: &[(u64, i64)]| {
            runs.iter()
                .map(|(seq, at)| record(&format!("j:{at}:0"), *seq, *at, AttemptState::Succeeded))
                .collect()
        };
        lists.iter().map(|(node, runs)| (name(node), fetch_rows(list(runs), limit))).collect()
    }

    fn due(rows: &[(NodeName, RunRecord)]) -> Vec<i64> {
        rows.iter().map(|(_, run)| run.due.0).collect()
    }

    #[test]
    fn pages_of_several_histories_are_one_list() {
        let (a, b): (&[_], &[_]) = (&[(9, 90), (8, 70), (7, 50)], &[(4, 80), (3, 60)]);
        let (runs, next) = merge(sources(3, &[("a", a), ("b", b)]), 3);
        assert_eq!(due(&runs), [90, 80, 70]);
        assert_eq!(runs[1].0, name("b"), "each with its history");
        let next = next.expect("there is more");
        assert_eq!(written(&next), "a:8,b:4");
        assert_eq!(read("a:8,b:4").ok(), Some(next));
        let (runs, next) = merge(sources(3, &[("a", &a[2..]), ("b", &b[1..])]), 3);
        assert_eq!(due(&runs), [60, 50]);
        assert_eq!(next, None);
        assert!(read("nonsense").is_err() && read("a:x").is_err());
    }

    #[test]
    fn a_history_of_which_nothing_was_used_begins_where_it_began() {
        let (_, next) = merge(sources(2, &[("a", &[(9, 90), (8, 80)]), ("b", &[(4, 10)])]), 2);
        assert_eq!(next.as_ref().map(written).as_deref(), Some("a:8,b:5"));
    }

    #[test]
    fn a_history_that_has_more_than_it_gave_is_asked_for_it_before_others_go_on() {
        let mut sources = sources(9, &[("a", &[(9, 90)]), ("b", &[(4, 80), (3, 10)]), ("c", &[])]);
        sources.entry(name("c")).and_modify(|found| found.next = Some(70));
        let (rows, next) = merge(sources.clone(), 9);
        assert_eq!((due(&rows), next.as_ref().map(written).as_deref()), (vec![], Some("a:10,b:5,c:70")));
        sources.entry(name("c")).and_modify(|found| found.next = None);
        sources.entry(name("a")).and_modify(|found| found.next = Some(9));
        let (rows, next) = merge(sources, 9);
        assert_eq!((due(&rows), next.as_ref().map(written).as_deref()), (vec![90], Some("a:9,b:5")));
    }

    #[test]
    fn an_entry_that_two_tell_of_is_one_and_its_end_stands() {
        let (lost, running) =
            (record("j:90:0", 3, 90, AttemptState::Lost), record("j:90:0", 7, 90, AttemptState::Running));
        assert_eq!(once(vec![(name("a"), running), (name("b"), lost.clone())]), [lost]);
    }
}
