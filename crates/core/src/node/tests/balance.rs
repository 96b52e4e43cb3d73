//! Balance of dispatched runs over time: nodes are evenly busy when runs are due, and none waits beside a free slot.

use alloc::format;

use super::*;
use crate::job::Placement;
use crate::keys;
use crate::record::{Plan, decode};

/// How late a run may start while a node has a free slot, in milliseconds.
const LATE_MAX: i64 = 100;

/// A cluster of equal nodes, and jobs that take equally long.
#[derive(Debug)]
struct BalanceCase {
    nodes: usize,
    slots: u32,
    /// For each job the seconds between its fires, and of its first one.
    jobs: Vec<(i64, i64)>,
    /// How long runs take, in milliseconds.
    takes: i64,
}

impl BalanceCase {
    /// A shape of the grid. No job is due while its own last run goes on, and the slots are enough for all.
    fn of(seed: u64) -> Self {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: i64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from((random >> 33) % u64::try_from(below).unwrap()).unwrap()
        };
        let nodes = 2 + usize::try_from(next(4)).unwrap();
        let period = [1, 2, 5, 10, 20, 30][usize::try_from(next(6)).unwrap()];
        let count = 1 + next(30);
        let together = next(2) == 0;
        let jobs = (0..count).map(|_| (period, if together { 0 } else { next(period) })).collect();
        let takes = 50 + next(period * 1_000 - 100);
        let slots = u32::try_from(2 + count / i64::try_from(nodes).unwrap() + next(12)).unwrap();
        Self { nodes, slots, jobs, takes }
    }

    fn play(&self) -> TestCluster {
        let names: Vec<String> = (0..self.nodes).map(|n| format!("n{n}")).collect();
        let mut world = TestCluster { takes: self.takes, ..TestCluster::default() };
        names.iter().for_each(|name| world.add(Settings { slots: self.slots, ..settings(name) }));
        world.run(1_500);
        let jobs = self.jobs.iter().enumerate().map(|(n, (period, offset))| {
            dispatched(&format!("j{n}"), &format!("@every {period}s offset {offset}s"))
        });
        world.send_command("n0", Command::Apply(jobs.collect()));
        world.run(190_000);
        world
    }
}

fn dispatched(name: &str, schedule: &str) -> JobFile {
    JobFile { placement: Placement::Dispatched, ..job(name, schedule) }
}

/// How many runs go on at a moment on each node, those that begin then counted.
fn busy(world: &TestCluster, at: i64, takes: i64) -> Vec<usize> {
    let goes_on = |began: i64| began <= at + LATE_MAX && began + takes > at;
    let names = world.actors.keys();
    let of = |name: &NodeName| {
        let began = world.starts.iter().zip(&world.started).filter(|((node, _), _)| node == name.as_str());
        began.filter(|(_, began)| goes_on(**began)).count()
    };
    names.map(of).collect()
}

fn check(seed: u64) {
    let shape = BalanceCase::of(seed);
    let world = shape.play();
    // From the second plan on it is known how long runs take, and what was planned before has ended.
    let from = 65_000 + shape.takes;
    let dues: BTreeSet<i64> =
        world.starts.iter().map(|(_, run)| run.due.0).filter(|due| *due > from).collect();
    assert!(!dues.is_empty(), "{shape:?}");
    for due in dues {
        let busy = busy(&world, due, shape.takes);
        let (most, least) = (busy.iter().max().unwrap(), busy.iter().min().unwrap());
        assert!(most - least <= 1, "seed {seed}, {shape:?}: at {due} nodes are busy with {busy:?}");
    }
    for ((_, run), began) in world.starts.iter().zip(&world.started) {
        assert!(began - run.due.0 <= LATE_MAX, "seed {seed}, {shape:?}: {} started at {began}", run.id);
    }
}

/// proves: S0-12, S0-27, S0-41, S0-42
#[test]
fn nodes_are_evenly_busy_whenever_runs_are_due() {
    (0..20).for_each(check);
}

