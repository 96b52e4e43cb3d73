//! Commands that are done only while their objects are as their callers have read them.

use alloc::boxed::Box;
use alloc::format;

use super::*;
use crate::calendar::Calendar;
use crate::input::Precondition;
use crate::namespace::NamespaceSettings;

fn described(name: &str, description: &str) -> Command {
    Command::Apply([JobFile { description: description.into(), ..job(name, "@every 1h") }].into())
}

fn if_version(versions: &[u64], command: Command) -> Command {
    Command::If(Precondition::Version(versions.into()), Box::new(command))
}

fn stale(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Refused(Refusal::Stale(version), _) => Some(*version),
        _ => None,
    }
}

#[test]
fn a_change_of_what_its_caller_has_not_read_is_refused_with_both_versions() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    world.send_command("a", described("j", "one"));
    let done = world.send_command("b", if_version(&[1], described("j", "two")));
    assert!(matches!(done, Answer::Applied(_)), "{done:?}");
    for late in [
        described("j", "three"),
        described("j", "two"),
        Command::Delete("j".parse().unwrap()),
        Command::Pause("j".parse().unwrap()),
        Command::RunNow("j".parse().unwrap(), "r".parse().unwrap()),
    ] {
        let answer = world.send_command("a", if_version(&[1], late));
        let Answer::Refused(Refusal::Stale(2), text) = &answer else { panic!("{answer:?}") };
        assert!(text.contains("job j has version 2, and the request is for version 1"), "{text}");
    }
    let done = world.send_command("a", if_version(&[7, 2], Command::Delete("j".parse().unwrap())));
    assert_eq!(done, Answer::Done);
}

#[test]
fn of_two_who_change_one_version_at_once_one_is_refused() {
    for round in 0..20 {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(1_500);
        world.send_command("a", described("j", "first"));
        world.run(500);
        world.delay = round;
        world.answers.clear();
        for name in ["a", "b"] {
            let command = if_version(&[1], described("j", &format!("of {name}")));
            world.give(&name.parse().unwrap(), Input::Asked(CommandId(7), command));
        }
        world.run(2_000);
        let applied = world.answers.iter().filter(|answer| matches!(answer, Answer::Applied(_))).count();
        let refused = world.answers.iter().filter(|answer| stale(answer) == Some(2)).count();
        assert_eq!((applied, refused), (1, 1), "{:?}", world.answers);
    }
}

#[test]
fn what_is_only_to_be_created_or_only_to_be_changed_is_so() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    let with = |wanted: Precondition, command: Command| Command::If(wanted, Box::new(command));
    let missing = world.send_command("a", with(Precondition::Exists, described("j", "one")));
    assert_eq!(stale(&missing), Some(0), "{missing:?}");
    let made = world.send_command("a", with(Precondition::Absent, described("j", "one")));
    assert!(matches!(made, Answer::Applied(_)), "{made:?}");
    let again = world.send_command("a", with(Precondition::Absent, described("j", "two")));
    assert_eq!(stale(&again), Some(1), "{again:?}");

    let calendar = || Command::Calendar(Box::new(Calendar::new("c".parse().unwrap())));
    assert_eq!(stale(&world.send_command("a", if_version(&[1], calendar()))), Some(0));
    let team = || NamespaceSettings::new("team".parse().unwrap());
    world.send_command("a", Command::Namespace(Box::new(team())));
    let limited = NamespaceSettings { jobs_max: Some(3), ..team() };
    let late = world.send_command("a", if_version(&[2], Command::Namespace(Box::new(limited))));
    assert_eq!(stale(&late), Some(1), "{late:?}");
}

#[test]
fn what_has_no_version_takes_no_condition() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    let two = Command::Apply([job("j", "@daily"), job("k", "@daily")].into());
    for command in [two, Command::Drain("a".parse().unwrap()), Command::Claim] {
        let answer = world.send_command("a", if_version(&[1], command));
        assert!(matches!(&answer, Answer::Refused(Refusal::Invalid, _)), "{answer:?}");
    }
    assert!(world.actors.values().all(|actor| actor.node.view().intent(&"a".parse().unwrap()).is_none()));
}
