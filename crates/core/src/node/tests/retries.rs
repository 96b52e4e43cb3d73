//! Runs that fail and are attempted again, in each placement.

use super::*;
use crate::effect::VerdictState;
use crate::job::{Delivery, Placement, Retry};
use crate::settings::Settings;

const PLACEMENTS: [Placement; 3] = [Placement::Claimed, Placement::Sharded, Placement::Dispatched];

/// A job that is due each 60 s and whose runs are attempted again after at most 8 s.
fn retried(name: &str, placement: Placement, times: u32) -> JobFile {
    let retry =
        Retry { max_retries: times, delay: "8s".into(), max_delay: "8s".into(), exit_codes: [].into() };
    JobFile { placement, retry: Some(retry), ..job(name, "@every 60s") }
}

impl TestCluster {
    /// The nodes that started the attempts of a job, and when each may be done.
    fn attempts(&self, job: &str) -> Vec<(String, u32)> {
        let of_job = self.starts.iter().filter(|(_, run)| run.id.job.as_str() == job);
        of_job.map(|(node, run)| (node.clone(), run.attempt)).collect()
    }

    fn numbers(&self, job: &str) -> Vec<u32> {
        self.attempts(job).into_iter().map(|(_, attempt)| attempt).collect()
    }

    /// Two nodes, and a job whose first attempt has just failed; returns the node that had it.
    fn waiting(placement: Placement, change: impl Fn(&mut JobFile)) -> (Self, String) {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(1_500);
        let mut job = retried("j", placement, 3);
        change(&mut job);
        world.fails = 1;
        world.send_command("a", Command::Apply([job].into()));
        world.run(61_000 - world.now);
        assert_eq!(world.numbers("j"), [1], "{placement:?}");
        let (node, _) = world.attempts("j").remove(0);
        (world, node)
    }

    fn other(node: &str) -> &'static str {
        if node == "a" { "b" } else { "a" }
    }

    fn die(&mut self, node: &str) {
        let node: NodeName = node.parse().unwrap();
        self.actors.remove(&node);
        self.ends.retain(|(_, on, _)| *on != node);
    }

    fn verdicts(&self, state: VerdictState) -> Vec<u32> {
        self.recorded.iter().filter(|v| v.state == state).map(|v| v.attempt).collect()
    }
}

#[test]
fn a_run_that_fails_is_attempted_again_after_its_wait_and_no_oftener_than_declared() {
    for placement in PLACEMENTS {
        for (times, fails, attempts) in [(3, 2, 3), (1, 9, 2)] {
            let mut world = TestCluster::with(&["a", "b"]);
            world.run(1_500);
            world.fails = fails;
            world.send_command("a", Command::Apply([retried("j", placement, times)].into()));
            let mut began = Vec::new();
            while world.now < 110_000 {
                world.run(99);
                if world.numbers("j").len() > began.len() {
                    began.push(world.now);
                }
            }
            let numbers: Vec<u32> = (1..=attempts).collect();
            assert_eq!(world.numbers("j"), numbers, "{placement:?}");
            let waits: Vec<i64> = began.windows(2).map(|w| w[1] - w[0]).collect();
            assert!(waits.iter().all(|wait| (3_900..=9_200).contains(wait)), "{placement:?}: {waits:?}");
            assert!(world.starts.windows(2).all(|w| w[0].1.token < w[1].1.token), "{placement:?}");
            assert!(world.starts.iter().all(|(_, run)| run.due == Wall(60_000)));
            assert!(world.recorded.is_empty(), "{:?}", world.recorded);
            // The next fire is the next run, and its attempts count from one.
            world.run(130_000 - world.now);
            assert_eq!(
                world.dues("j").iter().filter(|due| **due == 120_000).count(),
                2.min(times as usize + 1),
                "{placement:?}"
            );
        }
    }
}

#[test]
fn nothing_is_attempted_before_a_long_wait_is_over() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(1_500);
        world.fails = 1;
        let retry =
            Retry { max_retries: 3, delay: "1h".into(), max_delay: "1h".into(), exit_codes: [].into() };
        let shards = if placement.is_sharded() { 24 } else { 1 };
        let job = JobFile { placement, shards, retry: Some(retry), ..job("j", "at 1970-01-01T00:00:05") };
        world.send_command("a", Command::Apply([job].into()));
        world.run(60_000);
        assert_eq!(world.numbers("j"), alloc::vec![1; shards as usize], "{placement:?}");
    }
}

