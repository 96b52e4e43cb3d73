//! Sharded jobs: leaders, reads of run states, and a node that finds its own entry gone.

mod elections;
mod reshards;

use alloc::boxed::Box;
use alloc::format;

use super::*;
use crate::commit_kind::CommitKind;
use crate::ids::{Fire, JobName, Member, Shard};
use crate::input::{NodeSwitch, Refusal};
use crate::job::{Placement, Spec};
use crate::keys::{self, Key};
use crate::record::{
    Assignment, MemberInfo, NodeSwitches, ShardRunState, Sharding, SpecRecord, decode, encode,
};
use crate::registry::{LeaseId, Txn, Value, Write};
use crate::shards::ShardSet;

fn sharded(name: &str, schedule: &str, shards: u32) -> JobFile {
    let mut job = job(name, schedule);
    (job.placement, job.shards) = (Placement::Sharded, shards);
    job
}

fn name(job: &str) -> JobName {
    job.parse().unwrap()
}

impl TestCluster {
    /// Somebody from outside writes an entry, or deletes it.
    pub(super) fn write(&mut self, key: Key, value: Option<Value>) {
        let write = match value {
            Some(value) => Write::Put { key, value, owner: None },
            None => Write::Delete { key },
        };
        self.store.commit(Mono(self.now), &Txn { guards: Vec::new(), writes: [write].into() });
    }

    fn entry(&self, key: &Key) -> Option<Value> {
        Some(self.store.read(core::slice::from_ref(key)).pop()?.entry?.value)
    }

    fn sharding(&self, job: &str) -> Sharding {
        let place: Option<Assignment> =
            self.entry(&keys::assignment(&name(job))).and_then(|value| decode(&value));
        place.and_then(|place| place.sharding).map(|sharding| *sharding).unwrap_or_default()
    }

    fn leader(&self, job: &str) -> String {
        self.sharding(job).leader.map_or("none".to_string(), |leader| leader.node.to_string())
    }

    fn member(&self, node: &str) -> Member {
        self.actors[&node.parse::<NodeName>().unwrap()].node.member().unwrap()
    }

    fn epoch(&self, job: &str) -> u64 {
        let place: Option<Assignment> =
            self.entry(&keys::assignment(&name(job))).and_then(|value| decode(&value));
        place.map_or(0, |place| place.epoch)
    }

    /// How often a node was seen to stand for the lead.
    fn elections(&self) -> usize {
        self.events.iter().filter(|event| event.starts_with("elect a new leader")).count()
    }

    fn crash(&mut self, node: &str) {
        let node: NodeName = node.parse().unwrap();
        self.actors.remove(&node);
        self.ends.retain(|(_, on, _)| *on != node);
    }
}

/// proves: S2-46, S2-48
#[test]
fn a_lane_knows_when_its_runs_last_began_and_ended() {
    let mut world = TestCluster::with(&["a"]);
    world.takes = 300;
    world.send_command("a", Command::Apply([sharded("j", "@every 2s", 2)].into()));
    let key = keys::shard_run_state(&name("j"), &world.member("a"));
    for (until, began, ended) in [(4_200, 4_000, 2_300), (4_400, 4_000, 4_300), (6_400, 6_000, 6_300)] {
        world.run(until - world.now);
        let run_state: crate::record::ShardRunState = decode(&world.entry(&key).unwrap()).unwrap();
        assert_eq!((run_state.began, run_state.ended), (Some(Wall(began)), Some(Wall(ended))), "at {until}");
    }
}

/// proves: S3-28, S3-30, I4
#[test]
fn an_entry_that_is_deleted_closes_its_node_and_a_lease_that_ends_does_not() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 1s", 2)].into()));
    world.run(3_000);
    let lost = world.member("a");
    world.store.close(LeaseId(lost.incarnation));
    world.run(2_000);
    let back = world.member("a");
    assert!(back.incarnation > lost.incarnation && world.entry(&keys::node(&back)).is_some());
    assert!(world.sharding("j").shard_map.among.contains(&back), "it takes part again");

    world.write(keys::node(&back), None);
    world.run(10_000);
    assert!(world.actors[&back.node].node.member().is_none(), "it asks for no other lease");
    assert!(!world.store.is_open(LeaseId(back.incarnation)), "and has given its own back");
    assert_eq!(world.events.iter().filter(|event| event.starts_with("closed")).count(), 1);
    let among = world.sharding("j").shard_map.among;
    assert_eq!(among.len(), 1, "the others go on without it: {among:?}");
    assert_eq!(world.send_command("a", Command::Leave), Answer::Done, "it has nothing to hand over");
}

/// proves: S2-27
#[test]
fn a_run_that_outlasts_several_fires_is_followed_by_one_run_for_all_of_them() {
    let dues = |catch_up| {
        let mut world = TestCluster::with(&["a"]);
        world.takes = 7_000;
        let job = JobFile { catch_up, ..sharded("j", "@every 2s", 1) };
        world.send_command("a", Command::Apply([job].into()));
        world.run(12_500);
        world.dues("j")
    };
    // The run of 2 s ends at 9 s. The fires of 4, 6 and 8 s came during it.
    assert_eq!(dues(crate::job::CatchUp::Latest), [2_000, 8_000]);
    assert_eq!(dues(crate::job::CatchUp::Skip), [2_000, 10_000]);
}

