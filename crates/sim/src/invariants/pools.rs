//! Checks pools: how many runs physically run in each.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::Run;
use evenkeel_core::ids::{NodeName, PoolName, RunId};
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::record::{PoolRecord, decode};

use super::{Invariant, InvariantChecker, JobTrack};
use crate::world::SimWorld;

/// How long a node may take from the end of a run to the start of the next, in milliseconds.
const BETWEEN: i64 = 1_000;

/// The permits and slots that waiting runs of a world at rest need and that are not free.
pub(super) struct PoolWaits {
    /// When a run of each pool last started, in the world's time.
    started: BTreeMap<PoolName, i64>,
    permitted: BTreeSet<RunId>,
    /// The nodes without a free slot.
    full: BTreeSet<NodeName>,
}

impl PoolWaits {
    pub(super) fn of(world: &SimWorld) -> Self {
        let books = || world.checker().jobs().values();
        let mut started = BTreeMap::new();
        for book in books() {
            let (Some(pool), Some((at, _))) = (&book.pool, &book.started) else { continue };
            let last = started.entry(pool.name.clone()).or_insert(*at);
            *last = *at.max(last);
        }
        let pools = world.store().entries().filter(|(key, _)| matches!(parse(key), Some(ParsedKey::Pool(_))));
        let permits =
            pools.filter_map(|(_, entry)| decode::<PoolRecord>(&entry.value)).flat_map(|pool| pool.permits);
        let is_full = |name: &&NodeName| {
            let slots = world.node(name).map_or(0, |node| node.local().settings().slots as usize);
            let going = books().map(|book| book.going_on(name)).sum::<usize>();
            let just = |(at, on): &(i64, NodeName)| on == *name && *at + BETWEEN > world.now();
            going >= slots
                || (going + 1 == slots && books().filter_map(|book| book.started.as_ref()).any(just))
        };
        Self {
            started,
            permitted: permits.map(|permit| permit.run).collect(),
            full: world.names().filter(is_full).cloned().collect(),
        }
    }

    /// Whether a run may be open for long on a node: it has no free slot, or the run has no permit and others had one
    /// since then. One that allows few concurrent runs may wait for ever while others come and go.
    pub(super) fn keep_waiting(&self, (run, book): (&RunId, &JobTrack), on: &NodeName, since: i64) -> bool {
        let Some(pool) = &book.pool else { return false };
        let moves = self.started.get(&pool.name).is_some_and(|last| *last >= since);
        self.full.contains(on) || (moves && !self.permitted.contains(run))
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
    /// Checks at a start on a node that the pool's limit holds with the new run.
    pub(super) fn check_pool(&mut self, at: i64, name: &NodeName, run: &Run) {
        let book = self.jobs.entry(run.id.job.clone()).or_default();
        book.started = Some((at, name.clone()));
        let Some(pool) = book.pool.clone() else { return };
        let of_pool = |book: &&JobTrack| book.pool.as_ref().is_some_and(|other| other.name == pool.name);
        let others: usize = self.jobs.values().filter(of_pool).map(JobTrack::running_count).sum();
        self.findings.test(at, Invariant::I55, others < pool.limit as usize, || {
            format!("{} started on {name} while {others} runs went on in {pool:?}", run.id)
        });
    }
}
