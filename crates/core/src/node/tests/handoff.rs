//! A node that goes on in another program of its process.

use super::*;
use crate::handoff::NodeHandoff;
use crate::job::Placement;

/// Hands the node off to another program; `heard` are the inputs in between.
fn upgrade(world: &mut TestCluster, heard: &[Input]) {
    upgrade_to(world, settings("a"), heard);
}

/// The same with these settings of the new program.
pub(super) fn upgrade_to(world: &mut TestCluster, settings: Settings, heard: &[Input]) {
    let name: NodeName = "a".parse().unwrap();
    world.give(&name, Input::Rest(true));
    world.run(20);
    let now = world.clock().mono;
    let actor = world.actors.get_mut(&name).unwrap();
    let baton = actor.node.handoff(now).unwrap();
    // As it travels.
    let baton: NodeHandoff = serde_json::from_str(&serde_json::to_string(&baton).unwrap()).unwrap();
    actor.node = Node::resume(settings, baton);
    actor.watching = false;
    for input in heard {
        world.give(&name, input.clone());
    }
    world.give(&name, Input::Tick);
}

#[test]
fn a_run_that_was_passed_on_goes_on_and_is_closed_once() {
    for placement in [Placement::Claimed, Placement::Dispatched, Placement::Sharded] {
        let mut world = TestCluster::with(&["a"]);
        world.takes = 10_000;
        world.send_command(
            "a",
            Command::Apply([JobFile { placement, ..job("j", "at 1970-01-01T00:00:05") }].into()),
        );
        world.run(7_000);
        assert_eq!(world.starts.len(), 1, "{placement:?}");
        (0..3).for_each(|_| {
            upgrade(&mut world, &[]);
            world.run(1_000);
        });
        assert!(world.stops.is_empty(), "{placement:?}: it is not ended");
        world.run(60_000);
        assert_eq!(world.starts.len(), 1, "{placement:?}: it is not started again");
        assert!(world.stops.is_empty() && world.recorded.is_empty(), "{placement:?}: {:?}", world.recorded);
        let node = &world.actors.values().next().unwrap().node;
        assert!(node.local().runs.is_empty(), "{placement:?}: it was closed");
        let joined = world.events.iter().filter(|event| event.contains("joined")).count();
        assert_eq!(joined, 1, "{:?}", world.events);
    }
}

#[test]
fn an_end_that_comes_before_anything_was_listed_is_heard() {
    let mut world = TestCluster::with(&["a"]);
    world.takes = 600_000;
    world.send_command("a", Command::Apply([job("j", "at 1970-01-01T00:00:05")].into()));
    world.run(7_000);
    let id = world.starts[0].1.id.clone();
    let end = Input::Run { id: id.clone(), attempt: 1, event: RunEvent::Ended(RunOutcome::Succeeded) };
    upgrade(&mut world, &[end]);
    world.run(1_000);
    let node = &world.actors.values().next().unwrap().node;
    assert!(node.local().runs.is_empty());
    let run_state = node.view().find(&id.job).and_then(|job| job.held()?.record().cloned()).unwrap();
    assert!(run_state.open.is_empty(), "{run_state:?}");
}

#[test]
fn a_node_that_rests_begins_nothing_and_keeps_its_lease() {
    let mut world = TestCluster::with(&["a"]);
    let name: NodeName = "a".parse().unwrap();
    world.send_command("a", Command::Apply([job("j", "* * * * * *")].into()));
    world.run(5_000);
    world.give(&name, Input::Rest(true));
    let before = world.starts.len();
    world.run(30_000);
    let node = &world.actors[&name].node;
    assert_eq!(world.starts.len(), before);
    assert!(node.trusted_until(world.clock().mono).is_some() && node.handoff(world.clock().mono).is_some());
    world.give(&name, Input::Rest(false));
    world.run(3_000);
    assert!(world.starts.len() > before);
    assert_eq!(world.actors[&name].node.handoff(world.clock().mono), None, "it does not rest any more");
}
