//! Makes rows of the facts of all nodes: pure functions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use evenkeel::{NodeHealth, RunRecord};
use evenkeel_core::ids::{Fire, JobName, NodeName, RunId, Shard, counted};
use evenkeel_core::time::{Millis, Wall};

use crate::peer::{AttentionFacts, FailingFact, MissedFact, SuccessFacts};
use crate::queries::{RunBounds, UnschedulableJob};
use crate::zones;
use evenkeel_client::types::{AttentionKind, AttentionRow, RunRow, moment};

/// A fire that has not begun is late after this time, if its job does not say another.
pub(super) const LATE: Millis = Millis::secs(60);
/// How much longer than its timeout a run may take to end.
pub(super) const ENDING: Millis = Millis::secs(60);

/// Rows of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FoundRows {
    /// The rows; what lasts longest first.
    pub(super) rows: Vec<AttentionRow>,
    /// How many further ones there may be.
    pub(super) more: u64,
}

/// Runs that have not begun.
pub(super) struct LateRuns<'a> {
    pub(super) rows: &'a [RunRow],
    /// After which time they are late, of jobs that say so.
    pub(super) limits: &'a BTreeMap<JobName, Millis>,
    pub(super) now: Wall,
    /// How many jobs were not looked at.
    pub(super) more: u64,
}

/// What is known of a job's runs that need a person.
struct FoundRuns {
    since: Wall,
    count: u64,
    run: Option<String>,
    text: String,
}

/// What was found about a node.
struct FoundNode {
    node: NodeName,
    since: Option<Wall>,
    text: String,
}

impl FoundRows {
    /// One row for each job.
    fn of_jobs(kind: AttentionKind, found: BTreeMap<JobName, FoundRuns>, more: u64) -> Self {
        let mut found: Vec<(JobName, FoundRuns)> = found.into_iter().collect();
        found.sort_by(|one, other| (one.1.since, &one.0).cmp(&(other.1.since, &other.0)));
        let row = |(job, found): (JobName, FoundRuns)| AttentionRow {
            kind,
            job: Some(job.to_string()),
            node: None,
            since: Some(moment(found.since)),
            count: found.count,
            run: found.run,
            text: found.text,
        };
        Self { rows: found.into_iter().map(row).collect(), more }
    }

    fn of_nodes(kind: AttentionKind, found: impl Iterator<Item = FoundNode>) -> Self {
        let row = |found: FoundNode| AttentionRow {
            kind,
            job: None,
            node: Some(found.node.to_string()),
            since: found.since.map(moment),
            count: 1,
            run: None,
            text: found.text,
        };
        Self { rows: found.map(row).collect(), more: 0 }
    }
}

/// The nodes whose histories take no entries.
pub(super) fn histories(healths: &BTreeMap<NodeName, NodeHealth>) -> FoundRows {
    let stuck = healths.iter().filter_map(|(node, health)| {
        let why = health.history_trouble.as_ref()?;
        let text = format!("node {node} starts nothing and refuses changes: {why}");
        Some(FoundNode { node: node.clone(), since: None, text })
    });
    FoundRows::of_nodes(AttentionKind::History, stuck)
}

/// The offline nodes.
pub(super) fn offline(nodes: Vec<(NodeName, Option<Wall>)>) -> FoundRows {
    let rows = nodes.into_iter().map(|(node, since)| {
        let text = format!(
            "node {node} is offline: the other nodes do not reach it; look at its network, and it is online again once they do"
        );
        FoundNode { node, since, text }
    });
    FoundRows::of_nodes(AttentionKind::Offline, rows)
}

/// The nodes whose clocks differ so much that they claim no fires.
pub(super) fn clocks(healths: &BTreeMap<NodeName, NodeHealth>) -> FoundRows {
    let off = healths.iter().filter_map(|(node, health)| {
        let by = health.clock_offset_ms.filter(|by| *by > health.clock_offset_max_ms)?;
        let (by, most) = (Millis(by), Millis(health.clock_offset_max_ms));
        let text = format!(
            "node {node} claims no fires: its clock differs from the registry's by {by}, allowed are {most}; let NTP set \
             the clocks of both hosts"
        );
        Some(FoundNode { node: node.clone(), since: None, text })
    });
    FoundRows::of_nodes(AttentionKind::Clock, off)
}

