//! Jobs that are not to run all at once.

use alloc::boxed::Box;

use super::*;
use crate::job::{Delivery, Overlap, Placement, Pool, Retry};
use crate::keys;
use crate::namespace::NamespaceSettings;
use crate::record::{PermitsRecord, RunPermit, decode};
use crate::run_limit::RunLimit;

const PLACEMENTS: [Placement; 3] = [Placement::Claimed, Placement::Dispatched, Placement::Sharded];

fn pooled(name: &str, limit: u32, placement: Placement) -> JobFile {
    let pool = Some(Pool { name: "db".parse().unwrap(), limit });
    JobFile { pool, placement, ..job(name, "at 1970-01-01T00:00:05") }
}

impl TestCluster {
    fn permits(&self) -> Vec<RunPermit> {
        self.permits_of(&RunLimit::Pool("db".parse().unwrap()))
    }

    fn permits_of(&self, limit: &RunLimit) -> Vec<RunPermit> {
        let entry = self.store.read(&[keys::permits(limit)]).pop().unwrap().entry;
        entry.map(|entry| decode::<PermitsRecord>(&entry.value).unwrap().permits).unwrap_or_default()
    }

    /// How many runs go on.
    fn going(&self) -> usize {
        self.ends.len()
    }

    /// Lets time pass, and returns how many runs went on at once at most.
    fn most_at_once(&mut self, ms: i64) -> usize {
        let looks = (0..ms / 10).map(|_| {
            self.run(9);
            self.going()
        });
        looks.max().unwrap_or(0)
    }
}

/// proves: I55
#[test]
fn as_many_run_at_once_as_the_pool_allows_and_all_in_the_end() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 1_000, ..TestCluster::with(&["a", "b", "c"]) };
        world.run(1_500);
        let jobs: Vec<JobFile> = (0..7).map(|n| pooled(&alloc::format!("j{n}"), 2, placement)).collect();
        world.send_command("a", Command::Apply(jobs));
        assert_eq!(world.most_at_once(15_000), 2, "{placement:?}");
        assert_eq!(world.starts.len(), 7, "{placement:?}");
        assert_eq!(world.permits(), [], "{placement:?}: all are given back");
    }
}

/// proves: I55
#[test]
fn each_shard_is_a_run() {
    let mut world = TestCluster { takes: 1_000, ..TestCluster::with(&["a", "b"]) };
    world.run(1_500);
    world.send_command(
        "a",
        Command::Apply([JobFile { shards: 9, ..pooled("j", 3, Placement::Sharded) }].into()),
    );
    assert_eq!(world.most_at_once(15_000), 3);
    assert_eq!(world.starts.len(), 9);
}

/// proves: I55
#[test]
fn one_that_allows_no_other_runs_alone() {
    let mut world = TestCluster { takes: 1_000, ..TestCluster::with(&["a"]) };
    world.run(1_500);
    let alone = JobFile { priority: 9.try_into().unwrap(), ..pooled("alone", 1, Placement::Claimed) };
    let jobs = [pooled("x", 3, Placement::Claimed), alone, pooled("y", 3, Placement::Claimed)];
    world.send_command("a", Command::Apply(jobs.into()));
    assert_eq!(world.most_at_once(20_000), 2, "x and y go on beside each other");
    let order: Vec<&str> = world.starts.iter().map(|(_, run)| run.id.job.as_str()).collect();
    assert_eq!((order.len(), order[0]), (3, "alone"), "{order:?}");
}

/// proves: I55
#[test]
fn the_seats_of_the_dead_are_struck_out() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 3_000, ..TestCluster::with(&["a", "b"]) };
        world.run(1_500);
        let at_once = JobFile { delivery: Delivery::AtLeastOnce, ..pooled("first", 1, placement) };
        world.send_command("a", Command::Apply([at_once].into()));
        world.run(5_000);
        let dead = world.permits()[0].by.node.clone();
        world.actors.remove(&dead);
        world.ends.clear();
        world.run(15_000);
        let again: Vec<u32> = world.starts.iter().map(|(_, run)| run.attempt).collect();
        assert_eq!(again, [1, 2], "{placement:?}: it runs again with a permit of its own");
        assert_eq!(world.permits(), [], "{placement:?}");
    }
}

/// proves: I55
#[test]
fn who_goes_first_is_said_by_priority_and_what_is_due() {
    let mut world = TestCluster { takes: 1_000, ..TestCluster::with(&["a"]) };
    world.run(1_500);
    let ranked = |name: &str, priority: u8| JobFile {
        priority: priority.try_into().unwrap(),
        ..pooled(name, 1, Placement::Claimed)
    };
    let jobs = [("c", 3), ("a", 9), ("b", 5)].map(|(name, priority)| ranked(name, priority));
    world.send_command("a", Command::Apply(jobs.into()));
    world.run(20_000);
    let order: Vec<&str> = world.starts.iter().map(|(_, run)| run.id.job.as_str()).collect();
    assert_eq!(order, ["a", "b", "c"]);
}