#[test]
fn shards_that_fail_one_after_the_other_wait_together() {
    let mut world = TestCluster::default();
    world.add(Settings { slots: 1, ..settings("a") });
    world.run(1_500);
    (world.fails, world.takes) = (1, 500);
    let retry = Retry { max_retries: 1, delay: "1h".into(), max_delay: "1h".into(), exit_codes: [].into() };
    let of = JobFile {
        placement: Placement::Sharded,
        shards: 64,
        retry: Some(retry),
        ..job("j", "at 1970-01-01T00:00:05")
    };
    world.send_command("a", Command::Apply([of].into()));
    world.run(60_000);
    let node = &world.actors[&"a".parse::<NodeName>().unwrap()].node;
    let (job, me) = (node.view().find(&"j".parse().unwrap()).unwrap(), node.member().unwrap());
    let open = &job.run_state_of(&me).unwrap().run_state.value.as_ref().unwrap().open;
    let waiting: u32 = open.iter().map(|open| open.shards.iter().count() as u32).sum();
    assert_eq!((waiting, world.starts.len()), (64, 64));
    assert!(open.len() <= 3, "{open:?}");
}

#[test]
fn the_next_fire_waits_until_the_run_before_has_had_its_last_attempt() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(1_500);
        world.fails = 2;
        let job = JobFile { schedule: "@every 5s".into(), ..retried("j", placement, 5) };
        world.send_command("a", Command::Apply([job].into()));
        world.run(60_000);
        let mut left = world.starts.iter().map(|(_, run)| (run.due, run.attempt)).peekable();
        while let Some((due, attempt)) = left.next() {
            assert_eq!(attempt, 1, "{placement:?}");
            for attempt in [2, 3] {
                if left.peek().is_some() {
                    assert_eq!(left.next(), Some((due, attempt)), "{placement:?}");
                }
            }
        }
    }
}

#[test]
fn whoever_takes_over_from_a_dead_node_goes_on_waiting_and_nothing_is_in_doubt() {
    for placement in PLACEMENTS {
        let (mut world, node) = TestCluster::waiting(placement, |_| ());
        world.die(&node);
        world.run(20_000);
        let expected = [(node.clone(), 1), (TestCluster::other(&node).to_string(), 2)];
        assert_eq!(world.attempts("j"), expected, "{placement:?}");
        assert!(world.recorded.is_empty(), "{placement:?}: {:?}", world.recorded);
    }
}

#[test]
fn a_node_that_drains_or_leaves_hands_what_waits_to_another_one() {
    for placement in [Placement::Claimed, Placement::Dispatched] {
        let (mut world, node) = TestCluster::waiting(placement, |_| ());
        assert_eq!(world.send_command(&node, Command::Drain(node.parse().unwrap())), Answer::Done);
        world.run(20_000);
        assert_eq!(
            world.attempts("j").last(),
            Some(&(TestCluster::other(&node).to_string(), 2)),
            "{placement:?}"
        );
        assert!(world.recorded.is_empty());
    }
    for placement in PLACEMENTS {
        let (mut world, node) = TestCluster::waiting(placement, |_| ());
        world.answers.clear();
        world.give(&node.parse().unwrap(), Input::Asked(CommandId(9), Command::Leave));
        world.run(2_500);
        assert_eq!(world.answers, [Answer::Done], "{placement:?}: it waits for nothing");
        world.run(20_000);
        assert_eq!(
            world.attempts("j").last(),
            Some(&(TestCluster::other(&node).to_string(), 2)),
            "{placement:?}"
        );
        assert!(world.recorded.is_empty(), "{placement:?}");
    }
}