/// proves: S2-42
#[test]
fn without_monitoring_the_records_of_runs_go_and_the_runs_go_on() {
    let mut world = TestCluster::with(&["a"]);
    world.takes = 5_000;
    world.send_command("a", Command::Apply([sharded("j", "@every 10s", 2)].into()));
    world.run(11_000);
    let key = keys::shard_run_state(&name("j"), &world.member("a"));
    let open =
        |world: &TestCluster| decode::<ShardRunState>(&world.entry(&key).unwrap()).unwrap().unfinished();
    assert_eq!(open(&world), ShardSet::all(2));
    let unmonitored = JobFile { monitor_execution: false, ..sharded("j", "@every 10s", 2) };
    world.send_command("a", Command::Apply([unmonitored].into()));
    assert_eq!(open(&world), ShardSet::empty());
    assert_eq!((world.ends.len(), world.stops.len()), (2, 0), "both runs go on");
    world.run(20_000);
    let ran = |due: i64| world.starts.iter().filter(|(_, run)| run.due.0 == due).count();
    assert_eq!([ran(10_000), ran(20_000), ran(30_000)], [2; 3], "each fire runs once");
}

/// proves: S2-25
#[test]
fn a_job_may_demand_clocks_that_differ_less_than_the_node_allows() {
    let mut world = TestCluster::with(&["a"]);
    world.skew = 300;
    let mut strict = sharded("strict", "@every 1s", 1);
    strict.max_clock_skew = Some(0);
    world.send_command("a", Command::Apply([sharded("plain", "@every 1s", 1), strict].into()));
    world.run(4_000);
    assert!(world.dues("plain").len() >= 3 && world.dues("strict").is_empty());
    assert!(world.events.iter().any(|event| event.starts_with("clock differs")), "{:?}", world.events);
    world.skew = 0;
    world.run(5_000);
    assert!(world.dues("strict").len() >= 3, "it fires once the clocks agree");
}

#[test]
fn a_placement_is_for_life() {
    let mut world = TestCluster::with(&["a"]);
    world.send_command("a", Command::Apply([job("j", "@every 1s")].into()));
    let changed = world.send_command("a", Command::Apply([sharded("j", "@every 1s", 1)].into()));
    assert!(matches!(changed, Answer::Refused(Refusal::Conflict, _)), "{changed:?}");
    world.run(3_000);
    let token = world.starts.last().unwrap().1.token;
    assert_eq!(world.send_command("a", Command::Delete(name("j"))), Answer::Done);
    world.run(1_000);
    let again = world.send_command("a", Command::Apply([sharded("j", "@every 1s", 1)].into()));
    assert_eq!(again, Answer::Applied([(name("j"), ApplyResult::Created)].into()));
    world.starts.clear();
    world.run(3_000);
    assert!(world.starts.iter().all(|(_, run)| run.token > token) && world.starts.len() >= 2);
}

/// proves: I33
#[test]
fn lanes_go_with_a_deleted_job() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.takes = 2_500;
    world.send_command("a", Command::Apply([sharded("j", "@every 10s", 4)].into()));
    world.run(11_000);
    assert_eq!(world.send_command("a", Command::Delete(name("j"))), Answer::Done);
    assert!(!world.sharding("j").run_states.is_empty(), "runs still go on");
    world.run(4_000);
    let left: Vec<String> = world.store.entries().map(|(key, _)| key.to_string()).collect();
    assert!(!left.iter().any(|key| key.starts_with("run/")), "{left:?}");
    assert_eq!(world.sharding("j").run_states, []);
}

/// proves: I14
#[test]
fn a_job_that_is_created_again_by_a_clock_that_is_behind_fires_nothing_twice() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    let apply = || Command::Apply([sharded("s", "@every 5s", 3)].into());
    world.send_command("a", apply());
    world.run(22_000);
    assert_eq!(world.dues("s").iter().filter(|due| **due == 20_000).count(), 3);
    // The first member to remove its run state never wrote one.
    let run_state = keys::shard_run_state(&name("s"), &world.member("b"));
    world.write(run_state, None);
    world.send_command("b", Command::Delete(name("s")));
    world.run(2_000);
    assert_eq!(world.sharding("s").shard_map.furthest, Some(Wall(20_000)), "every lane had come so far");
    world.skew = -15_000;
    world.send_command("a", apply());
    world.skew = 0;
    world.run(12_000);
    let fires: Vec<_> = world.starts.iter().map(|(_, run)| run.id.clone()).collect();
    assert_eq!(fires.iter().collect::<BTreeSet<_>>().len(), fires.len(), "{fires:?}");
    assert!(world.dues("s").contains(&30_000), "and it goes on");
}

