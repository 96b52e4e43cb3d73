//! Nodes as a cluster: start and stop, probes, the placement of a batch's runs, and commands without a beat.

use alloc::format;

use super::*;
use crate::job::{Delivery, Placement};
use crate::keys;
use crate::load::{HostLoad, Utilization};
use crate::record::{BeatRecord, Plan, StrikeRecord, decode};

fn dispatched(name: &str, schedule: &str) -> JobFile {
    JobFile { placement: Placement::Dispatched, ..job(name, schedule) }
}

fn sharded(name: &str, schedule: &str, shards: u32) -> JobFile {
    JobFile { placement: Placement::Sharded, shards, ..job(name, schedule) }
}

impl TestCluster {
    fn stored<T: serde::de::DeserializeOwned>(&self, key: keys::Key) -> Option<T> {
        decode(&self.store.read(&[key])[0].entry.as_ref()?.value)
    }

    /// The beat of planning that was taken last.
    pub(super) fn dispatch_beat(&self) -> BeatRecord {
        self.stored(keys::beat(&"dispatch".parse().unwrap())).unwrap()
    }

    /// How many strikes an observer counts against a node.
    fn strike_count(&self, node: &str, observer: &str) -> u32 {
        let key = keys::strike(&node.parse().unwrap(), &observer.parse().unwrap());
        self.stored::<StrikeRecord>(key).map_or(0, |strike| strike.count)
    }

    fn answer_probes(&mut self) {
        for (name, member) in core::mem::take(&mut self.unanswered) {
            let answer = self.reached(&name, &member).map(|actor| actor.node.role(Mono(self.now)));
            self.give(&name, Input::Probed { member, asked: Mono(self.now), answer });
        }
    }
}

/// proves: S0-39, S0-40, S0-41, S0-42
#[test]
fn runs_of_a_batch_are_given_one_after_another_in_the_order_of_their_times() {
    let mut world = TestCluster::default();
    for (name, slots) in [("a", 3), ("b", 1), ("c", 2)] {
        world.add(Settings { slots, ..settings(name) });
    }
    world.run(1_500);
    // Declared in another order than they are due. Two of one moment are given in the order in which they were declared.
    let jobs = [("e", 73), ("c", 71), ("a", 70), ("b", 70), ("f", 74), ("d", 72)];
    for (name, second) in jobs {
        world.send_command(
            "a",
            Command::Apply([dispatched(name, &format!("@every 600s offset {second}s"))].into()),
        );
    }
    world.run(62_000 - world.now);
    let given = ["a", "b", "c", "d", "e", "f"].map(|name| {
        let plan: Plan = world.stored(keys::plan(&name.parse().unwrap())).unwrap();
        assert_eq!(plan.runs.len(), 1, "{name} is planned with the beat: {plan:?}");
        (plan.runs[0].by.node.to_string(), plan.runs[0].free())
    });
    let expected = [("a", 3), ("c", 2), ("a", 2), ("b", 1), ("c", 1), ("a", 1)];
    assert_eq!(given, expected.map(|(node, free)| (node.to_string(), free)));
}

/// proves: S0-54
#[test]
fn a_manual_run_goes_to_the_lowest_score_and_not_to_the_most_free_slots() {
    let mut world = TestCluster::default();
    for (name, slots) in [("a", 50), ("b", 5), ("c", 50)] {
        world.add(Settings { slots, ..settings(name) });
    }
    world.run(1_500);
    for (name, cpu) in [("a", 0.9), ("b", 0.1), ("c", 0.8)] {
        let sample = HostLoad { cpu: Utilization::measured(cpu), memory: Utilization::measured(0.0) };
        world.give(&name.parse().unwrap(), Input::Sampled(sample));
    }
    world.send_command("a", Command::Apply([dispatched("j", "")].into()));
    world.run(62_000 - world.now);
    for (at, asked) in ["a", "b", "c"].into_iter().enumerate() {
        let request = format!("r{at}").parse().unwrap();
        assert!(matches!(
            world.send_command(asked, Command::RunNow("j".parse().unwrap(), request)),
            Answer::Accepted(..)
        ));
        world.run(2_000);
    }
    let by: Vec<&str> = world.starts.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!(by, ["b", "b", "b"]);
}

/// proves: S0-46
#[test]
fn a_node_probes_the_next_one_when_the_last_one_has_answered() {
    let mut world = TestCluster { holds_probes: true, ..TestCluster::default() };
    ["a", "b", "c", "d"].iter().for_each(|name| world.add(settings(name)));
    world.run(1_500);
    for probes in [4, 8, 12] {
        assert_eq!(world.probes.len(), probes, "each node waits for one answer: {:?}", world.probes);
        world.answer_probes();
        world.run(100);
    }
    assert_eq!(world.probes.len(), 12, "each has probed each other one");
    let pairs: BTreeSet<&(String, String)> = world.probes.iter().collect();
    assert_eq!(pairs.len(), 12, "and none twice");
}

