//! Strikes: which nodes are taken for offline, after how many beats, and when they are online again.

use super::dispatched::dispatched;
use super::*;
use crate::effect::Event;
use crate::keys;
use crate::record::{StrikeRecord, decode};

const BEAT: i64 = 60_000;

impl TestCluster {
    /// What an observer notes of a node: how many strikes, in which beats.
    fn strikes(&self, node: &str, observer: &str) -> Option<StrikeRecord> {
        let key = keys::strike(&node.parse().unwrap(), &observer.parse().unwrap());
        decode(&self.store.read(&[key])[0].entry.as_ref()?.value)
    }

    /// No node reaches this one, and it reaches none: as if it were frozen, but for its lease.
    fn isolate(&mut self, node: &str) {
        let others: Vec<String> = self.actors.keys().map(ToString::to_string).collect();
        for other in others.iter().filter(|other| *other != node) {
            self.cut_off(other, node);
        }
    }

    fn is_offline(&self, node: &str) -> bool {
        self.offline(node).is_some_and(|record| record.offline)
    }

    fn turned(&self, node: &str) -> (usize, usize) {
        let node: NodeName = node.parse().unwrap();
        (self.count_events(&Event::Offline(node.clone())), self.count_events(&Event::Online(node)))
    }
}

/// proves: S0-45, S0-46, S0-47, S0-48, S0-50, S0-52, S0-51, I44
#[test]
fn three_beats_without_contact_make_a_node_offline_once_and_a_restart_online_again() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    assert_eq!(world.probes.len(), 6, "each probes both others, once");
    world.run(BEAT);
    assert_eq!(world.probes.len(), 12, "and again in the next beat");
    world.cut_off("a", "b");
    world.run(2 * BEAT);
    assert!(world.offline("b").is_none(), "two strikes are not three");
    world.run(BEAT);
    assert!(world.is_offline("b"));
    assert_eq!(world.turned("b"), (1, 0));
    world.apply("a", dispatched("j", "@every 1s"));
    world.probes.clear();
    world.run(2 * BEAT);
    assert_eq!(world.starts_on("b"), 0, "it is offered nothing");
    assert_ne!(world.beat_holder().as_deref(), Some("b"));
    let asked = world.probes.iter().filter(|(from, to)| from == "a" && to == "b");
    assert_eq!(asked.count(), 2, "only whether it answers again, once a beat");
    assert_eq!(world.strikes("b", "a").unwrap().count, 3, "and it gets no more strikes");
    world.remove("b");
    world.cuts.clear();
    world.run(10_000);
    world.add(settings("b"));
    world.run(70_000);
    assert!(!world.is_offline("b"));
    assert_eq!(world.turned("b"), (1, 1));
    assert!(world.starts_on("b") > 0, "it gets runs again");
}

/// proves: I44
#[test]
fn an_observer_that_reaches_a_node_again_takes_its_strikes_back() {
    let mut world = TestCluster::settled(&["a", "b"]);
    for _ in 0..4 {
        world.cut_off("a", "b");
        world.run(2 * BEAT);
        world.cuts.clear();
        world.run(BEAT);
    }
    assert!(world.offline("b").is_none(), "eight blips, never three in a row");
    world.cut_off("a", "b");
    world.run(185_000);
    assert!(world.is_offline("b"));
    let answer = world.send_command("a", Command::Activate("b".parse().unwrap()));
    assert_eq!(answer, Answer::Done);
    assert!(!world.is_offline("b"));
    world.run(2 * BEAT);
    assert!(!world.is_offline("b"), "its strikes up to then are forgiven, and two are not three");
    world.run(BEAT);
    assert!(world.is_offline("b"), "later ones count anew");
}

/// proves: S0-48, I44
#[test]
fn strikes_of_one_beat_count_once_whoever_gives_them() {
    let mut world = TestCluster::settled(&["a", "b", "c", "d", "e"]);
    for _ in 0..2 {
        world.isolate("e");
        world.run(BEAT);
        let each = ["a", "b", "c", "d"].map(|observer| world.strikes("e", observer).unwrap().count);
        assert_eq!(each, [1; 4], "each of them missed it");
        assert!(world.offline("e").is_none(), "and that was one beat");
        world.cuts.clear();
        world.run(BEAT);
    }
    // Beats without contact add up, whichever node noticed.
    for (observer, count) in [("a", 1), ("b", 2)] {
        world.cut_off(observer, "e");
        world.run(BEAT);
        assert!(world.offline("e").is_none(), "{count} beats are not three");
    }
    world.cut_off("c", "e");
    world.run(BEAT);
    assert!(world.is_offline("e"));
    assert_eq!(world.strikes("e", "a").unwrap().beats.len(), 3);
    assert_eq!(world.turned("e"), (1, 0));
}

/// proves: S0-52, I44
#[test]
fn an_offline_node_is_online_again_once_its_peers_reach_it() {
    let mut world = TestCluster::settled(&["a", "b", "c", "d", "e"]);
    world.isolate("e");
    world.run(3 * BEAT);
    assert!(world.is_offline("e"));
    world.apply("a", dispatched("j", "@every 1s"));
    world.run(2 * BEAT);
    assert_eq!((world.turned("e"), world.starts_on("e")), ((1, 0), 0));
    // As long as one of them cannot reach it, no runs go to it.
    world.cuts.clear();
    world.cut_off("c", "e");
    world.run(2 * BEAT);
    assert!(world.is_offline("e"), "c still has strikes against it");
    world.cuts.clear();
    world.run(BEAT + 5_000);
    assert!(!world.is_offline("e"));
    assert_eq!(world.turned("e"), (1, 1), "one told of it");
    let strikes = ["a", "b", "c", "d"].map(|observer| world.strikes("e", observer).unwrap().count);
    assert_eq!(strikes, [0; 4]);
    world.run(BEAT);
    assert!(world.starts_on("e") > 0, "it gets runs again");
    world.isolate("e");
    world.run(BEAT);
    assert!(!world.is_offline("e"), "strikes are counted anew");
    world.run(3 * BEAT);
    assert_eq!(world.turned("e"), (2, 1));
}

/// proves: S0-52
#[test]
fn an_observer_that_is_gone_keeps_no_node_offline() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    world.cut_off("c", "b");
    world.run(3 * BEAT);
    assert!(world.is_offline("b"));
    world.run(2 * BEAT);
    assert!(world.is_offline("b"), "c lives, and cannot reach it");
    world.remove("c");
    world.run(2 * BEAT);
    assert!(!world.is_offline("b"), "those that there are reach it");
}

/// proves: S0-48, I44
#[test]
fn a_newcomer_is_not_judged_in_its_first_beat() {
    let mut world = TestCluster::settled(&["a", "b"]);
    assert_eq!(world.send_command("a", Command::Configure(ClusterSetting::Strikes(1))), Answer::Done);
    world.run(20_000);
    ["a", "b"].iter().for_each(|observer| world.cut_off(observer, "c"));
    world.add(settings("c"));
    world.run(30_000);
    let asked = world.probes.iter().filter(|(_, to)| to == "c").count();
    assert_eq!(asked, 2, "each asks it, and has no answer yet");
    assert!(world.strikes("c", "a").is_none() && world.offline("c").is_none());
    world.run(BEAT);
    assert_eq!(world.strikes("c", "a").unwrap().count, 1);
    assert!(world.is_offline("c"), "in its second beat it should answer");
}
