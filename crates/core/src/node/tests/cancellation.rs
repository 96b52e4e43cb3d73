//! Cancellation of waiting runs: they wait for their moment, a slot, a permit or their next attempt.

use super::*;
use crate::effect::VerdictState;
use crate::job::{Overlap, Placement, Pool, Retry};

const PLACEMENTS: [Placement; 3] = [Placement::Claimed, Placement::Sharded, Placement::Dispatched];

fn waits_on(job: &str) -> JobFile {
    let retry = Retry { max_retries: 3, delay: "8s".into(), max_delay: "8s".into(), exit_codes: [].into() };
    JobFile { retry: Some(retry), ..super::job(job, "@every 60s") }
}

impl TestCluster {
    /// A node with so many slots.
    fn with_slots(slots: u32) -> Self {
        let mut world = Self::default();
        world.add(Settings { slots, ..settings("a") });
        world.run(1_500);
        world
    }

    fn kill(&mut self, on: &str, run: &str) -> Answer {
        self.send_command(on, Command::Kill(run.parse().unwrap()))
    }

    /// The verdicts on runs that were given up: attempt and reason.
    fn given_up(&self, run: &str) -> Vec<(u32, &str)> {
        let of = |v: &&Verdict| v.run.to_string() == run && v.state == VerdictState::Skipped;
        self.recorded.iter().filter(of).map(|v| (v.attempt, v.reason.as_str())).collect()
    }

    fn started(&self, job: &str) -> Vec<(i64, u32)> {
        let of = self.starts.iter().filter(|(_, run)| run.id.job.as_str() == job);
        of.map(|(_, run)| (run.due.0, run.attempt)).collect()
    }
}

fn is_refused(answer: &Answer, as_: Refusal) -> bool {
    matches!(answer, Answer::Refused(kind, _) if *kind == as_)
}

#[test]
fn a_run_that_waits_for_its_next_attempt_has_none_and_the_job_goes_on() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(1_500);
        world.fails = 1;
        world.send_command("a", Command::Apply([JobFile { placement, ..waits_on("j") }].into()));
        world.run(61_000 - world.now);
        let node = world.starts[0].0.clone();
        let other = if node == "a" { "b" } else { "a" };
        let elsewhere = world.kill(other, "j:60000:0");
        assert!(is_refused(&elsewhere, Refusal::NotFound), "{placement:?}: {elsewhere:?}");
        assert_eq!(world.kill(&node, "j:60000:0"), Answer::Done, "{placement:?}");
        assert_eq!(world.given_up("j:60000:0"), [(2, "not attempted again: ended by an operator")]);
        let again = world.kill(&node, "j:60000:0");
        assert!(is_refused(&again, Refusal::NotFound), "{placement:?}: {again:?}");
        world.run(121_000 - world.now);
        assert_eq!(world.started("j"), [(60_000, 1), (120_000, 1)], "{placement:?}");
    }
}

#[test]
fn a_run_that_waits_for_a_slot_never_starts() {
    let mut world = TestCluster::with_slots(1);
    world.takes = 10_000;
    let short = JobFile { placement: Placement::Dispatched, ..job("short", "at 1970-01-01T00:00:07") };
    world.send_command("a", Command::Apply([job("long", "at 1970-01-01T00:00:05"), short].into()));
    world.run(9_000 - world.now);
    assert_eq!((world.started("long").len(), world.started("short").len()), (1, 0));
    assert_eq!(world.kill("a", "short:7000:0"), Answer::Done);
    assert_eq!(world.given_up("short:7000:0"), [(1, "ended by an operator")]);
    world.run(20_000);
    assert_eq!(world.started("short"), []);
}

