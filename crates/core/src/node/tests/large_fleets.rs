//! Sharded jobs of large fleets on an engine that takes few operations in one transaction.

use alloc::format;

use super::*;
use crate::ids::Member;
use crate::job::{Delivery, Overlap, Placement};
use crate::keys;
use crate::record::{Assignment, Sharding, decode};

const NODES: usize = 64;

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("n{n:03}"))
}

fn sharded(name: &str, shards: u32) -> JobFile {
    let mut job = job(name, "@every 20s");
    (job.placement, job.shards, job.delivery) = (Placement::Sharded, shards, Delivery::AtLeastOnce);
    job
}

impl TestCluster {
    fn crowd(count: usize) -> Self {
        let mut world = Self::default();
        names(count).for_each(|name| world.add(settings(&name)));
        world
    }

    /// Every node dies and comes back as another member.
    fn restart_all(&mut self) {
        let names: Vec<NodeName> = self.actors.keys().cloned().collect();
        let before: Vec<Member> = names.iter().filter_map(|n| self.actors[n].node.member()).collect();
        for name in &names {
            self.actors.remove(name);
        }
        self.ends.clear();
        for (name, before) in names.iter().zip(before) {
            self.add(Settings { predecessor: Some(before.incarnation), ..settings(name.as_str()) });
        }
    }

    fn sharding_of(&self, job: &str) -> Sharding {
        let place = self.store.read(&[keys::assignment(&job.parse().unwrap())]).pop().unwrap().entry.unwrap();
        *decode::<Assignment>(&place.value).unwrap().sharding.unwrap()
    }

    /// How many shards ran the fire of this moment, each once.
    fn ran_once(&self, due: i64) -> usize {
        let ran: Vec<u32> =
            self.starts.iter().filter(|(_, r)| r.due.0 == due).map(|(_, run)| run.id.shard.0).collect();
        let shards: BTreeSet<u32> = ran.iter().copied().collect();
        assert_eq!(ran.len(), shards.len(), "some ran twice at {due}: {ran:?}");
        shards.len()
    }
}

/// proves: I13, I28, I29
#[test]
fn a_fleet_that_was_restarted_between_two_fires_goes_on_with_the_next() {
    let mut world = TestCluster::crowd(NODES);
    world.send_command("n000", Command::Apply([sharded("j", 70)].into()));
    world.run(22_000);
    assert_eq!(world.ran_once(20_000), 70);
    world.restart_all();
    world.run(20_000);
    assert_eq!(world.ran_once(40_000), 70);
    let sharding = world.sharding_of("j");
    assert_eq!((sharding.run_states.len(), sharding.kept.len()), (NODES, 0), "the dead are off the list");
    let left = world.store.entries().filter(|(key, _)| key.to_string().starts_with("run/")).count();
    assert!(left <= NODES, "{left} lanes for {NODES} nodes");
}

/// proves: I13, I28
#[test]
fn those_who_run_nothing_of_it_any_more_make_room_for_those_who_do() {
    // On an engine that takes half of the operations a smaller fleet is as large, and sooner played.
    let (nodes, most) = (24, OPERATIONS_MAX / 2);
    let mut world = TestCluster { operations_max: Some(most), ..TestCluster::default() };
    let all: Vec<String> = names(2 * nodes).collect();
    all.iter().for_each(|name| world.add(Settings { operations_max: most, ..settings(name) }));
    let (first, second) = all.split_at(nodes);
    world.send_command("n000", Command::Apply([sharded("j", 26)].into()));
    // Every node that had a shard is listed for as long as it lives; after the second change those are all.
    for (out, back) in [(second, first), (first, second), (second, first)] {
        back.iter()
            .for_each(|name| drop(world.send_command("n000", Command::Undrain(name.parse().unwrap()))));
        out.iter().for_each(|name| drop(world.send_command("n000", Command::Drain(name.parse().unwrap()))));
        let due = 20_000 * (world.now / 20_000 + 2);
        world.run(due - world.now + 1_000);
        assert_eq!(world.ran_once(due), 26);
        let sharding = world.sharding_of("j");
        let took: Vec<String> =
            sharding.shard_map.among.iter().map(|member| member.node.to_string()).collect();
        assert_eq!(took, back);
    }
}

/// proves: I24, I53
#[test]
fn the_runs_of_a_gone_node_are_settled_under_one_guard() {
    let mut world = TestCluster { takes: 1_000_000, ..TestCluster::with(&["a"]) };
    world.run(1_500);
    let (placement, delivery) = (Placement::Dispatched, Delivery::AtLeastOnce);
    let job = JobFile { placement, delivery, overlap: Overlap::Allow, ..job("j", "@every 1s") };
    world.send_command("a", Command::Apply([job].into()));
    world.run(60_000);
    let runs = world.starts.len();
    world.actors.remove(&"a".parse::<NodeName>().unwrap());
    world.add(settings("b"));
    world.run(15_000);
    assert!(runs > 50, "as many as go on at once: {runs}");
    let again = |first: &Run| {
        world.starts.iter().filter(|(_, run)| run.id == first.id && run.attempt == 2).count() == 1
    };
    assert!(world.starts[..runs].iter().all(|(_, run)| again(run)), "each is repeated");
}