#[test]
fn what_waits_is_given_up_aloud_when_its_job_is_disabled_or_deleted() {
    for placement in PLACEMENTS {
        for command in [Command::Disable("j".parse().unwrap()), Command::Delete("j".parse().unwrap())] {
            let (mut world, _) = TestCluster::waiting(placement, |_| ());
            assert_eq!(world.send_command("a", command.clone()), Answer::Done);
            world.run(20_000);
            assert_eq!(world.numbers("j"), [1], "{placement:?} {command:?}");
            assert_eq!(world.verdicts(VerdictState::Skipped), [2], "{placement:?} {command:?}");
            assert_eq!(world.held("a") + world.held("b"), 0);
        }
    }
}

#[test]
fn a_pause_and_a_new_schedule_leave_a_run_its_attempts() {
    for placement in PLACEMENTS {
        let (mut world, _) = TestCluster::waiting(placement, |_| ());
        world.send_command("a", Command::Pause("j".parse().unwrap()));
        let edited = JobFile { schedule: "@every 7m".into(), ..retried("j", placement, 3) };
        world.send_command("a", Command::Apply([edited].into()));
        world.run(20_000);
        assert_eq!(world.numbers("j"), [1, 2], "{placement:?}");
        assert!(world.recorded.is_empty(), "{placement:?}: {:?}", world.recorded);
    }
}

#[test]
fn what_waits_takes_no_slot() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::default();
        world.add(Settings { slots: 1, ..settings("a") });
        world.run(1_500);
        world.fails = 1;
        let other = JobFile { retry: None, schedule: "@every 1s".into(), ..retried("k", placement, 1) };
        world.send_command("a", Command::Apply([retried("j", placement, 1), other].into()));
        world.run(75_000);
        assert_eq!(world.numbers("j"), [1, 2], "{placement:?}");
        let between = world.dues("k").iter().filter(|due| (61_000..=63_000).contains(*due)).count();
        assert_eq!(between, 3, "{placement:?}");
    }
}

#[test]
fn a_lost_attempt_that_nobody_repeats_ends_its_run() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(1_500);
        world.takes = 5_000;
        world.send_command("a", Command::Apply([retried("j", placement, 3)].into()));
        world.run(61_000 - world.now);
        let node = world.attempts("j")[0].0.clone();
        world.die(&node);
        world.run(20_000);
        assert_eq!(world.numbers("j"), [1], "{placement:?}");
        assert_eq!(
            (world.verdicts(VerdictState::Lost), world.verdicts(VerdictState::Skipped)),
            ([1].into(), [2].into())
        );
    }
    for placement in PLACEMENTS {
        let (mut world, _) = TestCluster::waiting(placement, |job| job.delivery = Delivery::AtLeastOnce);
        world.run(20_000);
        assert_eq!(world.numbers("j"), [1, 2], "{placement:?}");
    }
}

#[test]
fn a_clock_that_is_set_back_holds_no_attempt_up_for_long() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::default();
        world.add(Settings { max_clock_skew: Millis(i64::MAX), ..settings("a") });
        world.run(1_500);
        world.fails = 1;
        world.send_command("a", Command::Apply([retried("j", placement, 3)].into()));
        world.run(61_000 - world.now);
        world.skew = -3_600_000;
        world.give(&"a".parse().unwrap(), Input::Tick);
        world.run(20_000);
        assert_eq!(world.numbers("j"), [1, 2], "{placement:?}");
    }
}

#[test]
fn what_waits_and_is_held_by_nobody_is_given_up_aloud_when_its_job_goes() {
    for (delete, drained) in [(false, "a"), (true, "b")] {
        let (mut world, node) = TestCluster::waiting(Placement::Claimed, |_| ());
        // Nobody may take it over.
        for name in ["a", "b"] {
            world.send_command(drained, Command::Drain(name.parse().unwrap()));
        }
        world.run(1_500);
        assert_eq!((world.held("a"), world.held("b")), (0, 0), "{node} gave it back");
        let gone = match delete {
            true => Command::Delete("j".parse().unwrap()),
            false => Command::Disable("j".parse().unwrap()),
        };
        world.send_command(drained, gone);
        world.run(3_000);
        assert_eq!(world.verdicts(VerdictState::Skipped), [2]);
        assert_eq!((world.held("a"), world.held("b")), (0, 0), "and nobody keeps it");
    }
}
