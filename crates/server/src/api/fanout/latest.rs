//! Finds the current record of an attempt that several histories have: each history is asked about each record that
//! one of them returned.
//!
//! A killed node has its attempt as running for ever, while another node has the end of it. Their records are at
//! different positions of the list, and a filter by state finds only one of them. So a record is shown only if it is
//! the current one, and a list of one state has just the attempts whose current record is in that state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel::{AttemptState, RunFilter, RunRecord};
use evenkeel_core::ids::{NodeName, RunId};

use super::{
    FanoutCursor, HistorySources, MergeableRecord, MergedPage, ask, begins, begins_here, fetch_rows, merge,
    once,
};
use crate::api::{ApiError, App};
use crate::peer::{PeerHistoryPage, PeerRunQuery};
use crate::queries;

/// The minimum and the maximum number of records to request at once; a minimum, since some may be stale.
const STEP: (usize, usize) = (100, 1_000);

/// Records of attempts, each with the history that has it.
pub(in crate::api) type LocatedAttempts = BTreeSet<(NodeName, (RunId, u32))>;

/// Attempts by their current records, the latest first.
#[derive(Default)]
pub(in crate::api) struct LatestAttempts {
    /// Each with the node whose history has it.
    pub(in crate::api) rows: Vec<(NodeName, RunRecord)>,
    /// Records that were found and are not current.
    pub(in crate::api) stale: LocatedAttempts,
    /// Where the next page begins; `None` at the end.
    pub(in crate::api) next: Option<FanoutCursor>,
    /// Online nodes that did not answer.
    pub(in crate::api) missing: Vec<NodeName>,
}

impl LatestAttempts {
    /// A page of the other histories' rows and the present rows of this node's own history.
    pub(in crate::api) fn with(
        &self,
        own: &NodeName,
        mut rows: Vec<RunRecord>,
        limit: u32,
    ) -> MergedPage<RunRecord> {
        let mut sources: BTreeMap<NodeName, PeerHistoryPage<RunRecord>> = BTreeMap::new();
        for (node, record) in self.rows.iter().filter(|(node, _)| node != own) {
            sources.entry(node.clone()).or_default().rows.push(record.clone());
        }
        rows.retain(|record| !self.stale.contains(&(own.clone(), record.id())));
        sources.insert(own.clone(), PeerHistoryPage { rows, next: None });
        let (rows, next) = merge(sources, limit as usize);
        MergedPage { rows: once(rows), next, missing: self.missing.clone() }
    }
}

/// A page of attempts from all histories.
///
/// # Errors
/// This node's history cannot be read.
pub(in crate::api) async fn runs(
    app: &App,
    filter: RunFilter,
    from: Option<FanoutCursor>,
    patience: Duration,
) -> Result<LatestAttempts, ApiError> {
    let runs_now = filter.states == [AttemptState::Running];
    let mut page = LatestAttempts { next: from, ..LatestAttempts::default() };
    loop {
        let left = (filter.limit as usize).saturating_sub(page.rows.len());
        let step = left.clamp(STEP.0, STEP.1);
        let wanted = RunFilter { limit: u32::try_from(step).unwrap_or(u32::MAX), ..filter.clone() };
        let HistorySources { found, missing } = histories(app, &wanted, page.next.as_ref(), patience).await?;
        page.missing.extend(missing);
        let (rows, next) = merge(found, step);
        let stale = stale(app, &rows, &mut page.missing, patience).await?;
        let stands = |(node, record): &(NodeName, RunRecord)| {
            !stale.contains(&(node.clone(), record.id()))
                && (!runs_now || queries::still_runs(&app.handle, record))
        };
        let (rows, next) = first_page(rows.into_iter().filter(stands).collect(), next, left);
        page.rows.extend(rows);
        page.stale.extend(stale);
        page.next = next;
        if page.next.is_none() || page.rows.len() >= filter.limit as usize {
            return Ok(page);
        }
    }
}

/// The rows of each history, from the end of the previous page on.
async fn histories(
    app: &App,
    filter: &RunFilter,
    from: Option<&FanoutCursor>,
    patience: Duration,
) -> Result<HistorySources<RunRecord>, ApiError> {
    let wanted = |node: &NodeName| {
        let before = begins(from, node)?;
        Some(PeerRunQuery { run: None, filter: RunFilter { before, ..filter.clone() } })
    };
    let mut sources = ask(app, "/peer/v1/runs", (patience, filter.limit), wanted).await;
    if let Some(before) = begins_here(app, from) {
        let rows = app.handle.runs(RunFilter { before, ..filter.clone() }).await?;
        sources.found.insert(app.handle.name().clone(), fetch_rows(rows, filter.limit));
    }
    Ok(sources)
}

