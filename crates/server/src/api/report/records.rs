//! What the histories of all nodes have of the scheduled fires of jobs.

use std::collections::BTreeMap;

use evenkeel::EventFilter;
use evenkeel_core::ids::JobName;
use evenkeel_core::time::Wall;

use crate::api::ask_nodes::{NodeAnswers, ask_nodes};
use crate::api::{ApiError, App, fanout};
use crate::peer::{FireRecord, RecordsPart, RecordsQuery, RecordsReply};
use crate::queries;

/// The most bytes of records in one answer, of which a body may have twice as many.
const BYTES_MAX: usize = 1 << 19;
/// What a record has beside its texts, as JSON.
const RECORD_BYTES: usize = 170;
/// How many jobs are asked for at once.
const JOBS_AT_ONCE: usize = 50;
/// The most departures of nodes that are read.
const LEFT_MAX: u32 = 1_000;

/// The records of a job's scheduled fires.
#[derive(Clone, Debug, Default)]
pub(super) struct ScheduledRuns {
    /// The current record of each run, by its moment and shard.
    pub(super) runs: BTreeMap<(Wall, u32), FireRecord>,
    /// Records of fires that were due at this moment or later are all kept.
    pub(super) kept_from: Option<Wall>,
}

/// The records of several jobs, and the histories that could not be read.
#[derive(Debug, Default)]
pub(super) struct FoundRecords {
    pub(super) jobs: BTreeMap<JobName, ScheduledRuns>,
    /// The nodes whose histories could not be read, and why.
    pub(super) missing: BTreeMap<String, String>,
}

impl ScheduledRuns {
    fn take(&mut self, part: RecordsPart) {
        self.kept_from = self.kept_from.max(Some(part.kept_from));
        for row in part.rows {
            let key = (row.due, row.shard.0);
            if self.runs.get(&key).is_none_or(|known| row.outranks(known)) {
                self.runs.insert(key, row);
            }
        }
    }
}

/// What this node's own history has: of as many of the jobs as fit into one answer, and of one at least.
///
/// # Errors
/// The history cannot be read.
pub(crate) async fn own_records(app: &App, query: &RecordsQuery) -> Result<RecordsReply, ApiError> {
    let mut reply = RecordsReply { jobs: Vec::new(), trouble: app.handle.history_trouble() };
    let mut room = BYTES_MAX;
    for job in &query.jobs {
        let found = app.handle.job_records(job, query.since).await?;
        let mut rows: BTreeMap<(Wall, u32), FireRecord> = BTreeMap::new();
        for row in found.rows.iter().filter_map(FireRecord::of) {
            let is_known = |known: &FireRecord| !row.outranks(known);
            if row.from.unwrap_or(row.due) < query.until
                && !rows.get(&(row.due, row.shard.0)).is_some_and(is_known)
            {
                rows.insert((row.due, row.shard.0), row);
            }
        }
        let mut part =
            RecordsPart { job: job.clone(), kept_from: found.kept_from, rows: rows.into_values().collect() };
        let fits = fitting(&part.rows, room);
        if fits < part.rows.len() && !reply.jobs.is_empty() {
            break;
        }
        // A job alone that does not fit loses its earliest records, as if they were not kept.
        let gone = part.rows.len() - fits;
        if let Some(last) = part.rows.drain(..gone).next_back() {
            part.kept_from = part.kept_from.max(Wall(last.due.0 + 1));
        }
        room = room.saturating_sub(part.rows.iter().map(bytes).sum());
        reply.jobs.push(part);
    }
    Ok(reply)
}

fn bytes(row: &FireRecord) -> usize {
    // A character of a reason may take six bytes in JSON.
    RECORD_BYTES + row.node.len() + 6 * row.reason.len()
}

/// How many of the latest records fit.
fn fitting(rows: &[FireRecord], mut room: usize) -> usize {
    let fits = |row: &&FireRecord| {
        let left = room.checked_sub(bytes(row));
        room = left.unwrap_or(0);
        left.is_some()
    };
    rows.iter().rev().take_while(fits).count()
}

