//! Dispatched jobs, beats and the serving leader, in a world without faults but those a test names.

use super::*;
use crate::effect::Event;
use crate::ids::Operation;
use crate::input::{ClusterSetting, Refusal};
use crate::job::Placement;
use crate::keys;
use crate::load::{HostLoad, Utilization};
use crate::record::{OfflineRecord, Plan, decode};

pub(super) fn dispatched(name: &str, schedule: &str) -> JobFile {
    let mut job = job(name, schedule);
    job.placement = Placement::Dispatched;
    job
}

impl TestCluster {
    pub(super) fn settled(names: &[&str]) -> Self {
        let mut world = Self::with(names);
        world.run(1_500);
        world
    }

    pub(super) fn apply(&mut self, on: &str, job: JobFile) {
        let answer = self.send_command(on, Command::Apply([job].into()));
        assert!(matches!(answer, Answer::Applied(_)), "{answer:?}");
    }

    pub(super) fn plan(&self, job: &str) -> Plan {
        let key = keys::plan(&job.parse().unwrap());
        self.store.read(&[key])[0].entry.as_ref().map(|e| decode(&e.value).unwrap()).unwrap_or_default()
    }

    fn sample(&mut self, name: &str, cpu: f64) {
        let sample = HostLoad { cpu: Utilization::measured(cpu), memory: Utilization::measured(0.0) };
        self.give(&name.parse().unwrap(), Input::Sampled(sample));
    }

    pub(super) fn starts_on(&self, name: &str) -> usize {
        self.starts.iter().filter(|(node, _)| node == name).count()
    }

    pub(super) fn cut_off(&mut self, from: &str, to: &str) {
        self.cuts.insert((from.into(), to.into()));
    }

    pub(super) fn beat_holder(&self) -> Option<String> {
        let (_, known) = self.actors.values().next()?.node.view().beat_known("dispatch")?;
        Some(known.value.as_ref()?.holder.node.to_string())
    }

    pub(super) fn serving(&self) -> Option<String> {
        let serving = self.actors.values().next()?.node.view().serving().value.clone()?;
        serving.leader.filter(|_| serving.serves).map(|leader| leader.node.to_string())
    }

    pub(super) fn count_events(&self, event: &Event) -> usize {
        self.events.iter().filter(|said| **said == event.to_string()).count()
    }

    pub(super) fn offline(&self, node: &str) -> Option<OfflineRecord> {
        let key = keys::offline(&node.parse().unwrap());
        decode(&self.store.read(&[key])[0].entry.as_ref()?.value)
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.actors.remove(&name.parse::<NodeName>().unwrap());
    }
}

pub(super) fn seconds(from: i64, to: i64) -> Vec<i64> {
    (from..=to).map(|s| s * 1_000).collect()
}

/// proves: S0-38, S0-12, I14, I17
#[test]
fn each_fire_runs_once_and_on_time_on_the_nodes_in_turn() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.apply("b", dispatched("j", "@every 1s"));
    world.run(130_000);
    let dues = world.dues("j");
    let last = dues.last().copied().unwrap() / 1_000;
    assert_eq!(dues, seconds(2, last), "every second from the next one on, through two beats");
    assert!(last >= 130, "{last}");
    let spread = ["a", "b", "c"].map(|node| world.starts_on(node));
    assert!(spread.iter().all(|n| *n >= 40), "{spread:?}");
}

/// proves: S0-38, I16
#[test]
fn a_run_waits_for_no_run_of_another_node_that_ended_long_ago() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.apply("b", dispatched("j", "@every 5s"));
    world.run(10_100 - world.now);
    for second in (10..=120).step_by(5) {
        assert_eq!(world.dues("j").last(), Some(&(second * 1_000)), "on time, by whomever");
        world.run(5_000);
    }
}

/// proves: S0-38
#[test]
fn what_is_made_up_goes_from_node_to_node_at_the_pace_of_the_registry() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.delay = 20;
    world.apply("b", JobFile { misfire_grace: Some(60), ..dispatched("j", "@every 1s") });
    world.run(3_000);
    world.takes = 20_000;
    world.run(1_500);
    let held_up = world.dues("j").len();
    world.takes = 0;
    world.run(18_000);
    assert_eq!(world.dues("j").len(), held_up, "one goes on, and the others wait for it");
    world.run(3_000);
    let last = world.dues("j").len() - 1;
    assert!(last >= held_up + 20, "each of {} would take a second", last - held_up);
    assert_eq!(world.dues("j"), seconds(2, 2 + i64::try_from(last).unwrap()));
    let spread = ["a", "b", "c"].map(|node| world.starts_on(node));
    assert!(spread.iter().all(|n| *n >= 6), "{spread:?}");
}

