//! What the runs of the jobs of a list do: the last outcome of each, and how many runs execute and wait.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::{AttemptState, Handle, RunFilter, RunRecord};
use evenkeel_client::types::{JobOutcomeRow, JobPage, JobRunsRow, moment};
use evenkeel_core::ids::{JobName, NodeName};
use evenkeel_core::time::Wall;

use super::ask_nodes::{NodeAnswers, ask_nodes};
use super::outcome_order::WORST_FIRST;
use super::{ApiError, App, fanout, running, waiting};
use crate::peer::{OutcomeFact, OutcomeFacts, OutcomeQuery};
use crate::queries::explain;

/// The most jobs of one question.
const JOBS_MAX: usize = 1_000;
/// How many of a job's latest attempts are searched for an outcome.
const ATTEMPTS_MAX: u32 = 50;

/// How the latest ended fire of each of these jobs ended, by this node's history.
///
/// # Errors
/// The history cannot be read.
pub(crate) async fn outcomes(handle: &Handle, query: &OutcomeQuery) -> Result<OutcomeFacts, ApiError> {
    let mut facts = OutcomeFacts::default();
    for job in query.jobs.iter().take(JOBS_MAX) {
        let filter = RunFilter { job: Some(job.clone()), limit: ATTEMPTS_MAX, ..RunFilter::default() };
        facts.rows.extend(latest(&handle.runs(filter).await?));
    }
    Ok(facts)
}

/// The outcome of the latest fire of these attempts of a job, which begin with the latest.
fn latest(records: &[RunRecord]) -> Option<OutcomeFact> {
    let mut known = BTreeSet::new();
    // Of the attempts of a run the last one is its outcome.
    let last = records.iter().filter(|record| known.insert(&record.run));
    let ended = last.filter(|record| record.state.is_end()).map(|record| OutcomeFact {
        job: record.job.clone(),
        run: record.run.clone(),
        state: record.state,
        due: record.due,
        at: record.ended.or(record.started).unwrap_or(record.due),
    });
    ended.max_by_key(rank)
}

/// What makes an outcome the one of its job: its fire is later, or the outcome of a shard of the same fire is worse.
fn rank(fact: &OutcomeFact) -> (Wall, usize, Wall) {
    let good = WORST_FIRST.iter().position(|state| *state == fact.state).unwrap_or(WORST_FIRST.len());
    (fact.due, WORST_FIRST.len() - good, fact.at)
}

/// Fills in what the runs of the listed jobs do. A history that does not answer is named, and its outcomes are not known.
pub(super) async fn fill(app: &App, page: &mut JobPage) {
    let jobs: Vec<JobName> = page.jobs.iter().filter_map(|job| job.name.parse().ok()).collect();
    let query = OutcomeQuery { jobs };
    let (own, others, running) =
        tokio::join!(outcomes(&app.handle, &query), others(app, &query), running::all(app, fanout::PATIENCE));
    let mut missing: BTreeSet<NodeName> = others.missing.keys().cloned().collect();
    let has_failed = own.is_err() || running.is_err();
    missing.extend(has_failed.then(|| app.handle.name().clone()));
    let running = running.unwrap_or_default();
    missing.extend(running.missing.iter().cloned());
    let found = others.bodies().into_values().chain(own.ok()).flat_map(|facts| facts.rows);
    let last = merged(found);
    let listed: BTreeSet<&JobName> = query.jobs.iter().collect();
    let (candidates, _) = waiting::candidates(app, &running);
    let candidates: Vec<JobName> = candidates.into_iter().filter(|job| listed.contains(job)).collect();
    let waiting = match candidates.is_empty() {
        true => explain::WaitingRuns::default(),
        false => {
            let troubles = fanout::troubles(app).await;
            // Without the registry it is not known which of them wait: then this node is named, too.
            explain::waiting(&app.handle, &candidates, &troubles).await.unwrap_or_else(|_| {
                missing.insert(app.handle.name().clone());
                explain::WaitingRuns::default()
            })
        }
    };
    let execute = counted(running.attempts.iter().map(|record| record.job.as_str()));
    let wait = counted(waiting.rows.iter().map(|row| row.job.as_str()));
    for job in &mut page.jobs {
        let count = |counts: &BTreeMap<&str, usize>| counts.get(job.name.as_str()).copied().unwrap_or(0);
        let (running, waiting) = (count(&execute), count(&wait));
        let last = job.name.parse().ok().and_then(|name: JobName| last.get(&name)).map(outcome_row);
        job.runs = Some(JobRunsRow { last, running, waiting });
    }
    page.missing = missing.iter().map(ToString::to_string).collect();
}

