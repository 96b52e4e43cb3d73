//! Sharded jobs: leaders, reads of run states, and a node that finds its own entry gone.

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

fn sharded(name: &str, schedule: &str, shards: u32) -> Job {
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

/// The final leader, when a node finds this leader, in a job that is enabled or not, with these switches of the
/// node.
fn leads_after(leader: &str, enabled: bool, switches: impl Fn(u64) -> NodeSwitches) -> String {
    let mut world = TestCluster::with(&["a"]);
    world.run(10);
    let (me, job) = (world.member("a"), name("j"));
    let other = Member { node: "b".parse().unwrap(), incarnation: 77 };
    if leader == "b" {
        let text = String::new;
        let info = MemberInfo {
            address: text(),
            home: text(),
            slots: 1,
            tolerance: 1,
            alarm: 1,
            version: text(),
            labels: crate::labels::Labels::default(),
            lacking: alloc::string::String::new(),
            knows: 1,
        };
        world.write(keys::node(&other), Some(encode(&info)));
    }
    let leader = match leader {
        "none" => None,
        "a" => Some(me.clone()),
        _ => Some(other),
    };
    let mut declared = sharded("j", "", 2);
    declared.enabled = enabled;
    let spec = Spec::new(declared, 1, Wall(0));
    let sharding = Sharding { leader, ..Sharding::default() };
    let place = Assignment {
        owner: None,
        epoch: 1,
        version: 1,
        sharding: Some(Box::new(sharding)),
        planned: false,
        waits: false,
    };
    world.write(keys::switches(&me.node, &job), Some(encode(&switches(me.incarnation))));
    world.write(keys::assignment(&job), Some(encode(&place)));
    world.write(keys::spec(&job), Some(encode(&SpecRecord::Live(Box::new(spec)))));
    world.run(500);
    world.leader("j")
}

/// proves: S3-07, S3-08, S3-11, S3-12, S3-13, S3-14, S3-15, S3-17, S3-21, S3-26, I12
#[test]
fn a_node_stands_where_there_is_no_leader_and_it_takes_part() {
    let on = |_| NodeSwitches::default();
    let disabled = |_| NodeSwitches { disabled: true, ..NodeSwitches::default() };
    let shut = |life| NodeSwitches { shutdown: Some(life), ..NodeSwitches::default() };
    let shut_before = |life: u64| NodeSwitches { shutdown: Some(life + 1), ..NodeSwitches::default() };
    let paused = |_| NodeSwitches { paused: true, ..NodeSwitches::default() };
    // By the leader it finds: none, itself, a living one, a dead one.
    let row = |enabled, switches: &dyn Fn(u64) -> NodeSwitches| {
        ["none", "a", "b", "gone"].map(|leader| leads_after(leader, enabled, switches))
    };
    let leads = ["a", "a", "b", "a"];
    assert_eq!(row(true, &on), leads);
    assert_eq!(row(true, &shut_before), leads, "another life was shut down");
    assert_eq!(row(true, &paused), leads, "a paused node still takes part");
    assert_eq!(row(true, &disabled), ["none", "none", "b", "b"], "the last one is gone, and nobody stands");
    assert_eq!(row(true, &shut), ["none", "none", "b", "b"]);
    assert_eq!(row(false, &on), ["none", "none", "b", "none"], "one that lives gives it back itself");
}

/// proves: S2-03, S3-13, S3-17, S3-18, S3-23, S3-25
#[test]
fn only_its_own_end_ends_a_leadership_and_not_before_its_lease() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 60s", 3)].into()));
    world.run(500);
    let leader = world.leader("j");
    let followers: Vec<&str> = ["a", "b", "c"].into_iter().filter(|n| *n != leader).collect();
    world.crash(followers[0]);
    world.run(6_000);
    assert_eq!(world.leader("j"), leader, "a follower's death changes nothing");
    let (member, crashed) = (world.member(&leader), world.now);
    world.crash(&leader);
    while world.entry(&keys::node(&member)).is_some() {
        world.run(0);
        assert!(world.now < crashed + 4_500, "the lease ends");
        assert_eq!(world.leader("j"), leader, "nobody is elected while the leader is a member");
    }
    assert!(world.now > crashed + 2_000, "the membership lives as long as the lease");
    world.run(200);
    assert_eq!(world.leader("j"), followers[1]);
}

