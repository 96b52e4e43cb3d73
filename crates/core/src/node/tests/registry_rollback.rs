//! A registry that went back in time: what ran since is nowhere in it.

use super::*;
use crate::due::FORGOTTEN;
use crate::effect::VerdictState;
use crate::job::{Delivery, Placement, Retry};
use crate::keys;
use crate::record::{ClusterRecord, encode};
use crate::registry::Write;

const PLACEMENTS: [Placement; 3] = [Placement::Claimed, Placement::Sharded, Placement::Dispatched];

/// A job that is due each 10 s, with more grace than the tests take.
fn due(placement: Placement, delivery: Delivery) -> JobFile {
    JobFile { placement, delivery, misfire_grace: Some(600), ..job("j", "@every 10s") }
}

impl TestCluster {
    fn declare(job: JobFile) -> Self {
        let mut world = Self::with(&["a"]);
        world.run(3_000);
        world.send_command("a", Command::Apply([job].into()));
        world
    }

    /// All nodes are gone, the registry went back in time, and the first node to join has recorded that.
    fn go_back(&mut self, store: Store) {
        self.actors.clear();
        self.ends.clear();
        self.store = store;
        let known = ClusterRecord { engine: Some(1), ..ClusterRecord::new("c".into()) };
        let found = known.found_on(2, Wall(self.now)).unwrap();
        let put = Write::Put { key: keys::cluster(), value: encode(&found), owner: None };
        self.commit(&Txn { guards: Vec::new(), writes: [put].into() });
        self.add(Settings { generation: 2, ..settings("b") });
    }

    /// How often each due fire of the job began.
    fn times(&self) -> BTreeMap<i64, usize> {
        let mut times = BTreeMap::new();
        self.dues("j").into_iter().for_each(|due| *times.entry(due / 1_000).or_default() += 1);
        times
    }

    /// First and last of the fires that were reported as lost by the registry, in seconds.
    fn forgotten(&self) -> Vec<(i64, i64)> {
        let told = self.recorded.iter().filter(|v| v.reason.contains(FORGOTTEN));
        let told = told.inspect(|v| assert_eq!(v.state, VerdictState::Skipped));
        told.map(|v| (v.from.0 / 1_000, v.due.0 / 1_000)).collect()
    }
}

/// proves: I1, I16
#[test]
fn what_may_have_run_before_the_registry_went_back_runs_again_only_where_it_may() {
    for placement in PLACEMENTS {
        for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
            let mut world = TestCluster::declare(due(placement, delivery));
            world.run(25_000 - world.now);
            let then = world.store.clone();
            world.run(55_000 - world.now);
            world.go_back(then);
            world.run(100_500 - world.now);
            let twice = match delivery {
                Delivery::AtMostOnce => Vec::new(),
                Delivery::AtLeastOnce => Vec::from([30, 40, 50]),
            };
            let times = (10..=100).step_by(10).map(|due| (due, 1 + usize::from(twice.contains(&due))));
            assert_eq!(world.times(), times.collect(), "{placement:?} {delivery:?}");
            let mut told: Vec<i64> = Vec::new();
            for (from, last) in world.forgotten() {
                told.extend((from..=last).step_by(10));
            }
            let skipped = if twice.is_empty() { Vec::from([30, 40, 50]) } else { Vec::new() };
            assert_eq!(told, skipped, "{placement:?} {delivery:?}");
        }
    }
}

/// proves: I1, I24
#[test]
fn what_was_asked_for_before_the_registry_went_back_is_not_run_twice() {
    for placement in PLACEMENTS {
        for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
            // Before it was claimed or planned, and after.
            for before in [600, 1_100] {
                let mut world =
                    TestCluster::declare(JobFile { schedule: String::new(), ..due(placement, delivery) });
                world.delay = 500;
                let ask = Command::RunNow("j".parse().unwrap(), "r".parse().unwrap());
                world.give(&"a".parse().unwrap(), Input::Asked(CommandId(9), ask));
                world.run(before);
                let then = world.store.clone();
                world.run(20_000);
                assert_eq!(world.starts.len(), 1, "{placement:?}");
                world.go_back(then);
                world.run(30_000);
                let times = if delivery == Delivery::AtMostOnce { 1 } else { 2 };
                assert_eq!(world.starts.len(), times, "{placement:?} {delivery:?} after {before} ms");
                // One that was claimed may have begun for another reason as well: its node is gone.
                let doubt = |v: &&Verdict| v.state == VerdictState::Lost || v.reason.contains(FORGOTTEN);
                let told = world.recorded.iter().filter(doubt).count();
                assert!(told >= 2 - times, "{placement:?} {delivery:?} after {before} ms");
                if before == 600 {
                    assert_eq!(world.forgotten().len(), 2 - times, "{placement:?} {delivery:?}");
                }
            }
        }
    }
}

/// proves: I1
#[test]
fn an_attempt_that_may_have_been_made_before_the_registry_went_back_is_not_made_again() {
    for placement in PLACEMENTS {
        for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
            let retry =
                Retry { max_retries: 1, delay: "8s".into(), max_delay: "8s".into(), exit_codes: [].into() };
            let job =
                JobFile { retry: Some(retry), schedule: "@every 60s".into(), ..due(placement, delivery) };
            let mut world = TestCluster::declare(job);
            world.fails = 1;
            world.run(64_000 - world.now);
            let then = world.store.clone();
            world.run(75_000 - world.now);
            assert_eq!(world.times(), [(60, 2)].into(), "{placement:?}");
            world.go_back(then);
            world.run(100_000 - world.now);
            let times = if delivery == Delivery::AtMostOnce { 2 } else { 3 };
            assert_eq!(world.times(), [(60, times)].into(), "{placement:?} {delivery:?}");
            assert_eq!(world.forgotten().len(), 3 - times, "{placement:?} {delivery:?}");
        }
    }
}

/// proves: I1
#[test]
fn a_node_that_gets_the_number_of_its_earlier_life_once_more_joins() {
    let mut world = TestCluster::default();
    world.add(Settings { predecessor: Some(1), ..settings("a") });
    world.send_command("a", Command::Apply([job("j", "@every 10s")].into()));
    world.run(12_000);
    assert_eq!((world.held("a"), world.dues("j")), (1, [10_000].into()));
}
