//! Pools: how many runs physically go on in each.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::Run;
use evenkeel_core::keys::{Parsed, parse};
use evenkeel_core::record::{PoolRecord, decode};
use evenkeel_core::words::{NodeName, PoolName, RunId};

use super::{Invariant, JobBook, Watch};
use crate::world::World;

/// How long a node may take from the end of a run to the start of the next, in milliseconds.
const BETWEEN: i64 = 1_000;

/// What the runs of a world at rest wait for that is not free.
pub(super) struct Pools {
    /// When a run of each pool last started, in the world's time.
    started: BTreeMap<PoolName, i64>,
    seated: BTreeSet<RunId>,
    /// The nodes with no slot to spare.
    full: BTreeSet<NodeName>,
}

impl Pools {
    pub(super) fn of(world: &World) -> Self {
        let books = || world.watch().jobs().values();
        let mut started = BTreeMap::new();
        for book in books() {
            let (Some(pool), Some((at, _))) = (&book.pool, &book.started) else { continue };
            let last = started.entry(pool.name.clone()).or_insert(*at);
            *last = *at.max(last);
        }
        let pools = world.store().entries().filter(|(key, _)| matches!(parse(key), Some(Parsed::Pool(_))));
        let seats =
            pools.filter_map(|(_, entry)| decode::<PoolRecord>(&entry.value)).flat_map(|pool| pool.seats);
        let is_full = |name: &&NodeName| {
            let slots = world.node(name).map_or(0, |node| node.local().settings.slots as usize);
            let going = books().map(|book| book.going_on(name)).sum::<usize>();
            let just = |(at, on): &(i64, NodeName)| on == *name && *at + BETWEEN > world.now();
            going >= slots
                || (going + 1 == slots && books().filter_map(|book| book.started.as_ref()).any(just))
        };
        Self {
            started,
            seated: seats.map(|seat| seat.run).collect(),
            full: world.names().filter(is_full).cloned().collect(),
        }
    }

    /// Whether a run may be open for long on a node: it has no slot to spare, or the run has no seat and others had one since
    /// then. One that allows few beside it may wait for ever while others come and go.
    pub(super) fn keep_waiting(&self, (run, book): (&RunId, &JobBook), on: &NodeName, since: i64) -> bool {
        let Some(pool) = &book.pool else { return false };
        let moves = self.started.get(&pool.name).is_some_and(|last| *last >= since);
        self.full.contains(on) || (moves && !self.seated.contains(run))
    }
}

impl JobBook {
    /// How many runs of it go on, wherever.
    fn going(&self) -> usize {
        self.running.len() + self.shares.running.len()
    }

    /// How many on one node.
    fn going_on(&self, name: &NodeName) -> usize {
        let shards = self.shares.running.values().map(|(.., on)| on);
        self.running.values().map(|(_, on)| on).chain(shards).filter(|on| *on == name).count()
    }
}

impl Watch {
    /// A run starts on a node: with it no more go on in its pool than it allows.
    pub(super) fn check_pool(&mut self, at: i64, name: &NodeName, run: &Run) {
        let book = self.jobs.entry(run.id.job.clone()).or_default();
        book.started = Some((at, name.clone()));
        let Some(pool) = book.pool.clone() else { return };
        let of_pool = |book: &&JobBook| book.pool.as_ref().is_some_and(|other| other.name == pool.name);
        let others: usize = self.jobs.values().filter(of_pool).map(JobBook::going).sum();
        self.findings.test(at, Invariant::I55, others < pool.limit as usize, || {
            format!("{} started on {name} while {others} runs went on in {pool:?}", run.id)
        });
    }
}
