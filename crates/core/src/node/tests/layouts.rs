//! Nodes of neighbouring versions: one knows the layout of the tree, the other one the next as well.

use super::*;
use crate::commit_kind::CommitKind;
use crate::keys::{self, Key};
use crate::record::{ClusterRecord, Layouts, decode, encode};
use crate::registry::{Guard, Txn, TxnOutcome, Write};

const OLD: Layouts = Layouts { oldest: 2, newest: 2 };
const NEW: Layouts = Layouts { oldest: 2, newest: 3 };

/// A registry whose tree has layout 2, with these nodes.
fn world(nodes: &[(&str, Layouts)]) -> TestCluster {
    let mut world = TestCluster::default();
    write(&mut world, &ClusterRecord::new("c".into()));
    nodes.iter().for_each(|(name, knows)| world.add(knowing(name, *knows)));
    world.run(3_000);
    world
}

fn knowing(name: &str, knows: Layouts) -> Settings {
    Settings { knows, ..settings(name) }
}

fn write(world: &mut TestCluster, record: &ClusterRecord) {
    let put = Write::Put { key: keys::cluster(), value: encode(record), owner: None };
    let txn = Txn { guards: Vec::new(), writes: [put].into() };
    assert!(matches!(world.store.commit(Mono(world.now), &txn), TxnOutcome::Applied(_)));
}

fn cluster(world: &TestCluster) -> ClusterRecord {
    decode(&world.store.entry(&keys::cluster()).unwrap().value).unwrap()
}

/// The nodes that are members, as the registry has it.
fn members(world: &TestCluster) -> Vec<String> {
    let node = |key: &Key| match keys::parse(key) {
        Some(keys::ParsedKey::Node(member)) => Some(member.node.to_string()),
        _ => None,
    };
    world.store.entries().filter_map(|(key, _)| node(key)).collect()
}

fn remove(world: &mut TestCluster, name: &str) {
    let name: NodeName = name.parse().unwrap();
    world.give(&name, Input::Asked(CommandId(9), Command::Leave));
    world.run(1_000);
    assert!(world.actors.remove(&name).unwrap().node.local().availability.has_departed());
}

/// proves: I49
#[test]
fn a_layout_is_raised_once_all_members_know_it() {
    let mut world = world(&[("a", NEW), ("b", OLD)]);
    for name in ["a", "b"] {
        let before = cluster(&world);
        let refused = world.send_command(name, Command::FinalizeUpgrade);
        let Answer::Refused(Refusal::Conflict, text) = refused else { panic!("{refused:?}") };
        assert!(text.contains("upgrade b (up to 2), then try again"), "{text}");
        assert_eq!(cluster(&world), before, "nothing is written that was refused");
    }
    remove(&mut world, "b");
    world.add(knowing("b", NEW));
    world.run(1_000);
    assert_eq!(world.send_command("a", Command::FinalizeUpgrade), Answer::Layout(3, ApplyResult::Updated));
    assert_eq!((cluster(&world).layout, cluster(&world).wanted), (3, None));
    assert_eq!(world.send_command("b", Command::FinalizeUpgrade), Answer::Layout(3, ApplyResult::Unchanged));
}

/// proves: I49
#[test]
fn who_does_not_know_the_layout_joins_no_more() {
    let mut world = world(&[("a", NEW)]);
    assert_eq!(world.send_command("a", Command::FinalizeUpgrade), Answer::Layout(3, ApplyResult::Updated));
    for (name, knows, says) in [
        ("b", OLD, "it has layout 3, this program knows 2: use a newer program"),
        (
            "c",
            Layouts { oldest: 4, newest: 5 },
            "this program knows 4 to 5: start the program before this one",
        ),
    ] {
        world.add(knowing(name, knows));
        world.run(10_000);
        assert_eq!(members(&world), ["a"]);
        assert!(world.events.last().unwrap().contains(says), "{:?}", world.events);
    }
}

/// The node that requested it died before the layout was raised: no node is locked out, and another one continues.
///
/// proves: I49
#[test]
fn a_wish_that_was_left_is_taken_back_by_who_does_not_know_the_layout() {
    let mut world = world(&[("a", NEW)]);
    let left = cluster(&world).wanting(Some(3));
    write(&mut world, &left);
    world.run(100);
    world.add(knowing("b", OLD));
    world.run(1_000);
    assert_eq!(members(&world), ["a", "b"]);
    assert_eq!(cluster(&world), left.wanting(None));
    assert!(matches!(
        world.send_command("a", Command::FinalizeUpgrade),
        Answer::Refused(Refusal::Conflict, _)
    ));
    remove(&mut world, "b");
    let left = cluster(&world).wanting(Some(3));
    write(&mut world, &left);
    assert_eq!(world.send_command("a", Command::FinalizeUpgrade), Answer::Layout(3, ApplyResult::Updated));
}

/// The node that raises does not know of a member that joined just before the request.
///
/// proves: I49
#[test]
fn nothing_is_raised_over_a_member_that_nobody_has_heard_of() {
    let mut world = world(&[("a", NEW)]);
    let name: NodeName = "a".parse().unwrap();
    world.actors.get_mut(&name).unwrap().watching = false;
    world.add(knowing("b", OLD));
    world.run(500);
    assert_eq!(members(&world), ["a", "b"]);
    let refused = world.send_command("a", Command::FinalizeUpgrade);
    assert!(matches!(refused, Answer::Refused(Refusal::Conflict, _)), "{refused:?}");
    assert_eq!((cluster(&world).layout, cluster(&world).wanted), (2, Some(3)), "it was seen in a listing");
}

