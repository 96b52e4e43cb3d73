//! Broadcast jobs: numbers, newcomers, and the verdicts on a node that leaves.

use alloc::format;

use super::*;
use crate::effect::VerdictState;
use crate::ids::{JobName, RunId};
use crate::input::Refusal;
use crate::job::{Delivery, Placement};
use crate::shards::ShardSet;

fn everywhere(name: &str, schedule: &str) -> JobFile {
    let mut job = job(name, schedule);
    job.placement = Placement::Broadcast;
    job
}

fn name(job: &str) -> JobName {
    job.parse().unwrap()
}

impl TestCluster {
    /// The runs of the fire of this moment: node, number, and of how many, by number.
    fn ran_at(&self, due: i64) -> Vec<(String, u32, u32)> {
        let ran = self.starts.iter().filter(|(_, run)| run.due.0 == due);
        let mut ran: Vec<_> = ran.map(|(node, run)| (node.to_string(), run.id.shard.0, run.shards)).collect();
        ran.sort_by_key(|(_, shard, _)| *shard);
        ran
    }

    fn dies(&mut self, node: &str) {
        let node: NodeName = node.parse().unwrap();
        self.actors.remove(&node);
        self.ends.retain(|(_, on, _)| *on != node);
    }
}

fn ran(all: &[(&str, u32, u32)]) -> Vec<(String, u32, u32)> {
    all.iter().map(|(node, shard, of)| ((*node).to_string(), *shard, *of)).collect()
}

#[test]
fn every_fire_runs_once_on_each_node_whoever_comes_and_goes() {
    let mut world = TestCluster::with(&["b", "c"]);
    world.send_command("b", Command::Apply([everywhere("j", "@every 10s")].into()));
    world.run(11_000);
    assert_eq!(world.ran_at(10_000), ran(&[("b", 0, 2), ("c", 1, 2)]));
    world.add(settings("a"));
    world.run(10_000);
    // Those that were there keep their numbers, whatever the newcomer's name.
    assert_eq!(world.ran_at(20_000), ran(&[("b", 0, 3), ("c", 1, 3), ("a", 2, 3)]));
    world.send_command("b", Command::Drain("c".parse().unwrap()));
    world.run(10_000);
    assert_eq!(world.ran_at(30_000), ran(&[("b", 0, 2), ("a", 1, 2)]), "as many numbers as nodes");
    world.send_command("b", Command::Undrain("c".parse().unwrap()));
    world.run(10_000);
    assert_eq!(world.ran_at(40_000), ran(&[("b", 0, 3), ("a", 1, 3), ("c", 2, 3)]));
}

/// proves: I16, I21
#[test]
fn what_a_dead_node_was_to_run_is_told_and_run_by_nobody_else() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.takes = 4_000;
    world.send_command("a", Command::Apply([everywhere("j", "@every 10s")].into()));
    world.run(11_500);
    assert_eq!(world.ran_at(10_000).len(), 3);
    // One dies in its run, and one after the next reshard, before it claims its part.
    world.dies("c");
    world.run(7_000);
    world.dies("b");
    world.run(22_000);
    let of = |due: i64| world.ran_at(due).into_iter().map(|(node, ..)| node).collect::<Vec<_>>();
    assert_eq!(of(10_000).len(), 3, "its run is not repeated");
    assert_eq!(of(20_000), ["a"]);
    assert_eq!(of(30_000), ["a"]);
    let told = |state, shard| {
        let of = |v: &&Verdict| v.state == state && v.run.shard.0 == shard;
        world
            .recorded
            .iter()
            .filter(of)
            .map(|v| (v.node.clone(), v.due.0, v.reason.clone()))
            .collect::<Vec<_>>()
    };
    let lost = told(VerdictState::Lost, 2);
    assert!(matches!(&lost[..], [(_, 10_000, why)] if why.contains("not repeated")), "{lost:?}");
    let skipped = told(VerdictState::Skipped, 1);
    let why = "its node took part no more, or got another number".to_string();
    assert_eq!(skipped, [("b".to_string(), 20_000, why)], "b was to run it");
}

