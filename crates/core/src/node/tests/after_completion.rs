//! Fires that are counted from the end of the run before.

use super::*;
use crate::effect::VerdictState;
use crate::ids::Fire;
use crate::job::{Delivery, Retry};

impl TestCluster {
    /// One node whose runs take so long, and a job that is due 10 s after each.
    fn follows(takes: i64, job: JobFile) -> Self {
        let mut world = Self { takes, ..Self::with(&["a"]) };
        world.run(1_500);
        world.send_command("a", Command::Apply([job].into()));
        world
    }

    /// The moments at which runs began until then, in milliseconds.
    fn begin_until(&mut self, until: i64) -> Vec<i64> {
        let mut began = Vec::new();
        while self.now < until {
            self.run(10);
            began.resize(self.starts.len(), self.now);
        }
        began
    }
}

fn after() -> JobFile {
    job("j", "@after 10s")
}

/// Whether moments lie so far apart, to some tens of milliseconds.
fn apart(moments: &[i64], by: i64) -> bool {
    moments.windows(2).all(|pair| (by - 20..by + 100).contains(&(pair[1] - pair[0])))
}

#[test]
fn each_begins_so_long_after_the_end_of_the_one_before() {
    for takes in [200, 3_700, 25_000] {
        let mut world = TestCluster::follows(takes, after());
        let began = world.begin_until(150_000);
        assert!((11_500..11_700).contains(&began[0]), "the first one after the declaration: {began:?}");
        assert!(began.len() >= 4 && apart(&began, takes + 10_000), "{takes}: {began:?}");
        assert!(world.recorded.is_empty(), "{:?}", world.recorded);
    }
}

#[test]
fn a_run_by_hand_counts_as_well() {
    let mut world = TestCluster::follows(200, after());
    world.run(15_000 - world.now);
    world.send_command("a", Command::RunNow("j".parse().unwrap(), "by-hand".parse().unwrap()));
    let began = world.begin_until(40_000);
    assert_eq!(world.starts[1].1.id.fire, Fire::Asked("by-hand".parse().unwrap()));
    assert!((25_200..25_400).contains(&began[2]), "{began:?}");
}

#[test]
fn it_is_counted_from_the_end_of_a_run_whose_time_is_over() {
    let retry =
        Some(Retry { max_retries: 5, delay: "3s".into(), max_delay: "3s".into(), exit_codes: [].into() });
    // It fails after 4 s each time, and by the end of the second wait its time is over.
    let mut world = TestCluster::follows(4_000, JobFile { retry, run_timeout: Some(9), ..after() });
    world.fails = 9;
    let began = world.begin_until(60_000);
    let first = |n: usize| world.starts[n].1.attempt == 1;
    let firsts: Vec<i64> = (0..began.len()).filter(|n| first(*n)).map(|n| began[n]).collect();
    let ends: Vec<i64> = (1..began.len()).filter(|n| first(*n)).map(|n| began[n - 1]).collect();
    assert!(firsts.len() >= 3 && ends.len() >= 2, "{:?}", world.starts);
    for (last, next) in ends.iter().zip(&firsts[1..]) {
        assert!(next - last >= 13_900, "{last} and {next} of {began:?}");
    }
}

#[test]
fn it_is_counted_from_the_last_attempt() {
    let retry =
        Some(Retry { max_retries: 2, delay: "3s".into(), max_delay: "3s".into(), exit_codes: [].into() });
    let mut world = TestCluster::follows(500, JobFile { retry, ..after() });
    world.fails = 2;
    let began = world.begin_until(60_000);
    let attempts: Vec<u32> = world.starts.iter().map(|(_, run)| run.attempt).collect();
    assert_eq!(attempts[..4], [1, 2, 3, 1]);
    assert!((10_500..10_700).contains(&(began[3] - began[2])), "{began:?}");
}

#[test]
fn another_node_goes_on_where_the_last_run_ended() {
    let mut world = TestCluster::follows(5_000, after());
    world.add(settings("b"));
    world.run(18_000 - world.now);
    assert_eq!(world.starts.len(), 1);
    let holder = world.starts[0].0.parse::<NodeName>().unwrap();
    let other = if holder.as_str() == "a" { "b" } else { "a" };
    world.give(&holder, Input::Asked(CommandId(9), Command::Leave));
    let began = world.begin_until(40_000);
    assert_eq!(world.starts[1].0, other);
    assert!((26_500..26_800).contains(&began[1]), "{began:?}");
}

#[test]
fn where_the_run_is_lost_it_is_counted_from_when_that_was_noticed() {
    let mut world = TestCluster::follows(600_000, JobFile { delivery: Delivery::AtMostOnce, ..after() });
    world.run(30_000 - world.now);
    world.actors.clear();
    world.add(settings("b"));
    let began = world.begin_until(90_000);
    let lost = world.recorded.iter().filter(|verdict| verdict.state == VerdictState::Lost).count();
    assert_eq!(lost, 1, "{:?}", world.recorded);
    assert!(began.len() == 2 && began[1] > 42_000, "{began:?}");
}

#[test]
fn what_nobody_could_run_begins_once_and_the_rest_is_told() {
    let mut world = TestCluster::follows(200, after());
    world.run(15_000 - world.now);
    world.actors.clear();
    world.now = 3_600_000;
    world.add(settings("b"));
    let began = world.begin_until(3_650_000);
    assert!(began[1] < 3_602_000 && apart(&began[1..], 10_200), "{began:?}");
    let skipped: Vec<_> = world.recorded.iter().filter(|v| v.state == VerdictState::Skipped).collect();
    assert_eq!(skipped.len(), 1, "{skipped:?}");
}

#[test]
fn a_pause_or_another_delay_takes_back_what_was_claimed_ahead() {
    let mut world = TestCluster::follows(200, after());
    world.run(11_000 - world.now);
    world.send_command("a", Command::Apply([job("j", "@after 20s")].into()));
    let began = world.begin_until(60_000);
    assert!((31_000..31_300).contains(&began[0]), "{began:?}");
    assert!(apart(&began, 20_200), "{began:?}");
}

#[test]
fn what_has_no_end_to_count_from_is_refused() {
    let refused = |job: JobFile, part: &str| {
        let error = Job::parse(job).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(JobFile { placement: crate::job::Placement::Sharded, ..after() }, "placement = \"claimed\"");
    refused(JobFile { placement: crate::job::Placement::Dispatched, ..after() }, "placement = \"claimed\"");
    refused(JobFile { overlap: crate::job::Overlap::Skip, ..after() }, "leave overlap out");
    refused(
        JobFile { exclude_calendars: ["freeze".parse().unwrap()].into(), ..after() },
        "exclude_calendars and require_calendars",
    );
    refused(JobFile { jitter: "5s".into(), ..after() }, "jitter");
    refused(job("j", "@after 10s\n@daily"), "stands alone");
    refused(job("j", "@after"), "the span is missing");
    let notify = crate::job::Notify { late_after: "5m".into(), ..crate::job::Notify::default() };
    refused(JobFile { notify: Some(alloc::boxed::Box::new(notify)), ..after() }, "late_after");
}
