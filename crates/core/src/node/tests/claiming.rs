//! Claims as their source states them: the order in which a node starts, its quota, and the effect of late or lost
//! changes.

use alloc::format;

use super::*;
use crate::commit_kind::CommitKind;
use crate::ids::JobName;
use crate::keys::{ParsedKey, parse};
use crate::placement::claims;
use crate::record::{MemberInfo, decode};
use crate::registry::{Change, Write};
use crate::rule_context::{Rule, RuleContext, RuleFn, RuleOutput};

/// Jobs that run only when triggered, with numbers from one to before another.
fn jobs(numbers: core::ops::Range<usize>) -> Command {
    Command::Apply(numbers.map(|n| job(&format!("j{n}"), "")).collect())
}

fn drain(node: &str) -> Command {
    Command::Drain(node.parse().unwrap())
}

fn undrain(node: &str) -> Command {
    Command::Undrain(node.parse().unwrap())
}

/// The rules of a node that counts on no loss: N = 1 + K / S.
const PLAIN: &[Rule] = &[
    rules::MEMBERSHIP,
    rules::CONTROL,
    Rule { name: "claims without tolerance", decide: RuleFn::Node(plain) },
    rules::DRAIN,
    rules::FIRING,
];

fn plain(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    let quota = |group| 1 + ctx.view.jobs_of(group) / ctx.view.nodes_of(group).max(1);
    claims::decide_within(ctx, quota, out);
}

impl TestCluster {
    /// Nodes that claim by first come, first served.
    fn competing(names: &[&str]) -> Self {
        let mut world = Self::default();
        names.iter().for_each(|name| world.compete(settings(name)));
        world.run(1_500);
        world
    }

    fn compete(&mut self, settings: Settings) {
        self.add(Settings { spread: Spread::FirstCome, ..settings });
    }

    fn actor(&mut self, name: &str) -> &mut TestNode {
        self.actors.get_mut(&name.parse::<NodeName>().unwrap()).unwrap()
    }

    fn node(&self, name: &str) -> &Node {
        &self.actors[&name.parse::<NodeName>().unwrap()].node
    }

    /// How many jobs a node may hold.
    pub(super) fn quota(&self, name: &str) -> usize {
        let node = self.node(name);
        claims::quota_of(node.view(), &node.member().unwrap(), node.local().settings.tolerance)
    }

    /// K and S, as a node sees them.
    pub(super) fn counts(&self, name: &str) -> (usize, usize) {
        let view = self.node(name).view();
        (view.enabled(), view.nodes())
    }

    /// Withholds all changes from a node, or delivers the withheld ones.
    fn set_deaf(&mut self, name: &str, deaf: bool) {
        self.actor(name).watching = !deaf;
    }

    /// Delivers part of the withheld changes to a deaf node; the rest of them is lost.
    fn deliver_to(&mut self, name: &str, is_told: impl Fn(&ParsedKey) -> bool) {
        let heard = self.actor(name).heard;
        let mut batch = self.store.changes_after(heard).unwrap();
        batch.changes.retain(|change: &Change| parse(&change.key).is_some_and(|key| is_told(&key)));
        self.give(&name.parse().unwrap(), Input::Changed(batch));
    }

    fn alarms(&self) -> usize {
        self.events.iter().filter(|event| event.starts_with("alarm")).count()
    }

    /// What a node asks the registry for when this comes, and when the answers come; a listing is answered if `lists`.
    fn registry_effects(&mut self, name: &NodeName, input: Input, lists: bool) -> Vec<Effect> {
        let (mut asked, mut inputs) = (Vec::new(), Vec::from([input]));
        while let Some(input) = inputs.pop() {
            let now = self.clock();
            let mut effects = Vec::new();
            self.actors.get_mut(name).unwrap().node.step(now, input, &mut effects);
            for effect in effects {
                asked.push(effect.clone());
                if lists || effect != Effect::List {
                    inputs.extend(self.carry_out(name, effect));
                }
            }
        }
        asked
    }
}

