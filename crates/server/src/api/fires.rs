//! A fire as a whole: the runs of all its shards, their outcomes, and the wait until the last has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use evenkeel::{AttemptState, RunFilter, RunRecord};
use evenkeel_core::ids::{Fire, FireId, NodeName, Shard};
use evenkeel_core::shards::ShardSet;

use super::outcome_order::WORST_FIRST;
use super::{ApiError, App, fanout, parameters, waiting};
use crate::queries::{self, OpenFire};
use evenkeel_client::types::{FireRow, RunDetail, RunRow, moment};

/// The maximum number of attempts to request at once.
const PAGE: u32 = 1_000;
/// How often a fire that has not ended is read again.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// After this many equal reads, shards of which no history has a run are given up.
const LOOKS: u32 = 4;

/// The records of a fire.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FireHistory {
    /// All attempts, by shard and number.
    attempts: BTreeMap<(Shard, u32), RunRecord>,
    open: OpenFire,
    /// Online nodes whose histories could not be read.
    missing: Vec<NodeName>,
}

/// Reads a fire from the registry and all histories.
///
/// # Errors
/// There is no such fire, or the records cannot be read.
async fn gather_fire(app: &App, fire: &FireId) -> Result<FireHistory, ApiError> {
    let mut changes = app.handle.changes();
    for _ in 0..LOOKS {
        let whole = look_at_fire(app, fire).await;
        let is_unknown = whole.as_ref().is_err_and(ApiError::is_not_found);
        // Between the registry and the history a fire that has just begun or ended is in neither for a moment.
        let Fire::Asked(id) = &fire.fire else { return whole };
        if !is_unknown || !queries::is_requested(&app.handle, &fire.job, id) {
            return whole;
        }
        let _ = tokio::time::timeout(POLL_INTERVAL, changes.changed()).await;
    }
    look_at_fire(app, fire).await
}