/// proves: I55
#[test]
fn what_waits_for_its_next_attempt_has_no_permit() {
    let mut world = TestCluster { takes: 100, fails: 1, ..TestCluster::with(&["a"]) };
    world.run(1_500);
    let retry = Retry { max_retries: 1, delay: "5s".into(), max_delay: "5s".into(), exit_codes: Vec::new() };
    let jobs = [
        JobFile { retry: Some(retry), priority: 9.try_into().unwrap(), ..pooled("x", 1, Placement::Claimed) },
        pooled("y", 1, Placement::Claimed),
    ];
    world.send_command("a", Command::Apply(jobs.into()));
    world.run(20_000);
    let order: Vec<(&str, u32)> =
        world.starts.iter().map(|(_, run)| (run.id.job.as_str(), run.attempt)).collect();
    assert_eq!(order, [("x", 1), ("y", 1), ("x", 2)]);
}

/// proves: I55
#[test]
fn an_end_is_told_in_the_step_in_which_another_run_of_the_job_takes_its_permit() {
    let mut world = TestCluster { takes: 2_500, fails: 1, ..TestCluster::with(&["a"]) };
    world.run(1_500);
    let retry = Retry { max_retries: 1, delay: "2s".into(), max_delay: "2s".into(), exit_codes: Vec::new() };
    let job =
        JobFile { schedule: "@every 3s".into(), retry: Some(retry), ..pooled("j", 1, Placement::Claimed) };
    world.send_command("a", Command::Apply([JobFile { overlap: Overlap::Limit(2), ..job }].into()));
    // The run of 3 s failed, and waits for the permit that the one of 6 s has.
    world.run(8_000 - world.now);
    assert_eq!((world.dues("j"), world.going()), ([3_000, 6_000].into(), 1));
    world.delay = 100;
    world.run(8_550 - world.now);
    let writes = world.commits.iter().flat_map(|(.., txn)| &txn.writes);
    let keys: BTreeSet<String> = writes.map(|write| write.key().to_string()).collect();
    assert_eq!(keys, ["run/j/claim", "pool/db"].map(String::from).into());
    assert_eq!(world.most_at_once(20_000), 1);
}

/// proves: I55
#[test]
fn who_waits_for_a_seat_takes_no_slot() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 3_000, ..TestCluster::default() };
        world.add(Settings { slots: 2, ..settings("a") });
        world.run(1_500);
        let mut jobs: Vec<JobFile> = (0..5).map(|n| pooled(&alloc::format!("p{n}"), 1, placement)).collect();
        jobs.push(JobFile { schedule: "at 1970-01-01T00:00:06".into(), ..pooled("other", 1, placement) });
        jobs[5].pool = None;
        world.send_command("a", Command::Apply(jobs));
        assert_eq!(world.most_at_once(4_900), 2, "{placement:?}");
        let started: Vec<&str> = world.starts.iter().map(|(_, run)| run.id.job.as_str()).collect();
        assert!(started.len() == 2 && started[1] == "other", "{placement:?}: {started:?}");
        assert_eq!(world.most_at_once(20_000), 2, "{placement:?}: no more than there are slots");
        assert_eq!(world.starts.len(), 6, "{placement:?}");
    }
}

/// proves: I53, I55
#[test]
fn two_pools_and_one_slot_are_no_knot() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 300, ..TestCluster::default() };
        world.add(Settings { slots: 1, ..settings("a") });
        world.run(1_500);
        let jobs = (0..8).map(|n| {
            let mut job = pooled(&alloc::format!("j{n}"), 1, placement);
            job.pool.iter_mut().filter(|_| n % 2 == 0).for_each(|pool| pool.name = "other".parse().unwrap());
            job
        });
        world.send_command("a", Command::Apply(jobs.collect()));
        assert_eq!(world.most_at_once(20_000), 1, "{placement:?}");
        assert_eq!(world.starts.len(), 8, "{placement:?}");
    }
}

fn team(runs_max: Option<u32>) -> Command {
    let settings = NamespaceSettings::new("team".parse().unwrap());
    Command::Namespace(Box::new(NamespaceSettings { runs_max, ..settings }))
}

fn of_team() -> RunLimit {
    RunLimit::Namespace("team".parse().unwrap())
}

/// A job without a pool, due at 5 s.
fn plain(name: &str, placement: Placement) -> JobFile {
    JobFile { placement, ..job(name, "at 1970-01-01T00:00:05") }
}

/// proves: I55
#[test]
fn a_namespace_limits_the_runs_of_its_jobs_and_of_no_others() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 1_000, ..TestCluster::with(&["a", "b", "c"]) };
        world.run(1_500);
        world.send_command("a", team(Some(2)));
        let inside = (0..5).map(|n| plain(&alloc::format!("team/j{n}"), placement));
        let outside = (0..3).map(|n| plain(&alloc::format!("j{n}"), placement));
        world.send_command("b", Command::Apply(inside.chain(outside).collect()));
        assert_eq!(world.most_at_once(15_000), 5, "{placement:?}: two of the team's and all of the others");
        assert_eq!(world.starts.len(), 8, "{placement:?}");
        assert_eq!(world.permits_of(&of_team()), [], "{placement:?}: all are given back");
    }
}