/// proves: S0-12, S0-27, S0-41, S0-42
#[test]
#[ignore = "soak: 200 shapes of schedules, slots and durations"]
fn nodes_are_evenly_busy_over_the_whole_grid() {
    (20..220).for_each(check);
}

impl TestCluster {
    fn planned_for(&self, job: &str, node: &str) -> usize {
        let key = keys::plan(&job.parse().unwrap());
        let plan: Option<Plan> = self.store.read(&[key])[0].entry.as_ref().and_then(|e| decode(&e.value));
        plan.map_or(0, |plan| plan.runs.iter().filter(|run| run.by.node.as_str() == node).count())
    }

    /// A world in which `d1` to `d3` are due each 20 s, the third of them on `a`, which has one slot.
    fn with_a_small_node(slots: u32) -> Self {
        let mut world = Self { takes: 100, ..Self::default() };
        world.add(Settings { slots: 1, ..settings("a") });
        world.add(Settings { slots, ..settings("b") });
        world.run(1_500);
        let mut hog = JobFile::new("hog".parse().unwrap(), "", Work::Command(["true".to_string()].into()));
        hog.node_selector = "name=a".parse().unwrap();
        let jobs = ["d1", "d2", "d3"].map(|name| dispatched(name, "@every 20s"));
        world.send_command("b", Command::Apply(jobs.into_iter().chain([hog]).collect()));
        world.run(30_000);
        world
    }

    fn hog(&mut self) {
        self.takes = 60_000;
        self.send_command("a", Command::RunNow("hog".parse().unwrap(), "once".parse().unwrap()));
        self.run(100);
        assert!(self.starts.iter().any(|(node, run)| node == "a" && run.id.job.as_str() == "hog"));
        self.takes = 100;
    }

    /// The nodes that started the runs due at a moment, and when.
    fn started_at(&self, due: i64) -> Vec<(&str, i64)> {
        let starts = self.starts.iter().zip(&self.started).filter(|((_, run), _)| run.due.0 == due);
        starts.map(|((node, _), began)| (node.as_str(), *began)).collect()
    }
}

/// proves: S0-41, S0-43
#[test]
fn a_run_that_its_node_has_no_slot_for_starts_where_there_is_one() {
    let mut world = TestCluster::with_a_small_node(3);
    assert!(["d1", "d2", "d3"].iter().any(|job| world.planned_for(job, "a") > 0), "a is given some");
    world.hog();
    world.run(41_000 - world.now);
    let started = world.started_at(40_000);
    assert_eq!(started.len(), 3, "{started:?}");
    assert!(started.iter().all(|(node, began)| *node == "b" && began - 40_000 <= LATE_MAX), "{started:?}");
}

/// proves: S0-41, S0-43
#[test]
fn a_run_that_no_node_has_a_slot_for_starts_where_one_is_free_first() {
    let mut world = TestCluster::with_a_small_node(2);
    world.hog();
    world.takes = 5_000;
    world.run(46_000 - world.now);
    let started = world.started_at(40_000);
    assert_eq!(started.iter().filter(|(_, began)| began - 40_000 <= LATE_MAX).count(), 2, "{started:?}");
    let late: Vec<_> = started.iter().filter(|(_, began)| *began > 44_000).collect();
    assert!(matches!(late[..], [("b", began)] if *began <= 45_000 + LATE_MAX), "{started:?}");
}

/// proves: S0-12, S4-14
#[test]
fn a_node_that_joins_is_given_runs_within_a_second() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.takes = 500;
    world.run(1_500);
    let jobs: Vec<JobFile> = (0..12).map(|n| dispatched(&format!("j{n}"), "@every 10s")).collect();
    world.send_command("a", Command::Apply(jobs));
    world.run(12_000);
    world.add(settings("c"));
    world.run(1_000);
    let given: usize = (0..12).map(|n| world.planned_for(&format!("j{n}"), "c")).sum();
    assert!(given > 0, "nothing is planned for the new node");
    world.run(21_000 - world.now);
    let busy = busy(&world, 20_000, 500);
    assert_eq!(busy, [4, 4, 4]);
}
