//! Jobs that are paused after runs in a row that ended badly.

use super::*;
use crate::job::{Placement, Retry};

const PLACEMENTS: [Placement; 4] =
    [Placement::Claimed, Placement::Sharded, Placement::Dispatched, Placement::Broadcast];
const PAUSED: &str = "job j is paused: 3 runs in a row ended badly; resume it with `evenkeel job resume j`";

fn failing(placement: Placement) -> JobFile {
    JobFile { placement, pause_after_failures: Some(3), ..job("j", "@every 4s") }
}

impl TestCluster {
    fn failing(nodes: &[&str], placement: Placement) -> Self {
        let mut world = Self::with(nodes);
        world.fails = 99;
        world.send_command("a", Command::Apply([failing(placement)].into()));
        world
    }

    /// Goes on until this many runs have started and the last of them has ended.
    fn run_until_started(&mut self, runs: usize) {
        for _ in 0..2_000 {
            if self.starts.len() >= runs {
                return self.run(1_000);
            }
            self.run(100);
        }
        panic!("{} of {runs} runs have started", self.starts.len());
    }

    fn pauses(&self) -> usize {
        self.events.iter().filter(|event| *event == PAUSED).count()
    }
}

#[test]
fn a_job_is_paused_after_so_many_failed_runs_whatever_its_placement() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::failing(&["a"], placement);
        world.run_until_started(3);
        world.run(60_000);
        assert_eq!(world.dues("j").len(), 3, "{placement:?}: no fire follows the third failure");
        assert_eq!(world.pauses(), 1, "{placement:?}: {:?}", world.events);
        let node = &world.actors[&"a".parse::<NodeName>().unwrap()].node;
        let spec = node.view().find(&"j".parse().unwrap()).unwrap().spec().unwrap();
        let by = spec.operator.paused.unwrap().by;
        assert_eq!((spec.paused, by.as_str()), (true, "pause_after_failures: 3 runs in a row ended badly"));
    }
}

#[test]
fn a_run_that_succeeds_ends_the_streak_and_a_resumed_job_counts_anew() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::failing(&["a"], placement);
        world.run_until_started(2);
        world.fails = 0;
        world.run_until_started(3);
        world.fails = 99;
        world.run_until_started(5);
        assert_eq!(world.pauses(), 0, "{placement:?}");
        world.run_until_started(6);
        world.run(20_000);
        assert_eq!((world.starts.len(), world.pauses()), (6, 1), "{placement:?}");
        assert_eq!(world.send_command("a", Command::Resume("j".parse().unwrap())), Answer::Done);
        world.run_until_started(9);
        world.run(20_000);
        assert_eq!((world.starts.len(), world.pauses()), (9, 2), "{placement:?}");
    }
}

#[test]
fn a_streak_goes_on_with_the_next_owner_and_a_lost_run_is_one_of_it() {
    let mut world = TestCluster::failing(&["a", "b"], Placement::Claimed);
    world.run_until_started(2);
    world.takes = 60_000;
    for _ in 0..100 {
        if world.starts.len() == 3 {
            break;
        }
        world.run(100);
    }
    let (owner, _) = world.starts[2].clone();
    world.actors.remove(&owner.parse().unwrap());
    world.ends.clear();
    world.run(60_000);
    assert_eq!((world.starts.len(), world.pauses()), (3, 1), "{:?}", world.events);
}

#[test]
fn attempts_are_no_runs_and_a_cancelled_run_says_nothing() {
    let mut world = TestCluster::with(&["a"]);
    world.fails = 1;
    let retry = Retry { max_retries: 1, delay: "1s".into(), max_delay: "1s".into(), exit_codes: [].into() };
    let retried = JobFile { retry: Some(retry), ..failing(Placement::Claimed) };
    world.send_command("a", Command::Apply([retried].into()));
    world.run(60_000);
    assert_eq!(world.pauses(), 0, "each run succeeds at its second attempt");
    let mut world = TestCluster::failing(&["a"], Placement::Claimed);
    world.run_until_started(2);
    world.takes = 10_000;
    world.run_until_started(3);
    let run = world.starts[2].1.id.clone();
    world.send_command("a", Command::Kill(run));
    world.run(2_000);
    assert_eq!(world.pauses(), 0);
    world.takes = 0;
    world.run_until_started(4);
    assert_eq!(world.pauses(), 1, "the two failures before it still count");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_fix() {
    let said = |change: fn(&mut JobFile)| {
        let mut job = failing(Placement::Sharded);
        change(&mut job);
        Job::parse(job).unwrap_err().to_string()
    };
    assert!(said(|job| job.pause_after_failures = Some(0)).contains("allowed are 1 to 1000"));
    assert!(said(|job| job.monitor_execution = false).contains("monitor_execution = true"));
    assert!(said(|job| job.schedule = String::new()).contains("give schedule"));
}
