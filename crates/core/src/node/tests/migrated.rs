//! Nodes on registry data that was migrated from another registry, whose leases count from 1 again.

use super::*;
use crate::backup::{EntryMap, is_copied, retire_members};
use crate::commit_kind::CommitKind;
use crate::job::Placement;
use crate::keys;
use crate::record::{ClusterRecord, JoinRefusal, RegistryBookmark, RegistryPosition, encode};
use crate::registry::{Txn, TxnOutcome, Write};

/// One job of each placement, each due every second.
fn one_of_each() -> Vec<JobFile> {
    let placed = |name: &str, placement: Placement| {
        let mut job = job(name, "@every 1s");
        (job.placement, job.shards) = (placement, if placement.is_sharded() { 4 } else { 1 });
        job
    };
    let mut jobs = Vec::from([placed("sent", Placement::Dispatched), placed("dealt", Placement::Sharded)]);
    jobs.push(placed("held", Placement::Claimed));
    jobs
}

/// Nodes of these names in a new registry that holds what the old one held.
fn migrated(old: &TestCluster, names: &[&str], carry: impl Fn(&EntryMap) -> EntryMap) -> TestCluster {
    let kept = old.store.entries().filter(|(key, entry)| is_copied(key, entry.owner));
    let kept: EntryMap = kept.map(|(key, entry)| (key.clone(), entry.value.clone())).collect();
    let mut new = TestCluster { now: old.now, takes: old.takes, ..TestCluster::default() };
    for (key, value) in carry(&kept) {
        let txn = Txn { guards: Vec::new(), writes: [Write::Put { key, value, owner: None }].into() };
        assert!(matches!(new.store.commit(Mono(new.now), &txn), TxnOutcome::Applied(_)));
    }
    for name in names {
        new.add(Settings { generation: 2, ..settings(name) });
    }
    new
}

/// What was started, as job, due moment and shard, in order.
fn fires(world: &TestCluster) -> Vec<(String, i64, u32)> {
    let fire = |(_, run): &(String, Run)| (run.id.job.to_string(), run.due.0, run.id.shard.0);
    let mut fires: Vec<_> = world.starts.iter().map(fire).collect();
    fires.sort();
    fires
}

/// proves: I1, I14
#[test]
fn carried_jobs_fire_once_each_with_larger_tokens() {
    let mut old = TestCluster::with(&["a", "b"]);
    old.run(1_500);
    old.send_command("a", Command::Apply(one_of_each()));
    old.run(10_000);
    for name in ["a", "b"] {
        old.give(&name.parse().unwrap(), Input::Asked(CommandId(9), Command::Leave));
    }
    old.run(5_000);
    assert!(
        old.actors.values().all(|actor| actor.node.local().availability.has_departed()),
        "both left politely"
    );
    let mut new = migrated(&old, &["a", "b"], retire_members);
    new.run(20_000);
    let (before, after) = (fires(&old), fires(&new));
    let mut all = [before.clone(), after.clone()].concat();
    all.sort();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "nothing was started twice");
    for (job, shards) in [("held", 1), ("sent", 1), ("dealt", 4)] {
        let of = |fires: &[(String, i64, u32)]| {
            fires.iter().filter(|fire| fire.0 == job).map(|fire| fire.1).collect()
        };
        let dues: BTreeSet<i64> = of(&all);
        let later: BTreeSet<i64> = of(&after);
        let (first, last) = (*dues.first().unwrap(), *dues.last().unwrap());
        assert_eq!(dues.len() as i64, (last - first) / 1_000 + 1, "{job}: no fire between is missing");
        assert!(later.len() > 10, "{job} goes on: {later:?}");
        assert_eq!(
            all.iter().filter(|fire| fire.0 == job).count(),
            dues.len() * shards,
            "{job}: of each shard"
        );
        let tokens = |world: &TestCluster| {
            let of = world.starts.iter().filter(|(_, run)| run.id.job.as_str() == job);
            of.map(|(_, run)| run.token).collect::<Vec<_>>()
        };
        assert!(tokens(&new).iter().min() > tokens(&old).iter().max(), "{job}");
    }
}

/// proves: I1, I14
#[test]
fn a_run_that_was_open_is_nobodys_own_though_a_node_gets_the_number_of_its_life() {
    let mut old = TestCluster::with(&["a"]);
    old.takes = 60_000;
    for schedule in ["@every 60s", "@every 10s"] {
        old.send_command("a", Command::Apply([job("held", schedule)].into()));
    }
    // Late enough to be claimed, early enough for both to start it.
    old.run(9_600);
    let me = |world: &TestCluster| world.actors.values().next().unwrap().node.member().unwrap().to_string();

    let mut fooled = migrated(&old, &["a"], Clone::clone);
    assert_eq!(me(&fooled), me(&old), "the trap: the new engine counts from 1 too");
    fooled.run(20_000);
    assert_ne!(
        fooled.dues("held"),
        [20_000],
        "and a job that a living member seems to hold is nobody's to settle"
    );

    let mut new = migrated(&old, &["a"], retire_members);
    assert_eq!(me(&new), me(&old));
    new.run(20_000);
    old.run(3_000);
    assert_eq!(old.dues("held"), [10_000], "who held it has started it");
    assert_eq!(new.dues("held"), [20_000], "at_most_once: what was open is lost, the next one runs");
}