#[test]
fn a_shard_that_waits_for_a_slot_never_starts() {
    let mut world = TestCluster::with_slots(1);
    world.takes = 10_000;
    let shards = JobFile { placement: Placement::Sharded, shards: 3, ..job("j", "at 1970-01-01T00:00:05") };
    world.send_command("a", Command::Apply([shards].into()));
    world.run(7_000 - world.now);
    let first = world.starts[0].1.id.shard.0;
    let [second, third] = [(first + 1) % 3, (first + 2) % 3];
    assert_eq!(world.kill("a", &alloc::format!("j:5000:{second}")), Answer::Done);
    world.run(30_000);
    let shards = world.starts.iter().map(|(_, run)| run.id.shard.0);
    assert_eq!(shards.collect::<Vec<_>>(), [first, third]);
}

#[test]
fn a_request_that_nobody_has_claimed_gets_no_run() {
    let mut world = TestCluster::with_slots(1);
    world.takes = 10_000;
    world.send_command("a", Command::Apply([job("long", "at 1970-01-01T00:00:05"), job("short", "")].into()));
    world.run(6_000 - world.now);
    for id in ["r1", "r2"] {
        world.send_command("a", Command::RunNow("short".parse().unwrap(), id.parse().unwrap()));
    }
    assert_eq!(world.kill("a", "short:ask-r1:0"), Answer::Done);
    assert_eq!(world.given_up("short:ask-r1:0"), [(1, "ended by an operator")]);
    world.run(30_000);
    let ids: Vec<String> = world.starts.iter().map(|(_, run)| run.id.to_string()).collect();
    assert_eq!(ids, ["long:5000:0", "short:ask-r2:0"]);
}

#[test]
fn a_run_that_waits_for_a_permit_never_starts_and_others_get_the_permit() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 5_000, ..TestCluster::with(&["a"]) };
        world.run(1_500);
        let pool = || Some(Pool { name: "db".parse().unwrap(), limit: 1 });
        let of = |name: &str, second: u32| JobFile {
            placement,
            pool: pool(),
            ..job(name, &alloc::format!("at 1970-01-01T00:00:0{second}"))
        };
        world.send_command("a", Command::Apply([of("x", 4), of("y", 5), of("z", 6)].into()));
        world.run(7_000 - world.now);
        assert_eq!(world.kill("a", "y:5000:0"), Answer::Done, "{placement:?}");
        world.run(20_000);
        let order: Vec<&str> = world.starts.iter().map(|(_, run)| run.id.job.as_str()).collect();
        assert_eq!(order, ["x", "z"], "{placement:?}");
    }
}

#[test]
fn a_run_that_is_claimed_ahead_never_starts_be_it_that_the_registry_is_slow() {
    for placement in PLACEMENTS {
        // So that the end is in the registry before its moment, and after.
        for at in [4_400, 4_800] {
            let mut world = TestCluster::with(&["a"]);
            world.run(1_500);
            world.send_command("a", Command::Apply([JobFile { placement, ..job("j", "@every 5s") }].into()));
            world.run(3_900 - world.now);
            world.delay = 300;
            world.run(at - world.now);
            world.answers.clear();
            let before = world.started("j").len();
            for ask in [7, 8] {
                let kill = Command::Kill("j:5000:0".parse().unwrap());
                world.give(&"a".parse().unwrap(), Input::Asked(CommandId(ask), kill));
            }
            world.run(6_000 - world.now);
            assert_eq!(world.answers, [Answer::Done, Answer::Done], "{placement:?} at {at}");
            world.run(11_000 - world.now);
            assert_eq!((before, world.started("j")), (0, [(10_000, 1)].into()), "{placement:?} at {at}");
            assert_eq!(world.given_up("j:5000:0"), [(1, "ended by an operator")], "{placement:?} at {at}");
        }
    }
}

#[test]
fn one_shard_of_a_fire_is_ended_and_the_others_go_on() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    world.fails = 1;
    let job = JobFile { placement: Placement::Sharded, shards: 4, ..waits_on("j") };
    world.send_command("a", Command::Apply([job].into()));
    world.run(61_000 - world.now);
    assert_eq!(world.kill("a", "j:60000:2"), Answer::Done);
    world.run(20_000);
    let again = world.starts.iter().filter(|(_, run)| run.attempt == 2).map(|(_, run)| run.id.shard.0);
    assert_eq!(again.collect::<BTreeSet<u32>>(), [0, 1, 3].into());
    assert_eq!(world.given_up("j:60000:2"), [(2, "not attempted again: ended by an operator")]);
}