/// The jobs whose latest outcome is a failure, in whichever history. `successes` are the latest ones in each history: one
/// that is later than a failure in another history ends it.
pub(super) fn failing(
    facts: &BTreeMap<NodeName, AttentionFacts>,
    successes: &BTreeMap<NodeName, SuccessFacts>,
) -> FoundRows {
    let mut shards: BTreeMap<(JobName, Shard), FailingFact> = BTreeMap::new();
    for (node, fact) in
        facts.iter().flat_map(|(node, facts)| facts.failing.iter().map(move |fact| (node, fact)))
    {
        let others = successes.iter().filter(|(other, _)| *other != node).flat_map(|(_, facts)| &facts.rows);
        let same = others.filter(|success| success.job == fact.job && success.shard == fact.shard);
        let success = same.map(|success| success.at).max();
        if success.is_some_and(|at| at > fact.last) {
            continue;
        }
        let mut fact = fact.clone();
        // The failures before the success were another row of failures.
        fact.since = success.map_or(fact.since, |at| fact.since.max(at));
        match shards.remove(&(fact.job.clone(), fact.shard)) {
            Some(known) => drop(shards.insert((fact.job.clone(), fact.shard), both(known, fact))),
            None => drop(shards.insert((fact.job.clone(), fact.shard), fact)),
        }
    }
    let mut jobs: BTreeMap<JobName, Vec<FailingFact>> = BTreeMap::new();
    for ((job, _), fact) in shards {
        jobs.entry(job).or_default().push(fact);
    }
    let found = jobs.into_iter().filter_map(|(job, facts)| Some((job.clone(), failing_job(&job, &facts)?)));
    let more = facts.values().map(|facts| facts.failing_more).sum();
    FoundRows::of_jobs(AttentionKind::Failing, found.collect(), more)
}

/// What two histories have of one shard.
fn both(one: FailingFact, other: FailingFact) -> FailingFact {
    let (since, count) = (one.since.min(other.since), one.count + other.count);
    let latest = if one.last >= other.last { one } else { other };
    FailingFact { since, count, ..latest }
}

fn failing_job(job: &JobName, facts: &[FailingFact]) -> Option<FoundRuns> {
    let first = facts.iter().min_by_key(|fact| (fact.since, fact.shard))?;
    let latest = facts.iter().max_by_key(|fact| fact.last)?;
    let count = facts.iter().map(|fact| fact.count).max()?;
    let shards = facts.iter().map(|fact| fact.shards).max()?.max(facts.len() as u64);
    let times = if count > 1 { format!(" {count} times in a row") } else { String::new() };
    let mut text = match shards {
        1 => format!("job {job} failed{times}"),
        _ => format!("{shards} shards of job {job} failed, one{times}"),
    };
    // A write to a text does not fail.
    if !latest.reason.is_empty() {
        let _ = write!(text, "; the last time: {}", latest.reason);
    }
    if let Some(run) = &latest.run {
        let _ = write!(text, "; `evenkeel run logs {run}` shows its output");
    }
    Some(FoundRuns { since: first.since, count, run: latest.run.as_ref().map(ToString::to_string), text })
}

/// The jobs with fires that were skipped, by all histories.
pub(super) fn missed(facts: &BTreeMap<NodeName, AttentionFacts>) -> FoundRows {
    let mut jobs: BTreeMap<JobName, MissedFact> = BTreeMap::new();
    for fact in facts.values().flat_map(|facts| &facts.missed) {
        let merged = match jobs.remove(&fact.job) {
            None => fact.clone(),
            Some(known) => {
                let (fires, first) = (known.fires + fact.fires, known.first.min(fact.first));
                let latest = if known.last >= fact.last { known } else { fact.clone() };
                MissedFact { fires, first, ..latest }
            }
        };
        jobs.insert(merged.job.clone(), merged);
    }
    let found = jobs.into_values().map(|fact| {
        let MissedFact { job, fires, first, last, run, reason } = fact;
        let fires_text =
            usize::try_from(fires).map_or_else(|_| String::new(), |fires| counted(fires, "fire"));
        let text = format!("job {job} missed {fires_text}, the last one of {}: {reason}", moment(last));
        let run = run.as_ref().map(ToString::to_string);
        (job, FoundRuns { since: first, count: fires, run, text })
    });
    let more = facts.values().map(|facts| facts.missed_more).sum();
    FoundRows::of_jobs(AttentionKind::Missed, found.collect(), more)
}