/// proves: I15
#[test]
fn a_run_that_goes_on_keeps_its_number_from_others() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    let mut job = everywhere("j", "@every 10s");
    job.reshard_timeout = 1;
    world.takes = 100_000;
    world.send_command("a", Command::Apply([job].into()));
    world.run(11_000);
    world.takes = 100;
    // The first takes part no more while it runs, and a newcomer must not get its number.
    world.send_command("b", Command::Drain("a".parse().unwrap()));
    world.ends.retain(|(_, node, _)| node.as_str() == "a");
    world.add(settings("d"));
    world.run(20_000);
    let now = world.ran_at(30_000);
    assert!(!now.iter().any(|(_, shard, _)| *shard == 0), "{now:?}");
    assert!(now.iter().any(|(node, ..)| node == "d"), "{now:?}");
}

/// proves: I16, I27
#[test]
fn what_a_node_had_claimed_under_a_number_that_there_is_no_more_is_told_at_once() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.add(Settings { slots: 1, ..settings("c") });
    world.takes = 30_000;
    let jobs = ["j", "k"].map(|job| JobFile { reshard_timeout: 1, ..everywhere(job, "@every 10s") });
    world.send_command("a", Command::Apply(jobs.into()));
    world.run(11_000);
    // It has a slot for one of both, and does not learn of its drain until it has no number any more.
    let c: NodeName = "c".parse().unwrap();
    let started = |world: &TestCluster| {
        let of_c = world.starts.iter().filter(|(node, _)| node == "c");
        of_c.map(|(_, run)| run.id.to_string()).collect::<Vec<_>>()
    };
    let ran = started(&world);
    assert_eq!(ran.len(), 1);
    world.actors.get_mut(&c).unwrap().watching = false;
    world.send_command("a", Command::Drain(c.clone()));
    world.run(10_000);
    world.actors.get_mut(&c).unwrap().watching = true;
    world.run(1_000);
    assert_eq!(started(&world), ran);
    let told: Vec<String> =
        world.recorded.iter().filter(|v| v.due == Wall(10_000)).map(|v| v.run.to_string()).collect();
    let other = if ran[0].starts_with('j') { "k:10000:2" } else { "j:10000:2" };
    assert_eq!(told, [other]);
    let member = world.actors[&c].node.member().unwrap();
    let key = crate::keys::shard_run_state(&name(&other[..1]), &member);
    let entry = world.store.read(&[key]).pop().and_then(|change| change.entry).unwrap();
    let run_state: crate::record::ShardRunState = crate::record::decode(&entry.value).unwrap();
    assert_eq!(run_state.shards(), ShardSet::empty(), "{run_state:?}");
}

#[test]
fn a_job_that_stops_running_on_every_node_counts_from_its_next_fire() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([everywhere("j", "@every 10s")].into()));
    world.run(11_000);
    let mut fixed = everywhere("j", "@every 10s");
    (fixed.placement, fixed.shards) = (Placement::Sharded, 2);
    world.send_command("a", Command::Apply([fixed].into()));
    world.run(10_000);
    assert_eq!(world.ran_at(20_000).iter().map(|(_, s, of)| (*s, *of)).collect::<Vec<_>>(), [(0, 2), (1, 2)]);
    world.send_command("b", Command::Apply([everywhere("j", "@every 10s")].into()));
    world.run(10_000);
    let mut nodes: Vec<_> = world.ran_at(30_000).into_iter().map(|(node, ..)| node).collect();
    nodes.sort();
    assert_eq!(nodes, ["a", "b", "c"]);
}

/// proves: I24
#[test]
fn a_request_runs_on_every_node_once() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.send_command("a", Command::Apply([everywhere("j", "")].into()));
    world.run(3_000);
    world.send_command("b", Command::RunNow(name("j"), "once".parse().unwrap()));
    world.run(3_000);
    let mut nodes: Vec<_> = world.starts.iter().map(|(node, _)| node.to_string()).collect();
    nodes.sort();
    assert_eq!(nodes, ["a", "b", "c"]);
}