#[test]
fn one_that_fails_by_itself_while_it_is_told_to_end_is_not_attempted_again() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 5_000, ..TestCluster::with(&["a"]) };
        world.run(1_500);
        world.send_command("a", Command::Apply([JobFile { placement, ..waits_on("j") }].into()));
        world.run(61_000 - world.now);
        let (name, id) = ("a".parse().unwrap(), world.starts[0].1.id.clone());
        world.give(&name, Input::Asked(CommandId(7), Command::Kill(id.clone())));
        let event = RunEvent::Ended(RunOutcome::Failed(Some(1)));
        world.give(&name, Input::Run { id, attempt: 1, event });
        world.run(30_000);
        assert_eq!(world.started("j"), [(60_000, 1)], "{placement:?}");
        let expected = [(2, "not attempted again: ended by an operator")];
        assert_eq!(world.given_up("j:60000:0"), expected, "{placement:?}");
    }
}

#[test]
fn what_ends_by_itself_meanwhile_is_said_to_have_and_nothing_is_kept_of_the_wish() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 1_000, ..TestCluster::with(&["a"]) };
        world.run(1_500);
        world.send_command("a", Command::Apply([JobFile { placement, ..job("j", "@every 60s") }].into()));
        world.run(60_500 - world.now);
        world.delay = 300;
        // It has ended, and that is on its way to the registry.
        world.run(61_200 - world.now);
        world.answers.clear();
        let kill = Command::Kill("j:60000:0".parse().unwrap());
        world.give(&"a".parse().unwrap(), Input::Asked(CommandId(7), kill));
        world.run(2_000);
        assert!(is_refused(&world.answers[0], Refusal::Conflict), "{placement:?}: {:?}", world.answers);
        assert!(world.actors.values().all(|actor| !actor.node.local().commands.has_cancelled()));
        assert_eq!(world.given_up("j:60000:0"), [], "{placement:?}");
    }
}

#[test]
fn one_that_turns_out_not_to_have_started_when_it_is_told_to_end_is_not_begun_anew() {
    for placement in PLACEMENTS {
        let mut world = TestCluster { takes: 5_000, ..TestCluster::with(&["a"]) };
        world.run(1_500);
        world.send_command("a", Command::Apply([JobFile { placement, ..job("j", "@every 60s") }].into()));
        world.run(60_100 - world.now);
        let (name, id) = ("a".parse().unwrap(), world.starts[0].1.id.clone());
        world.give(&name, Input::Asked(CommandId(7), Command::Kill(id.clone())));
        world.stops.clear();
        world.give(&name, Input::Run { id, attempt: 1, event: RunEvent::NotStarted });
        world.run(30_000);
        assert_eq!(world.started("j"), [(60_000, 1)], "{placement:?}");
        assert_eq!(world.given_up("j:60000:0"), [(1, "ended by an operator")], "{placement:?}");
        assert!(world.actors.values().all(|actor| !actor.node.local().commands.has_cancelled()));
        assert!(world.actors.values().all(|actor| !actor.node.local().commands.has_items()));
    }
}

#[test]
fn a_fire_that_is_ended_long_before_it_is_due_takes_no_other_with_it() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    let planned = |schedule: &str| JobFile { placement: Placement::Dispatched, ..job("j", schedule) };
    world.send_command("a", Command::Apply([planned("@every 10s")].into()));
    world.run(11_000 - world.now);
    assert_eq!(world.kill("a", "j:50000:0"), Answer::Done);
    // What is planned anew goes on from where it is, and the one that was ended stays so.
    world.send_command("a", Command::Apply([planned("@every 5s")].into()));
    world.run(62_000 - world.now);
    let dues: Vec<i64> = world.dues("j");
    assert_eq!(dues, [10, 15, 20, 25, 30, 35, 40, 45, 55, 60].map(|second| second * 1_000));
}