/// proves: S0-38
#[test]
fn what_could_be_given_to_nobody_is_planned_as_soon_as_somebody_comes() {
    let mut world = TestCluster::settled(&["a"]);
    world.apply("a", dispatched("i", "@every 30s"));
    world.run(61_500 - world.now);
    // It has the beat that began, and is alone and drained when there is something new to plan.
    assert_eq!(world.send_command("a", Command::Drain("a".parse().unwrap())), Answer::Done);
    world.apply("a", dispatched("j", "@every 2s"));
    world.send_command("a", Command::Apply([dispatched("k", "")].into()));
    world.send_command("a", Command::RunNow("k".parse().unwrap(), "r1".parse().unwrap()));
    world.run(70_000 - world.now);
    assert_eq!((world.dues("j").len(), world.dues("k").len()), (0, 0));
    world.add(settings("b"));
    world.run(80_500 - world.now);
    assert_eq!(world.dues("j")[world.dues("j").len() - 4..], [74_000, 76_000, 78_000, 80_000]);
    assert_eq!(world.dues("k").len(), 1);
}

/// proves: S0-38, I16
#[test]
fn a_plan_that_is_full_follows_an_edit_and_goes_on() {
    for (before, after) in [("@every 1s", "@every 1s"), ("@every 2s", "@every 1s")] {
        let mut world = TestCluster::settled(&["a", "b"]);
        world.send_command("a", Command::Configure(ClusterSetting::Beat(600)));
        world.apply("a", dispatched("j", before));
        world.run(10_500 - world.now);
        assert!(world.plan("j").runs.len() >= 127, "it is full: {}", world.plan("j").runs.len());
        world.apply("b", JobFile { description: "another one".into(), ..dispatched("j", after) });
        world.run(20_500 - world.now);
        let dues = world.dues("j");
        let last: Vec<i64> = dues.iter().copied().filter(|due| *due > 11_000).collect();
        assert_eq!(last, (12..=20).map(|s| s * 1_000).collect::<Vec<_>>(), "{before} to {after}");
        let mut once = dues.clone();
        once.dedup();
        assert_eq!(once, dues);
    }
}

/// proves: S0-02
#[test]
fn one_node_alone_waits_for_nobody() {
    let mut world = TestCluster::default();
    world.add(Settings { slots: 1_000, ..settings("a") });
    world.run(1_500);
    for n in 0..50 {
        let [sent, claimed, split] = ["sent", "claimed", "split"].map(|name| alloc::format!("{name}{n}"));
        world.apply("a", dispatched(&sent, "@every 10s"));
        world.apply("a", job(&claimed, "@every 10s"));
        world.apply("a", JobFile { placement: Placement::Sharded, shards: 2, ..job(&split, "@every 10s") });
    }
    let from = world.now / 10_000 + 1;
    world.run((from + 1) * 10_000 + 2_000 - world.now);
    for due in [from * 10_000, (from + 1) * 10_000] {
        let started = world.starts.iter().zip(&world.started).filter(|((_, run), _)| run.due.0 == due);
        let late: Vec<i64> =
            started.clone().map(|(_, began)| began - due).filter(|late| *late > 100).collect();
        assert_eq!(
            (started.count(), late),
            (200, Vec::new()),
            "each job, and each shard, at {due} and on time"
        );
    }
    assert!(world.probes.is_empty() && world.offers.is_empty());
}

/// proves: S0-27, S0-36, S0-37, S0-33, I11
#[test]
fn the_least_loaded_node_takes_each_beat_and_nobody_else_does() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.apply("a", dispatched("j", "@every 30s"));
    for (node, cpu) in [("a", 0.9), ("b", 0.1), ("c", 0.5)] {
        world.sample(node, cpu);
    }
    world.run(60_000 - world.now + 2_000);
    let taken = world.dispatch_beat().seq;
    for beat in 1..8_u64 {
        assert_eq!(world.beat_holder().as_deref(), Some("b"), "beat {beat}");
        let last = world.dispatch_beat();
        assert_eq!((last.beat, last.seq), (beat, taken + beat - 1), "each beat is taken once");
        world.run(60_000);
    }
    world.sample("b", 0.95);
    world.run(60_000);
    assert_eq!(world.beat_holder().as_deref(), Some("c"), "the least loaded of now");
}

