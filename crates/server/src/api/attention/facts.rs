//! The facts of one node for the list of what needs a person: of its own history, and what waits on it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::{AttemptState, FailingShard, Handle, MissedFires, RunFilter, RunRecord};
use evenkeel_core::ids::{Fire, JobName, RunId, Shard};
use evenkeel_core::job::JobSelector;
use evenkeel_core::lifecycle;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::{Millis, Wall};

use crate::api::{ApiError, running};
use crate::peer::{
    AttentionFacts, AttentionQuery, FailingFact, LongRunFact, MissedFact, SuccessFact, SuccessFacts,
    SuccessQuery,
};
use crate::queries::{self, JobSearch};
use crate::zones;

/// The most jobs of a kind in one answer.
pub(super) const JOBS_MAX: u32 = 1_000;
/// How many of a job's latest attempts are looked at for failures in a row.
const STREAK_MAX: u32 = 50;
/// The most failing shards of a job in one answer.
const SHARDS_MAX: usize = 20;
/// How many of a job's records of skipped fires are counted fire by fire, and how many fires of one record.
const SKIPS_MAX: u32 = 50;
const FIRES_MAX: usize = 1_000;
/// The most jobs that wait for a slot in one answer.
const WAITING_MAX: usize = 200;
/// A run that takes less is not long, whatever the runs before took.
const LONG: Millis = Millis::secs(600);
/// A run is long that takes so many times as long as the longest of the latest successes.
const TIMES: i64 = 3;
/// How many of the longest running attempts are compared with the runs before.
const LONG_MAX: usize = 50;
/// How many successes are compared with, and how many there must be.
const SUCCESSES: u32 = 10;
const SUCCESSES_MIN: usize = 3;
/// How many of a job's successes are searched for the latest one of each shard.
const SUCCESSES_SEARCHED: u32 = 200;
/// The longest reason in an answer, in characters.
const REASON_MAX: usize = 300;

/// The facts of this node.
///
/// # Errors
/// The conditions on labels make no sense, or the history cannot be read.
pub(crate) async fn own(handle: &Handle, query: &AttentionQuery) -> Result<AttentionFacts, ApiError> {
    let labels = query.label.as_deref().map(str::parse::<JobSelector>).transpose()?;
    let search = JobSearch { find: "", labels: labels.as_ref(), namespace: query.namespace.as_ref() };
    let limit = query.limit.min(JOBS_MAX) as usize;
    let waiting = queries::slot_waiters(handle, WAITING_MAX);
    let mut facts = AttentionFacts { waiting, ..AttentionFacts::default() };
    if query.history {
        (facts.failing, facts.failing_more) = failing(handle, search, limit).await?;
        (facts.missed, facts.missed_more) = missed(handle, search, query.since, limit).await?;
        facts.long = long(handle, zones::now()).await?;
    }
    Ok(facts)
}

/// When the shards of these jobs succeeded last.
///
/// # Errors
/// The history cannot be read.
pub(crate) async fn successes(handle: &Handle, query: &SuccessQuery) -> Result<SuccessFacts, ApiError> {
    let mut facts = SuccessFacts::default();
    for job in query.jobs.iter().take(JOBS_MAX as usize) {
        let records = latest(handle, job, &[AttemptState::Succeeded], SUCCESSES_SEARCHED).await?;
        let mut shards: BTreeMap<Shard, Wall> = BTreeMap::new();
        for record in &records {
            let at = shards.entry(record.shard).or_insert_with(|| ended(record));
            *at = (*at).max(ended(record));
        }
        let fact = |(shard, at)| SuccessFact { job: job.clone(), shard, at };
        facts.rows.extend(shards.into_iter().map(fact));
    }
    Ok(facts)
}

async fn latest(
    handle: &Handle,
    job: &JobName,
    states: &[AttemptState],
    limit: u32,
) -> Result<Vec<RunRecord>, ApiError> {
    let (job, states) = (Some(job.clone()), states.to_vec());
    Ok(handle.runs(RunFilter { job, states, limit, ..RunFilter::default() }).await?)
}

fn ended(record: &RunRecord) -> Wall {
    record.ended.or(record.started).unwrap_or(record.due)
}

/// The jobs that fail longest, and how many further ones there are.
async fn failing(
    handle: &Handle,
    search: JobSearch<'_>,
    limit: usize,
) -> Result<(Vec<FailingFact>, u64), ApiError> {
    let mut by_job: BTreeMap<JobName, Vec<FailingShard>> = BTreeMap::new();
    for shard in handle.failing().await? {
        by_job.entry(shard.job.clone()).or_default().push(shard);
    }
    let jobs = queries::enabled_jobs(handle, by_job.keys().cloned().collect(), search);
    let since = |job: &JobName| by_job.get(job).into_iter().flatten().map(|shard| shard.since).min();
    let mut jobs: Vec<(Option<Wall>, JobName)> = jobs.into_iter().map(|job| (since(&job), job)).collect();
    jobs.sort();
    let more = jobs.len().saturating_sub(limit) as u64;
    let mut facts = Vec::new();
    for (_, job) in jobs.into_iter().take(limit) {
        let records = latest(handle, &job, &[], STREAK_MAX).await?;
        let shards = by_job.remove(&job).unwrap_or_default();
        let all = shards.len() as u64;
        facts.extend(shards.iter().take(SHARDS_MAX).map(|shard| fact(shard, &records, all)));
    }
    Ok((facts, more))
}

