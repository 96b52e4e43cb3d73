//! Loads are in no feed: the planner reads them.

use super::dispatched::dispatched;
use super::*;
use crate::record::{LoadRecord, PlannerKind, decode};

/// The length of a beat in these tests.
const BEAT: i64 = 60_000;

impl TestCluster {
    fn published(&self, node: &str) -> Option<LoadRecord> {
        let key = keys::load(&node.parse().unwrap());
        decode(&self.store.read(&[key])[0].entry.as_ref()?.value)
    }

    /// How many loads of others a node knows.
    fn loads_known(&self, node: &str) -> usize {
        let node: NodeName = node.parse().unwrap();
        let view = self.actors[&node].node.view();
        view.members().filter(|(member, _)| member.node != node && view.load(member).is_some()).count()
    }
}

#[test]
fn without_dispatched_jobs_each_node_publishes_and_none_reads() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.apply("a", job("j", "@every 10s"));
    world.run(3 * BEAT);
    for node in ["a", "b", "c"] {
        assert_eq!(world.published(node).map(|load| load.seq), Some(4), "once a beat");
        assert_eq!(world.loads_known(node), 0);
    }
    assert_eq!(world.load_reads, []);
}

#[test]
fn a_beat_costs_one_read_by_the_node_that_plans() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    for name in ["i", "j", "k"] {
        world.apply("a", dispatched(name, "@every 10s"));
    }
    world.run(BEAT - world.now);
    world.load_reads.clear();
    world.run(3 * BEAT);
    let planner = world.beat_holder().unwrap();
    let mut reads = world.load_reads.clone();
    reads.retain(|(_, at)| *at < 4 * BEAT);
    assert!(reads.iter().all(|(node, _)| *node == planner), "{planner} plans: {reads:?}");
    let beats: Vec<i64> = reads.iter().map(|(_, at)| at / BEAT).collect();
    // The second read of a beat is for the right to plan that was won in it.
    let read_in = |beat: &i64| (1..=2).contains(&beats.iter().filter(|read| *read == beat).count());
    assert!([1, 2, 3].iter().all(read_in), "{reads:?}");
    for node in ["a", "b", "c"] {
        assert_eq!(world.loads_known(node), if node == planner { 2 } else { 0 }, "{node}");
    }
    assert!(world.starts.len() > 3 * 15, "{}", world.starts.len());
}

#[test]
fn a_leader_reads_the_loads_once_a_beat_while_it_leads() {
    let mut world = TestCluster::settled(&["a", "b"]);
    let setting = Command::Configure(ClusterSetting::Planner(PlannerKind::Leader));
    assert_eq!(world.send_command("a", setting), Answer::Done);
    world.apply("a", dispatched("j", "@every 10s"));
    world.run(BEAT - world.now);
    world.load_reads.clear();
    world.run(4 * BEAT - 1);
    let beats: Vec<i64> = world.load_reads.iter().map(|(_, at)| at / BEAT).collect();
    assert_eq!(beats, [2, 3, 4, 5], "{:?}", world.load_reads);
}

#[test]
fn a_read_of_loads_that_failed_is_tried_again_and_the_jobs_run() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.failing_load_reads = 3;
    world.apply("a", dispatched("j", "@every 10s"));
    world.run(2 * BEAT - world.now + 1_500);
    assert_eq!(world.failing_load_reads, 0);
    let failed: Vec<i64> = world.load_reads.iter().take(4).map(|(_, at)| *at).collect();
    assert!(failed.windows(2).all(|pair| pair[1] - pair[0] >= 200), "not at once: {failed:?}");
    let dues = world.dues("j");
    assert!(dues.contains(&(BEAT + 10_000)) && dues.contains(&(2 * BEAT)), "{dues:?}");
}

#[test]
fn a_node_that_comes_back_publishes_over_what_it_published_before() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.run(BEAT);
    let before = world.published("b").unwrap();
    world.remove("b");
    world.run(6_000);
    world.add(settings("b"));
    world.run(1_500);
    let after = world.published("b").unwrap();
    assert!(after.incarnation > before.incarnation && after.seq > before.seq, "{before:?} {after:?}");
}