fn acts(asked: &[Effect]) -> Vec<String> {
    let act = |effect: &Effect| match effect {
        Effect::Open { .. } => Some("open".to_string()),
        Effect::List => Some("list".to_string()),
        Effect::Commit { kind, .. } if *kind != CommitKind::PublishLoad => Some(kind.to_string()),
        Effect::Announce(event @ Event::Alarm { .. }) => Some(event.to_string()),
        _ => None,
    };
    asked.iter().filter_map(act).collect()
}

/// proves: S1-19, S1-20, S1-27, S1-66
#[test]
fn a_node_sets_itself_up_and_then_listens() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    world.send_command("a", drain("a"));
    world.send_command("a", jobs(0..3));
    let name: NodeName = "b".parse().unwrap();
    let node = Node::new(Settings { alarm: 1, spread: Spread::FirstCome, ..settings("b") });
    let actor = TestNode { node, wake: None, heard: Revision(0), watching: false };
    world.actors.insert(name.clone(), actor);

    // What comes before the registry was listed makes it do nothing.
    assert_eq!(acts(&world.registry_effects(&name, Input::Tick, false)), ["open", "list"]);
    let early = world.store.changes_after(Revision(0)).unwrap();
    assert_eq!(acts(&world.registry_effects(&name, Input::Changed(early), false)), [""; 0]);

    // Once it has a listing, it registers with its threshold and claims all jobs without an owner.
    let listing = Input::Listed(Some(world.store.list()));
    let asked = world.registry_effects(&name, listing, true);
    let alarms = ["alarm: holds 2 jobs, threshold is 1", "alarm: holds 3 jobs, threshold is 1"];
    assert_eq!(acts(&asked), [&["join", "claim job", "claim job", "claim job"][..], &alarms[..]].concat());
    let Some(Effect::Commit { txn, .. }) = asked.iter().find(|it| matches!(it, Effect::Commit { .. })) else {
        panic!("it does not register")
    };
    let Write::Put { value, .. } = &txn.writes[0] else { panic!("{txn:?}") };
    assert_eq!(decode::<MemberInfo>(value).unwrap().alarm, 1);

    // Then it listens: to jobs, to releases and to nodes.
    world.actor("b").heard = world.store.revision();
    world.set_deaf("b", false);
    world.send_command("a", jobs(3..4));
    assert_eq!((world.held("b"), world.counts("b")), (4, (4, 2)));
    world.compete(settings("c"));
    world.run(100);
    assert_eq!(world.counts("b"), (4, 3));
    world.send_command("b", drain("b"));
    world.run(2_000);
    assert_eq!((world.held("b"), world.held("c")), (0, 3), "c holds its quota: 1 + 4 / 2");
    world.send_command("c", undrain("b"));
    world.run(2_000);
    assert_eq!((world.held("b"), world.held("c")), (1, 3));
}

/// proves: S1-02, S1-45, S1-49, S1-50
#[test]
fn the_nearest_node_takes_no_more_than_its_quota_of_the_moment() {
    let mut world = TestCluster::competing(&["a", "b", "c"]);
    world.send_command("a", jobs(0..19));
    world.run(2_000);
    assert_eq!((world.quota("a"), world.held("a")), (10, 10));
    assert_eq!(world.held("b") + world.held("c"), 9);
    // With one job more it may hold eleven, and with another one still no more.
    world.send_command("a", jobs(19..20));
    assert_eq!((world.quota("a"), world.held("a")), (11, 11));
    world.send_command("a", jobs(20..21));
    assert_eq!((world.quota("a"), world.held("a")), (11, 11));
    world.run(2_000);
    assert_eq!(world.held("b") + world.held("c"), 10);
}

/// proves: S1-06, S1-46
#[test]
fn of_two_nodes_that_try_for_one_job_at_once_one_gets_it() {
    let mut world = TestCluster::default();
    ["a", "b"].iter().for_each(|name| world.compete(Settings { alarm: 0, ..settings(name) }));
    world.run(1_500);
    world.delay = 30;
    world.give(&"a".parse().unwrap(), Input::Asked(CommandId(1), jobs(0..1)));
    world.run(40);
    let place = crate::keys::assignment(&"j0".parse().unwrap());
    let tries = |(.., txn): &&(i64, NodeName, Ticket, Txn)| txn.writes.iter().any(|it| *it.key() == place);
    assert_eq!(world.commits.iter().filter(tries).count(), 2, "both try");
    world.run(1_000);
    assert_eq!((world.held("a") + world.held("b"), world.alarms()), (1, 1));
    assert_eq!(world.counts("a"), world.counts("b"));
}

