//! Switches that stand already: where another one keeps the job from firing, they are refused.

use super::*;
use crate::input::NodeSwitch;
use crate::job::{Placement, Spec};

fn refusal(answer: Answer) -> String {
    match answer {
        Answer::Refused(_, text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_switch_on_one_node_that_changes_nothing_says_what_keeps_the_node_from_firing() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    let mut sharded = job("j", "@every 30s");
    (sharded.placement, sharded.shards) = (Placement::Sharded, 2);
    world.send_command("a", Command::Apply([sharded].into()));
    let switch = |world: &mut TestCluster, node: &str, switch| {
        let command = Command::Switch("j".parse().unwrap(), node.parse().unwrap(), switch);
        let answer = world.send_command("a", command);
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
        assert_eq!(world.send_command("a", command), Answer::Done);
        world.run(500);
        let text = refusal(switch(&mut world, "a", on));
        assert!(text.contains(fix), "{text}");
    }
}

#[test]
fn a_node_that_there_is_not_may_be_held_back_and_is_not_said_to_take_part() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    let mut sharded = job("j", "@every 30s");
    (sharded.placement, sharded.shards) = (Placement::Sharded, 2);
    world.send_command("a", Command::Apply([sharded].into()));
    let switch = |world: &mut TestCluster, on| {
        let command = Command::Switch("j".parse().unwrap(), "n9".parse().unwrap(), NodeSwitch::Disabled(on));
        let answer = world.send_command("a", command);
        world.run(500);
        answer
    };
    assert!(refusal(switch(&mut world, false)).starts_with("there is no node n9"));
    assert_eq!(switch(&mut world, true), Answer::Done, "before it comes");
    assert_eq!(switch(&mut world, false), Answer::Done);
    assert!(refusal(switch(&mut world, false)).starts_with("there is no node n9"));
}

fn spec(world: &TestCluster) -> Spec {
    let view = world.actors[&"a".parse().unwrap()].node.view();
    view.find(&"j".parse().unwrap()).and_then(|job| job.spec()).unwrap()
}

fn apply(world: &mut TestCluster, job: &JobFile) -> ApplyResult {
    match world.send_command("a", Command::Apply([job.clone()].into())) {
        Answer::Applied(applied) => applied[0].1,
        other => panic!("{other:?}"),
    }
}

/// proves: S1-87
#[test]
fn an_applied_file_ends_no_switch_of_an_operator_unless_it_says_something_new_of_it() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    let file = job("j", "@every 30s");
    apply(&mut world, &file);
    let disable = Command::Disable("j".parse().unwrap());
    world.answers.clear();
    world.give(&"a".parse().unwrap(), Input::AskedBy(CommandId(1), "ops@host".into(), disable));
    world.run(50);
    assert_eq!(world.answers.pop(), Some(Answer::Done));
    let switched = spec(&world).operator.enabled.unwrap();
    assert_eq!((switched.declared, &*switched.origin.by), (true, "ops@host"));

    assert_eq!(apply(&mut world, &file), ApplyResult::Unchanged);
    assert!(!spec(&world).job.enabled, "the same file ends nothing");
    let other = job("j", "@every 40s");
    assert_eq!(apply(&mut world, &other), ApplyResult::Updated);
    let kept = spec(&world);
    assert!(
        !kept.job.enabled && kept.job.rules() == "@every 40s",
        "nor does one that changes something else"
    );
    assert_eq!(kept.operator.enabled, Some(switched));

    let off = JobFile { enabled: false, ..other.clone() };
    assert_eq!(apply(&mut world, &off), ApplyResult::Updated, "now the file itself says so");
    assert_eq!(spec(&world).operator.enabled, None);
    assert_eq!(world.send_command("a", Command::Enable("j".parse().unwrap())), Answer::Done);
    apply(&mut world, &off);
    assert!(spec(&world).job.enabled, "what an operator enabled stands likewise");
    assert_eq!(world.send_command("a", Command::Disable("j".parse().unwrap())), Answer::Done);
    assert!(spec(&world).operator.is_empty(), "the file and the operator say the same");
    apply(&mut world, &other);
    assert!(spec(&world).job.enabled, "the file says something new");
}

#[test]
fn a_pause_and_shards_that_are_off_outlast_every_file_and_say_since_when() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    let mut sharded = job("j", "@every 30s");
    (sharded.placement, sharded.shards) = (Placement::Sharded, 4);
    apply(&mut world, &sharded);
    assert_eq!(world.send_command("a", Command::Pause("j".parse().unwrap())), Answer::Done);
    let off = Command::Shards("j".parse().unwrap(), "1-2".parse().unwrap(), false);
    assert_eq!(world.send_command("a", off), Answer::Done);
    let set = spec(&world).operator;
    assert!(set.paused.is_some() && set.off.is_some());
    apply(&mut world, &JobFile { description: "new".into(), ..sharded });
    let kept = spec(&world);
    assert_eq!((kept.paused, kept.off.to_string(), kept.operator), (true, "1-2".into(), set));
    assert_eq!(world.send_command("a", Command::Resume("j".parse().unwrap())), Answer::Done);
    let on = Command::Shards("j".parse().unwrap(), "1-2".parse().unwrap(), true);
    assert_eq!(world.send_command("a", on), Answer::Done);
    assert!(spec(&world).operator.is_empty());
}