#[test]
fn what_makes_no_sense_on_every_node_is_refused() {
    let mut world = TestCluster::with(&["a"]);
    let refused = |change: fn(&mut JobFile)| {
        let mut job = everywhere("j", "");
        change(&mut job);
        Job::parse(job).unwrap_err().to_string()
    };
    assert!(refused(|job| job.shards = 3).contains("shards does not go with placement = \"broadcast\""));
    assert!(refused(|job| job.shard_parameters = ["x".to_string()].into()).contains("parameter is for all"));
    assert!(refused(|job| job.sticky_shards = true).contains("sticky_shards"));
    assert!(refused(|job| job.delivery = Delivery::AtLeastOnce).contains("no other node"));
    world.send_command("a", Command::Apply([everywhere("j", "")].into()));
    let answer = world.send_command("a", Command::Shards(name("j"), ShardSet::all(1), false));
    assert!(
        matches!(&answer, Answer::Refused(Refusal::Invalid, why) if why.contains("--node")),
        "{answer:?}"
    );
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// The nodes that ran a trigger, and the verdicts instead of runs.
fn answered(world: &TestCluster, request: &str) -> (Vec<String>, Vec<String>) {
    let of = |run: &RunId| run.to_string().contains(&format!(":ask-{request}:"));
    let mut ran: Vec<_> =
        world.starts.iter().filter(|(_, run)| of(&run.id)).map(|(node, _)| node.to_string()).collect();
    ran.sort();
    let told = world.recorded.iter().filter(|v| of(&v.run) && v.state == VerdictState::Skipped);
    (ran, told.map(|v| v.node.clone()).collect())
}

/// proves: I24
#[test]
fn after_a_number_changed_hands_nobody_runs_a_request_again() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    let mut job = everywhere("j", "@every 10s");
    job.reshard_timeout = 1;
    world.takes = 25_000;
    world.send_command("a", Command::Apply([job].into()));
    world.run(11_000);
    world.takes = 100;
    // The first is excluded while its run goes on, so its number stays and no node answers for it.
    world.send_command("b", Command::Drain("a".parse().unwrap()));
    let now = world.now;
    world.ends.iter_mut().filter(|(_, node, _)| node.as_str() != "a").for_each(|(at, ..)| *at = now);
    world.run(11_000);
    assert_eq!(world.ran_at(20_000), ran(&[("b", 1, 3), ("c", 2, 3)]), "the run that goes on counts");
    world.send_command("b", Command::RunNow(name("j"), "once".parse().unwrap()));
    world.run(30_000);
    assert_eq!(world.ran_at(50_000), ran(&[("c", 0, 2), ("b", 1, 2)]), "until it has ended");
    assert_eq!(answered(&world, "once"), (texts(&["b", "c"]), texts(&[])));
}

/// proves: I24
#[test]
fn a_request_that_a_number_cannot_answer_any_more_is_told() {
    let mut world = TestCluster::with(&["a", "b"]);
    let mut narrow = settings("c");
    narrow.slots = 1;
    world.add(narrow);
    world.send_command("a", Command::Apply([everywhere("j", "@every 30s")].into()));
    let mut long = job("long", "");
    long.node_selector = "name=c".parse().unwrap();
    world.send_command("a", Command::Apply([long].into()));
    world.run(31_000);
    world.takes = 60_000;
    world.send_command("a", Command::RunNow(name("long"), "hog".parse().unwrap()));
    world.run(2_000);
    world.takes = 100;
    world.send_command("a", Command::RunNow(name("j"), "once".parse().unwrap()));
    world.run(2_000);
    assert_eq!(answered(&world, "once"), (texts(&["a", "b"]), texts(&[])), "c has no slot");
    world.send_command("b", Command::Drain("a".parse().unwrap()));
    world.run(40_000);
    let (ran, told) = answered(&world, "once");
    assert_eq!((ran, told), (texts(&["a", "b"]), texts(&["c"])), "c has another number");
}

/// proves: I24
#[test]
fn who_comes_back_with_another_number_does_not_answer_again() {
    let mut world = TestCluster::default();
    world.add(Settings { slots: 1, ..settings("a") });
    ["b", "c"].iter().for_each(|name| world.add(settings(name)));
    world.send_command("a", Command::Apply([everywhere("j", "@every 30s")].into()));
    world.send_command(
        "a",
        Command::Apply([JobFile { node_selector: "name=a".parse().unwrap(), ..job("long", "") }].into()),
    );
    world.run(31_000);
    world.takes = 200_000;
    world.send_command("a", Command::RunNow(name("long"), "hog".parse().unwrap()));
    world.run(2_000);
    world.takes = 100;
    world.send_command("a", Command::RunNow(name("j"), "once".parse().unwrap()));
    world.run(2_000);
    assert_eq!(answered(&world, "once").0, texts(&["b", "c"]), "a has no slot");
    world.send_command("a", Command::Drain("b".parse().unwrap()));
    world.run(40_000);
    world.add(settings("d"));
    world.run(40_000);
    world.send_command("a", Command::Undrain("b".parse().unwrap()));
    world.run(40_000);
    assert!(world.starts.iter().any(|(node, run)| node == "b" && run.id.shard.0 == 3), "b has a new one");
    assert_eq!(answered(&world, "once").0, texts(&["b", "c"]));
}
