//! Cordoned nodes: what they keep, and that they get nothing new.

use super::dispatched::dispatched;
use super::*;
use crate::job::{Delivery, Placement};

impl TestCluster {
    fn cordon(&mut self, node: &str) {
        let on = self.actors.keys().next().unwrap().to_string();
        assert_eq!(self.send_command(&on, Command::Cordon(node.parse().unwrap())), Answer::Done);
    }

    fn uncordon(&mut self, node: &str) {
        let on = self.actors.keys().next().unwrap().to_string();
        assert_eq!(self.send_command(&on, Command::Uncordon(node.parse().unwrap())), Answer::Done);
    }

    /// The shards of a job that a node has, by the view of the first node.
    fn shards_on(&self, node: &str, job: &str) -> String {
        let view = self.actors.values().next().unwrap().node.view();
        let sharding = view.find(&job.parse().unwrap()).unwrap().sharding().unwrap();
        let assignments = &sharding.shard_map.assignments;
        let assignment = assignments.iter().find(|assignment| assignment.holder.node.as_str() == node);
        assignment.map(|assignment| assignment.shards().to_string()).unwrap_or_default()
    }

    /// The number of the latest reshard of a job.
    fn last_reshard(&self, job: &str) -> u64 {
        let view = self.actors.values().next().unwrap().node.view();
        view.find(&job.parse().unwrap()).unwrap().sharding().unwrap().shard_map.number
    }

    fn leader_of(&self, job: &str) -> Option<String> {
        let view = self.actors.values().next().unwrap().node.view();
        let sharding = view.find(&job.parse().unwrap())?.sharding()?;
        sharding.leader.as_ref().map(|leader| leader.node.to_string())
    }
}

fn apply_many(world: &mut TestCluster, prefix: &str, n: usize, schedule: &str) {
    let jobs = (0..n).map(|i| job(&alloc::format!("{prefix}{i}"), schedule)).collect();
    world.send_command("a", Command::Apply(jobs));
}

fn sharded(name: &str, schedule: &str, shards: u32) -> JobFile {
    JobFile { placement: Placement::Sharded, shards, ..job(name, schedule) }
}

fn restart(world: &mut TestCluster, name: &str) {
    world.remove(name);
    world.run(10_000);
    world.add(settings(name));
    world.run(3_000);
}

#[test]
fn a_cordoned_node_keeps_and_fires_its_jobs_and_claims_none() {
    let mut world = TestCluster::settled(&["a", "b"]);
    apply_many(&mut world, "old", 4, "@every 5s");
    world.run(3_000);
    assert_eq!(world.held("b"), 2);
    world.cordon("b");
    apply_many(&mut world, "new", 2, "@every 5s");
    world.starts.clear();
    world.run(12_000);
    assert_eq!((world.held("a"), world.held("b")), (4, 2), "it keeps its own and claims no new one");
    assert!(world.starts_on("b") >= 4, "it goes on firing");
    world.remove("a");
    world.run(20_000);
    assert_eq!(world.held("b"), 2, "nor does it take over what a dead node had");
    assert_eq!(world.send_command("b", Command::Uncordon("b".parse().unwrap())), Answer::Done);
    world.run(5_000);
    assert_eq!(world.held("b"), 6);
}

#[test]
fn a_cordon_outlives_the_node_and_the_node_gets_its_jobs_back_only_when_it_is_uncordoned() {
    let mut world = TestCluster::settled(&["a", "b"]);
    apply_many(&mut world, "j", 4, "@every 60s");
    world.run(3_000);
    world.cordon("b");
    restart(&mut world, "b");
    assert_eq!((world.held("a"), world.held("b")), (4, 0), "the other node took its jobs over");
    world.remove("a");
    world.run(20_000);
    assert_eq!(world.held("b"), 0, "its next life is cordoned too");
    world.uncordon("b");
    world.run(5_000);
    assert_eq!(world.held("b"), 4);
}

