//! Who leads a sharded job: elections, leaders that leave, and two that would lead at once.

use super::*;

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
    let spec = Spec::new(Job::parse(declared).unwrap(), 1, Wall(0));
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
    assert_eq!(
        row(true, &disabled),
        ["none", "none", "b", "b"],
        "the last leader is gone, and no node may lead"
    );
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
        assert_eq!(world.leader("j"), leader, "no node is elected while the leader is a member");
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
        "no node leads yet"
    );
    assert_eq!(world.starts.len(), 0);
    world.add(settings("b"));
    world.run(3_000);
    assert_eq!(world.leader("j"), "b");
    assert!(world.starts.iter().any(|(node, _)| node == "a"), "the one who could not cut has its part");
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