/// proves: S0-25, S0-26, S0-23, S0-24
#[test]
fn an_operation_belongs_to_whoever_asks_first_in_its_beat_and_is_free_in_the_next() {
    let mut world = TestCluster::settled(&["a", "b"]);
    let clean: Operation = "clean".parse().unwrap();
    let ask = |world: &mut TestCluster, node: &str, operation: &Operation| {
        let answer = world.send_command(node, Command::Beat(operation.clone()));
        world.run(1_000);
        answer
    };
    let Answer::Beat { beat: 0, token } = ask(&mut world, "a", &clean) else { panic!("the first gets it") };
    for node in ["a", "b"] {
        let Answer::Refused(Refusal::Conflict, text) = ask(&mut world, node, &clean) else { panic!("taken") };
        assert!(text.contains("clean is taken for beat 0 by a"), "{text}");
    }
    let other = ask(&mut world, "b", &"other".parse().unwrap());
    assert!(matches!(other, Answer::Beat { beat: 0, .. }), "another operation is free: {other:?}");
    world.run(60_000 - world.now + 1_500);
    let Answer::Beat { beat: 1, token: next } = ask(&mut world, "b", &clean) else { panic!("free again") };
    assert!(next > token);
}

/// proves: S0-01, S0-03
#[test]
fn a_planner_that_is_gone_is_replaced_within_its_beat_and_its_runs_are_planned_again() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.apply("a", dispatched("j", "@every 1s"));
    world.run(5_000);
    let planner = world.beat_holder().unwrap();
    let (before, gone) = (world.now / 1_000, planner.clone());
    world.remove(&gone);
    world.run(30_000);
    assert_ne!(world.beat_holder().unwrap(), planner);
    let mut dues = world.dues("j");
    let late = world.now / 1_000 - dues.last().unwrap() / 1_000;
    assert!(late <= 1 && before > 5, "nothing is late any more");
    // What the dead node had not accepted runs late, and so out of turn.
    dues.sort_unstable();
    assert_eq!(dues, seconds(2, dues.last().unwrap() / 1_000), "nothing is missing, nothing is doubled");
}

/// proves: S0-43, S0-44, S0-49
#[test]
fn a_node_that_cannot_be_reached_is_passed_over_and_the_planner_runs_what_no_other_node_can_be_given() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.apply("a", dispatched("first", "@every 30s"));
    world.run(1_000);
    let planner = world.beat_holder().unwrap();
    let mut others = ["a", "b", "c"].into_iter().filter(|node| *node != planner);
    let (near, far) = (others.next().unwrap(), others.next().unwrap());
    world.cut_off(&planner, far);
    world.apply(near, dispatched("j", "@every 1s"));
    world.run(10_000);
    let on = |world: &TestCluster, job: &str, node: &str| {
        world.starts.iter().filter(|(on, run)| on == node && run.id.job.as_str() == job).count()
    };
    assert_eq!(on(&world, "j", far), 0, "what it cannot be offered it is not given");
    assert!(
        on(&world, "j", near) >= 4 && on(&world, "j", &planner) >= 4,
        "the two others share it: {:?}",
        world.starts
    );
    world.cut_off(&planner, near);
    world.apply(near, dispatched("k", "@every 1s"));
    world.run(20_000);
    let by = [&planner, near, far].map(|node| on(&world, "k", node));
    assert!(matches!(by, [19..=21, 0, 0]), "the planner runs what it can give to no other node: {by:?}");
    // No node reaches another one.
    for (from, to) in [(near, far), (far, near), (near, &planner), (far, &planner)] {
        world.cut_off(from, to);
    }
    world.run(70_000);
    for job in ["j", "k"] {
        let mut dues = world.dues(job);
        dues.sort_unstable();
        let (first, last) = (dues[0] / 1_000, dues.last().unwrap() / 1_000);
        assert!(last >= world.now / 1_000 - 1);
        assert_eq!(dues, seconds(first, last), "nothing of {job} is lost or doubled");
    }
}