/// What all histories have.
///
/// # Errors
/// This node's own history cannot be read.
pub(super) async fn all(
    app: &App,
    jobs: &[JobName],
    (since, until): (Wall, Wall),
) -> Result<FoundRecords, ApiError> {
    let mut found = FoundRecords { missing: absent(app, since).await?, ..FoundRecords::default() };
    let mut left = jobs;
    while !left.is_empty() {
        let some = &left[..left.len().min(JOBS_AT_ONCE)];
        let query = RecordsQuery { jobs: some.to_vec(), since, until };
        let (own, others) = tokio::join!(own_records(app, &query), others(app, &query));
        let mut replies = vec![(app.handle.name().to_string(), own?)];
        found.missing.extend(others.missing.iter().map(|(node, why)| (node.to_string(), why.clone())));
        replies.extend(others.bodies().into_iter().map(|(node, reply)| (node.to_string(), reply)));
        // A node that answers for fewer jobs is asked for the others again, with all nodes.
        let done = replies.iter().map(|(_, reply)| reply.jobs.len()).min().unwrap_or(0).max(1);
        for (node, reply) in replies {
            if let Some(why) = &reply.trouble {
                found.missing.insert(node.clone(), format!("its history takes no entries: {why}"));
            } else if reply.jobs.is_empty() {
                found.missing.insert(node, "it gave no answer".to_owned());
            }
            for part in reply.jobs.into_iter().filter(|part| some[..done.min(some.len())].contains(&part.job))
            {
                found.jobs.entry(part.job.clone()).or_default().take(part);
            }
        }
        left = &left[done.min(left.len())..];
    }
    Ok(found)
}

/// Asks the other nodes, unless they share this node's history.
async fn others(app: &App, query: &RecordsQuery) -> NodeAnswers<RecordsReply> {
    if app.handle.shares_history() {
        return NodeAnswers { found: BTreeMap::new(), missing: BTreeMap::new() };
    }
    ask_nodes(app, "/peer/v1/records", fanout::PATIENCE, query).await
}

/// The nodes that left since this moment, are not back, and keep histories of their own.
async fn absent(app: &App, since: Wall) -> Result<BTreeMap<String, String>, ApiError> {
    if app.handle.shares_history() {
        return Ok(BTreeMap::new());
    }
    let filter = EventFilter {
        kind: Some("node.left".to_owned()),
        since: Some(since),
        limit: LEFT_MAX,
        ..EventFilter::default()
    };
    let events = fanout::events(app, filter, None).await?;
    let gone = queries::gone(&app.handle, &events.rows);
    Ok(gone.into_iter().map(|row| (row.name, "it left and has a history of its own".to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use evenkeel::AttemptState;
    use evenkeel_core::ids::Shard;

    use super::*;

    fn row(due: i64, attempt: u32, state: AttemptState, ended: Option<i64>) -> FireRecord {
        FireRecord {
            due: Wall(due),
            shard: Shard(0),
            attempt,
            state,
            node: "a@1".to_owned(),
            reason: String::new(),
            from: None,
            ended: ended.map(Wall),
        }
    }

    #[test]
    fn of_several_histories_the_current_record_of_a_run_counts_and_what_is_kept_by_all() {
        let part = |kept_from, rows: &[FireRecord]| RecordsPart {
            job: "j".parse().expect("a name"),
            kept_from: Wall(kept_from),
            rows: rows.to_vec(),
        };
        let parts = [
            part(5, &[row(10, 1, AttemptState::Running, None), row(20, 1, AttemptState::Lost, Some(29))]),
            part(
                7,
                &[row(10, 1, AttemptState::Succeeded, Some(12)), row(20, 2, AttemptState::Running, None)],
            ),
        ];
        for order in [[0, 1], [1, 0]] {
            let mut history = ScheduledRuns::default();
            order.iter().for_each(|n| history.take(parts[*n].clone()));
            assert_eq!(history.kept_from, Some(Wall(7)));
            let states: Vec<_> = history.runs.values().map(|row| (row.attempt, row.state)).collect();
            assert_eq!(states, [(1, AttemptState::Succeeded), (2, AttemptState::Running)]);
        }
    }

    #[test]
    fn the_latest_records_are_those_that_fit() {
        let rows: Vec<_> = (0..10).map(|n| row(n, 1, AttemptState::Succeeded, Some(n))).collect();
        assert_eq!(fitting(&rows, 10_000), 10);
        assert_eq!(fitting(&rows, 3 * (RECORD_BYTES + 3) + 1), 3);
        assert_eq!(fitting(&rows, 0), 0);
    }
}