#[test]
fn what_came_due_while_it_waited_is_as_if_it_had_gone_on() {
    for placement in [Placement::Claimed, Placement::Dispatched] {
        let mut world = TestCluster::with(&["a"]);
        world.run(1_500);
        world.fails = 1;
        let skips = JobFile { overlap: Overlap::Skip, placement, ..waits_on("j") };
        let retry =
            Retry { max_retries: 3, delay: "1h".into(), max_delay: "1h".into(), exit_codes: [].into() };
        let job = JobFile { schedule: "@every 10s".into(), retry: Some(retry), ..skips };
        world.send_command("a", Command::Apply([job].into()));
        world.run(35_000 - world.now);
        assert_eq!(world.started("j"), [(10_000, 1)], "{placement:?}");
        assert_eq!(world.kill("a", "j:10000:0"), Answer::Done, "{placement:?}");
        world.run(39_000 - world.now);
        assert_eq!(world.started("j"), [(10_000, 1)], "{placement:?}: two were skipped");
        world.run(41_000 - world.now);
        assert_eq!(world.started("j"), [(10_000, 1), (40_000, 1)], "{placement:?}");
    }
}

/// proves: I46
#[test]
fn a_request_that_no_node_has_claimed_is_taken_back_by_any_node_and_never_runs() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(1_500);
        let bound = JobFile { placement, node_selector: "gpu".parse().unwrap(), ..super::job("j", "") };
        world.send_command("a", Command::Apply([bound].into()));
        let request = |id: &str| Command::RunNow("j".parse().unwrap(), id.parse().unwrap());
        assert!(matches!(world.send_command("a", request("r")), Answer::Accepted(..)));
        world.run(3_000);
        assert_eq!(world.kill("b", "j:ask-r:0"), Answer::Done, "{placement:?}");
        assert_eq!(world.given_up("j:ask-r:0"), [(1, "ended by an operator")], "{placement:?}: once");
        assert!(is_refused(&world.kill("a", "j:ask-r:0"), Refusal::NotFound), "{placement:?}: it is over");
        world.send_command("a", request("s"));
        world.add(Settings { labels: "gpu".parse().unwrap(), ..settings("c") });
        world.run(20_000);
        let started: BTreeSet<String> = world.starts.iter().map(|(_, run)| run.id.to_string()).collect();
        assert_eq!(started, BTreeSet::from(["j:ask-s:0".to_string()]), "{placement:?}");
        assert!(is_refused(&world.kill("c", "j:ask-r:0"), Refusal::NotFound), "{placement:?}");
    }
}

/// News of the commit that ends the request comes before the answer to it.
#[test]
fn a_request_that_is_ended_is_answered_so_when_the_news_comes_first() {
    let mut world = TestCluster::with_slots(9);
    world.takes = 60_000;
    world.send_command("a", Command::Apply([job("j", "")].into()));
    for request in ["one", "two"] {
        world.send_command("a", Command::RunNow("j".parse().unwrap(), request.parse().unwrap()));
    }
    (world.delay, world.answers) = (10, Vec::new());
    let kill = Command::Kill("j:ask-two:0".parse().unwrap());
    world.give(&"a".parse().unwrap(), Input::Asked(CommandId(5), kill));
    let (_, name, ticket, txn) = world.commits.pop().unwrap();
    let outcome = world.commit(&txn);
    world.deliver();
    assert_eq!(world.answers, [], "it is not refused");
    world.give(&name, Input::Committed { ticket, outcome });
    assert_eq!(world.answers, [Answer::Done]);
    assert_eq!(world.given_up("j:ask-two:0"), [(1, "ended by an operator")]);
}
