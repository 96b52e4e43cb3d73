//! Fair slots where many starts wait: jobs take turns, and a job that fires again soon waits behind no backlog.

use alloc::format;

use super::*;
use crate::job::{Placement, Pool};

impl TestCluster {
    /// A world with one node of so many slots, and these jobs.
    fn with_few_slots(slots: u32, jobs: Vec<JobFile>) -> Self {
        let mut world = Self::default();
        world.add(Settings { slots, ..settings("a") });
        world.run(1_500);
        world.send_command("a", Command::Apply(jobs));
        world
    }

    /// Asks for so many runs of a job at once.
    fn trigger(&mut self, job: &str, runs: usize) {
        for n in 0..runs {
            let item = Command::RunNow(job.parse().unwrap(), format!("{job}-{n}").parse().unwrap());
            self.give(&"a".parse().unwrap(), Input::Asked(CommandId(1), item));
        }
    }

    /// For each fire of a job in this time: how many runs of other jobs started between its due moment and its own start, and how
    /// late it started.
    fn between(&self, job: &str, (from, until): (i64, i64)) -> Vec<(usize, i64)> {
        let starts = || self.starts.iter().zip(&self.started).map(|((_, run), at)| (run, *at));
        let fires = (from..until).step_by(1_000).map(|due| {
            let own = starts().find(|(run, _)| run.id.job.as_str() == job && run.due.0 == due);
            let own = own.map_or(i64::MAX, |(_, at)| at);
            let others = starts().filter(|(run, at)| run.id.job.as_str() != job && *at > due && *at < own);
            (others.count(), own.saturating_sub(due))
        });
        fires.collect()
    }

    fn order(&self) -> Vec<&str> {
        self.starts.iter().map(|(_, run)| run.id.job.as_str()).collect()
    }
}

#[test]
fn the_backlog_of_one_job_delays_that_job_alone() {
    let jobs = [job("flood", ""), job("often", "@every 1s")];
    let mut world = TestCluster::with_few_slots(1, jobs.into());
    world.takes = 300;
    world.run(4_000 - world.now);
    world.trigger("flood", 60);
    world.run(16_000);
    let between = world.between("often", (5_000, 19_000));
    assert!(between.iter().all(|(others, late)| *others <= 1 && *late <= 400), "{between:?}");
    // Nor does the slot wait for what is not due yet.
    assert!(world.order().iter().filter(|job| **job == "flood").count() >= 30, "{:?}", world.order());
    world.run(30_000);
    assert_eq!(world.order().iter().filter(|job| **job == "flood").count(), 60);
}

#[test]
fn a_frequent_job_is_on_time_beside_many_that_are_due_at_one_moment() {
    let mut jobs: Vec<JobFile> =
        (0..150).map(|n| job(&format!("m{n:03}"), "at 1970-01-01T00:00:05")).collect();
    jobs.push(job("often", "@every 1s"));
    let mut world = TestCluster::with_few_slots(2, jobs);
    world.takes = 100;
    world.run(25_000);
    // Also at the moment at which the others are due.
    let between = world.between("often", (5_000, 24_000));
    assert!(between.iter().all(|(others, late)| *others <= 3 && *late <= 200), "{between:?}");
    let others: BTreeSet<&str> = world.order().into_iter().filter(|job| *job != "often").collect();
    assert_eq!(others.len(), 150, "all of them start");
}

#[test]
fn a_job_that_fires_again_while_it_waits_keeps_every_other_turn() {
    let mut jobs: Vec<JobFile> = (0..9).map(|n| job(&format!("m{n}"), "at 1970-01-01T00:00:05")).collect();
    jobs.push(job("often", "@every 1s"));
    let mut world = TestCluster::with_few_slots(1, jobs);
    world.takes = 3_000;
    world.run(45_000);
    let order: Vec<bool> = world.order().into_iter().map(|job| job == "often").collect();
    let others: Vec<usize> = (0..order.len()).filter(|n| !order[*n]).collect();
    assert_eq!(others.len(), 6, "{order:?}");
    assert!(others.windows(2).all(|pair| pair[1] - pair[0] == 2), "{order:?}");
}

#[test]
fn jobs_with_a_backlog_take_turns() {
    for pool in [None, Some(Pool { name: "db".parse().unwrap(), limit: 1 })] {
        let jobs = ["x", "y", "z"].map(|name| JobFile { pool: pool.clone(), ..job(name, "") });
        let mut world = TestCluster::with_few_slots(if pool.is_some() { 9 } else { 1 }, jobs.into());
        world.takes = 200;
        for job in ["x", "y", "z"] {
            world.trigger(job, 10);
            world.run(100);
        }
        world.run(20_000);
        let order = world.order();
        assert_eq!(order.len(), 30, "{order:?}");
        let had = |until: usize| {
            ["x", "y", "z"].map(|job| order[..until].iter().filter(|other| **other == job).count())
        };
        for starts in (0..order.len()).map(had).take_while(|starts| starts.iter().all(|had| *had < 10)) {
            let [least, most] = [starts.iter().min(), starts.iter().max()];
            assert!(most.unwrap() - least.unwrap() <= 2, "{starts:?} in {order:?}");
        }
    }
}

#[test]
fn the_shards_of_one_job_delay_that_job_alone() {
    let many = JobFile { placement: Placement::Sharded, shards: 60, ..job("many", "at 1970-01-01T00:00:05") };
    let mut world = TestCluster::with_few_slots(2, [many, job("often", "@every 1s")].into());
    world.takes = 250;
    world.run(25_000);
    let between = world.between("often", (6_000, 20_000));
    assert!(between.iter().all(|(others, late)| *others <= 3 && *late <= 300), "{between:?}");
    assert_eq!(world.order().iter().filter(|job| **job == "many").count(), 60);
}