/// proves: S0-42
#[test]
fn a_node_without_a_slot_is_passed_over_and_a_full_cluster_queues() {
    let mut world = TestCluster::default();
    for (name, slots) in [("a", 1), ("b", 1)] {
        world.add(Settings { slots, ..settings(name) });
    }
    world.run(1_500);
    world.takes = 3_000;
    for n in 0..4 {
        let mut job = dispatched(&alloc::format!("j{n}"), "");
        job.schedule = String::new();
        world.apply("a", job);
    }
    for n in 0..4 {
        let job = alloc::format!("j{n}").parse().unwrap();
        world.send_command("a", Command::RunNow(job, "r".parse().unwrap()));
    }
    world.run(10_000);
    assert_eq!(world.starts.len(), 4);
    assert_eq!((world.starts_on("a"), world.starts_on("b")), (2, 2), "{:?}", world.starts);
}

/// proves: S0-42, I53
#[test]
fn what_a_node_must_take_while_it_can_start_nothing_starts_once_it_can() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.apply("a", dispatched("k", "@every 50s"));
    world.run(1_000);
    let other = if world.beat_holder().unwrap() == "a" { "b" } else { "a" };
    world.give(&other.parse().unwrap(), Input::Able(false));
    let nodes = alloc::format!("name={other}").parse().unwrap();
    let job = JobFile { node_selector: nodes, schedule: String::new(), ..dispatched("j", "") };
    world.apply("a", job);
    world.send_command("a", Command::RunNow("j".parse().unwrap(), "r".parse().unwrap()));
    world.run(3_000);
    assert_eq!((world.offers.len(), world.starts.len()), (2, 0), "it came round to whoever starts nothing");
    world.give(&other.parse().unwrap(), Input::Able(true));
    world.run(3_000);
    assert_eq!(world.starts_on(other), 1);
}

/// proves: I14
#[test]
fn edits_pauses_and_deletions_move_a_plan_and_repeat_nothing() {
    let mut world = TestCluster::settled(&["a", "b"]);
    world.apply("a", dispatched("j", "@every 1s"));
    world.run(5_400);
    let job = || "j".parse().unwrap();
    assert_eq!(world.send_command("b", Command::Pause(job())), Answer::Done);
    let paused = world.starts.len();
    world.run(5_000);
    assert!(world.starts.len() <= paused + 1, "a run that was under way at most");
    assert_eq!(world.send_command("a", Command::Resume(job())), Answer::Done);
    world.run(5_000);
    world.apply("b", dispatched("j", "@every 2s"));
    world.run(6_000);
    let dues = world.dues("j");
    let mut once = dues.clone();
    once.dedup();
    assert_eq!(dues, once);
    let (since, until) = (world.now - 5_500, world.now);
    let recent: Vec<i64> = dues.iter().copied().filter(|due| *due > since).collect();
    assert!(recent.iter().all(|due| due % 2_000 == 0) && recent.len() >= 2, "{recent:?} {until}");
    assert_eq!(world.send_command("a", Command::Delete(job())), Answer::Done);
    world.run(3_000);
    let so_far = world.starts.len();
    world.run(70_000);
    assert_eq!(world.starts.len(), so_far);
    assert!(world.plan("j").runs.is_empty());
    world.apply("a", super::job("j", "@every 1s"));
    world.run(3_000);
    assert!(world.starts.len() >= so_far + 2, "the name may be placed in another way now");
}

/// proves: S0-13
#[test]
fn three_nodes_carry_three_times_the_runs_of_one() {
    let runs = |names: &[&str]| {
        let mut world = TestCluster::default();
        names.iter().for_each(|name| world.add(Settings { slots: 2, ..settings(name) }));
        world.run(1_500);
        world.takes = 2_000;
        for n in 0..12 {
            let mut job = dispatched(&alloc::format!("j{n}"), "@every 1s");
            job.misfire_grace = Some(3);
            world.apply(names[0], job);
        }
        world.run(60_000);
        world.starts.len()
    };
    let (one, three) = (runs(&["a"]), runs(&["a", "b", "c"]));
    assert!(one >= 50 && three > one * 5 / 2, "{one} runs on one node, {three} on three");
}