/// proves: S3-24, S3-29
#[test]
fn a_leader_that_leaves_gives_up_the_lead_before_its_membership() {
    // It has nothing open, what it claimed ahead, or runs that go on.
    for (schedule, takes) in [("", 0), ("@every 1s", 0), ("@every 1s", 2_500)] {
        let mut world = TestCluster::with(&["a", "b"]);
        world.takes = takes;
        world.send_command("a", Command::Apply([sharded("j", schedule, 4)].into()));
        world.run(3_000);
        let leader = world.leader("j");
        let member = world.member(&leader);
        world.answers.clear();
        world.starts.clear();
        world.give(&leader.parse().unwrap(), Input::Asked(CommandId(7), Command::Leave));
        while world.entry(&keys::node(&member)).is_some() {
            assert!(world.now < 10_000, "it leaves");
            world.run(0);
            let gone = world.entry(&keys::node(&member)).is_none();
            assert!(!gone || world.sharding("j").leader.as_ref() != Some(&member), "the lead went first");
        }
        assert_eq!(world.answers, [Answer::Done]);
        world.run(6_000);
        assert!(schedule.is_empty() || world.starts.len() >= 8, "the other one goes on");
        assert!(world.starts.iter().all(|(node, _)| *node != leader), "it starts nothing any more");
    }
}

/// proves: S3-21, S3-22, I13
#[test]
fn a_cut_that_waits_reads_lanes_at_most_ten_times_a_second_and_not_for_ever() {
    let mut world = TestCluster::with(&["a", "b"]);
    let mut long = sharded("j", "@every 5s", 2);
    long.reshard_timeout = 3;
    world.takes = 60_000;
    world.send_command("a", Command::Apply([long].into()));
    world.run(6_000);
    assert_eq!(world.starts.len(), 2);
    world.add(settings("c"));
    world.reads.clear();
    let from = world.now;
    world.run(6_000);
    let sharding = world.sharding("j");
    assert_eq!(
        (sharding.reshard_pending, sharding.shard_map.draining.len()),
        (None, 2),
        "both still run and stay"
    );
    let reads = world.reads.len();
    assert!((2..=60).contains(&reads), "{reads} reads in {} ms", world.now - from);
}

/// proves: S3-21
#[test]
fn a_cut_follows_within_a_moment_when_the_runs_that_it_waits_for_have_ended() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.takes = 4_000;
    world.send_command("a", Command::Apply([sharded("j", "@every 5s", 2)].into()));
    world.run(6_000);
    // Both run until 9 s, and the next fire is due at 10 s.
    let leader = world.leader("j");
    world.add(settings("c"));
    let other = if leader == "a" { "b" } else { "a" };
    let ended = |world: &TestCluster| !world.ends.iter().any(|(_, on, _)| on.as_str() == other);
    while !ended(&world) {
        assert!(world.sharding("j").reshard_pending.is_some() || world.now < 6_300, "it waits for the runs");
        world.run(0);
    }
    world.run(250);
    let sharding = world.sharding("j");
    assert_eq!((sharding.reshard_pending, sharding.shard_map.draining.len()), (None, 0), "{sharding:?}");
    assert_eq!(sharding.shard_map.among.len(), 3);
}

/// proves: S3-21
#[test]
fn a_cut_that_waits_is_made_by_the_next_leader_and_nothing_is_asked_while_no_node_can_stand() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    let mut long = sharded("j", "@every 5s", 3);
    long.reshard_timeout = 3_600;
    world.takes = 7_000;
    world.send_command("a", Command::Apply([long].into()));
    world.run(6_000);
    world.add(settings("d"));
    world.run(500);
    assert!(world.sharding("j").reshard_pending.is_some(), "the cut waits for the runs");
    let leader = world.leader("j");
    world.crash(&leader);
    world.run(15_000);
    let sharding = world.sharding("j");
    assert_ne!(world.leader("j"), leader);
    assert_eq!(
        (sharding.reshard_pending, sharding.shard_map.among.len()),
        (None, 3),
        "the next leader has made it"
    );

    let disable = |world: &mut TestCluster, off: bool| {
        for node in ["a", "b", "c", "d"].into_iter().filter(|node| *node != leader) {
            let switch = Command::Switch(name("j"), node.parse().unwrap(), NodeSwitch::Disabled(off));
            let on = ["a", "b", "c", "d"].into_iter().find(|on| *on != leader).unwrap();
            assert_eq!(world.send_command(on, switch), Answer::Done);
        }
    };
    disable(&mut world, true);
    world.run(10_000);
    assert_eq!(world.leader("j"), "none");
    let (epoch, elections) = (world.epoch("j"), world.elections());
    world.reads.clear();
    world.run(60_000);
    assert_eq!(
        (world.reads.len(), world.epoch("j"), world.elections()),
        (0, epoch, elections),
        "nothing is tried"
    );
    world.starts.clear();
    disable(&mut world, false);
    world.run(12_000);
    assert!(world.leader("j") != "none" && world.starts.len() >= 3, "{:?}", world.starts);
}