/// proves: I1
#[test]
fn nobody_joins_where_the_books_are_elsewhere_or_not_all_there() {
    let moved = JoinRefusal::Moved { to: "sqlite:new.db".into(), at: Wall(0) };
    let filling = JoinRefusal::Filling { from: "the backup".into() };
    for (shut, says) in [(moved, "moved to sqlite:new.db"), (filling, "the backup is being put")] {
        let mut world = TestCluster::default();
        let record = |shut| ClusterRecord { shut, ..ClusterRecord::new("c".into()) };
        let write = |shut| Txn {
            guards: Vec::new(),
            writes: [Write::Put { key: keys::cluster(), value: encode(&record(shut)), owner: None }].into(),
        };
        world.store.commit(Mono(0), &write(Some(shut)));
        world.add(settings("a"));
        world.run(10_000);
        assert_eq!(world.store.list().changes.len(), 1, "no member");
        assert!(world.events.iter().any(|event| event.contains(says)), "{:?}", world.events);
        world.store.commit(Mono(world.now), &write(None));
        world.run(1_000);
        assert_eq!(world.events.last().map(String::as_str), Some("joined"));
    }
}

/// proves: I1
#[test]
fn a_join_that_has_not_heard_of_the_move_fails() {
    let mut world = TestCluster::default();
    let mut node = Node::new(settings("a"));
    let now = Now { mono: Mono(0), wall: Wall(0) };
    let listed = world.store.list();
    let lease = world.store.open(Mono(0), Millis(4_000));
    let granted = LeaseGrant { lease, ttl: Millis(4_000), clock: Some(Wall(0)), next_end: None };
    let mut effects = Vec::new();
    node.step(now, Input::Lease(LeaseEvent::Opened { asked: Mono(0), granted }), &mut effects);
    node.step(now, Input::Listed(Some(listed)), &mut effects);
    let join = effects.iter().find_map(|effect| match effect {
        Effect::Commit { kind: CommitKind::Join, txn, .. } => Some(txn.clone()),
        _ => None,
    });
    let shut = Some(JoinRefusal::Moved { to: "sqlite:new.db".into(), at: Wall(0) });
    let record = ClusterRecord { shut, ..ClusterRecord::new("c".into()) };
    let close = [Write::Put { key: keys::cluster(), value: encode(&record), owner: None }];
    world.store.commit(Mono(0), &Txn { guards: Vec::new(), writes: close.into() });
    let outcome = world.store.commit(Mono(0), &join.expect("it would join"));
    assert!(matches!(outcome, TxnOutcome::Refused(_)), "{outcome:?}");
}

/// proves: I1
#[test]
fn a_node_of_an_earlier_generation_decides_nothing_once_another_has_begun() {
    let mut world = TestCluster::default();
    world.add(settings("a"));
    world.run(2_000);
    let write = |record: &ClusterRecord| Txn {
        guards: Vec::new(),
        writes: [Write::Put { key: keys::cluster(), value: encode(record), owner: None }].into(),
    };
    let ours = ClusterRecord { engine: Some(1), ..ClusterRecord::new("c".into()) };
    world.store.commit(Mono(world.now), &write(&ours));
    world.run(2_000);
    assert!(!world.events.iter().any(|event| event.contains("generation")), "{:?}", world.events);
    world.store.commit(Mono(world.now), &write(&ClusterRecord { generation: 1, ..ours }));
    world.run(2_000);
    let told = "generation 2 has begun at the registry, as after a restore: start this node again";
    assert_eq!(world.events.last().map(String::as_str), Some(told));
    let stands = world.store.revision();
    world.run(2_000);
    assert_eq!(world.store.revision(), stands, "nothing is written");
}

/// proves: I1
#[test]
fn what_a_node_saw_last_tells_a_registry_that_went_back() {
    let record = |generation| ClusterRecord { generation, ..ClusterRecord::new("c".into()) };
    let entry = Some(("job/a/assignment".into(), Revision(8)));
    let seen = RegistryBookmark { engine: 1, generation: 3, revision: Revision(9), entry };
    let stands = |revision, entry: Option<u64>| RegistryPosition {
        revision: Revision(revision),
        entry: entry.map(Revision),
    };
    for (added, engine, revision, behind) in [
        (2, 1, 9, false),
        (2, 1, 8, true),
        // As it was put back before, and again.
        (1, 2, 100, true),
        (1, 1, 100, true),
        // Whoever was faster, or the engine, has seen to it.
        (3, 1, 1, false),
        (2, 2, 1, false),
    ] {
        for entry in [None, Some(8), Some(9)] {
            let found = record(added).is_behind(&seen, engine, stands(revision, entry));
            assert_eq!(found, behind, "{added} {engine} {revision} {entry:?}");
        }
        let found = record(added).is_behind(&seen, engine, stands(revision, Some(7)));
        assert_eq!(
            found,
            behind || (added, engine) == (2, 1),
            "{added} {engine} {revision}, others wrote more"
        );
        let new = record(added).gone_back(&seen, engine, Wall(7));
        assert!(new.generation_on(engine) > 3, "{new:?}");
        assert_eq!((new.lost, new.engine, new.seq), (Some(Wall(7)), Some(engine), 1));
        assert!(!new.is_behind(&seen, engine, stands(0, Some(0))), "it is seen to once");
    }
}
