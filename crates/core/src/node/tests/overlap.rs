//! Fires that come due while a run of their job goes on.

use super::*;
use crate::effect::VerdictState;
use crate::job::{Overlap, Placement, Retry};

const PLACEMENTS: [Placement; 2] = [Placement::Claimed, Placement::Dispatched];

/// A job that is due each 10 s.
fn overlapping(placement: Placement, overlap: Overlap) -> JobFile {
    JobFile { placement, overlap, ..job("j", "@every 10s") }
}

impl TestCluster {
    /// One node whose runs take so long, and this job.
    fn busy(takes: i64, job: JobFile) -> Self {
        let mut world = Self { takes, ..Self::with(&["a"]) };
        world.run(1_500);
        world.send_command("a", Command::Apply([job].into()));
        world
    }

    /// First and last of the fires that were skipped, in seconds.
    fn skips(&self) -> Vec<(i64, i64)> {
        let skipped = self.recorded.iter().filter(|v| v.state == VerdictState::Skipped && v.attempt == 0);
        skipped.map(|v| (v.from.0 / 1000, v.due.0 / 1000)).collect()
    }

    fn secs(&self) -> Vec<i64> {
        self.dues("j").iter().map(|due| due / 1000).collect()
    }
}

/// What runs of fires at each 10 s that take 24 s, of which `keep` wait at most.
fn expected(keep: usize, until: i64) -> Vec<i64> {
    let (mut runs, mut waiting, mut began, mut free) = (Vec::new(), Vec::new(), 0, 0);
    for now in 1..until {
        if now % 10 == 0 {
            waiting.push(now);
        }
        if now == free {
            let before = waiting.iter().filter(|due| **due <= began).count();
            let surplus = (waiting.len() - before).saturating_sub(keep.saturating_sub(before));
            waiting.drain(before..before + surplus);
        }
        if now >= free && !waiting.is_empty() {
            runs.push(waiting.remove(0));
            (began, free) = (now, now + 24);
        }
    }
    runs
}

#[test]
fn of_what_comes_due_while_a_run_goes_on_no_more_waits_than_the_job_says() {
    for placement in PLACEMENTS {
        for (overlap, keep) in
            [(Overlap::Skip, 0), (Overlap::Queue(1), 1), (Overlap::Queue(2), 2), (Overlap::Queue(5), 5)]
        {
            let mut world = TestCluster::busy(24_000, overlapping(placement, overlap));
            world.run(300_000 - world.now);
            let expected = expected(keep, 300);
            assert_eq!(world.secs(), expected, "{placement:?} {overlap:?}");
            let skipped = |due: i64| world.skips().iter().any(|(from, last)| (*from..=*last).contains(&due));
            let last = expected.last().copied().unwrap();
            for due in (10..last).step_by(10) {
                assert!(skipped(due) != expected.contains(&due), "{placement:?} {overlap:?} {due}");
            }
            let reasons = world.recorded.iter().filter(|v| v.attempt == 0).map(|v| v.reason.as_str());
            assert!(
                reasons.clone().all(|reason| reason.contains("came due while the run before was going on"))
            );
        }
    }
}

/// proves: I16
#[test]
fn what_grew_too_old_while_a_run_went_on_is_told_once_and_hides_nothing_that_is_told_later() {
    for placement in PLACEMENTS {
        for grace in [2, 15] {
            let job = JobFile { misfire_grace: Some(grace), ..overlapping(placement, Overlap::Queue(1)) };
            let mut world = TestCluster::busy(44_000, job);
            world.run(300_000 - world.now);
            let mut told: Vec<i64> = Vec::new();
            for (from, last) in world.skips() {
                told.extend((from..=last).step_by(10));
            }
            told.sort_unstable();
            let starts = world.secs();
            let expected: Vec<i64> = (10..240).step_by(10).filter(|due| !starts.contains(due)).collect();
            told.retain(|due| *due < 240);
            assert_eq!(told, expected, "{placement:?} with a grace of {grace} s: {starts:?} ran");
        }
    }
}