/// proves: S3-12, S3-14, S3-16, S3-18, S3-26
#[test]
fn a_node_that_is_enabled_stands_where_there_is_no_leader_and_one_that_is_disabled_sets_off_no_election() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 60s", 3)].into()));
    world.run(500);
    let leader = world.leader("j");
    let followers: Vec<&str> = ["a", "b", "c"].into_iter().filter(|node| *node != leader).collect();
    let switch = |world: &mut TestCluster, node: &str, off: bool| {
        let command = Command::Switch(name("j"), node.parse().unwrap(), NodeSwitch::Disabled(off));
        assert_eq!(world.send_command("a", command), Answer::Done);
        world.run(500);
        (world.leader("j"), world.elections())
    };
    let begun = world.elections();
    for follower in &followers {
        for off in [true, false] {
            assert_eq!(
                switch(&mut world, follower, off),
                (leader.clone(), begun),
                "{follower} disabled: {off}"
            );
        }
    }
    for follower in &followers {
        assert_eq!(switch(&mut world, follower, true), (leader.clone(), begun));
    }
    assert_eq!(switch(&mut world, &leader, true), ("none".to_string(), begun), "it gives up the lead");
    let (last, first) = (followers[1], followers[0]);
    assert_eq!(switch(&mut world, last, false), (last.to_string(), begun + 1), "the only one that can stand");
    assert_eq!(switch(&mut world, first, false), (last.to_string(), begun + 1));
    assert_eq!(switch(&mut world, &leader, false), (last.to_string(), begun + 1));
}

/// proves: S3-20
#[test]
fn what_only_a_leader_does_waits_until_there_is_one() {
    static STANDS_NEVER: &[Rule] =
        &[rules::MEMBERSHIP, rules::CONTROL, rules::FAILOVER, rules::SHARDING, rules::FIRING];
    let mut world = TestCluster::default();
    world.add_with(settings("a"), STANDS_NEVER);
    world.send_command("a", Command::Apply([sharded("j", "@every 1s", 4)].into()));
    world.run(5_000);
    let sharding = world.sharding("j");
    assert_eq!(
        (sharding.leader, sharding.reshard_pending, sharding.shard_map.number),
        (None, None, 0),
        "nobody leads yet"
    );
    assert_eq!(world.starts.len(), 0);
    world.add(settings("b"));
    world.run(3_000);
    assert_eq!(world.leader("j"), "b");
    assert!(world.starts.iter().any(|(node, _)| node == "a"), "the one who could not cut has its part");
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

/// proves: S2-52
#[test]
fn a_leader_that_is_removed_by_hand_has_one_successor() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 10s", 3)].into()));
    world.run(11_000);
    let key = keys::assignment(&name("j"));
    let mut place: Assignment = decode(&world.entry(&key).unwrap()).unwrap();
    place.epoch += 1;
    place.sharding.as_mut().unwrap().leader = None;
    world.write(key, Some(encode(&place)));
    assert_eq!(world.leader("j"), "none");
    world.events.clear();
    world.run(100);
    let elected = Event::Elected(name("j")).to_string();
    assert_eq!(world.events.iter().filter(|event| **event == elected).count(), 1, "{:?}", world.events);
    assert_ne!(world.leader("j"), "none");
    world.starts.clear();
    world.run(10_000);
    assert_eq!(world.starts.len(), 3, "the next fire runs on all shards");
}

