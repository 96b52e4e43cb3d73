//! Jobs that start before others where slots are short.

use super::*;
use crate::job::Placement;

fn ranked(name: &str, priority: u8, placement: Placement) -> JobFile {
    JobFile { priority: priority.try_into().unwrap(), placement, ..job(name, "at 1970-01-01T00:00:05") }
}

#[test]
fn the_first_by_priority_gets_the_next_slot() {
    for placement in [Placement::Claimed, Placement::Dispatched, Placement::Sharded] {
        let mut world = TestCluster::default();
        world.add(Settings { slots: 1, ..settings("a") });
        world.takes = 1_000;
        let jobs = [("d", 3), ("b", 8), ("a", 9), ("e", 0), ("c", 5)];
        let jobs = jobs.map(|(name, priority)| ranked(name, priority, placement));
        world.send_command("a", Command::Apply(jobs.into()));
        world.run(20_000);
        let order: Vec<&str> = world.starts.iter().map(|(_, run)| run.id.job.as_str()).collect();
        assert_eq!(order, ["a", "b", "c", "d", "e"], "{placement:?}");
    }
}

#[test]
fn of_equals_the_one_that_is_due_first_gets_the_next_slot() {
    let mut world = TestCluster::default();
    world.add(Settings { slots: 1, ..settings("a") });
    world.takes = 4_000;
    let at = |name: &str, second: i64| job(name, &alloc::format!("at 1970-01-01T00:00:0{second}"));
    world.send_command("a", Command::Apply([at("z", 3), at("b", 6), at("a", 5)].into()));
    world.run(20_000);
    let order: Vec<&str> = world.starts.iter().map(|(_, run)| run.id.job.as_str()).collect();
    assert_eq!(order, ["z", "a", "b"]);
}

#[test]
fn who_wants_no_slot_any_more_has_no_place_in_the_order() {
    for placement in [Placement::Claimed, Placement::Dispatched] {
        let mut world = TestCluster::default();
        world.add(Settings { slots: 1, ..settings("a") });
        world.takes = 20_000;
        world.run(1_500);
        let long = job("long", "at 1970-01-01T00:00:04");
        world.send_command("a", Command::Apply([long, ranked("short", 5, placement)].into()));
        world.run(8_000 - world.now);
        let waits =
            |world: &TestCluster| !world.actors.values().all(|a| a.node.local().slot_waiters.is_empty());
        assert!(waits(&world), "{placement:?}");
        assert_eq!(world.send_command("a", Command::Disable("short".parse().unwrap())), Answer::Done);
        assert!(!waits(&world), "{placement:?}");
    }
}