/// What a shard's latest attempts say of its failures in a row.
fn fact(shard: &FailingShard, records: &[RunRecord], shards: u64) -> FailingFact {
    let mut known: BTreeSet<&RunId> = BTreeSet::new();
    let mut fact = FailingFact {
        job: shard.job.clone(),
        shard: shard.shard,
        since: shard.since,
        last: shard.since,
        count: 1,
        run: None,
        reason: String::new(),
        shards,
    };
    // The latest come first. Of the attempts of a run the last one is its outcome.
    let runs = records.iter().filter(|record| record.shard == shard.shard && known.insert(&record.run));
    let failures = runs.map_while(|record| match record.state {
        AttemptState::Succeeded => None,
        AttemptState::Failed | AttemptState::TimedOut | AttemptState::Lost | AttemptState::Fenced => {
            Some(Some(record))
        }
        AttemptState::Skipped if record.attempt > 1 && !lifecycle::is_shadow(&record.reason) => {
            Some(Some(record))
        }
        AttemptState::Skipped | AttemptState::Killed | AttemptState::Running | AttemptState::Waiting => {
            Some(None)
        }
    });
    for (n, record) in failures.flatten().enumerate() {
        if n == 0 {
            let why = if record.reason.is_empty() { record.state.as_str() } else { &record.reason };
            fact.reason = why.chars().take(REASON_MAX).collect();
            (fact.run, fact.last) = (Some(record.run.clone()), ended(record));
        }
        (fact.count, fact.since) = (n as u64 + 1, fact.since.min(ended(record)));
    }
    fact
}

/// The jobs with missed fires, and how many further ones there are.
async fn missed(
    handle: &Handle,
    search: JobSearch<'_>,
    since: Wall,
    limit: usize,
) -> Result<(Vec<MissedFact>, u64), ApiError> {
    let found = handle.missed(since, search.namespace.cloned()).await?;
    let mut found: BTreeMap<JobName, MissedFires> =
        found.into_iter().map(|missed| (missed.job.clone(), missed)).collect();
    let jobs = queries::enabled_jobs(handle, found.keys().cloned().collect(), search);
    let mut found: Vec<MissedFires> = jobs.iter().filter_map(|job| found.remove(job)).collect();
    found.sort_by(|one, other| other.last.cmp(&one.last).then_with(|| one.job.cmp(&other.job)));
    let more = found.len().saturating_sub(limit) as u64;
    let mut facts = Vec::new();
    for missed in found.into_iter().take(limit) {
        let filter = RunFilter {
            job: Some(missed.job.clone()),
            states: vec![AttemptState::Skipped],
            since: Some(since),
            limit: SKIPS_MAX,
            ..RunFilter::default()
        };
        let mut records = handle.runs(filter).await?;
        let all = records.len() < SKIPS_MAX as usize;
        records.retain(|record| record.attempt <= 1 && matches!(record.run.fire, Fire::Due(_)));
        let schedule = queries::schedule(handle, &missed.job).flatten();
        facts.push(missed_fact(missed, &records, all, schedule.as_ref()));
    }
    Ok((facts, more))
}

/// What a job's records of skipped fires say, and whether these are all of them.
fn missed_fact(
    missed: MissedFires,
    records: &[RunRecord],
    all: bool,
    schedule: Option<&Schedule>,
) -> MissedFact {
    let latest = records.iter().max_by_key(|record| record.due);
    let listed = fires(records, schedule);
    MissedFact {
        fires: if all { listed.max(1) } else { listed.max(missed.records) },
        run: latest.map(|record| record.run.clone()),
        reason: latest.map_or_else(String::new, |it| it.reason.chars().take(REASON_MAX).collect()),
        first: missed.first,
        last: missed.last,
        job: missed.job,
    }
}

/// How many fires these records cover: each shard of a fire has one, and one may cover several fires in a row.
fn fires(records: &[RunRecord], schedule: Option<&Schedule>) -> u64 {
    let spans: BTreeSet<(Wall, Wall)> = records.iter().map(|record| (record.from, record.due)).collect();
    let fires = |(from, due): (Wall, Wall)| {
        let before = |next: &Wall| schedule.and_then(|schedule| schedule.next(*next));
        let first = before(&(from - Millis(1)));
        let all = std::iter::successors(first, before).take_while(|fire| *fire <= due);
        // The schedule may have changed since.
        if from == due { 1 } else { all.take(FIRES_MAX).count().max(1) as u64 }
    };
    spans.into_iter().map(fires).sum()
}

