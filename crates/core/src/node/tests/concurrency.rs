//! Runs of one job beside each other.

use super::*;
use crate::effect::VerdictState;
use crate::job::{Delivery, Overlap, Placement, Retry};

const PLACEMENTS: [Placement; 2] = [Placement::Claimed, Placement::Dispatched];

/// A job that is due each 10 s.
fn overlapping_job(placement: Placement, overlap: Overlap) -> JobFile {
    JobFile { placement, overlap, ..job("j", "@every 10s") }
}

impl TestCluster {
    /// Nodes whose runs take so long, and this job.
    fn wide(names: &[&str], takes: i64, job: JobFile) -> Self {
        let mut world = Self { takes, ..Self::with(names) };
        world.run(1_500);
        world.send_command(names[0], Command::Apply([job].into()));
        world
    }

    /// Runs until this moment, in seconds; how many runs went on at most, and the moments at which they began.
    fn watch_until(&mut self, secs: i64) -> (usize, Vec<i64>) {
        let (mut most, mut began) = (0, Vec::new());
        while self.now < secs * 1000 {
            self.run(50);
            most = most.max(self.ends.len());
            began.resize(self.starts.len(), self.now);
        }
        (most, began)
    }

    fn lost(&self) -> usize {
        self.recorded.iter().filter(|verdict| verdict.state == VerdictState::Lost).count()
    }
}

#[test]
fn every_fire_starts_on_time_beside_the_runs_before() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::wide(&["a", "b"], 34_000, overlapping_job(placement, Overlap::Allow));
        let (most, began) = world.watch_until(99);
        assert_eq!(most, 4, "{placement:?}");
        let dues: Vec<i64> = (10..100).step_by(10).map(|secs| secs * 1000).collect();
        assert_eq!(world.dues("j"), dues, "{placement:?}");
        assert!(began.iter().zip(&dues).all(|(at, due)| at - due < 200), "{placement:?}: {began:?}");
        assert!(world.recorded.is_empty(), "{placement:?}: {:?}", world.recorded);
        assert!(world.starts.windows(2).all(|w| w[0].1.token < w[1].1.token), "{placement:?}");
    }
}

#[test]
fn no_more_go_on_than_the_job_says_and_the_others_wait_in_order() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::wide(&["a"], 24_000, overlapping_job(placement, Overlap::Limit(2)));
        let (most, began) = world.watch_until(75);
        assert_eq!(most, 2, "{placement:?}");
        assert_eq!(world.dues("j"), [10_000, 20_000, 30_000, 40_000, 50_000, 60_000], "{placement:?}");
        let secs: Vec<i64> = began.iter().map(|at| at / 1000).collect();
        assert_eq!(secs, [10, 20, 34, 44, 58, 68], "{placement:?}");
        assert!(world.recorded.is_empty(), "{placement:?}: {:?}", world.recorded);
    }
}

#[test]
fn each_that_went_on_where_a_node_died_is_settled_as_its_delivery_says() {
    for placement in PLACEMENTS {
        for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
            let job = JobFile { delivery, ..overlapping_job(placement, Overlap::Allow) };
            let mut world = TestCluster::wide(&["a", "b"], 600_000, job);
            world.run(35_500 - world.now);
            assert_eq!(world.starts.len(), 3);
            let dead: Vec<String> = world.starts.iter().map(|(node, _)| node.clone()).collect();
            let gone = dead[0].clone();
            let there = dead.iter().filter(|node| **node == gone).count();
            world.actors.remove(&gone.parse::<NodeName>().unwrap());
            world.run(39_900 - world.now);
            world.run(15_000);
            assert_eq!(world.lost(), there, "{placement:?} {delivery:?}: {:?}", world.recorded);
            let again = world.starts.iter().filter(|(_, run)| run.attempt == 2).count();
            let expected = if delivery == Delivery::AtLeastOnce { there } else { 0 };
            assert_eq!(again, expected, "{placement:?} {delivery:?}");
            let tokens: BTreeSet<_> = world.starts.iter().map(|(_, run)| run.token).collect();
            assert_eq!(tokens.len(), world.starts.len(), "{placement:?}: each attempt has its own token");
            let first: Vec<i64> =
                world.starts.iter().filter(|(_, run)| run.attempt == 1).map(|(_, run)| run.due.0).collect();
            assert_eq!(first, [10_000, 20_000, 30_000, 40_000, 50_000], "{placement:?} {delivery:?}");
        }
    }
}