#[test]
fn drain_and_cordon_are_two_switches() {
    let mut world = TestCluster::settled(&["a", "b"]);
    apply_many(&mut world, "j", 4, "@every 60s");
    world.run(3_000);
    world.cordon("b");
    let ask = |world: &mut TestCluster, command: fn(NodeName) -> Command| {
        world.send_command("a", command("b".parse().unwrap()))
    };
    assert_eq!(ask(&mut world, Command::Cordon), Answer::Unchanged);
    assert_eq!(ask(&mut world, Command::Undrain), Answer::Unchanged);
    assert_eq!(ask(&mut world, Command::Drain), Answer::Done);
    world.run(5_000);
    assert_eq!(world.held("b"), 0, "a cordoned node can be drained");
    let seen = |world: &TestCluster| {
        let view = world.actors.values().next().unwrap().node.view();
        let name = "b".parse().unwrap();
        (
            view.intent(&name).is_some(),
            view.is_cordoned(&name),
            view.members().any(|(m, _)| view.may_be_stopped(m)),
        )
    };
    assert_eq!(seen(&world), (true, true, true));
    assert_eq!(ask(&mut world, Command::Undrain), Answer::Done);
    world.run(10_000);
    assert_eq!((seen(&world), world.held("b")), ((false, true, false), 0), "an undrain does not uncordon");
    assert_eq!(ask(&mut world, Command::Drain), Answer::Done);
    assert_eq!(ask(&mut world, Command::Uncordon), Answer::Done);
    world.run(10_000);
    assert_eq!((seen(&world), world.held("b")), ((true, false, true), 0), "nor the other way round");
    let unknown = world.send_command("a", Command::Cordon("nobody".parse().unwrap()));
    assert!(matches!(unknown, Answer::Refused(Refusal::NotFound, _)), "{unknown:?}");
}

#[test]
fn a_cordoned_node_keeps_its_shards_and_gets_no_others_at_a_reshard() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 20s", 6)].into()));
    world.run(25_000);
    assert_eq!(["a", "b", "c"].map(|node| world.shards_on(node, "j")), ["0-1", "2-3", "4-5"]);
    world.cordon("b");
    let before = world.last_reshard("j");
    world.run(25_000);
    assert_eq!(world.last_reshard("j"), before, "a cordon moves nothing");
    world.remove("c");
    world.starts.clear();
    world.run(45_000);
    assert_eq!(["a", "b"].map(|node| world.shards_on(node, "j")), ["0-1,4-5", "2-3"]);
    assert!(world.starts_on("b") >= 2, "it fires its shards");
    // Of more shards it gets none either.
    world.send_command("a", Command::Apply([sharded("j", "@every 20s", 8)].into()));
    world.run(45_000);
    assert_eq!(["a", "b"].map(|node| world.shards_on(node, "j")), ["0-1,4-7", "2-3"]);
    // A node that comes shares with the one that takes new shards.
    world.add(settings("d"));
    world.run(45_000);
    assert_eq!(["a", "b", "d"].map(|node| world.shards_on(node, "j")), ["0-1,4", "2-3", "5-7"]);
    restart(&mut world, "b");
    world.run(45_000);
    assert_eq!(
        ["a", "b", "d"].map(|node| world.shards_on(node, "j")),
        ["0-3", "", "4-7"],
        "a new life has none"
    );
}

/// The running shards of a dead node go to the nodes that take new work, as a free job does.
#[test]
fn a_cordoned_node_takes_no_running_shards_of_a_dead_node() {
    for cordoned in [false, true] {
        let mut world = TestCluster { takes: 20_000, ..TestCluster::settled(&["a", "b", "c"]) };
        let job = JobFile { delivery: Delivery::AtLeastOnce, ..sharded("j", "@every 60s", 6) };
        world.send_command("a", Command::Apply([job].into()));
        while world.starts.len() < 6 {
            world.run(100);
        }
        if cordoned {
            world.cordon("b");
        }
        world.remove("c");
        world.starts.clear();
        world.run(18_000);
        assert_eq!(world.starts.len(), 2, "both shards start again: {:?}", world.starts);
        assert_eq!(world.starts_on("b"), usize::from(!cordoned), "{:?}", world.starts);
    }
}

#[test]
fn where_all_nodes_are_cordoned_shards_stay_and_go_on_firing() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.send_command("a", Command::Apply([sharded("j", "@every 10s", 4)].into()));
    world.run(15_000);
    ["a", "b"].iter().for_each(|node| world.cordon(node));
    world.remove("b");
    world.run(15_000);
    assert_eq!(["a", "b"].map(|node| world.shards_on(node, "j")), ["0-1", "2-3"], "nobody takes them");
    let (before, commits) = (world.last_reshard("j"), world.store.revision());
    world.starts.clear();
    world.run(30_000);
    assert!(world.starts_on("a") >= 4, "the node that lives goes on: {:?}", world.starts);
    assert_eq!(world.last_reshard("j"), before);
    assert!(world.store.revision().0 - commits.0 < 60, "no reshard is asked for and taken back all the time");
    assert_eq!(world.leader_of("j").as_deref(), Some("a"), "leading is no work");
    world.uncordon("a");
    world.run(25_000);
    assert_eq!(world.shards_on("a", "j"), "0-3");
}

