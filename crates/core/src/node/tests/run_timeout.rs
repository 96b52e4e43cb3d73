//! Runs that may take no longer than so much, with all their attempts.

use super::*;
use crate::effect::VerdictState;
use crate::job::{Delivery, Placement, Retry};

fn limited(placement: Placement, run_timeout: u64) -> JobFile {
    let retry = Retry { max_retries: 9, delay: "4s".into(), max_delay: "4s".into(), exit_codes: Vec::new() };
    let job = job("j", "at 1970-01-01T00:00:05");
    JobFile { placement, timeout: Some(7), run_timeout: Some(run_timeout), retry: Some(retry), ..job }
}

/// How long each attempt was given.
fn given(world: &TestCluster) -> Vec<Millis> {
    world.starts.iter().map(|(_, run)| run.timeout.unwrap()).collect()
}

#[test]
fn attempts_get_what_is_left_and_none_follows_when_the_time_is_over() {
    for placement in [Placement::Claimed, Placement::Dispatched, Placement::Sharded] {
        let mut world = TestCluster::with(&["a"]);
        (world.takes, world.fails) = (2_000, 99);
        world.send_command("a", Command::Apply([limited(placement, 12)].into()));
        world.run(60_000);
        let times = given(&world);
        // Each attempt takes two seconds and is followed by a wait of two to four, or up to five where shards wait together.
        assert!((2..=3).contains(&times.len()), "{placement:?}: {times:?}");
        assert_eq!(times[0], Millis::secs(7), "{placement:?}");
        assert!(
            times.is_sorted_by(|a, b| a >= b) && *times.last().unwrap() < Millis::secs(7),
            "{placement:?}"
        );
        let last = world.recorded.last().unwrap();
        let attempt = u32::try_from(times.len()).unwrap() + 1;
        assert_eq!((last.state, last.attempt), (VerdictState::Skipped, attempt), "{placement:?}");
        assert_eq!(last.reason, "not attempted again: its run_timeout of 12 s is over", "{placement:?}");
    }
}

#[test]
fn a_lost_attempt_counts_against_the_time_of_its_run() {
    for placement in [Placement::Claimed, Placement::Dispatched, Placement::Sharded] {
        let mut world = TestCluster::with(&["a", "b"]);
        world.takes = 60_000;
        let job = JobFile { delivery: Delivery::AtLeastOnce, timeout: None, ..limited(placement, 30) };
        world.send_command("a", Command::Apply([job].into()));
        world.run(8_000);
        let (first, _) = world.starts[0].clone();
        world.actors.remove(&first.parse().unwrap());
        world.ends.clear();
        world.run(15_000);
        let times = given(&world);
        assert_eq!((times.len(), times[0]), (2, Millis::secs(30)), "{placement:?}");
        assert!(times[1] < Millis::secs(28), "{placement:?}: {times:?}");
    }
}