/// Reads it once.
async fn look_at_fire(app: &App, fire: &FireId) -> Result<FireHistory, ApiError> {
    // First the registry: a run that has ended there is in a history, or soon is.
    let open = queries::open(&app.handle, fire).await?;
    let (mut attempts, mut missing) = (BTreeMap::<(Shard, u32), RunRecord>::new(), Vec::new());
    let mut from = None;
    loop {
        let filter = RunFilter { fire: Some(fire.clone()), limit: PAGE, ..RunFilter::default() };
        let page = fanout::runs(app, filter, from).await?;
        for record in page.rows {
            let known = attempts.get(&(record.shard, record.attempt));
            if known.is_none_or(|known| fanout::outranks(&record, known)) {
                attempts.insert((record.shard, record.attempt), record);
            }
        }
        missing.extend(page.missing);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    missing.sort();
    missing.dedup();
    if attempts.is_empty() {
        // History may get it only in a moment, or never.
        let back = queries::withdrawn_run(&app.handle, &fire.run(Shard(0)));
        attempts.extend(back.map(|record| ((record.shard, record.attempt), record)));
    }
    if attempts.is_empty() && open.shards.is_empty() && missing.is_empty() {
        let text = format!("no fire is called {fire}: see `evenkeel run list --job {}`", fire.job);
        return Err(match queries::is_job(&app.handle, &fire.job) {
            true => ApiError::not_found(text),
            false => super::jobs::unknown(&app.handle, &fire.job),
        });
    }
    Ok(FireHistory { attempts, open, missing })
}

/// A fire with all its attempts.
pub(super) async fn show(app: &App, fire: &FireId) -> Result<Json<RunDetail>, ApiError> {
    let whole = gather_fire(app, fire).await?;
    let FireRow { run, job, due, state, mut reason, shards, started, ended } = whole.row(fire);
    let attempts: Vec<RunRow> = whole.attempts.values().map(queries::run_row).collect();
    if attempts.is_empty() && state == AttemptState::Waiting.as_str() {
        reason = waiting::why(app, &fire.run(Shard(0))).await;
    }
    let first = match (&fire.fire, whole.attempts.values().next()) {
        (Fire::Asked(_), Some(first)) => fanout::attempts(app, &first.run).await?.into_iter().next(),
        _ => None,
    };
    Ok(Json(RunDetail {
        run,
        parameters: parameters::shown(app, &fire.run(Shard(0)), first.as_ref()),
        attempts,
        details: whole.attempts.values().map(super::attempts::detail).collect(),
        state: Some(state),
        reason,
        job: Some(job),
        due,
        shards: Some(shards),
        started,
        ended,
        missing: Some(whole.missing.iter().map(ToString::to_string).collect()),
    }))
}

/// Waits until all shards of a fire have ended.
pub(super) async fn ended(app: &App, fire: &FireId) -> Result<FireRow, ApiError> {
    let mut changes = app.handle.changes();
    let mut same = 0;
    let mut before = FireHistory::default();
    loop {
        let whole = gather_fire(app, fire).await?;
        same = if whole == before { same + 1 } else { 0 };
        if whole.has_ended() && (whole.unknown().is_empty() || (same >= LOOKS && whole.missing.is_empty())) {
            return Ok(whole.row(fire));
        }
        before = whole;
        let again = tokio::time::sleep(POLL_INTERVAL);
        if before.unknown().is_empty() {
            let _ = tokio::time::timeout(POLL_INTERVAL, changes.changed()).await;
        } else {
            again.await;
        }
    }
}

impl FireHistory {
    /// The latest attempt of each shard.
    fn latest(&self) -> BTreeMap<Shard, &RunRecord> {
        self.attempts.values().map(|record| (record.shard, record)).collect()
    }

    fn has_ended(&self) -> bool {
        self.open.shards.is_empty() && self.latest().values().all(|record| record.state.is_end())
    }

    /// The shards of the fire of which no history that answered has a run.
    fn unknown(&self) -> ShardSet {
        let mut unknown = self.open.wanted.minus(&self.open.shards);
        for shard in self.latest().keys() {
            unknown = unknown.minus(&ShardSet::one(*shard));
        }
        unknown
    }

    fn row(&self, fire: &FireId) -> FireRow {
        let latest = self.latest();
        let mut sets: BTreeMap<&str, ShardSet> = BTreeMap::new();
        for (shard, record) in &latest {
            // Another attempt of it follows.
            let waits = record.state.is_end() && self.open.shards.contains(*shard);
            let state = if waits { AttemptState::Waiting } else { record.state };
            sets.entry(state.as_str()).or_default().insert(*shard);
        }
        let comes = self.open.shards.iter().filter(|shard| !latest.contains_key(shard));
        comes.for_each(|shard| sets.entry(AttemptState::Waiting.as_str()).or_default().insert(shard));
        let unknown = self.unknown();
        let has_ended = self.has_ended();
        let worst = WORST_FIRST.into_iter().find(|state| sets.contains_key(state.as_str()));
        let state = match worst {
            _ if !has_ended && latest.values().all(|record| record.started.is_none()) => {
                AttemptState::Waiting
            }
            _ if !has_ended => AttemptState::Running,
            // A shard without a record has not succeeded.
            Some(AttemptState::Succeeded) | None if !unknown.is_empty() => AttemptState::Skipped,
            Some(worst) => worst,
            None => AttemptState::Waiting,
        };
        let reason =
            (has_ended && state != AttemptState::Succeeded).then(|| self.reason(state, &sets, &unknown));
        if !unknown.is_empty() {
            sets.insert("none", unknown);
        }
        let ended = latest.values().filter_map(|record| record.ended).max().filter(|_| has_ended);
        FireRow {
            run: fire.to_string(),
            job: fire.job.to_string(),
            due: latest.values().next().map(|record| moment(record.due)),
            state: state.as_str().to_owned(),
            reason: reason.filter(|reason| !reason.is_empty()),
            shards: sets.into_iter().map(|(state, set)| (state.to_owned(), set.to_string())).collect(),
            started: self.attempts.values().filter_map(|record| record.started).min().map(moment),
            ended: ended.map(moment),
        }
    }

    /// Which shards did not succeed, and the reason of the first with the worst outcome.
    fn reason(&self, worst: AttemptState, sets: &BTreeMap<&str, ShardSet>, unknown: &ShardSet) -> String {
        let latest = self.latest();
        let first = latest.values().find(|record| record.state == worst).map(|record| record.reason.as_str());
        let first = first.unwrap_or_default();
        if latest.len() == 1 && unknown.is_empty() {
            return first.to_owned();
        }
        let ill = WORST_FIRST.iter().filter(|state| **state != AttemptState::Succeeded);
        let parts = ill.filter_map(|state| {
            let set = sets.get(state.as_str())?;
            let why =
                if *state == worst && !first.is_empty() { format!(" ({first})") } else { String::new() };
            Some(format!("shards {set} {}{why}", state.as_str().replace('_', " ")))
        });
        let none = (!unknown.is_empty()).then(|| format!("of shards {unknown} no history has a run"));
        parts.chain(none).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::job::RunParameters;
    use evenkeel_core::time::Wall;

    use super::*;

    fn whole(attempts: &[(u32, u32, AttemptState)], open: &str, wanted: &str) -> FireHistory {
        let fire: FireId = "j:7000".parse().expect("a fire");
        let record = |(shard, attempt, state): &(u32, u32, AttemptState)| {
            let run = fire.run(Shard(*shard));
            let record = RunRecord {
                seq: 1,
                attempt: *attempt,
                job: run.job.clone(),
                shard: run.shard,
                due: Wall(7_000),
                node: "a@1".into(),
                state: *state,
                reason: if *state == AttemptState::Failed {
                    format!("exit code {shard}")
                } else {
                    String::new()
                },
                sent: String::new(),
                code: None,
                token: None,
                started: (*state != AttemptState::Skipped).then_some(Wall(7_001)),
                ended: state.is_end().then_some(Wall(7_002)),
                from: Wall(7_000),
                output: 0,
                parameters: RunParameters::default(),
                run,
            };
            ((record.shard, record.attempt), record)
        };
        let set = |text: &str| text.parse().expect("shards");
        let open = OpenFire { shards: set(open), wanted: set(wanted) };
        FireHistory { attempts: attempts.iter().map(record).collect(), open, missing: Vec::new() }
    }

    fn reported_state(attempts: &[(u32, u32, AttemptState)], open: &str, wanted: &str) -> (String, String) {
        let row = whole(attempts, open, wanted).row(&"j:7000".parse().expect("a fire"));
        (row.state, row.reason.unwrap_or_default())
    }

    fn reported_reason(state: &str, reason: &str) -> (String, String) {
        (state.to_owned(), reason.to_owned())
    }

    #[test]
    fn a_fire_has_ended_with_its_last_shard_and_as_its_worst() {
        use AttemptState::{Failed, Lost, Running, Skipped, Succeeded, Waiting};
        assert_eq!(reported_state(&[], "0-1", "0-1"), reported_reason("waiting", ""));
        assert_eq!(
            reported_state(&[(0, 1, Succeeded)], "1", "0-1"),
            reported_reason("running", ""),
            "the other one is to come"
        );
        assert_eq!(
            reported_state(&[(0, 1, Succeeded), (1, 1, Running)], "", "0-1"),
            reported_reason("running", "")
        );
        assert_eq!(
            reported_state(&[(0, 1, Succeeded), (1, 1, Failed), (1, 2, Waiting)], "1", "0-1"),
            reported_reason("running", "")
        );
        assert_eq!(
            reported_state(&[(0, 1, Succeeded), (1, 1, Failed)], "1", "0-1"),
            reported_reason("running", ""),
            "again soon"
        );
        assert_eq!(
            reported_state(&[(0, 1, Succeeded), (1, 1, Succeeded)], "", "0-1"),
            reported_reason("succeeded", "")
        );
        assert_eq!(
            reported_state(&[(0, 1, Succeeded), (1, 1, Failed), (1, 2, Succeeded)], "", "0-1"),
            reported_reason("succeeded", "")
        );
        let failed = reported_state(&[(0, 1, Succeeded), (1, 1, Failed), (2, 1, Failed)], "", "0-2");
        assert_eq!(failed, reported_reason("failed", "shards 1-2 failed (exit code 1)"));
        let worst = reported_state(&[(0, 1, Skipped), (1, 1, Failed), (2, 1, Lost)], "", "0-2");
        assert_eq!(worst, reported_reason("lost", "shards 2 lost; shards 1 failed; shards 0 skipped"));
        assert_eq!(
            reported_state(&[(0, 1, Failed)], "", "0"),
            reported_reason("failed", "exit code 0"),
            "a job without shards"
        );
        let unknown = reported_state(&[(0, 1, Succeeded)], "", "0-1");
        assert_eq!(unknown, reported_reason("skipped", "of shards 1 no history has a run"));
    }
}