/// proves: S2-27
#[test]
fn a_run_that_outlasts_several_fires_is_followed_by_one_run_for_all_of_them() {
    let dues = |catch_up| {
        let mut world = TestCluster::with(&["a"]);
        world.takes = 7_000;
        let job = Job { catch_up, ..sharded("j", "@every 2s", 1) };
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
    let unmonitored = Job { monitor_execution: false, ..sharded("j", "@every 10s", 2) };
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

/// proves: S2-02
#[test]
fn nothing_is_claimed_between_the_end_of_a_leader_and_the_cut_of_its_successor() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 1s", 6)].into()));
    world.run(3_000);
    let leader = world.leader("j");
    let member = world.member(&leader);
    world.crash(&leader);
    let (mut blocked, mut starts) = (false, 0);
    for _ in 0..8_000 {
        let before = world.starts.len();
        world.run(0);
        let sharding = world.sharding("j");
        let headless =
            world.entry(&keys::node(&member)).is_none() && sharding.leader.as_ref() == Some(&member);
        if (headless || sharding.reshard_pending.is_some()) && !blocked {
            (blocked, starts) = (true, world.starts.len());
        }
        if blocked && sharding.reshard_pending.is_none() && !headless {
            let claimed_before = 4;
            assert!(before <= starts + claimed_before, "only what was claimed ahead starts");
            assert_ne!(world.leader("j"), leader);
            return;
        }
    }
    panic!("no successor has cut the shares");
}

/// proves: S2-02
#[test]
fn no_fire_is_claimed_while_the_cut_of_a_new_leader_waits_for_runs() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 1s", 6)].into()));
    world.run(3_000);
    world.takes = 5_000;
    world.run(1_500);
    let leader = world.leader("j");
    world.crash(&leader);
    while world.sharding("j").reshard_pending.is_none() {
        world.run(0);
        assert!(world.now < 10_000, "a successor marks the shares");
    }
    assert_ne!(world.leader("j"), leader);
    let fires = |world: &TestCluster| -> BTreeSet<Fire> {
        let run_states = world.store.entries().filter(|(key, _)| key.as_str().starts_with("lane/j/"));
        let open = run_states.flat_map(|(_, entry)| decode::<ShardRunState>(&entry.value).unwrap().open);
        open.map(|open| open.fire).collect()
    };
    let (marked, claimed) = (world.now, fires(&world));
    loop {
        world.run(0);
        if world.sharding("j").reshard_pending.is_none() {
            break;
        }
        assert_eq!(fires(&world).difference(&claimed).next(), None, "claimed before the cut");
        assert!(world.now < marked + 10_000, "the shares are cut");
    }
    assert!(world.now > marked + 100, "the cut waited for runs: {} ms", world.now - marked);
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
    assert!(!left.iter().any(|key| key.starts_with("lane/")), "{left:?}");
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

/// proves: S2-16, S2-56, I33
#[test]
fn another_number_of_shards_counts_from_the_next_fire() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 10s", 3)].into()));
    world.run(11_000);
    for (shards, due) in [(5, 20_000), (2, 30_000)] {
        world.starts.clear();
        world.send_command("a", Command::Apply([sharded("j", "@every 10s", shards)].into()));
        world.run(10_000);
        let mut ran: Vec<(i64, u32)> = world.starts.iter().map(|(_, r)| (r.due.0, r.id.shard.0)).collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..shards).map(|shard| (due, shard)).collect::<Vec<_>>());
    }
}

/// proves: I27, I33
#[test]
fn what_is_taken_back_of_a_shard_that_there_is_no_more_is_nobodys() {
    let mut world = TestCluster::with(&["a"]);
    world.add(Settings { slots: 1, ..settings("b") });
    world.takes = 30_000;
    let shards = |shards, schedule| {
        let mut job = sharded("j", schedule, shards);
        job.reshard_timeout = 1;
        Command::Apply([job].into())
    };
    world.send_command("a", shards(4, "@every 10s"));
    world.run(11_000);
    let member = world.member("b");
    let run_state = |world: &TestCluster| -> ShardRunState {
        decode(&world.entry(&keys::shard_run_state(&name("j"), &member)).unwrap()).unwrap()
    };
    // One of its two shards waits for the slot while a reshard is done without it.
    let waits: ShardSet = ShardSet::one(Shard(3));
    assert_eq!((run_state(&world).shards(), world.leader("j")), (ShardSet::range(2, 4), "a".into()));
    world.actors.get_mut(&member.node).unwrap().watching = false;
    world.send_command("a", shards(1, "@every 15s"));
    world.run(20_000);
    assert_eq!(world.sharding("j").shard_map.total, 1);
    assert!(run_state(&world).unfinished().meets(&waits), "{:?}", run_state(&world));
    world.actors.get_mut(&member.node).unwrap().watching = true;
    world.run(1_000);
    assert!(!run_state(&world).unfinished().meets(&waits), "it is no fire any more");
    assert_eq!(
        run_state(&world).shards().minus(&ShardSet::all(1)),
        ShardSet::empty(),
        "{:?}",
        run_state(&world)
    );
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

/// proves: S2-16
#[test]
fn nobody_fires_shares_of_another_number_of_shards() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 10s", 5)].into()));
    world.run(12_000);
    world.starts.clear();
    // The node that learns of it first is not the leader, and its next fire is near.
    let other = if world.leader("j") == "a" { "b" } else { "a" };
    world.send_command(other, Command::Apply([sharded("j", "@every 1s", 2)].into()));
    world.run(4_000);
    let wrong = |r: &Run| r.id.shard.0 >= 2 || r.shards != 2;
    assert!(world.starts.len() >= 4, "it fires by its new schedule");
    assert_eq!(world.starts.iter().filter(|(_, run)| wrong(run)).count(), 0, "{:?}", world.starts);
}

