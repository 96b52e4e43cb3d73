//! A run that ends leaves its slot to the next fire of its job, in one commit.

use super::handoff::upgrade_to;
use super::*;

impl TestCluster {
    /// A world with one node of so many slots, where commits take 20 ms, runs 300, and these jobs fire each second.
    fn every_second_on(slots: u32, jobs: &[&str]) -> Self {
        let mut world = Self { takes: 300, delay: 20, ..Self::default() };
        world.add(Settings { slots, ..settings("a") });
        world.send_command("a", Command::Apply(jobs.iter().map(|name| job(name, "@every 1s")).collect()));
        world.run(3_000 - world.now);
        world
    }

    /// Runs until that moment. Returns the kinds of the commits about fires, and the most runs that were executed at
    /// once.
    fn observe(&mut self, until: i64) -> (BTreeSet<CommitKind>, usize) {
        use CommitKind::{ClaimFire, Finish, FinishAndClaim};
        let (mut kinds, mut most) = (BTreeSet::new(), 0);
        while self.now < until {
            self.run(10);
            let node = &self.actors.values().next().unwrap().node;
            let of_fires = node.local().commits.iter().map(|pending| pending.kind);
            kinds.extend(of_fires.filter(|kind| [ClaimFire, Finish, FinishAndClaim].contains(kind)));
            most = most.max(self.ends.len());
        }
        (kinds, most)
    }
}

#[test]
fn a_fire_costs_one_commit_where_every_slot_has_its_job() {
    let mut world = TestCluster::every_second_on(2, &["b", "c"]);
    assert_eq!(world.observe(10_500), (BTreeSet::from([CommitKind::FinishAndClaim]), 2));
    for name in ["b", "c"] {
        assert_eq!(world.dues(name), (1..=10).map(|s| s * 1_000).collect::<Vec<_>>());
    }
    assert!(world.started.iter().all(|at| at % 1_000 == 0), "each on time: {:?}", world.started);
}

#[test]
fn a_job_that_waits_gets_the_slot_of_another_one() {
    let mut world = TestCluster::every_second_on(2, &["b", "c", "d"]);
    let (kinds, most) = world.observe(20_500);
    assert!(kinds.contains(&CommitKind::Finish) && most == 2, "{kinds:?} {most}");
    for name in ["b", "c", "d"] {
        assert_eq!(world.dues(name), (1..=20).map(|s| s * 1_000).collect::<Vec<_>>());
    }
}

#[test]
fn a_node_that_comes_back_with_fewer_slots_executes_fewer_runs() {
    let mut world = TestCluster::every_second_on(3, &["b", "c", "d"]);
    let before = world.observe(5_100);
    assert_eq!(before.1, 3);
    upgrade_to(&mut world, Settings { slots: 1, ..settings("a") }, &[]);
    world.observe(7_000);
    assert_eq!(world.observe(20_000).1, 1);
}