#[test]
fn a_cordoned_node_keeps_its_number_of_a_broadcast_job_and_a_newcomer_that_is_cordoned_gets_none() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.send_command(
        "a",
        Command::Apply([JobFile { placement: Placement::Broadcast, ..job("j", "@every 10s") }].into()),
    );
    world.run(15_000);
    world.cordon("b");
    world.add(settings("c"));
    world.run(1_500);
    world.cordon("c");
    restart(&mut world, "c");
    world.starts.clear();
    world.run(25_000);
    let fired = ["a", "b", "c"].map(|node| world.starts_on(node) > 0);
    assert_eq!(fired, [true, true, false]);
    world.uncordon("c");
    world.run(25_000);
    assert!(world.starts_on("c") > 0);
}

#[test]
fn sticky_shards_are_a_cordoned_nodes_own_through_a_restart() {
    let mut world = TestCluster::settled(&["a", "b"]);
    let fixed = JobFile { sticky_shards: true, ..sharded("j", "@every 10s", 4) };
    world.send_command("a", Command::Apply([fixed].into()));
    world.run(15_000);
    let had = world.shards_on("b", "j");
    world.cordon("b");
    restart(&mut world, "b");
    world.starts.clear();
    world.run(25_000);
    assert_eq!(world.shards_on("b", "j"), had);
    assert!(world.starts_on("b") > 0);
}

#[test]
fn a_cordoned_node_runs_what_was_planned_for_it_and_gets_no_new_runs() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.takes = 500;
    world.apply("a", dispatched("j", "@every 5s"));
    world.run(7_000);
    let planned = |world: &TestCluster| {
        let plan = world.plan("j");
        plan.runs.iter().filter(|run| run.by.node.as_str() == "b" && !run.is_claimed()).count()
    };
    let had = planned(&world);
    assert!(had > 3, "{had} runs are planned for b");
    world.starts.clear();
    world.cordon("b");
    world.run(120_000);
    assert_eq!(world.starts_on("b"), had, "each of them, and no other one");
    assert_eq!(planned(&world), 0, "it gets no new ones");
    world.starts.clear();
    world.run(30_000);
    assert_eq!((world.starts_on("b"), world.starts_on("a")), (0, 6));
    world.uncordon("b");
    world.run(120_000);
    assert!(world.starts_on("b") > 0);
}

#[test]
fn a_cordoned_node_may_plan_and_gives_itself_nothing() {
    let mut world = TestCluster::settled(&["a"]);
    world.apply("a", dispatched("j", "@every 5s"));
    world.run(2_000);
    world.cordon("a");
    world.run(130_000);
    world.starts.clear();
    world.run(20_000);
    assert_eq!(world.starts.len(), 0, "no node takes new runs");
    world.add(settings("b"));
    world.run(20_000);
    assert_eq!(world.beat_holder().as_deref(), Some("a"), "the planner is the cordoned node");
    assert_eq!((world.starts_on("a"), world.starts_on("b") > 0), (0, true));
}

#[test]
fn what_cordoned_nodes_keep_from_running_is_said() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.send_command("a", Command::Apply([job("held", "@every 60s")].into()));
    world.run(3_000);
    ["a", "b"].iter().for_each(|node| world.cordon(node));
    let jobs =
        [job("new", "@every 60s"), sharded("split", "@every 60s", 2), dispatched("sent", "@every 60s")];
    world.send_command("a", Command::Apply(jobs.into()));
    world.run(3_000);
    let why = |world: &TestCluster, job: &str| {
        let view = world.actors.values().next().unwrap().node.view();
        view.find(&job.parse().unwrap()).unwrap().obstacle()
    };
    assert_eq!(why(&world, "held"), None, "its node keeps it");
    for job in ["new", "split", "sent"] {
        let every = "every node is cordoned: start a node or uncordon one";
        assert_eq!(why(&world, job).as_deref(), Some(every), "{job}");
    }
    let Answer::Claiming { claims, left } = world.send_command("a", Command::Claim) else {
        panic!("no answer")
    };
    assert_eq!((claims, left.len()), (0, 1));
    assert_eq!(left[0].why, "node a is cordoned, which `evenkeel node uncordon a` ends");
    assert_eq!(world.send_command("a", Command::Drain("b".parse().unwrap())), Answer::Done);
    let both = why(&world, "new").unwrap();
    assert!(both.contains("a is cordoned") && both.contains("b drains"), "{both}");
    world.uncordon("a");
    assert_eq!(why(&world, "new"), None);
}