/// The jobs with running attempts that take longer than they should. `usual` has the longest time of the latest
/// successes, for attempts that take much longer.
pub(super) fn stuck(
    attempts: &[RunRecord],
    bounds: &BTreeMap<JobName, RunBounds>,
    usual: &BTreeMap<(RunId, u32), Millis>,
    now: Wall,
) -> FoundRows {
    let mut jobs: BTreeMap<JobName, FoundRuns> = BTreeMap::new();
    for record in attempts {
        let Some((bounds, started)) = bounds.get(&record.job).zip(record.started) else { continue };
        let usual = usual.get(&(record.run.clone(), record.attempt)).copied();
        let Some(why) = overlong(record, started, (bounds, usual), now) else { continue };
        let job = &record.job;
        let node = record.node.split('@').next().unwrap_or_default();
        let text = format!(
            "a run of job {job} has executed on {node} since {}: {why}; `evenkeel run kill {}` ends it",
            moment(started),
            record.run
        );
        let found = FoundRuns { since: started, count: 1, run: Some(record.run.to_string()), text };
        match jobs.remove(job) {
            None => drop(jobs.insert(job.clone(), found)),
            Some(known) => {
                let count = known.count + 1;
                let first = if known.since <= found.since { known } else { found };
                jobs.insert(job.clone(), FoundRuns { count, ..first });
            }
        }
    }
    FoundRows::of_jobs(AttentionKind::Stuck, jobs, 0)
}

/// Why an attempt takes too long, if it does.
fn overlong(
    record: &RunRecord,
    started: Wall,
    (bounds, usual): (&RunBounds, Option<Millis>),
    now: Wall,
) -> Option<String> {
    let took = now - started;
    let over = |bound: Option<Millis>| bound.filter(|bound| took > *bound + ENDING);
    if let Some(bound) = over(bounds.timeout) {
        return Some(format!("its timeout of {bound} is over, and its processes have not ended"));
    }
    // Only the first attempt tells when the run began.
    if let Some(bound) = over(bounds.run_timeout).filter(|_| record.attempt == 1) {
        return Some(format!("its run_timeout of {bound} is over, and its processes have not ended"));
    }
    let by_schedule = matches!(record.run.fire, Fire::Due(_));
    if let Some(bound) = bounds.absent_after.filter(|bound| by_schedule && now - record.due > *bound) {
        return Some(format!("its fire of {} should have an outcome {bound} later", moment(record.due)));
    }
    usual.map(|usual| format!("the longest of its latest successful runs took {usual}"))
}

/// The jobs with runs that have not begun although they should have.
pub(super) fn late(runs: &LateRuns<'_>) -> FoundRows {
    let mut jobs: BTreeMap<JobName, FoundRuns> = BTreeMap::new();
    for row in runs.rows {
        let Some((job, due)) = row.job.parse::<JobName>().ok().zip(zones::when(&row.due, runs.now).ok())
        else {
            continue;
        };
        if runs.now - due <= runs.limits.get(&job).copied().unwrap_or(LATE) {
            continue;
        }
        let why = row.reason.as_deref().unwrap_or("the reason is not known");
        let text = format!("run {} of job {job} has not begun: {why}", row.run);
        let found = FoundRuns { since: due, count: 1, run: Some(row.run.clone()), text };
        match jobs.remove(&job) {
            None => drop(jobs.insert(job, found)),
            Some(known) => {
                let count = known.count + 1;
                let first = if known.since <= found.since { known } else { found };
                jobs.insert(job, FoundRuns { count, ..first });
            }
        }
    }
    FoundRows::of_jobs(AttentionKind::Late, jobs, runs.more)
}

/// The jobs that no node can run, or that are never due.
pub(super) fn unschedulable(mut jobs: Vec<UnschedulableJob>, more: u64) -> FoundRows {
    // Those of which it is not known since when come last.
    let key = |job: &UnschedulableJob| (job.since.is_none(), job.since, job.job.clone());
    jobs.sort_by_cached_key(key);
    let row = |job: UnschedulableJob| AttentionRow {
        kind: AttentionKind::Unschedulable,
        job: Some(job.job.to_string()),
        node: None,
        since: job.since.map(moment),
        count: 1,
        run: None,
        text: job.why,
    };
    FoundRows { rows: jobs.into_iter().map(row).collect(), more }
}

#[cfg(test)]
mod tests;