/// proves: I55
#[test]
fn a_run_waits_for_its_pool_and_its_namespace_and_keeps_no_permit_while_it_waits() {
    for placement in PLACEMENTS {
        // Two of the team's jobs share a pool with a job of another namespace.
        let mut world = TestCluster { takes: 1_000, ..TestCluster::with(&["a", "b"]) };
        world.run(1_500);
        world.send_command("a", team(Some(1)));
        let shared = |name: &str| JobFile {
            pool: Some(Pool { name: "default/db".parse().unwrap(), limit: 2 }),
            ..plain(name, placement)
        };
        let jobs = ["team/x", "team/y", "team/z", "other"].map(shared);
        world.send_command("a", Command::Apply(jobs.into()));
        world.run(5_500 - world.now);
        assert_eq!(world.going(), 2, "{placement:?}: one of the team's, and the other");
        assert_eq!((world.permits().len(), world.permits_of(&of_team()).len()), (2, 1), "{placement:?}");
        assert_eq!(world.most_at_once(15_000), 2, "{placement:?}");
        assert_eq!(world.starts.len(), 4, "{placement:?}");
        assert_eq!((world.permits(), world.permits_of(&of_team())), ([].into(), [].into()), "{placement:?}");
    }
}

/// proves: I55
#[test]
fn a_namespace_whose_limit_is_raised_or_lifted_lets_waiting_runs_go_at_once() {
    for (raised, most) in [(Some(3), 3), (None, 6)] {
        let mut world = TestCluster { takes: 4_000, ..TestCluster::with(&["a", "b"]) };
        world.run(1_500);
        world.send_command("a", team(Some(1)));
        let jobs = (0..6).map(|n| plain(&alloc::format!("team/j{n}"), Placement::Claimed));
        world.send_command("a", Command::Apply(jobs.collect()));
        world.run(5_500 - world.now);
        assert_eq!(world.going(), 1);
        world.send_command("b", team(raised));
        world.run(1_000);
        assert_eq!(world.going(), most, "{raised:?}");
    }
}

/// proves: I55
#[test]
fn runs_from_before_the_limit_keep_their_slots_and_are_not_counted() {
    let mut world = TestCluster { takes: 3_000, ..TestCluster::default() };
    world.add(Settings { slots: 3, ..settings("a") });
    world.run(1_500);
    world.send_command("a", team(None));
    let due = |name: &str, at: &str| job(name, &alloc::format!("at 1970-01-01T00:00:0{at}"));
    let jobs = [due("team/x", "5"), due("team/y", "5"), due("u", "6"), due("v", "7.5")];
    world.send_command("a", Command::Apply(jobs.into()));
    world.run(5_500 - world.now);
    world.send_command("a", team(Some(1)));
    assert_eq!(world.most_at_once(2_400), 3, "there are three slots");
    assert_eq!(world.permits_of(&of_team()), []);
    world.run(10_000);
    assert_eq!(world.starts.len(), 4);
}

/// proves: I55
#[test]
fn a_limit_that_comes_between_a_permit_and_its_run_keeps_no_run_waiting_for_ever() {
    for offset in (0..400).step_by(5) {
        let mut world = TestCluster { takes: 300, ..TestCluster::with(&["a", "b"]) };
        world.run(1_500);
        world.send_command("b", team(None));
        let pool = Some(Pool { name: "db".parse().unwrap(), limit: 1 });
        let job = JobFile { shards: 4, pool, ..plain("team/j", Placement::Sharded) };
        world.send_command("b", Command::Apply([job].into()));
        world.run(1_000);
        world.delay = 60;
        world.run(4_800 + offset - world.now);
        world.give(&"b".parse().unwrap(), Input::Asked(CommandId(77), team(Some(5))));
        world.run(15_000);
        assert_eq!((world.starts.len(), world.permits()), (4, [].into()), "{offset}");
    }
}

/// proves: I55
#[test]
fn a_limit_and_a_job_whose_runs_cannot_be_counted_exclude_each_other() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    let uncounted = |name: &str| JobFile { monitor_execution: false, ..plain(name, Placement::Sharded) };
    let refused = |answer: Answer| matches!(answer, Answer::Refused(Refusal::Conflict, text) if text.contains("monitor_execution = true"));
    world.send_command("a", team(None));
    world.send_command("a", Command::Apply([uncounted("team/j")].into()));
    assert!(refused(world.send_command("a", team(Some(1)))), "the job is there");
    world.send_command("a", Command::Delete("team/j".parse().unwrap()));
    world.send_command("a", team(Some(1)));
    assert!(refused(world.send_command("a", Command::Apply([uncounted("team/k")].into()))));
}
