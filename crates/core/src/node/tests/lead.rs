//! The leader that plans for the cluster: its election, when it serves, and what a successor does.

use super::dispatched::{dispatched, seconds};
use super::*;
use crate::effect::Event;
use crate::eligibility::Leadership;
use crate::input::{ClusterSetting, ProbeReply, Refusal};
use crate::job::Delivery;
use crate::keys;
use crate::record::{Handover, PlannerKind, ServingRecord, decode, encode};

pub(super) fn led(names: &[&str]) -> TestCluster {
    let mut world = TestCluster::settled(names);
    let done = world.send_command(names[0], Command::Configure(ClusterSetting::Planner(PlannerKind::Leader)));
    assert_eq!(done, Answer::Done);
    world.run(2_000);
    world
}

/// proves: S4-13
#[test]
fn a_leader_that_is_cut_off_from_the_registry_does_not_say_that_it_leads() {
    let mut world = led(&["a", "b", "c"]);
    let leader = world.serving().unwrap();
    let name: NodeName = leader.parse().unwrap();
    let leads = |world: &TestCluster, at: i64| world.actors[&name].node.leadership(Mono(at));
    let me = world.actors[&name].node.member();
    assert_eq!(leads(&world, world.now), Leadership::Known(me.clone()));
    // No renewal is answered any more: it neither receives nor steps.
    let trusted_until = world.actors[&name].node.trusted_until(Mono(world.now)).unwrap();
    assert_eq!(leads(&world, trusted_until.0 - 1), Leadership::Known(me.clone()));
    let unknown = Leadership::Unknown { last: me, since: Some(trusted_until) };
    assert_eq!(leads(&world, trusted_until.0), unknown);
    assert_eq!(leads(&world, trusted_until.0 + 60_000), unknown, "since when stays what it is");
    // Also after it has given the lease up.
    let actor = world.actors.get_mut(&name).unwrap();
    actor.watching = false;
    let mut effects = Vec::new();
    for at in (world.now..trusted_until.0 + 20_000).step_by(100) {
        let now = Now { mono: Mono(at), wall: Wall(at) };
        actor.node.step(now, Input::Tick, &mut effects);
        if effects.drain(..).any(|effect| matches!(effect, Effect::Renew(_) | Effect::Open { .. })) {
            actor.node.step(now, Input::Lease(LeaseEvent::Failed), &mut effects);
        }
    }
    assert_eq!(actor.node.member(), None, "it has given its lease up");
    let Leadership::Unknown { since: Some(since), .. } = leads(&world, trusted_until.0 + 20_000) else {
        panic!("it cannot know")
    };
    assert!(since <= trusted_until + Millis(100), "{since:?} {trusted_until:?}");
}

/// proves: S4-02, S4-05, S4-06, S4-16, S4-33
#[test]
fn of_five_that_stand_one_serves_and_the_others_take_no_orders() {
    let mut world = led(&["a", "b", "c", "d", "e"]);
    let leader = world.serving().unwrap();
    for node in ["a", "b", "c", "d", "e"] {
        let answer = world.send_command(node, Command::Apply([dispatched(node, "@every 1s")].into()));
        if node == leader {
            assert!(matches!(answer, Answer::Applied(_)), "{answer:?}");
        } else {
            let Answer::Refused(Refusal::Standby, text) = answer else { panic!("{node} took an order") };
            assert!(text.contains(&alloc::format!("ask the leader {leader} at {leader}")), "{text}");
        }
        let serves = world.actors[&node.parse::<NodeName>().unwrap()].node.role(Mono(world.now)).serves;
        assert_eq!(serves.is_some(), node == leader);
    }
    world.run(20_000);
    assert_eq!(world.dues(&leader).len(), 20);
}

/// proves: S4-12, S4-22
#[test]
fn the_lead_is_one_entry_that_names_its_holder() {
    let mut world = TestCluster::settled(&["a", "b", "c"]);
    let written = |world: &TestCluster| -> BTreeMap<String, Revision> {
        world.store.entries().map(|(key, entry)| (key.to_string(), entry.revision)).collect()
    };
    let mut before = written(&world);
    assert_eq!(
        world.send_command("a", Command::Configure(ClusterSetting::Planner(PlannerKind::Leader))),
        Answer::Done
    );
    world.run(2_000);
    let mut after = written(&world);
    after.retain(|key, revision| before.remove(key) != Some(*revision));
    assert_eq!(before, BTreeMap::new(), "the election deletes nothing");
    let keys: BTreeSet<String> = after.into_keys().collect();
    assert_eq!(keys, [keys::serving(), keys::settings()].iter().map(ToString::to_string).collect());
    let entry = world.store.entry(&keys::serving()).unwrap();
    let record: ServingRecord = decode(&entry.value).unwrap();
    let leader = world.serving().unwrap();
    assert_eq!(record.leader.map(|member| member.node.to_string()), Some(leader));
}