/// proves: S1-40, S1-41, S1-84
#[test]
fn a_node_taken_off_the_drain_list_takes_all_that_is_free_though_no_job_changed() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    world.send_command("a", jobs(0..5));
    world.send_command("a", drain("a"));
    world.run(3_000);
    assert_eq!(world.held("a"), 0);
    world.send_command("a", undrain("a"));
    assert_eq!(world.held("a"), 5);
}

/// proves: S1-83, S1-86
#[test]
fn a_node_that_hears_makes_up_for_one_that_does_not() {
    let mut world = TestCluster::competing(&["a", "b", "c"]);
    world.send_command("c", drain("c"));
    world.set_deaf("a", true);
    world.send_command("c", jobs(0..1));
    world.run(2_000);
    assert_eq!((world.held("a"), world.held("b"), world.held("c")), (0, 1, 0));
    assert_eq!((world.counts("a"), world.counts("b")), ((0, 3), (1, 3)));
}

/// proves: S1-83, S1-84
#[test]
fn a_job_of_which_no_node_heard_is_claimed_with_the_next_listing() {
    let mut world = TestCluster::competing(&["a", "b"]);
    world.send_command("b", drain("b"));
    world.set_deaf("a", true);
    world.send_command("b", jobs(0..2));
    let second: JobName = "j1".parse().unwrap();
    world.deliver_to(
        "a",
        |key| matches!(key, ParsedKey::Spec(job) | ParsedKey::Assignment(job) if *job == second),
    );
    assert_eq!((world.held("a"), world.counts("a").0), (1, 1), "of the other one nothing came");
    world.run(60_000);
    assert_eq!((world.held("a"), world.counts("a").0), (2, 2));
}

/// proves: S1-29, S1-43
#[test]
fn a_deleted_job_is_taken_off_its_owner_alone_and_runs_no_more() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    world.send_command("a", Command::Apply((0..4).map(|n| job(&format!("j{n}"), "@every 1s")).collect()));
    world.run(3_000);
    assert_eq!((world.held("a"), world.held("b"), world.quota("a")), (2, 2, 5));
    let (view, b) = (world.node("b").view(), world.node("b").member().unwrap());
    let deleted = view.owned(&b).next().map(|id| view.job(id).name().to_string()).unwrap();
    world.send_command("a", Command::Delete(deleted.parse().unwrap()));
    world.starts.clear();
    world.run(5_000);
    assert_eq!((world.held("a"), world.held("b")), (2, 1));
    assert_eq!((world.counts("a").0, world.counts("b").0), (3, 3));
    assert_eq!(world.quota("a"), 4);
    assert!(world.dues(&deleted).is_empty());
    assert_eq!(world.starts.len(), 15, "the others go on");
}

/// proves: S1-48
#[test]
fn a_node_that_cannot_run_what_it_claimed_gives_it_back() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    world.send_command("a", jobs(0..4));
    world.run(3_000);
    assert_eq!((world.held("a"), world.held("b")), (2, 2));
    world.give(&"b".parse().unwrap(), Input::Able(false));
    world.run(20_000);
    assert_eq!((world.held("a"), world.held("b")), (4, 0));
    world.give(&"b".parse().unwrap(), Input::Able(true));
    world.run(20_000);
    assert_eq!((world.held("a"), world.held("b")), (2, 2));
}

/// proves: S1-52, S1-62
#[test]
fn as_many_nodes_as_the_tolerance_says_may_drain_at_once() {
    let mut world = TestCluster::default();
    ["a", "b", "c", "d"].iter().for_each(|name| world.compete(Settings { tolerance: 2, ..settings(name) }));
    world.run(1_500);
    world.send_command("a", jobs(0..20));
    world.run(2_000);
    assert_eq!(world.quota("a"), 11);
    assert_eq!(world.send_command("a", drain("a")), Answer::Done);
    assert_eq!(world.send_command("a", drain("b")), Answer::Done);
    world.run(5_000);
    assert_eq!((world.held("a"), world.held("b"), world.held("c") + world.held("d")), (0, 0, 20));
    assert!(world.held("c") <= 11 && world.held("d") <= 11);
}