#[test]
fn what_was_late_before_a_run_began_still_runs_though_nothing_is_to_wait() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::busy(14_950, overlapping(placement, Overlap::Skip));
        world.actors.clear();
        world.now = 39_000;
        world.add(settings("b"));
        world.run(110_000 - world.now);
        // Its lease has to end before any node knows that the other is gone.
        let first = world.starts[0].1.due;
        assert_eq!(first, Wall(10_000), "{placement:?}");
        let late: Vec<i64> = world.secs();
        assert_eq!(late[..3], [10, 20, 30], "{placement:?}: within their grace, in order: {late:?}");
        assert!(late[3..].iter().all(|due| *due == 40 || *due > 80), "{placement:?}: {late:?}");
        assert!(!world.skips().is_empty(), "{placement:?}");
        for due in (10..100).step_by(10) {
            let skipped = world.skips().iter().any(|(from, last)| (*from..=*last).contains(&due));
            assert!(
                skipped != late.contains(&due),
                "{placement:?}: {due} of {late:?} and {:?}",
                world.skips()
            );
        }
    }
}

#[test]
fn a_run_gives_way_to_the_next_fire() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::busy(3_600_000, overlapping(placement, Overlap::Replace));
        let mut began = Vec::new();
        while world.now < 100_000 {
            world.run(99);
            assert!(world.ends.len() <= 1, "{placement:?}: one goes on at a time");
            if world.starts.len() > began.len() {
                began.push(world.now);
            }
        }
        assert_eq!(world.secs(), (10..100).step_by(10).collect::<Vec<_>>(), "{placement:?}");
        for (at, (_, run)) in began.iter().zip(&world.starts) {
            assert!(at - run.due.0 < STOPPING + 1_300, "{placement:?}: {} began at {at}", run.id);
        }
        assert!(world.recorded.is_empty(), "{placement:?}: {:?}", world.recorded);
    }
}

#[test]
fn of_what_nobody_ran_in_time_only_the_latest_begins_where_runs_give_way() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::busy(1_000, overlapping(placement, Overlap::Replace));
        world.actors.clear();
        world.now = 44_000;
        world.add(settings("b"));
        world.run(61_000 - world.now);
        let late = world.secs();
        assert!(late[0] >= 40 && !late.contains(&30), "{placement:?}: {late:?}");
        let skipped = |due: i64| world.skips().iter().any(|(from, last)| (*from..=*last).contains(&due));
        assert!((10..late[0]).step_by(10).all(skipped), "{placement:?}: {:?}", world.skips());
        assert!(world.recorded[0].reason.contains("a later fire took its place"), "{:?}", world.recorded);
    }
}

#[test]
fn an_attempt_that_waits_gives_way_too_and_what_comes_due_meanwhile_is_skipped() {
    let retry =
        Some(Retry { max_retries: 1, delay: "16s".into(), max_delay: String::new(), exit_codes: [].into() });
    for placement in PLACEMENTS {
        let mut world = TestCluster::busy(
            500,
            JobFile { retry: retry.clone(), ..overlapping(placement, Overlap::Replace) },
        );
        world.fails = 1;
        world.run(45_000 - world.now);
        let attempts: Vec<u32> = world.starts.iter().map(|(_, run)| run.attempt).collect();
        let told: Vec<u32> = world.recorded.iter().map(|v| v.attempt).collect();
        assert!(attempts.len() >= 4 && attempts.iter().filter(|n| **n == 2).count() < 3, "{attempts:?}");
        assert!(told.contains(&2), "{placement:?}: history hears that no second attempt follows: {told:?}");

        let mut world =
            TestCluster::busy(500, JobFile { retry: retry.clone(), ..overlapping(placement, Overlap::Skip) });
        world.fails = 1;
        world.run(100_000 - world.now);
        let secs = world.secs();
        assert!(!world.skips().is_empty(), "{placement:?}: {secs:?}");
        for pair in world.starts.windows(2).filter(|pair| pair[1].1.attempt == 1) {
            let (before, next) = (&pair[0].1, &pair[1].1);
            assert_eq!(
                before.attempt, 2,
                "{placement:?}: {} did not have its last attempt: {secs:?}",
                before.id
            );
            assert!(next.due > before.due, "{placement:?}");
        }
    }
}

#[test]
fn a_run_is_in_the_way_until_it_ends_and_not_until_the_registry_hears_of_it() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::busy(2_000, overlapping(placement, Overlap::Skip));
        world.run(11_500 - world.now);
        assert_eq!(world.secs(), [10], "{placement:?}");
        // The commit that closes it is under way for long.
        world.delay = 13_000;
        world.run(1_500);
        world.delay = 0;
        world.run(45_000 - world.now);
        assert_eq!(world.secs(), [10, 20, 30, 40], "{placement:?}");
        assert!(world.skips().is_empty(), "{placement:?}: {:?}", world.skips());
    }
}
