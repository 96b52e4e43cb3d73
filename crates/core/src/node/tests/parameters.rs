//! Parameters of manual runs: every attempt has the same values, whichever node makes it and whatever the job says by then.

use super::*;
use crate::job::{Delivery, Placement, Retry, RunParameters};
use crate::keys::Key;
use crate::record::{Plan, TriggerRecord};

const PLACEMENTS: [Placement; 4] =
    [Placement::Claimed, Placement::Sharded, Placement::Broadcast, Placement::Dispatched];

fn parameters(pairs: &[(&str, &str)]) -> RunParameters {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// A job whose runs need a day, may be given a region, and are attempted again.
fn with_parameters(placement: Placement, declared: &str) -> JobFile {
    let retry = Retry { max_retries: 3, delay: "2s".into(), max_delay: "2s".into(), exit_codes: [].into() };
    // Of a broadcast job no other node makes a node's part in a fire.
    let broadcast = placement == Placement::Broadcast;
    let delivery = if broadcast { Delivery::AtMostOnce } else { Delivery::AtLeastOnce };
    JobFile {
        placement,
        retry: Some(retry),
        delivery,
        parameters: serde_json::from_str(declared).unwrap(),
        ..job("j", "")
    }
}

fn run_with(id: &str, given: &[(&str, &str)]) -> Command {
    let options = RunOptions { parameters: parameters(given), ..RunOptions::default() };
    Command::RunWith("j".parse().unwrap(), id.parse().unwrap(), options.into())
}

impl TestCluster {
    fn die_with_parameters(&mut self, node: &str) {
        let node: NodeName = node.parse().unwrap();
        self.actors.remove(&node);
        self.ends.retain(|(_, on, _)| *on != node);
    }

    fn record_of<T: crate::record::Record>(&self, key: Key) -> Option<T> {
        crate::record::decode(&self.store.read(&[key]).pop()?.entry?.value)
    }
}

const DECLARED: &str = r#"{"day":{"type":"date"},"region":{"default":"eu"}}"#;

/// The world with the job, after the first attempt of a run on one of two nodes.
fn started(placement: Placement) -> (TestCluster, String) {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    world.send_command("a", Command::Apply([with_parameters(placement, DECLARED)].into()));
    world.run(2_000);
    world.takes = 1_000;
    let answer = world.send_command("b", run_with("r", &[("day", "2026-01-31")]));
    assert!(matches!(answer, Answer::Accepted(..)), "{answer:?}");
    world.run(900);
    let (node, _) = world.starts.first().unwrap_or_else(|| panic!("{placement:?}: it starts")).clone();
    (world, node)
}

/// The values of all attempts, and what their commands have in their environment.
fn values(world: &TestCluster) -> BTreeSet<(String, Option<String>, Option<String>)> {
    let variable = |run: &Run, name: &str| run.setting.environment.get(name).cloned();
    let each = world.starts.iter();
    each.map(|(_, run)| (run.parameters.to_string(), variable(run, "day"), variable(run, "region"))).collect()
}

fn expected() -> BTreeSet<(String, Option<String>, Option<String>)> {
    let text = r#"day="2026-01-31", region="eu""#.to_string();
    [(text, Some("2026-01-31".to_string()), Some("eu".to_string()))].into()
}

#[test]
fn a_run_that_another_node_takes_over_has_the_same_parameters() {
    for placement in PLACEMENTS {
        let (mut world, node) = started(placement);
        assert_eq!(values(&world), expected(), "{placement:?}");
        world.takes = 60_000;
        world.die_with_parameters(&node);
        world.run(15_000);
        // Of a broadcast job each node has a part of its own.
        let other = world.starts.iter().find(|(on, run)| *on != node && run.attempt == 2);
        assert!(placement == Placement::Broadcast || other.is_some(), "{placement:?}: {:?}", world.starts);
        assert_eq!(values(&world), expected(), "{placement:?}");
    }
}

#[test]
fn an_edit_changes_no_run_that_was_requested_before() {
    for placement in PLACEMENTS {
        let (mut world, _) = started(placement);
        world.fails = 2;
        let edited = r#"{"day":{"default":"x"},"region":{"default":"us"},"new":{"default":"n"}}"#;
        world.send_command("a", Command::Apply([with_parameters(placement, edited)].into()));
        world.run(10_000);
        let attempts: BTreeSet<u32> = world.starts.iter().map(|(_, run)| run.attempt).collect();
        assert_eq!(attempts, [1, 2, 3].into(), "{placement:?}");
        for (_, run) in &world.starts {
            let new = (run.attempt > 1).then_some("n");
            let seen = ["day", "region", "new"].map(|name| run.parameters.get(name));
            assert_eq!(seen, [Some("2026-01-31"), Some("eu"), new], "{placement:?}");
        }
    }
}

#[test]
fn values_are_checked_where_the_request_is_written_and_kept_until_it_is_claimed() {
    for placement in PLACEMENTS {
        let (mut world, _) = started(placement);
        let record: TriggerRecord = world.record_of(keys::triggers(&"j".parse().unwrap())).unwrap();
        assert!(record.requests.iter().all(|request| request.taken && request.parameters.is_empty()));
        let before = world.starts.len();
        for (given, why) in [
            (run_with("s", &[]), "needs the parameter day"),
            (run_with("s", &[("day", "x")]), "it takes a day"),
            (run_with("s", &[("dya", "2026-01-31")]), "it has day, region"),
            (Command::RunNow("j".parse().unwrap(), "s".parse().unwrap()), "needs the parameter day"),
        ] {
            match world.send_command("a", given) {
                Answer::Refused(Refusal::Invalid, text) => assert!(text.contains(why), "{text}"),
                other => panic!("{other:?}"),
            }
        }
        world.run(5_000);
        assert_eq!(world.starts.len(), before, "{placement:?}");
    }
}

#[test]
fn requests_with_long_parameters_wait_for_room_in_the_plan_and_all_run() {
    let (mut world, _) = started(Placement::Dispatched);
    world.takes = 1_000;
    let long = "x".repeat(4_000);
    for n in 0..30 {
        let given = [("day", "2026-01-31"), ("region", long.as_str())];
        world.send_command("a", run_with(&alloc::format!("r{n}"), &given));
    }
    let plan: Plan = world.record_of(keys::plan(&"j".parse().unwrap())).unwrap();
    let bytes: usize = plan.runs.iter().map(|run| run.parameters.bytes()).sum();
    assert!((60_000..=72_000).contains(&bytes), "{bytes}");
    world.run(60_000);
    let ran: BTreeSet<String> = world.starts.iter().map(|(_, run)| run.id.to_string()).collect();
    assert_eq!(ran.len(), 31, "{ran:?}");
}

#[test]
fn a_fire_of_the_schedule_has_the_defaults_and_no_variable_of_the_job_is_replaced() {
    let mut world = TestCluster::with(&["a"]);
    let declared = r#"{"day":{"default":"d"},"region":{"default":"eu"}}"#;
    let file = JobFile { schedule: "@every 1s".into(), ..with_parameters(Placement::Claimed, declared) };
    world.send_command("a", Command::Apply([file.clone()].into()));
    world.run(2_500);
    assert!(!world.starts.is_empty());
    let defaults = (r#"day="d", region="eu""#.to_string(), Some("d".to_string()), Some("eu".to_string()));
    assert_eq!(values(&world), [defaults].into());
    // A run was requested with a value whose name the job has used for a variable of its own since.
    let mut paused = JobFile { schedule: String::new(), ..file };
    world.send_command("a", Command::Apply([paused.clone()].into()));
    world.run(1_000);
    world.starts.clear();
    (world.fails, world.takes) = (1, 500);
    world.send_command("a", run_with("r", &[("day", "2026-01-31")]));
    paused.parameters.remove("day");
    paused.environment.insert("day".into(), "own".into());
    world.send_command("a", Command::Apply([paused].into()));
    world.run(5_000);
    let days: Vec<_> =
        world.starts.iter().map(|(_, run)| run.setting.environment.get("day").cloned()).collect();
    assert_eq!(days, [Some("2026-01-31".to_string()), Some("own".to_string())]);
}