#[test]
fn what_was_claimed_ahead_by_a_node_that_leaves_runs_elsewhere() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::wide(&["a", "b"], 24_000, overlapping_job(placement, Overlap::Allow));
        world.run(39_500 - world.now);
        let holder = world.starts[2].0.clone();
        world.give(&holder.parse().unwrap(), Input::Asked(CommandId(9), Command::Leave));
        world.run(75_000 - world.now);
        let dues = world.dues("j");
        assert_eq!(dues[..4], [10_000, 20_000, 30_000, 40_000], "{placement:?}");
        assert!(world.starts.iter().skip(3).all(|(node, _)| *node != holder), "{placement:?}");
        assert_eq!(world.lost(), 0, "{placement:?}: what went on was let end");
        assert_eq!(dues.iter().collect::<BTreeSet<_>>().len(), dues.len(), "{placement:?}: {dues:?}");
    }
}

#[test]
fn of_several_nodes_none_takes_the_places_that_others_wait_for_longer() {
    let mut world =
        TestCluster::wide(&["a", "b"], 24_950, overlapping_job(Placement::Dispatched, Overlap::Limit(2)));
    let (most, _) = world.watch_until(400);
    assert_eq!(most, 2);
    let dues = world.dues("j");
    assert!(dues.len() > 25 && dues.is_sorted(), "{dues:?}");
    let nodes: BTreeSet<&str> = world.starts.iter().skip(10).map(|(node, _)| node.as_str()).collect();
    assert_eq!(nodes.len(), 2, "both run them to the end");
}

#[test]
fn a_job_that_is_edited_under_way_counts_none_of_what_goes_on_as_missed() {
    for overlap in [Overlap::Skip, Overlap::Queue(1), Overlap::Replace] {
        for placement in PLACEMENTS {
            let mut world = TestCluster::wide(&["a"], 24_000, overlapping_job(placement, Overlap::Allow));
            world.run(35_500 - world.now);
            world.send_command("a", Command::Apply([overlapping_job(placement, overlap)].into()));
            world.run(39_000 - world.now);
            assert_eq!(world.ends.len(), 2, "{placement:?} {overlap:?}: none is ended for what goes on");
            world.run(100_000 - world.now);
            let ran: BTreeSet<i64> = world.dues("j").into_iter().collect();
            let told: Vec<_> = world.recorded.iter().filter(|v| v.attempt == 0).collect();
            let wrong = told.iter().any(|v| ran.range(v.from.0..=v.due.0).next().is_some());
            assert!(!wrong, "{placement:?} {overlap:?}: {told:?}");
        }
    }
}

#[test]
fn what_is_attempted_again_at_once_goes_one_by_one_where_the_job_lets_them_no_more() {
    let job =
        |overlap| JobFile { delivery: Delivery::AtLeastOnce, ..overlapping_job(Placement::Claimed, overlap) };
    let mut world = TestCluster::wide(&["a"], 34_000, job(Overlap::Allow));
    world.run(35_500 - world.now);
    world.send_command("a", Command::Apply([job(Overlap::Forbid)].into()));
    world.actors.clear();
    world.ends.clear();
    world.add(settings("b"));
    let (most, _) = world.watch_until(160);
    assert_eq!((world.lost(), most), (3, 1));
    assert_eq!(world.starts.iter().filter(|(_, run)| run.attempt == 2).count(), 3);
}

#[test]
fn an_attempt_that_waits_keeps_no_other_fire_waiting() {
    let retry =
        Some(Retry { max_retries: 2, delay: "15s".into(), max_delay: String::new(), exit_codes: [].into() });
    for placement in PLACEMENTS {
        let mut world = TestCluster::wide(
            &["a"],
            500,
            JobFile { retry: retry.clone(), ..overlapping_job(placement, Overlap::Allow) },
        );
        world.fails = 1;
        let (_, began) = world.watch_until(59);
        let firsts = world.starts.iter().zip(&began).filter(|((_, run), _)| run.attempt == 1);
        let late: Vec<i64> = firsts.map(|((_, run), at)| at - run.due.0).collect();
        assert!(late.len() >= 5 && late.iter().all(|late| *late < 200), "{placement:?}: {late:?}");
        let seconds: Vec<i64> =
            world.starts.iter().filter(|(_, run)| run.attempt == 2).map(|(_, run)| run.due.0).collect();
        assert_eq!(seconds[..2], [10_000, 20_000], "{placement:?}: {seconds:?}");
    }
}

#[test]
fn a_job_that_lets_them_no_more_lets_those_that_go_on_end() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::wide(&["a"], 44_000, overlapping_job(placement, Overlap::Allow));
        world.run(35_500 - world.now);
        assert_eq!(world.ends.len(), 3);
        world.send_command("a", Command::Apply([overlapping_job(placement, Overlap::Forbid)].into()));
        let (most, _) = world.watch_until(100);
        assert_eq!(most, 3, "{placement:?}");
        assert!(world.ends.len() <= 1, "{placement:?}");
        assert!(world.starts[3].1.due >= Wall(40_000), "{placement:?}");
        assert_eq!(world.lost(), 0, "{placement:?}");
    }
}