/// The running attempts that take much longer than the latest successful runs of their jobs.
async fn long(handle: &Handle, now: Wall) -> Result<Vec<LongRunFact>, ApiError> {
    let mut attempts = running::here(handle).await;
    attempts.retain(|record| {
        record.started.is_some_and(|started| now - started > LONG) && queries::still_runs(handle, record)
    });
    attempts.sort_by_key(|record| record.started);
    let (mut usual, mut facts): (BTreeMap<JobName, Option<Millis>>, _) = (BTreeMap::new(), Vec::new());
    for record in attempts.into_iter().take(LONG_MAX) {
        if !usual.contains_key(&record.job) {
            let records = latest(handle, &record.job, &[AttemptState::Succeeded], SUCCESSES).await?;
            usual.insert(record.job.clone(), longest(&records));
        }
        let usual = usual.get(&record.job).copied().flatten();
        let took = record.started.map(|started| now - started);
        if let Some(usual) = usual.filter(|usual| took.is_some_and(|took| took.0 / TIMES > usual.0)) {
            facts.push(LongRunFact { run: record.run, attempt: record.attempt, usual_ms: usual.0 });
        }
    }
    Ok(facts)
}

/// How long the longest of these took; `None` if there are too few.
fn longest(records: &[RunRecord]) -> Option<Millis> {
    let took = records.iter().filter_map(|record| Some(record.ended? - record.started?));
    took.max().filter(|_| records.len() >= SUCCESSES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(run: &str, attempt: u32, state: AttemptState, at: i64) -> RunRecord {
        let run: RunId = run.parse().expect("a run");
        RunRecord {
            seq: 0,
            attempt,
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
            ended: state.is_end().then_some(Wall(at + 5)),
            from: Wall(at),
            output: 0,
            parameters: Default::default(),
            run,
        }
    }

    fn failed(records: &[RunRecord]) -> (u64, i64, i64, Option<String>) {
        let job = "j".parse().expect("a name");
        let shard = FailingShard { job, shard: Shard(0), since: Wall(40) };
        let fact = fact(&shard, records, 1);
        (fact.count, fact.since.0, fact.last.0, fact.run.map(|run| run.to_string()))
    }

    #[test]
    fn failures_in_a_row_are_counted_by_run_up_to_the_last_success() {
        use AttemptState::{Failed, Killed, Lost, Running, Skipped, Succeeded, TimedOut};
        let records = [
            record("j:70:0", 1, Running, 70),
            record("j:60:0", 2, Failed, 65),
            record("j:60:0", 1, Failed, 60),
            record("j:60:1", 1, Succeeded, 60),
            record("j:50:0", 1, Killed, 50),
            record("j:45:0", 0, Skipped, 45),
            record("j:40:0", 1, TimedOut, 40),
            record("j:30:0", 2, Skipped, 30),
            record("j:20:0", 1, Lost, 20),
            record("j:10:0", 1, Succeeded, 10),
            record("j:5:0", 1, Failed, 5),
        ];
        assert_eq!(failed(&records), (4, 25, 70, Some("j:60:0".to_owned())));
        // Of a run that is attempted again the failed attempts are no outcome.
        let again = [
            record("j:60:0", 2, Running, 65),
            record("j:60:0", 1, Failed, 60),
            record("j:50:0", 1, Failed, 50),
        ];
        assert_eq!(failed(&again), (1, 40, 55, Some("j:50:0".to_owned())));
        assert_eq!(failed(&[]), (1, 40, 40, None), "its attempts were deleted");
    }

    #[test]
    fn missed_fires_are_counted_once_for_all_shards_and_each_of_a_span() {
        let schedule = Schedule::parse("@every 1s", "").expect("a schedule");
        let skip = |shard: u32, from: i64, due: i64| RunRecord {
            from: Wall(from),
            ..record(&format!("j:{due}:{shard}"), 0, AttemptState::Skipped, due)
        };
        let records = [skip(0, 5_000, 5_000), skip(1, 5_000, 5_000), skip(0, 1_000, 4_000)];
        assert_eq!(fires(&records, Some(&schedule)), 5);
        assert_eq!(fires(&records, None), 2, "a span of a job that has no schedule any more");
        assert_eq!(fires(&[], Some(&schedule)), 0);
        let missed =
            MissedFires { job: "j".parse().expect("a name"), records: 70, first: Wall(1), last: Wall(2) };
        assert_eq!(missed_fact(missed.clone(), &records, true, Some(&schedule)).fires, 5);
        assert_eq!(missed_fact(missed, &records, false, Some(&schedule)).fires, 70, "not all were counted");
    }

    #[test]
    fn a_usual_time_needs_several_successes() {
        let took = |at: i64, took: i64| RunRecord {
            ended: Some(Wall(at + took)),
            ..record(&format!("j:{at}:0"), 1, AttemptState::Succeeded, at)
        };
        assert_eq!(longest(&[took(1, 10), took(2, 20)]), None);
        assert_eq!(longest(&[took(1, 10), took(2, 30), took(3, 20)]), Some(Millis(30)));
    }
}
