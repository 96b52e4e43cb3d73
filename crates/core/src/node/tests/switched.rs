//! Switches that stand already: where another one keeps the job from firing, they are refused.

use super::*;
use crate::input::NodeSwitch;
use crate::job::Placement;

fn refusal(answer: Answer) -> String {
    match answer {
        Answer::Refused(_, text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_switch_on_one_node_that_changes_nothing_says_what_keeps_the_node_from_firing() {
    let mut world = World::with(&["a", "b"]);
    world.run(1_500);
    let mut sharded = job("j", "@every 30s");
    (sharded.placement, sharded.shards) = (Placement::Sharded, 2);
    world.ask("a", Command::Apply([sharded].into()));
    let switch = |world: &mut World, node: &str, switch| {
        let command = Command::Switch("j".parse().unwrap(), node.parse().unwrap(), switch);
        let answer = world.ask("a", command);
        world.run(1_000);
        answer
    };
    let (on, resumed) = (NodeSwitch::Disabled(false), NodeSwitch::Paused(false));
    assert_eq!(switch(&mut world, "b", on), Answer::Done, "it takes part already");
    assert_eq!(switch(&mut world, "b", NodeSwitch::Shutdown), Answer::Done);
    for switched in [on, resumed] {
        let text = refusal(switch(&mut world, "b", switched));
        assert_eq!(text, "node b was shut down for job j: it takes part again when it is started again");
    }
    assert_eq!(switch(&mut world, "a", NodeSwitch::Paused(true)), Answer::Done);
    let text = refusal(switch(&mut world, "a", on));
    assert!(text.contains("job resume j --node a"), "{text}");
    assert_eq!(switch(&mut world, "a", resumed), Answer::Done);
    assert_eq!(switch(&mut world, "a", NodeSwitch::Disabled(true)), Answer::Done);
    let text = refusal(switch(&mut world, "a", resumed));
    assert!(text.contains("job enable j --node a"), "{text}");
    assert_eq!(switch(&mut world, "a", on), Answer::Done);
    for (command, fix) in [
        (Command::Disable("j".parse().unwrap()), "evenkeel job enable j`"),
        (Command::Pause("j".parse().unwrap()), "evenkeel job enable j`"),
        (Command::Enable("j".parse().unwrap()), "evenkeel job resume j`"),
    ] {
        assert_eq!(world.ask("a", command), Answer::Done);
        world.run(500);
        let text = refusal(switch(&mut world, "a", on));
        assert!(text.contains(fix), "{text}");
    }
}

#[test]
fn a_node_that_there_is_not_may_be_held_back_and_is_not_said_to_take_part() {
    let mut world = World::with(&["a"]);
    world.run(1_500);
    let mut sharded = job("j", "@every 30s");
    (sharded.placement, sharded.shards) = (Placement::Sharded, 2);
    world.ask("a", Command::Apply([sharded].into()));
    let switch = |world: &mut World, on| {
        let command = Command::Switch("j".parse().unwrap(), "n9".parse().unwrap(), NodeSwitch::Disabled(on));
        let answer = world.ask("a", command);
        world.run(500);
        answer
    };
    assert!(refusal(switch(&mut world, false)).starts_with("there is no node n9"));
    assert_eq!(switch(&mut world, true), Answer::Done, "before it comes");
    assert_eq!(switch(&mut world, false), Answer::Done);
    assert!(refusal(switch(&mut world, false)).starts_with("there is no node n9"));
}