/// proves: S2-18, S2-19
#[test]
fn each_run_gets_its_shards_parameter_and_the_jobs() {
    let mut world = TestCluster::with(&["a"]);
    let mut job = sharded("j", "@every 1s", 3);
    job.shard_parameters = ["north", "south"].map(ToString::to_string).into();
    job.parameter = "all".to_string();
    world.send_command("a", Command::Apply([job].into()));
    world.run(1_500);
    let mut got: Vec<String> = world
        .starts
        .iter()
        .map(|(_, r)| format!("{} {} {}", r.id.shard, r.parameter, r.job_parameter))
        .collect();
    got.sort_unstable();
    assert_eq!(got, ["0 north all", "1 south all", "2  all"]);
}

/// proves: I13, I24
#[test]
fn a_request_to_a_node_without_shards_is_answered_and_not_kept() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([sharded("j", "", 1)].into()));
    let on = |node: &str, id: &str| {
        let options = RunOptions { node: Some(node.parse().unwrap()), ..RunOptions::default() };
        Command::RunWith(name("j"), id.parse().unwrap(), options.into())
    };
    for (node, id) in [("a", "r1"), ("b", "r2"), ("c", "r3")] {
        assert!(matches!(world.send_command("a", on(node, id)), Answer::Accepted(..)));
        world.run(1_000);
    }
    assert_eq!(world.starts.len(), 1, "one node has the shard");
    world.takes = 3_000;
    let holder = world.starts[0].0.clone();
    let asker = if holder == "a" { "b" } else { "a" };
    assert!(matches!(world.send_command(asker, on(&holder, "r4")), Answer::Accepted(..)));
    assert!(matches!(world.send_command(asker, on(&holder, "r5")), Answer::Accepted(..)));
    world.crash(&holder);
    world.run(10_000);
    let asked: crate::record::TriggerRecord =
        decode(&world.entry(&keys::triggers(&name("j"))).unwrap()).unwrap();
    assert!(asked.requests.iter().all(|request| request.taken), "{asked:?}");
}

#[test]
fn a_request_that_is_refused_says_what_was_in_its_way() {
    let why = |asked_at: i64, takes: i64, fails: u32| {
        let mut world = TestCluster::with(&["a"]);
        let mut job = sharded("j", "@every 10s", 2);
        (world.takes, world.fails) = (takes, fails);
        job.retry = Some(crate::job::Retry {
            max_retries: 1,
            delay: "5s".into(),
            max_delay: "".into(),
            exit_codes: [].into(),
        });
        world.send_command("a", Command::Apply([job].into()));
        world.run(asked_at - world.now);
        world.send_command("a", Command::RunNow(name("j"), "r1".parse().unwrap()));
        world.run(20_000);
        let told = world.recorded.iter().filter(|v| v.run.to_string().contains(":ask-r1:"));
        told.map(|v| v.reason.clone()).collect::<Vec<_>>()
    };
    let ahead = "asked for when the fire of 1970-01-01T00:00:10.000Z was claimed already: ask again after it";
    assert_eq!(why(9_500, 100, 0), [ahead]);
    let running = "asked for while the run before was going on: ask again after it";
    assert_eq!(why(11_000, 3_000, 0), [running]);
    let waits = "asked for while the run before waited for its next attempt: ask again after it";
    assert_eq!(why(12_000, 100, 1), [waits]);
}

/// proves: I16
#[test]
fn the_last_fire_of_a_schedule_is_told_even_if_nobody_who_has_the_shard_is_left() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    let mut declared = sharded("j", "@every 20s", 2);
    (declared.end_at, declared.misfire_grace) = ("1970-01-01T00:00:25Z".to_string(), Some(1));
    declared.catch_up = crate::job::CatchUp::Skip;
    world.send_command("a", Command::Apply([declared].into()));
    // The reshard is done for a trigger; the only fire is the last one.
    world.run(17_500 - world.now);
    world.send_command("a", Command::RunNow(name("j"), "r1".parse().unwrap()));
    world.run(1_000);
    assert_eq!(world.starts.len(), 2, "each has one of the shards");
    world.crash("b");
    world.run(40_000 - world.now);
    let told: Vec<i64> = world.recorded.iter().map(|verdict| verdict.due.0).collect();
    assert_eq!(told, [20_000]);
    assert_eq!(world.dues("j").iter().filter(|due| **due == 20_000).count(), 1);
}

#[test]
fn a_node_that_is_gone_is_named_with_what_it_held_by_those_that_stay() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(10);
    world.send_command("a", Command::Apply([job("j", ""), job("k", ""), job("l", "")].into()));
    world.run(3_000);
    let b = world.member("b");
    let view = |world: &TestCluster| {
        let node: NodeName = "a".parse().unwrap();
        let view = world.actors[&node].node.view();
        (view.count(&b), view.left_behind(&b.node))
    };
    let (held, behind) = view(&world);
    assert!(held > 0 && behind == 0, "{held}");
    assert!(world.events.iter().all(|event| !event.contains(" left;")), "no node has left");
    world.crash("b");
    world.run(10_000);
    let named: Vec<&String> = world.events.iter().filter(|event| event.contains(" left;")).collect();
    assert_eq!(named, [&Event::NodeLeft(b.clone(), held).to_string()]);
    assert_eq!(view(&world), (0, 0), "another one has taken its jobs over");
}