/// proves: S4-07, S4-09, S4-34, S4-37, I5
#[test]
fn a_successor_loads_waits_and_only_then_serves_and_nothing_is_missed() {
    let mut world = led(&["a", "b", "c"]);
    let leader = world.serving().unwrap();
    let other = ["a", "b", "c"].into_iter().find(|node| *node != leader).unwrap();
    let done = world.send_command(other, Command::Configure(ClusterSetting::Handover(Handover::Waited)));
    assert_eq!(done, Answer::Done, "what is set for the cluster may be set anywhere");
    let mut job = dispatched("j", "@every 1s");
    job.delivery = Delivery::AtLeastOnce;
    world.apply(&leader, job);
    world.run(600_000);
    assert_eq!(world.serving().as_ref(), Some(&leader), "a healthy leader leads for ever");
    world.remove(&leader);
    let mut won = None;
    while world.serving().is_none_or(|now| now == leader) {
        world.run(1);
        won = won.or_else(|| {
            let reign = |actor: &TestNode| actor.node.local().leadership.term().map(|term| term.since.0);
            world.actors.values().filter_map(reign).max()
        });
    }
    let waited = world.now - won.unwrap();
    // T1 is nothing here, T2 and the net half a second each, and one per cent of the lease.
    assert!((1_040..1_060).contains(&waited), "{waited}");
    world.run(20_000);
    let mut dues = world.dues("j");
    // What the old leader had accepted is in doubt, and made again.
    dues.sort_unstable();
    dues.dedup();
    assert_eq!(dues, seconds(dues[0] / 1_000, dues.last().unwrap() / 1_000));
    assert!(world.count_events(&Event::LeaderLost(leader.parse().unwrap())) >= 1);
}

/// proves: S4-01, S4-13
#[test]
fn a_leader_that_leaves_of_itself_says_so_and_its_successor_need_not_wait() {
    let mut world = led(&["a", "b"]);
    let leader = world.serving().unwrap();
    let other = if leader == "a" { "b" } else { "a" };
    world.send_command(&leader, Command::Configure(ClusterSetting::Handover(Handover::Waited)));
    world.apply(&leader, dispatched("j", "@every 1s"));
    world.run(5_000);
    let asked = world.now;
    world.give(&leader.parse().unwrap(), Input::Asked(CommandId(7), Command::Leave));
    while world.serving().as_deref() != Some(other) {
        world.run(1);
        assert!(world.now < asked + 2_500, "it takes no longer than its last run");
    }
    world.run(10_000);
    let dues = world.dues("j");
    assert_eq!(dues, seconds(dues[0] / 1_000, dues.last().unwrap() / 1_000), "no fire is missed");
    assert_eq!(world.count_events(&Event::Suspended), 1);
}

/// proves: S4-01
#[test]
fn one_node_alone_is_not_available_and_two_nodes_are() {
    let dues_after_a_crash = |names: &[&str]| {
        let mut world = led(names);
        let leader = world.serving().unwrap();
        world.apply(&leader, dispatched("j", "@every 1s"));
        world.run(3_000);
        world.remove(&leader);
        world.starts.clear();
        let crashed = world.now;
        world.run(20_000);
        world.dues("j").into_iter().filter(|due| *due > crashed).count()
    };
    assert_eq!(dues_after_a_crash(&["a"]), 0);
    assert!(dues_after_a_crash(&["a", "b"]) >= 15);
}

/// proves: S4-14
#[test]
fn each_event_of_a_session_changes_the_role_in_its_own_way() {
    let mut world = led(&["a", "b"]);
    let leader = world.serving().unwrap();
    let (name, other): (NodeName, _) = (leader.parse().unwrap(), if leader == "a" { "b" } else { "a" });
    let role = |world: &TestCluster, node: &str| {
        world.actors[&node.parse::<NodeName>().unwrap()].node.role(Mono(world.now)).serves
    };
    let refused_by = |world: &mut TestCluster, node: &str| match world
        .send_command(node, Command::Apply([dispatched("j", "@every 1s")].into()))
    {
        Answer::Refused(Refusal::Standby, text) => Some(text),
        _ => None,
    };
    assert_eq!((role(&world, &leader), role(&world, other)), (Some(1), None), "connected");
    let text = refused_by(&mut world, other).unwrap();
    assert!(text.contains(&alloc::format!("ask the leader {leader}")), "node data changed: {text}");
    world.give(&name, Input::Lease(LeaseEvent::Failed));
    assert_eq!(role(&world, &leader), Some(1), "connection exception: the lease is trusted as before");
    let lease = world.actors[&name].node.local().lease.id().unwrap();
    world.give(&name, Input::Lease(LeaseEvent::Gone(lease)));
    assert_eq!(role(&world, &leader), None, "session expired: the leader stops at once");
    assert_ne!(world.actors[&name].node.local().lease.id(), Some(lease), "it begins another session");
    world.run(10_000);
    let serve: Vec<u64> = ["a", "b"].into_iter().filter_map(|node| role(&world, node)).collect();
    assert_eq!(serve, [2], "node lost: one node takes the lead");
}

