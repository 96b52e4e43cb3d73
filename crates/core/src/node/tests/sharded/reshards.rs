//! Reshards that wait for runs, that follow the end of a leader, and that change the number of shards.

use super::*;

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
        let run_states = world.store.entries().filter(|(key, _)| key.as_str().starts_with("run/j/"));
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
        let run_states = world.store.entries().filter(|(key, _)| key.as_str().starts_with("run/j/"));
        for (key, entry) in run_states {
            let run_state: crate::record::ShardRunState = decode(&entry.value).unwrap();
            assert!(run_state.open.len() <= 1 && run_state.groups.len() <= 1, "{key}: {run_state:?}");
            assert!(run_state.verdicts.is_empty(), "{key}: {run_state:?}");
        }
    }
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