/// Asks the other nodes, where each has a history of its own.
async fn others(app: &App, query: &OutcomeQuery) -> NodeAnswers<OutcomeFacts> {
    match app.handle.shares_history() || query.jobs.is_empty() {
        true => NodeAnswers { found: BTreeMap::new(), missing: BTreeMap::new() },
        false => ask_nodes(app, "/peer/v1/outcomes", fanout::PATIENCE, query).await,
    }
}

/// Of the outcomes that several histories know the one of each job.
fn merged(facts: impl Iterator<Item = OutcomeFact>) -> BTreeMap<JobName, OutcomeFact> {
    let mut last: BTreeMap<JobName, OutcomeFact> = BTreeMap::new();
    for fact in facts {
        if last.get(&fact.job).is_none_or(|known| rank(known) < rank(&fact)) {
            last.insert(fact.job.clone(), fact);
        }
    }
    last
}

fn counted<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_insert(0) += 1);
    counts
}

fn outcome_row(fact: &OutcomeFact) -> JobOutcomeRow {
    let OutcomeFact { run, state, due, at, .. } = fact;
    let (run, state) = (run.to_string(), AttemptState::as_str(*state).to_owned());
    JobOutcomeRow { run, state, due: moment(*due), ended: moment(*at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::ids::RunId;

    fn record(run: &str, attempt: u32, state: AttemptState) -> RunRecord {
        let run: RunId = run.parse().expect("a run");
        let evenkeel_core::ids::Fire::Due(due) = run.fire else { panic!("a fire that is due") };
        RunRecord {
            seq: 0,
            attempt,
            job: run.job.clone(),
            shard: run.shard,
            due,
            node: "a@1".into(),
            state,
            reason: String::new(),
            sent: String::new(),
            code: None,
            token: None,
            started: Some(due),
            ended: state.is_end().then_some(Wall(due.0 + 5)),
            from: due,
            output: 0,
            parameters: Default::default(),
            run,
        }
    }

    #[test]
    fn the_last_outcome_is_the_worst_of_the_latest_fire_that_has_ended() {
        use AttemptState::{Failed, Running, Succeeded};
        let of = |records: &[RunRecord]| latest(records).map(|fact| (fact.run.to_string(), fact.state));
        let is = |run: &str, state| Some((run.to_owned(), state));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[record("j:30:0", 1, Running)]), None);
        let again =
            [record("j:30:0", 1, Running), record("j:20:0", 2, Succeeded), record("j:20:0", 1, Failed)];
        assert_eq!(of(&again), is("j:20:0", Succeeded), "the last attempt is the outcome");
        let shards =
            [record("j:20:2", 1, Succeeded), record("j:20:1", 1, Failed), record("j:10:0", 1, Succeeded)];
        assert_eq!(of(&shards), is("j:20:1", Failed));
        let late = [record("j:10:0", 1, Failed), record("j:20:0", 1, Succeeded)];
        assert_eq!(of(&late), is("j:20:0", Succeeded), "whichever ended last");
        let facts = [&shards[..1], &shards[1..], &late].map(|records| latest(records).expect("an outcome"));
        let last = merged(facts.into_iter());
        assert_eq!(last.values().map(|fact| fact.run.to_string()).collect::<Vec<_>>(), ["j:20:1"]);
    }
}
