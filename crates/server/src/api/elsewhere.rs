//! What the other nodes' histories have: with an engine that is reached over the network each node keeps its own.
//!
//! A run is in the history of the node that made an attempt of it, or said what became of one. So whoever is asked asks
//! all that live, and puts together what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::StatusCode;
use evenkeel::{RunFilter, RunRecord};
use evenkeel_core::time::Wall;
use evenkeel_core::words::{NodeName, RunId};
use tokio::task::JoinSet;

use super::{ApiError, App, relay};
use crate::board;
use crate::peer::{Found, Wanted};

/// A list is not worth waiting longer for.
const PATIENCE: Duration = Duration::from_secs(2);

/// How far a list has come in each history that has more.
pub(super) type Cursor = BTreeMap<NodeName, u64>;

/// A page of attempts, the latest first.
pub(super) struct Page {
    pub(super) runs: Vec<RunRecord>,
    /// Where the next page begins; `None` at the end.
    pub(super) next: Option<Cursor>,
    /// Nodes that live and did not answer.
    pub(super) missing: Vec<NodeName>,
}

/// A page of what all histories have.
pub(super) async fn list(app: &App, filter: RunFilter, from: Option<Cursor>) -> Result<Page, ApiError> {
    let own = app.handle.name().clone();
    let wanted = |node: &NodeName| match &from {
        Some(cursor) => cursor.get(node).copied().map(Some),
        None => Some(None),
    };
    let limit = filter.limit as usize;
    let mut sources: BTreeMap<NodeName, Vec<RunRecord>> = BTreeMap::new();
    let (others, missing) = ask(app, |node| {
        Some(Wanted { run: None, filter: RunFilter { before: wanted(node)?, ..filter.clone() } })
    })
    .await;
    sources.extend(others);
    if let Some(before) = wanted(&own) {
        sources.insert(own, app.handle.runs(RunFilter { before, ..filter }).await?);
    }
    let (runs, next) = merge(sources, limit);
    Ok(Page { runs, next, missing })
}

/// All attempts of a run, the first one first.
pub(super) async fn attempts(app: &App, run: &RunId) -> Result<Vec<RunRecord>, ApiError> {
    let mut found: BTreeMap<u32, RunRecord> = BTreeMap::new();
    let own = app.handle.run(run).await?;
    let wanted = |_: &NodeName| Some(Wanted { run: Some(run.clone()), filter: RunFilter::default() });
    let (others, _) = ask(app, wanted).await;
    for record in own.into_iter().chain(others.into_values().flatten()) {
        match found.get(&record.attempt) {
            Some(known) if !outranks(&record, known) => {}
            _ => drop(found.insert(record.attempt, record)),
        }
    }
    Ok(found.into_values().collect())
}

/// Asks all others at once.
async fn ask(
    app: &App,
    wanted: impl Fn(&NodeName) -> Option<Wanted>,
) -> (BTreeMap<NodeName, Vec<RunRecord>>, Vec<NodeName>) {
    let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
    if app.handle.shares_history() {
        return (found, missing);
    }
    let mut asked = JoinSet::new();
    for name in board::names(&app.handle) {
        // A node that answers nowhere has nothing that could be asked for.
        let (Some(wanted), Ok(Some(other))) = (wanted(&name), relay::other(app, name.as_str())) else {
            continue;
        };
        asked.spawn(async move {
            let body = serde_json::to_vec(&wanted).unwrap_or_default();
            let heard = other.within(PATIENCE).post("/peer/v1/runs", body).await;
            let heard = heard.ok().filter(|heard| heard.status == StatusCode::OK);
            (name, heard.and_then(|heard| serde_json::from_slice::<Found>(&heard.body).ok()))
        });
    }
    while let Some(Ok((name, answer))) = asked.join_next().await {
        match answer {
            Some(Found { runs }) => drop(found.insert(name, runs)),
            None => missing.push(name),
        }
    }
    missing.sort();
    (found, missing)
}

/// Of two that tell of one attempt: an end before none, and the end that came first.
fn outranks(record: &RunRecord, known: &RunRecord) -> bool {
    match (record.state.is_end(), known.state.is_end()) {
        (true, true) => record.ended < known.ended,
        (ends, _) => ends,
    }
}

fn moment(record: &RunRecord) -> Wall {
    record.started.or(record.ended).unwrap_or(record.due)
}

/// Merges lists that are each in the order of their history, up to a page, and says how far each was used.
fn merge(sources: BTreeMap<NodeName, Vec<RunRecord>>, limit: usize) -> (Vec<RunRecord>, Option<Cursor>) {
    let mut next = Cursor::new();
    let mut heads: Vec<_> = sources
        .into_iter()
        .map(|(name, runs)| (name, runs.len() >= limit, None, runs.into_iter().peekable()))
        .collect();
    let (mut runs, mut told): (Vec<RunRecord>, BTreeSet<(RunId, u32)>) = (Vec::new(), BTreeSet::new());
    while runs.len() < limit {
        let latest = heads.iter_mut().filter_map(|(name, _, used, list)| {
            let head = list.peek()?;
            Some((moment(head), name, used, list))
        });
        let Some((_, _, used, list)) = latest.max_by_key(|(at, ..)| *at) else { break };
        let Some(record) = list.next() else { break };
        *used = Some(record.seq);
        if told.insert((record.run.clone(), record.attempt)) {
            runs.push(record);
        } else if let Some(known) =
            runs.iter_mut().find(|known| known.run == record.run && known.attempt == record.attempt)
            && outranks(&record, known)
        {
            *known = record;
        }
    }
    for (name, full, used, mut list) in heads {
        let unused = list.peek().map(|head| head.seq + 1);
        if let Some(before) = used.filter(|_| full || unused.is_some()).or(unused) {
            next.insert(name, before);
        }
    }
    (runs, Some(next).filter(|next| !next.is_empty()))
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
    use evenkeel::State;

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