/// proves: S0-47, S0-49
#[test]
fn a_failed_offer_is_a_strike_and_a_failed_probe_in_the_same_beat_is_no_second_one() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    let mut job = dispatched("j", "@every 2s");
    job.delivery = Delivery::AtLeastOnce;
    world.send_command("a", Command::Apply([job].into()));
    world.run(62_000 - world.now);
    let planner = world.dispatch_beat().holder.node.to_string();
    let other = if planner == "a" { "b" } else { "a" };
    assert_eq!(
        (world.strike_count(other, &planner), world.probes.len()),
        (0, 4),
        "all probes of this beat had answers"
    );
    world.cuts.insert((planner.clone(), other.to_string()));
    world.send_command(&planner, Command::Apply([dispatched("k", "@every 1s")].into()));
    world.run(10_000);
    assert_eq!(world.probes.len(), 4, "only offers have failed");
    assert_eq!(world.strike_count(other, &planner), 1, "however many offers failed in this beat");
    world.run(122_000 - world.now);
    assert_eq!(world.strike_count(other, &planner), 2, "a probe or an offer of the next beat");
    // With nothing to offer the probes alone count.
    for job in ["j", "k"] {
        world.send_command(&planner, Command::Delete(job.parse().unwrap()));
    }
    world.cuts.clear();
    world.run(182_000 - world.now);
    assert_eq!(world.strike_count(other, &planner), 0, "it was reached again");
    world.cuts.insert((planner.clone(), other.to_string()));
    world.run(242_000 - world.now);
    assert_eq!(world.strike_count(other, &planner), 1, "a probe alone");
}

/// proves: S0-53
#[test]
fn a_node_without_the_beat_carries_out_what_people_ask_and_takes_no_beat_for_it() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    let once = job("once", "@every 3600s");
    world.send_command(
        "a",
        Command::Apply([dispatched("j", "@every 30s"), once, sharded("s", "@every 3600s", 2)].into()),
    );
    world.run(10_000);
    let before = world.dispatch_beat();
    let other = if before.holder.node.as_str() == "a" { "b" } else { "a" };
    world.takes = 20_000;
    let name = |job: &str| -> crate::ids::JobName { job.parse().unwrap() };
    for job in ["j", "once", "s"] {
        let Answer::Accepted(run, _) =
            world.send_command(other, Command::RunNow(name(job), "r1".parse().unwrap()))
        else {
            panic!("{job} is run now")
        };
        world.run(1_500);
        let on =
            world.starts.iter().find(|(_, started)| started.id.fire == run.fire && started.id.job == run.job);
        let (on, started) = on.map(|(on, run)| (on.clone(), run.id.clone())).unwrap();
        assert_eq!(world.send_command(&on, Command::Kill(started)), Answer::Done, "{job} is ended");
        let switches = [Command::Pause, Command::Resume, Command::Disable, Command::Enable, Command::Delete];
        for switch in switches {
            assert_eq!(world.send_command(other, switch(name(job))), Answer::Done);
        }
    }
    assert_eq!(world.dispatch_beat(), before);
    let beats = world.store.entries().filter(|(key, _)| key.as_str().starts_with("beat/")).count();
    assert_eq!(beats, 1, "nothing of that took a beat");
}

/// proves: S0-09, S0-14, S0-15
#[test]
fn nodes_start_stop_and_crash_in_any_order_and_need_no_command() {
    let mut world = TestCluster::with(&["a", "b", "c"]);
    world.run(1_500);
    let mut jobs =
        [job("claimed", "@every 5s"), dispatched("sent", "@every 5s"), sharded("split", "@every 5s", 3)];
    for job in &mut jobs {
        (job.misfire_grace, job.delivery) = (Some(60), Delivery::AtLeastOnce);
    }
    world.send_command("a", Command::Apply(jobs.into()));
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..50 {
        let name: NodeName = ["a", "b", "c", "d"][usize::try_from(next(4)).unwrap()].parse().unwrap();
        if !world.actors.contains_key(&name) {
            world.add(settings(name.as_str()));
        } else if world.actors.len() > 1 {
            if next(2) == 0 {
                world.give(&name, Input::Asked(CommandId(9), Command::Leave));
                world.run(3_000);
            }
            world.actors.remove(&name);
            world.ends.retain(|(_, on, _)| *on != name);
        }
        world.run(2_000 + i64::try_from(next(4_000)).unwrap());
    }
    // Whichever nodes are there, they have caught up soon.
    world.run(20_000);
    let last = (world.now - 2_000) / 5_000 * 5_000;
    let expected: BTreeSet<i64> = (1..=last / 5_000).map(|n| n * 5_000).collect();
    for (name, shard) in [("claimed", 0), ("sent", 0), ("split", 0), ("split", 1), ("split", 2)] {
        let of_shard = |run: &&Run| run.id.job.as_str() == name && run.id.shard.0 == shard;
        let ran: BTreeSet<i64> =
            world.starts.iter().map(|(_, run)| run).filter(of_shard).map(|run| run.due.0).collect();
        let missing: Vec<&i64> = expected.difference(&ran).collect();
        assert!(missing.is_empty(), "{name} {shard} never ran at {missing:?}");
    }
}

/// proves: S0-16
#[test]
fn a_node_whose_disk_or_executor_fails_begins_nothing_and_its_jobs_go_to_others() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.send_command("a", Command::Apply((0..4).map(|n| job(&format!("j{n}"), "@every 1s")).collect()));
    world.run(5_000);
    assert_eq!((world.held("a"), world.held("b")), (2, 2));
    let a: NodeName = "a".parse().unwrap();
    world.give(&a, Input::Able(false));
    // What it had claimed ahead starts.
    world.run(1_500);
    world.starts.clear();
    world.run(5_000);
    let on = |world: &TestCluster, node: &str| world.starts.iter().filter(|(on, _)| on == node).count();
    assert_eq!((on(&world, "a"), on(&world, "b")), (0, 10), "the other node goes on");
    assert_eq!(world.actors[&a].node.view().nodes(), 2, "it stays a member for a while");
    world.run(12_000);
    assert_eq!((world.held("a"), world.held("b")), (0, 4), "its lease has run out");
    world.give(&a, Input::Able(true));
    world.run(20_000);
    assert_eq!((world.held("a"), world.held("b")), (2, 2));
    assert!(on(&world, "a") > 0, "it works again");
}