/// proves: I49
#[test]
fn a_join_that_has_not_heard_of_the_wish_fails() {
    let mut world = world(&[]);
    let mut node = Node::new(knowing("b", OLD));
    let now = world.clock();
    let lease = world.store.open(now.mono, Millis(4_000));
    let granted = LeaseGrant { lease, ttl: Millis(4_000), clock: Some(now.wall), next_end: None };
    let mut effects = Vec::new();
    node.step(now, Input::Lease(LeaseEvent::Opened { asked: now.mono, granted }), &mut effects);
    node.step(now, Input::Listed(Some(world.store.list())), &mut effects);
    let join = effects.into_iter().find_map(|effect| match effect {
        Effect::Commit { kind: CommitKind::Join, txn, .. } => Some(txn),
        _ => None,
    });
    let wanting = cluster(&world).wanting(Some(3));
    write(&mut world, &wanting);
    let outcome = world.store.commit(now.mono, &join.expect("it would join"));
    assert!(matches!(outcome, TxnOutcome::Refused(_)), "{outcome:?}");
}

/// Only an operator, or a restored backup, gives a tree a layout that a member does not know.
///
/// proves: I49
#[test]
fn a_member_that_finds_an_unknown_layout_writes_nothing_more() {
    let mut world = world(&[("a", OLD)]);
    world.send_command("a", Command::Apply([job("j", "@every 1s")].into()));
    world.run(5_000);
    let raised = cluster(&world).raised(3);
    write(&mut world, &raised);
    world.run(10);
    let (revision, starts) = (world.store.revision(), world.starts.len());
    assert!(starts > 3);
    world.run(3_000);
    assert_eq!((world.store.revision(), world.starts.len()), (revision, starts));
    let says = "cannot read the tree of this cluster: it has layout 3, this program knows 2";
    assert_eq!(world.events.iter().filter(|event| event.contains(says)).count(), 1, "{:?}", world.events);
}

/// proves: I49
#[test]
fn a_node_that_goes_on_in_a_newer_program_says_so_and_cannot_go_back() {
    let mut world = world(&[("a", OLD)]);
    world.takes = 60_000;
    world.send_command("a", Command::Apply([job("j", "@every 1s")].into()));
    world.run(3_000);
    assert_eq!(world.send_command("a", Command::FinalizeUpgrade), Answer::Layout(2, ApplyResult::Unchanged));
    super::handoff::upgrade_to(&mut world, knowing("a", NEW), &[]);
    world.run(100);
    let node = &world.actors.values().next().unwrap().node;
    let me = node.member().unwrap();
    assert_eq!(node.view().member(&me).unwrap().info.knows, 3);
    assert!(node.is_lost_on(OLD).is_some() && node.is_lost_on(NEW).is_none());
    // Its entry was written anew, and it is the same member: what it decides is still guarded by it.
    world.send_command("a", Command::Apply([job("k", "@every 1s")].into()));
    world.run(3_000);
    assert!(!world.dues("k").is_empty());
    assert_eq!(world.send_command("a", Command::FinalizeUpgrade), Answer::Layout(3, ApplyResult::Updated));
}

/// proves: I49
#[test]
fn nobody_joins_where_the_entry_of_the_cluster_is_unreadable() {
    let mut world = TestCluster::default();
    let put = Write::Put { key: keys::cluster(), value: b"{\"layout\":".as_slice().into(), owner: None };
    world.store.commit(Mono(0), &Txn { guards: Vec::new(), writes: [put].into() });
    world.add(settings("a"));
    world.run(10_000);
    assert!(members(&world).is_empty());
    assert!(world.events.iter().any(|event| event.contains("entry cluster cannot be read")));
}

/// proves: I49
#[test]
fn a_registry_without_an_entry_of_the_cluster_has_nothing_to_finalize() {
    let mut world = TestCluster::with(&["a"]);
    world.run(100);
    assert!(matches!(
        world.send_command("a", Command::FinalizeUpgrade),
        Answer::Refused(Refusal::NotFound, _)
    ));
}

/// Two nodes request it at one moment, and the answers of one are lost.
///
/// proves: I49
#[test]
fn of_two_who_raise_a_layout_both_are_told_that_it_is_raised() {
    let mut world = world(&[("a", NEW), ("b", NEW)]);
    world.delay = 20;
    world.answers.clear();
    for name in ["a", "b"] {
        world.give(&name.parse().unwrap(), Input::Asked(CommandId(1), Command::FinalizeUpgrade));
    }
    world.run(1_000);
    assert_eq!(world.answers.len(), 2);
    assert!(world.answers.iter().all(|answer| matches!(answer, Answer::Layout(3, _))), "{:?}", world.answers);
    assert_eq!(cluster(&world).layout, 3);
}

/// proves: I49
#[test]
fn the_join_that_takes_a_wish_back_is_guarded_by_it() {
    let mut world = world(&[("a", NEW)]);
    let wanting = cluster(&world).wanting(Some(3));
    write(&mut world, &wanting);
    world.delay = 1_000;
    world.add(knowing("b", OLD));
    world.run(200);
    let join = world.commits.iter().find(|(_, name, ..)| name.as_str() == "b").map(|(.., txn)| txn.clone());
    let join = join.expect("it is under way");
    let at = world.store.entry(&keys::cluster()).unwrap().revision;
    assert!(join.guards.contains(&Guard::At(keys::cluster(), at)));
    assert_eq!(join.writes.len(), 2);
}