/// A rule as the source's authors warn of: it stands without looking whether there is a leader.
fn stands_blindly(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let Some(table) = crate::placement::sharded_job::ShardedJob::of(ctx, id) else { return };
    if table.sharding.leader.as_ref() != Some(ctx.member) {
        let sharding = Sharding { leader: Some(ctx.member.clone()), ..table.sharding.clone() };
        let txn = table.txn(None, [table.put(sharding)].into());
        out.commit(table.scope(), CommitKind::Elect, txn);
    }
}

/// proves: S3-08
#[test]
fn without_the_look_at_the_leader_the_second_overwrites_the_first() {
    static BLIND: &[Rule] =
        &[rules::MEMBERSHIP, rules::CONTROL, Rule { name: "blind", decide: RuleFn::Job(stands_blindly) }];
    let changes = |rules: &'static [Rule]| {
        let mut world = TestCluster::with(&["a"]);
        world.send_command("a", Command::Apply([sharded("j", "", 1)].into()));
        world.run(100);
        assert_eq!(world.leader("j"), "a");
        world.add_with(settings("b"), rules);
        world.run(100);
        world.leader("j")
    };
    assert_eq!(changes(rules::ALL), "a");
    assert_eq!(changes(BLIND), "b", "the first still lives, and has lost its lead");
}

/// proves: S2-06, S2-55, S2-57, I29
#[test]
fn whenever_a_leader_dies_around_a_cut_the_next_fires_run_and_find_nothing_of_the_last() {
    for moment in (6_750..12_500).step_by(250) {
        let mut world = TestCluster::with(&["a", "b", "c"]);
        world.takes = 700;
        world.send_command("a", Command::Apply([sharded("j", "@every 5s", 6)].into()));
        world.run(6_500);
        world.add(settings("d"));
        world.run(moment - world.now);
        let leader = world.leader("j");
        world.crash(&leader);
        world.run(25_000);
        let ran = |due: i64| world.starts.iter().filter(|(_, run)| run.due.0 == due).count();
        assert_eq!([20, 25, 30].map(|s| ran(s * 1_000)), [6; 3], "the leader {leader} died at {moment}");
        let run_states = world.store.entries().filter(|(key, _)| key.as_str().starts_with("lane/j/"));
        for (key, entry) in run_states {
            let run_state: crate::record::ShardRunState = decode(&entry.value).unwrap();
            assert!(run_state.open.len() <= 1 && run_state.groups.len() <= 1, "{key}: {run_state:?}");
            assert!(run_state.verdicts.is_empty(), "{key}: {run_state:?}");
        }
    }
}

/// proves: I13, I24
#[test]
fn a_request_to_a_node_without_shards_is_answered_and_not_kept() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([sharded("j", "", 1)].into()));
    let on = |node: &str, id: &str| Command::RunOn(name("j"), id.parse().unwrap(), node.parse().unwrap());
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

/// proves: S3-03, I27
#[test]
fn a_leader_repairs_shares_that_somebody_damaged() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 5s", 4)].into()));
    world.run(6_000);
    let key = keys::assignment(&name("j"));
    let gone = Member { node: "z".parse().unwrap(), incarnation: 99 };
    let hurts: [&dyn Fn(&mut Sharding); 3] = [
        &|sharding| sharding.shard_map.assignments.truncate(1),
        &|sharding| sharding.shard_map.assignments[0].holder = gone.clone(),
        &|sharding| sharding.shard_map.assignments[0].groups[0].shards = ShardSet::all(4),
    ];
    for (hurt, due) in hurts.into_iter().zip([10_000, 15_000, 20_000]) {
        let mut place: Assignment = decode(&world.entry(&key).unwrap()).unwrap();
        place.epoch += 1;
        hurt(place.sharding.as_mut().unwrap());
        world.write(key.clone(), Some(encode(&place)));
        world.run(100);
        assert_eq!(
            world.sharding("j").reshard_pending.map(|mark| mark.why),
            Some(crate::record::ReshardCause::Repair)
        );
        world.starts.clear();
        world.run(due + 1_000 - world.now);
        let mut ran: Vec<u32> = world.starts.iter().map(|(_, run)| run.id.shard.0).collect();
        ran.sort_unstable();
        assert_eq!(ran, [0, 1, 2, 3], "each shard fires once at {due}");
    }
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