/// The records among these that are stale. Nodes that do not answer are added to the missing ones.
async fn stale(
    app: &App,
    rows: &[(NodeName, RunRecord)],
    missing: &mut Vec<NodeName>,
    patience: Duration,
) -> Result<LocatedAttempts, ApiError> {
    if app.handle.shares_history() {
        return Ok(LocatedAttempts::new());
    }
    let of_others = |node: &NodeName| {
        let others = rows.iter().filter(|(from, _)| from != node);
        let attempts: Vec<_> = others.map(|(_, record)| record.id()).collect();
        let limit = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        (limit > 0).then(|| RunFilter { attempts, limit, ..RunFilter::default() })
    };
    let wanted = |node: &NodeName| {
        let filter = of_others(node).filter(|_| !missing.contains(node))?;
        Some(PeerRunQuery { run: None, filter })
    };
    let mut words = ask::<RunRecord, _>(app, "/peer/v1/runs", (patience, u32::MAX), wanted).await;
    let own = app.handle.name();
    if let Some(filter) = of_others(own) {
        words.found.insert(own.clone(), fetch_rows(app.handle.runs(filter).await?, u32::MAX));
    }
    missing.append(&mut words.missing);
    Ok(outranked(rows, &words.found))
}

/// The records among these that another history outranks. Of two of one rank, the record of the node that comes first
/// by name is current, so that exactly one is.
fn outranked(
    rows: &[(NodeName, RunRecord)],
    words: &BTreeMap<NodeName, PeerHistoryPage<RunRecord>>,
) -> LocatedAttempts {
    let words = words.iter().flat_map(|(node, found)| found.rows.iter().map(move |record| (node, record)));
    let mut known: BTreeMap<(RunId, u32), Vec<(&NodeName, &RunRecord)>> = BTreeMap::new();
    for (node, record) in rows.iter().map(|(node, record)| (node, record)).chain(words) {
        known.entry(record.id()).or_default().push((node, record));
    }
    let falls = |(node, record): &&(NodeName, RunRecord)| {
        known[&record.id()].iter().any(|(other, word)| {
            *other != node && (word.outranks(record) || (*other < node && !record.outranks(word)))
        })
    };
    rows.iter().filter(falls).map(|(node, record)| (node.clone(), record.id())).collect()
}

/// The first page of these, and the position of the next page.
fn first_page(
    mut rows: Vec<(NodeName, RunRecord)>,
    next: Option<FanoutCursor>,
    limit: usize,
) -> (Vec<(NodeName, RunRecord)>, Option<FanoutCursor>) {
    if rows.len() <= limit {
        return (rows, next);
    }
    let mut next = next.unwrap_or_default();
    for (node, record) in rows.split_off(limit).into_iter().rev() {
        next.insert(node, record.seq() + 1);
    }
    (rows, Some(next))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{name, record};
    use super::super::written;
    use super::*;

    fn named_rows(rows: &[(&str, RunRecord)]) -> Vec<(NodeName, RunRecord)> {
        rows.iter().map(|(node, record)| (name(node), record.clone())).collect()
    }

    fn falls(rows: &[(&str, RunRecord)], words: &[(&str, RunRecord)]) -> Vec<String> {
        let mut said: BTreeMap<NodeName, PeerHistoryPage<RunRecord>> = BTreeMap::new();
        for (node, record) in named_rows(words) {
            said.entry(node).or_default().rows.push(record);
        }
        outranked(&named_rows(rows), &said)
            .into_iter()
            .map(|(node, (run, _))| format!("{node} {run}"))
            .collect()
    }

    #[test]
    fn a_record_stands_unless_another_history_has_a_newer_word_of_that_attempt() {
        let of = |state| record("j:90:0", 3, 90, state);
        let later = RunRecord { ended: Some(evenkeel_core::time::Wall(99)), ..of(AttemptState::Fenced) };
        let other = record("j:80:0", 4, 80, AttemptState::Lost);
        let running = [("a", of(AttemptState::Running))];
        assert_eq!(falls(&running, &[("b", of(AttemptState::Lost)), ("b", other)]), ["a j:90:0"]);
        assert!(falls(&[("b", of(AttemptState::Lost))], &running).is_empty(), "an end stands");
        assert_eq!(
            falls(&[("a", of(AttemptState::Waiting))], &[("b", of(AttemptState::Running))]),
            ["a j:90:0"]
        );
        assert_eq!(falls(&[("a", later.clone())], &[("b", of(AttemptState::Lost))]), ["a j:90:0"]);
        assert!(
            falls(&[("b", of(AttemptState::Lost))], &[("a", later)]).is_empty(),
            "the end that came first"
        );
        let both = [("b", of(AttemptState::Waiting)), ("a", of(AttemptState::Waiting))];
        assert_eq!(falls(&both, &[]), ["b j:90:0"], "one of two that say the same");
        assert_eq!(falls(&both[..1], &both[1..]), ["b j:90:0"]);
        assert!(falls(&both[1..], &both[..1]).is_empty());
    }

    #[test]
    fn what_a_page_has_no_room_for_is_on_the_next_one() {
        let rows = || {
            let of = |at: i64, seq| record(&format!("j:{at}:0"), seq, at, AttemptState::Lost);
            named_rows(&[
                ("a", of(90, 9)),
                ("b", of(80, 4)),
                ("b", of(70, 3)),
                ("a", of(60, 6)),
                ("b", of(50, 2)),
            ])
        };
        let after: FanoutCursor = [(name("a"), 6), (name("c"), 17)].into_iter().collect();
        let (first, next) = first_page(rows(), Some(after.clone()), 2);
        assert_eq!((first.len(), next.as_ref().map(written).as_deref()), (2, Some("a:7,b:4,c:17")));
        assert_eq!(first_page(rows(), Some(after.clone()), 5), (rows(), Some(after)));
        assert_eq!(first_page(rows(), None, 9), (rows(), None));
    }
}
