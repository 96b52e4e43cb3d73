//! Drained nodes: when a node owns nothing any more, and how it says so.

use super::dispatched::dispatched;
use super::*;
use crate::effect::Event;
use crate::job::Placement;

impl TestCluster {
    fn drain(&mut self, node: &str) {
        let on = self.actors.keys().next().unwrap().to_string();
        assert_eq!(self.send_command(&on, Command::Drain(node.parse().unwrap())), Answer::Done);
    }

    fn undrain(&mut self, node: &str) {
        let on = self.actors.keys().next().unwrap().to_string();
        assert_eq!(self.send_command(&on, Command::Undrain(node.parse().unwrap())), Answer::Done);
    }

    /// Whether this node may be stopped, by the view of every node.
    fn may_be_stopped(&self, node: &str) -> bool {
        let said = self.actors.values().map(|actor| {
            let view = actor.node.view();
            view.members().any(|(member, _)| member.node.as_str() == node && view.may_be_stopped(member))
        });
        let said: BTreeSet<bool> = said.collect();
        assert_eq!(said.len(), 1, "all nodes see the same");
        said.contains(&true)
    }

    /// How many shards of a job a node has, by its own view.
    fn shards_of(&self, node: &str, job: &str) -> usize {
        let view = self.actors[&node.parse::<NodeName>().unwrap()].node.view();
        let sharding = view.find(&job.parse().unwrap()).unwrap().sharding().unwrap();
        let assignments = sharding
            .shard_map
            .assignments
            .iter()
            .filter(|assignment| assignment.holder.node.as_str() == node);
        assignments.flat_map(|assignment| &assignment.groups).map(|group| group.shards.len()).sum()
    }
}

fn sharded(name: &str, schedule: &str, shards: u32) -> JobFile {
    let mut job = job(name, schedule);
    (job.placement, job.shards) = (Placement::Sharded, shards);
    job
}

/// proves: S1-39, S1-61, I38
#[test]
fn a_drained_node_says_once_that_it_may_be_stopped_when_its_last_run_has_ended() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.takes = 4_000;
    let jobs = (0..4).map(|i| job(&alloc::format!("j{i}"), "@every 20s")).collect();
    world.send_command("a", Command::Apply(jobs));
    world.run(21_000 - world.now);
    assert!(world.held("b") > 0 && !world.ends.is_empty(), "runs go on");
    world.drain("b");
    world.run(1_000);
    assert!(world.held("b") > 0, "it waits for its runs");
    assert_eq!((world.may_be_stopped("b"), world.count_events(&Event::Drained)), (false, 0));
    world.run(3_000);
    assert_eq!(world.held("b"), 0);
    assert_eq!((world.may_be_stopped("b"), world.count_events(&Event::Drained)), (true, 1));
    world.run(60_000);
    assert_eq!(world.count_events(&Event::Drained), 1, "once");
    assert!(!world.may_be_stopped("a"), "it is not drained");
    world.give(&"b".parse().unwrap(), Input::Asked(CommandId(9), Command::Leave));
    world.run(1_000);
    assert_eq!(world.count_events(&Event::Drained), 1, "that it ends is no other news");
}

/// proves: S1-61
#[test]
fn a_node_that_is_undrained_may_not_be_stopped_and_one_drained_again_says_so_again() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.send_command(
        "a",
        Command::Apply((0..4).map(|i| job(&alloc::format!("j{i}"), "@every 60s")).collect()),
    );
    world.run(2_000);
    world.drain("b");
    world.run(2_000);
    assert!(world.may_be_stopped("b"));
    world.undrain("b");
    world.run(2_000);
    assert!(!world.may_be_stopped("b"));
    world.run(20_000);
    assert!(world.held("b") > 0, "it claims again");
    world.drain("b");
    world.run(2_000);
    assert_eq!((world.may_be_stopped("b"), world.count_events(&Event::Drained)), (true, 2));
    // The intent holds for its next life too, which reports that itself.
    world.remove("b");
    world.run(10_000);
    world.add(settings("b"));
    world.run(2_000);
    assert_eq!((world.may_be_stopped("b"), world.count_events(&Event::Drained)), (true, 3));
}

