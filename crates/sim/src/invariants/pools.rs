//! Checks limits of runs: how many runs physically run in each pool, and in each namespace that limits its runs.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::Run;
use evenkeel_core::ids::{Namespace, NodeName, RunId};
use evenkeel_core::job::Job;
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::record::{NamespaceRecord, PermitsRecord, decode};
use evenkeel_core::run_limit::RunLimit;

use super::{Invariant, InvariantChecker, JobTrack};
use crate::world::SimWorld;

/// How long a node may take from the end of a run to the start of the next, in milliseconds.
const BETWEEN: i64 = 1_000;

/// The permits and slots that waiting runs of a world at rest need and that are not free.
pub(super) struct PoolWaits {
    /// When a run of each limit last started, in the world's time.
    started: BTreeMap<RunLimit, i64>,
    /// The limits of each run that has a permit.
    permitted: BTreeSet<(RunLimit, RunId)>,
    /// The nodes without a free slot.
    full: BTreeSet<NodeName>,
}

impl PoolWaits {
    pub(super) fn of(world: &SimWorld) -> Self {
        let books = || world.checker().jobs().values();
        let mut started = BTreeMap::new();
        for book in books() {
            let Some((at, _)) = &book.started else { continue };
            for limit in book.limits.keys() {
                let last = started.entry(limit.clone()).or_insert(*at);
                *last = *at.max(last);
            }
        }
        let permits = world.store().entries().filter_map(|(key, entry)| {
            let Some(ParsedKey::Permits(limit)) = parse(key) else { return None };
            let permits = decode::<PermitsRecord>(&entry.value)?.permits;
            Some(permits.into_iter().map(move |permit| (limit.clone(), permit.run)))
        });
        let is_full = |name: &&NodeName| {
            let slots = world.node(name).map_or(0, |node| node.local().settings().slots as usize);
            let going = books().map(|book| book.going_on(name)).sum::<usize>();
            let just = |(at, on): &(i64, NodeName)| on == *name && *at + BETWEEN > world.now();
            going >= slots
                || (going + 1 == slots && books().filter_map(|book| book.started.as_ref()).any(just))
        };
        Self {
            started,
            permitted: permits.flatten().collect(),
            full: world.names().filter(is_full).cloned().collect(),
        }
    }

    /// Whether a run may be open for long on a node: it has no free slot, or the run has no permit and others had one
    /// since then. One that allows few concurrent runs may wait for ever while others come and go.
    pub(super) fn keep_waiting(&self, (run, book): (&RunId, &JobTrack), on: &NodeName, since: i64) -> bool {
        let moves = |limit: &RunLimit| self.started.get(limit).is_some_and(|last| *last >= since);
        let lacks = |limit: &RunLimit| !self.permitted.contains(&(limit.clone(), run.clone()));
        let waits = book.limits.keys().any(|limit| moves(limit) && lacks(limit));
        waits || (self.full.contains(on) && !book.limits.is_empty())
    }
}

impl JobTrack {
    /// The number of its running runs, on all nodes.
    fn running_count(&self) -> usize {
        self.running.len() + self.sharding.running.len()
    }

    /// The number on one node.
    fn going_on(&self, name: &NodeName) -> usize {
        let shards = self.sharding.running.values().map(|(.., on)| on);
        self.running.values().map(|(_, on)| on).chain(shards).filter(|on| *on == name).count()
    }
}

impl InvariantChecker {
    /// Notes how many runs of a namespace may go on at once.
    pub(super) fn namespace_written(&mut self, name: Namespace, record: Option<NamespaceRecord>) {
        let max = record.and_then(|record| record.live()?.namespace.runs_max);
        match max {
            Some(max) => self.runs_max.insert(name, max),
            None => self.runs_max.remove(&name),
        };
    }

    /// Checks at a start on a node that all limits hold with the new run.
    pub(super) fn check_limits(&mut self, at: i64, name: &NodeName, run: &Run) {
        let book = self.jobs.entry(run.id.job.clone()).or_default();
        book.started = Some((at, name.clone()));
        for (limit, most) in book.limits.clone() {
            let beside = self.jobs.values().filter(|book| book.limits.contains_key(&limit));
            let others: usize = beside.map(JobTrack::running_count).sum();
            self.findings.test(at, Invariant::I55, others < most as usize, || {
                format!(
                    "{} started on {name} while {others} runs of at most {most} went on in {limit}",
                    run.id
                )
            });
        }
    }
}

/// How many runs may go on at once, by each limit that the runs of a job count in.
pub(super) fn limits_of(job: &Job, runs_max: &BTreeMap<Namespace, u32>) -> BTreeMap<RunLimit, u32> {
    let pool = job.pool.iter().map(|pool| (RunLimit::Pool(pool.name.clone()), pool.limit));
    let of = |name: &&Namespace| name.as_str() == job.name.namespace();
    let max = runs_max.keys().find(of).map(|name| (RunLimit::Namespace(name.clone()), runs_max[name]));
    pool.chain(max).collect()
}
