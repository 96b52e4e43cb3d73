//! Dataflow jobs: the counts in the registry, and streams that end when something waits for them.

use alloc::vec;

use super::*;
use crate::ids::{JobName, Shard};
use crate::input::{NodeSwitch, Refusal};
use crate::job::Placement;
use crate::keys;
use crate::record::{CountRecord, ProcessedItems, decode};
use crate::shards::ShardSet;

fn name(job: &str) -> JobName {
    job.parse().unwrap()
}

fn count(from: i64, until: i64, succeeded: u64, failed: u64) -> ProcessedItems {
    ProcessedItems { from: Wall(from), until: Wall(until), succeeded, failed }
}

/// proves: S2-21, S2-36, S2-37
#[test]
fn the_counts_of_the_latest_interval_take_the_place_of_those_before() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.send_command("a", Command::Apply([job("j", "")].into()));
    let known = |world: &TestCluster, at: &str| -> Vec<(String, ProcessedItems)> {
        let node = &world.actors[&at.parse::<NodeName>().unwrap()].node;
        node.view().counts(&name("j")).map(|(node, count)| (node.to_string(), *count)).collect()
    };
    let (first, second, third) = (count(0, 300, 7, 2), count(300, 600, 1, 0), count(0, 400, 5, 5));
    assert_eq!(world.send_command("a", Command::Count(name("j"), first)), Answer::Done);
    assert_eq!(known(&world, "b"), [("a".to_string(), first)]);
    assert_eq!(world.send_command("a", Command::Count(name("j"), second)), Answer::Done);
    assert_eq!(world.send_command("b", Command::Count(name("j"), third)), Answer::Done);
    for node in ["a", "b"] {
        assert_eq!(known(&world, node), [("a".to_string(), second), ("b".to_string(), third)]);
    }
    // The same again, as after an answer that was lost, is written once.
    let seq = |world: &TestCluster| {
        let key = keys::count(&"a".parse().unwrap(), &name("j"));
        let entry = world.store.read(&[key]).pop().unwrap().entry.unwrap();
        decode::<CountRecord>(&entry.value).unwrap().seq
    };
    assert_eq!(world.send_command("a", Command::Count(name("j"), second)), Answer::Done);
    assert_eq!(seq(&world), 2);
    // The node goes, and what it counted stays.
    world.actors.remove(&"a".parse().unwrap());
    world.run(6_000);
    assert_eq!(known(&world, "b").len(), 2);
    let refused = world.send_command("b", Command::Count(name("k"), third));
    assert!(matches!(refused, Answer::Refused(Refusal::NotFound, _)), "{refused:?}");
}

/// proves: S2-24
#[test]
fn a_stream_ends_for_whoever_waits_for_its_end() {
    let ends = |commands: Vec<Command>| {
        let mut world = TestCluster::with(&["a"]);
        let mut declared = job("j", "");
        (declared.placement, declared.shards) = (Placement::Sharded, 2);
        world.send_command("a", Command::Apply([declared.clone()].into()));
        world.run(1_000);
        // The first reshard is made for the first run.
        world.send_command("a", Command::RunNow(name("j"), "r".parse().unwrap()));
        world.run(1_000);
        let node = |world: &TestCluster| {
            world.actors.values().next().unwrap().node.ends_stream(&name("j"), Shard(1))
        };
        assert_eq!(node(&world), None);
        commands.into_iter().for_each(|command| {
            world.send_command("a", command);
        });
        node(&world).unwrap_or("it goes on").to_string()
    };
    let (j, a) = (|| name("j"), || "a".parse::<NodeName>().unwrap());
    let mut more = job("j", "");
    (more.placement, more.shards) = (Placement::Sharded, 3);
    for (commands, why) in [
        (vec![Command::Drain(a())], "the node is drained"),
        (vec![Command::Drain(a()), Command::Undrain(a())], "the shards are to be resharded"),
        (vec![Command::Pause(j())], "the job was paused"),
        (vec![Command::Pause(j()), Command::Resume(j())], "it goes on"),
        (vec![Command::Disable(j())], "the job was deleted or disabled"),
        (vec![Command::Delete(j())], "the job was deleted or disabled"),
        (vec![Command::Shards(j(), ShardSet::all(2), false)], "the shard was switched off"),
        (vec![Command::Switch(j(), a(), NodeSwitch::Paused(true))], "the job was paused"),
        (vec![Command::Switch(j(), a(), NodeSwitch::Disabled(true))], "the job was disabled on this node"),
        (vec![Command::Shutdown(j())], "the job was disabled on this node"),
        (vec![Command::Apply([more].into())], "the shards are to be resharded"),
    ] {
        assert_eq!(ends(commands.clone()), why, "{commands:?}");
    }
}