/// proves: S1-39, S1-60, S1-61
#[test]
fn idle_shards_leave_a_drained_node_at_once_and_not_at_the_next_fire() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.send_command(
        "a",
        Command::Apply([sharded("j", "@every 86400s", 6), sharded("by-hand", "", 3)].into()),
    );
    world.send_command("a", Command::RunNow("j".parse().unwrap(), "r".parse().unwrap()));
    world.send_command("a", Command::RunNow("by-hand".parse().unwrap(), "r".parse().unwrap()));
    world.run(10_000);
    assert_eq!((world.shards_of("b", "j"), world.shards_of("b", "by-hand")), (2, 1));
    world.drain("b");
    world.run(2_000);
    assert_eq!((world.shards_of("b", "j"), world.shards_of("b", "by-hand")), (0, 0));
    assert_eq!((world.shards_of("a", "j"), world.shards_of("c", "j")), (3, 3));
    assert_eq!((world.may_be_stopped("b"), world.count_events(&Event::Drained)), (true, 1));
    world.starts.clear();
    world.send_command("a", Command::RunNow("j".parse().unwrap(), "s".parse().unwrap()));
    world.run(5_000);
    assert_eq!(world.starts.len(), 6, "each shard once, and none on b");
    assert!(world.starts.iter().all(|(node, _)| node != "b"));
}

/// proves: S1-60, S1-61
#[test]
fn a_shard_that_runs_keeps_its_drained_node_until_it_has_ended() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.takes = 15_000;
    world.send_command(
        "a",
        Command::Apply([JobFile { reshard_timeout: 2, ..sharded("j", "@every 86400s", 6) }].into()),
    );
    world.send_command("a", Command::RunNow("j".parse().unwrap(), "r".parse().unwrap()));
    world.run(3_000);
    assert!(world.starts_on("b") > 0);
    world.drain("b");
    world.run(10_000);
    assert!(world.shards_of("b", "j") > 0 && !world.may_be_stopped("b"), "its shards run");
    world.run(10_000);
    assert_eq!(world.shards_of("b", "j"), 0);
    assert_eq!((world.may_be_stopped("b"), world.count_events(&Event::Drained)), (true, 1));
}

/// proves: S1-61
#[test]
fn shards_that_no_other_node_can_take_keep_no_node_from_being_stopped() {
    let mut world = TestCluster::settled(&["a", "b"]);
    let fixed = JobFile { sticky_shards: true, ..sharded("fixed", "@every 86400s", 4) };
    world.send_command("a", Command::Apply([fixed, sharded("off", "@every 86400s", 4)].into()));
    for job in ["fixed", "off"] {
        world.send_command("a", Command::RunNow(job.parse().unwrap(), "r".parse().unwrap()));
    }
    world.run(10_000);
    assert_eq!((world.shards_of("b", "fixed"), world.shards_of("b", "off")), (2, 2));
    assert_eq!(world.send_command("a", Command::Disable("off".parse().unwrap())), Answer::Done);
    world.drain("b");
    world.run(3_000);
    assert_eq!(world.shards_of("b", "fixed"), 2, "static shards wait for their node");
    assert!(world.may_be_stopped("b"));
    world.drain("a");
    world.run(3_000);
    assert!(world.may_be_stopped("a"), "also the last node");
}

/// proves: S1-61
#[test]
fn a_drained_node_has_no_planned_run_when_it_may_be_stopped() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.takes = 3_000;
    world.apply("a", dispatched("j", "@every 1s"));
    world.run(10_000);
    world.drain("b");
    world.run(500);
    let told = world.count_events(&Event::Drained);
    let goes_on = world.ends.iter().any(|(_, on, _)| on.as_str() == "b");
    assert_eq!((goes_on, told, world.may_be_stopped("b")), (true, 0, false));
    world.run(4_000);
    assert_eq!((world.may_be_stopped("b"), world.count_events(&Event::Drained)), (true, 1));
    world.starts.clear();
    world.run(70_000);
    assert_eq!(world.starts_on("b"), 0);
}