/// proves: S4-13
#[test]
fn the_six_events_of_a_session_are_told() {
    let mut world = led(&["a", "b"]);
    assert!(world.count_events(&Event::Connected) >= 2, "connected");
    let leader = world.serving().unwrap();
    let name: NodeName = leader.parse().unwrap();
    assert_eq!(
        world.count_events(&Event::LeaderChanged(Some(name.clone()), 1)),
        2,
        "node data changed, told by both"
    );
    assert!(world.count_events(&Event::NodesChanged(2)) >= 1, "children changed");
    world.give(&name, Input::Lease(LeaseEvent::Failed));
    assert_eq!(world.count_events(&Event::Disconnected), 1, "connection exception");
    let lease = world.actors[&name].node.local().lease.id().unwrap();
    world.give(&name, Input::Lease(LeaseEvent::Gone(lease)));
    assert_eq!(world.count_events(&Event::LeaseLost), 1, "session expired");
    assert_eq!(world.count_events(&Event::Suspended), 1, "and the leader has stopped with it");
    world.run(10_000);
    assert!(world.count_events(&Event::LeaderLost(name)) >= 1, "node lost");
}

/// proves: S4-39
#[test]
fn a_standby_answers_for_its_role_and_tells_of_two_that_both_say_they_serve() {
    let mut world = led(&["a", "b", "c"]);
    let leader = world.serving().unwrap();
    let [other, standby] = {
        let mut rest = ["a", "b", "c"].into_iter().filter(|node| *node != leader);
        [rest.next().unwrap(), rest.next().unwrap()]
    };
    let role = |world: &TestCluster, node: &str| {
        world.actors[&node.parse::<NodeName>().unwrap()].node.role(Mono(world.now))
    };
    assert_eq!((role(&world, standby).serves, role(&world, &leader).serves), (None, Some(1)));
    let say = |world: &mut TestCluster, node: &str, epoch: u64| {
        let member = world.actors[&node.parse::<NodeName>().unwrap()].node.member().unwrap();
        let answer = Some(ProbeReply { serves: Some(epoch) });
        let probed = Input::Probed { member, asked: Mono(world.now), answer };
        world.give(&standby.parse().unwrap(), probed);
    };
    let alarms = |world: &TestCluster| {
        world.events.iter().filter(|said| said.contains("both say that they serve")).count()
    };
    // One that says so after the other may have taken over in between: the first is asked again, and says no more.
    world.cuts.clear();
    say(&mut world, other, 7);
    world.run(61_000);
    assert_eq!(alarms(&world), 0, "its word of then is not its word of now");
    let asked = world.probes.len();
    say(&mut world, &leader, 1);
    world.run(10);
    say(&mut world, other, 7);
    assert!(world.probes.len() > asked, "the first is asked once more");
    assert_eq!(alarms(&world), 1, "both said so, one before and after the other");
}

/// proves: S4-08
#[test]
fn a_leader_watches_the_lead_and_stops_when_another_node_has_it_or_none() {
    for has_successor in [true, false] {
        let mut world = led(&["a", "b"]);
        let leader = world.serving().unwrap();
        let other = if leader == "a" { "b" } else { "a" };
        let record: ServingRecord = decode(&world.store.entry(&keys::serving()).unwrap().value).unwrap();
        // The leader lives and trusts its lease: it has nothing but the entry to learn it from.
        let successor = world.actors[&other.parse::<NodeName>().unwrap()].node.member();
        let next =
            ServingRecord { leader: successor, epoch: 2, serves: false, seq: record.seq + 1, ..record };
        world.write(keys::serving(), has_successor.then(|| encode(&next)));
        world.run(1);
        let role = |world: &TestCluster, node: &str| {
            world.actors[&node.parse::<NodeName>().unwrap()].node.role(Mono(world.now)).serves
        };
        assert_eq!(world.count_events(&Event::Suspended), 1);
        if has_successor {
            assert_eq!(role(&world, &leader), None);
        }
        world.run(10_000);
        let serving = ["a", "b"].into_iter().filter(|node| role(&world, node).is_some());
        assert_eq!(serving.count(), 1, "one leads again");
    }
}