fn is_release(key: &ParsedKey) -> bool {
    matches!(key, ParsedKey::Assignment(_))
}

/// Scenario 2 of the source: S is still two when the jobs come free.
///
/// proves: S1-32, S1-44, S1-76, S1-90
#[test]
fn the_jobs_of_a_dead_node_may_come_free_before_its_end_is_heard() {
    let mut world = TestCluster::default();
    world.compete(Settings { alarm: 10, ..settings("a") });
    world.run(1_500);
    world.send_command("a", jobs(0..10));
    world.compete(Settings { alarm: 8, ..settings("b") });
    world.run(1_500);
    world.send_command("b", jobs(10..18));
    assert_eq!((world.held("a"), world.held("b"), world.alarms()), (10, 8, 0));
    world.set_deaf("a", true);
    world.send_command("b", drain("b"));
    world.actors.remove(&"b".parse().unwrap());
    world.run(6_000);
    assert_eq!((world.held("a"), world.counts("a")), (10, (18, 2)));
    world.deliver_to("a", is_release);
    assert_eq!((world.held("a"), world.quota("a"), world.counts("a")), (18, 19, (18, 2)));
    assert_eq!(world.alarms(), 8);
    world.set_deaf("a", false);
    world.run(1_000);
    assert_eq!((world.held("a"), world.quota("a"), world.counts("a")), (18, 19, (18, 1)));
}

/// Scenario 5 of the source: S is still three, so A stops at its quota and C takes the rest.
///
/// proves: S1-32, S1-81, S1-92
#[test]
fn a_node_stops_at_the_quota_it_knows_and_another_takes_the_rest() {
    let mut world = TestCluster::default();
    for (name, alarm, from, to) in [("a", 10, 0, 9), ("b", 8, 9, 16), ("c", 4, 16, 19)] {
        world.compete(Settings { alarm, ..settings(name) });
        world.run(1_500);
        world.send_command(name, jobs(from..to));
    }
    world.run(1_500);
    assert_eq!((world.held("a"), world.held("b"), world.held("c")), (9, 7, 3));
    ["a", "c"].iter().for_each(|name| world.set_deaf(name, true));
    world.send_command("b", drain("b"));
    world.actors.remove(&"b".parse().unwrap());
    world.run(6_000);
    world.deliver_to("a", is_release);
    assert_eq!((world.held("a"), world.quota("a"), world.counts("a")), (10, 10, (19, 3)));
    assert_eq!(world.alarms(), 0);
    world.deliver_to("c", is_release);
    assert_eq!((world.held("c"), world.quota("c"), world.counts("c")), (9, 10, (19, 3)));
    assert!(world.alarms() > 0);
}

/// Three nodes with 19 jobs, the releases of one of which arrive before its end: what the two others then own, and how
/// many nodes they count.
fn after_a_loss_in_the_wrong_order(rules: &'static [Rule]) -> (usize, usize) {
    let mut world = TestCluster::default();
    for name in ["a", "b", "c"] {
        world.add_with(Settings { spread: Spread::FirstCome, ..settings(name) }, rules);
    }
    world.run(1_500);
    for (name, from, to) in [("a", 0, 7), ("b", 7, 13), ("c", 13, 19)] {
        world.send_command(name, jobs(from..to));
    }
    world.run(2_000);
    assert!(world.held("a") + world.held("b") + world.held("c") == 19 && world.held("c") >= 5);
    ["a", "b"].iter().for_each(|name| world.set_deaf(name, true));
    world.send_command("c", drain("c"));
    world.actors.remove(&"c".parse().unwrap());
    world.run(6_000);
    ["a", "b"].iter().for_each(|name| world.deliver_to(name, is_release));
    world.run(2_000);
    (world.held("a") + world.held("b"), world.counts("a").1)
}

/// proves: S1-23, S1-24, S1-90
#[test]
fn with_the_plain_quota_and_an_old_count_of_nodes_jobs_are_left_without_an_owner() {
    assert_eq!(after_a_loss_in_the_wrong_order(PLAIN), (14, 3));
    assert_eq!(after_a_loss_in_the_wrong_order(rules::ALL), (19, 3));
}
