//! Commands about jobs and locks, each sent once or twice.

use super::*;

/// proves: S1-87, S1-88, I9
#[test]
fn the_same_declaration_twice_is_one() {
    let mut world = TestCluster::with(&["a"]);
    world.send_command("a", Command::Apply([job("j", "@every 1s")].into()));
    let again = world.send_command("a", Command::Apply([job("j", "@every 1s")].into()));
    assert_eq!(again, Answer::Applied([("j".parse().unwrap(), ApplyResult::Unchanged)].into()));
    world.run(2_500 - world.now);
    for applied in [ApplyResult::Updated, ApplyResult::Unchanged] {
        let changed = world.send_command("a", Command::Apply([job("j", "@every 2s")].into()));
        assert_eq!(changed, Answer::Applied([("j".parse().unwrap(), applied)].into()));
    }
    world.run(8_500 - world.now);
    assert_eq!(world.dues("j"), [1_000, 2_000, 4_000, 6_000, 8_000]);
}

/// proves: S4-31
#[test]
fn of_two_declarations_at_once_neither_is_told_the_other_ones_end() {
    let mut world = TestCluster::with(&["a"]);
    for (round, schedules) in [["@every 2s", "@every 3s"], ["@every 4s", "@every 5s"]].iter().enumerate() {
        // Both go out in one step, and both write the same assignment.
        let applied =
            world.send_command("a", Command::Apply(schedules.map(|schedule| job("j", schedule)).into()));
        let Answer::Applied(jobs) = applied else { panic!("{applied:?}") };
        assert_eq!(jobs.len(), 2);
        let node = &world.actors.values().next().unwrap().node;
        let spec = node.view().find(&"j".parse().unwrap()).and_then(|job| job.spec()).unwrap();
        assert_eq!((spec.version, spec.job.rules()), (2 * round as u64 + 2, schedules[1]));
    }
}

/// proves: I24
#[test]
fn a_run_asked_for_twice_under_one_id_runs_once() {
    let mut world = TestCluster::with(&["a"]);
    world.send_command("a", Command::Apply([job("j", "")].into()));
    world.run(100);
    for _ in 0..2 {
        let answer = world.send_command("a", Command::RunNow("j".parse().unwrap(), "r1".parse().unwrap()));
        assert!(matches!(answer, Answer::Accepted(..)), "{answer:?}");
    }
    world.run(3_000);
    assert_eq!(world.starts.len(), 1);
    assert_eq!(world.starts[0].1.id.to_string(), "j:ask-r1:0");
}

/// proves: S1-29, I41
#[test]
fn pausing_or_deleting_takes_back_what_was_claimed_ahead() {
    let mut world = TestCluster::with(&["a"]);
    world.send_command("a", Command::Apply([job("j", "@every 2s"), job("k", "@every 2s")].into()));
    world.run(1_500);
    assert_eq!(world.send_command("a", Command::Pause("j".parse().unwrap())), Answer::Done);
    assert_eq!(world.send_command("a", Command::Delete("k".parse().unwrap())), Answer::Done);
    world.run(5_000);
    assert_eq!((world.dues("j").len(), world.dues("k").len()), (0, 0));
    assert_eq!(world.send_command("a", Command::Resume("j".parse().unwrap())), Answer::Done);
    world.run(4_000);
    assert_eq!(world.dues("j"), [8_000, 10_000]);
    assert_eq!(world.held("a"), 1);
}

/// proves: S1-09
#[test]
fn a_lock_is_taken_twice_and_must_be_given_back_twice() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(100);
    let lock = || Command::Lock("l".parse().unwrap());
    let unlock = || Command::Unlock("l".parse().unwrap());
    let Answer::Locked(first, 1) = world.send_command("a", lock()) else { panic!("not locked") };
    assert_eq!(world.send_command("a", lock()), Answer::Locked(first, 2));
    world.give(&"b".parse().unwrap(), Input::Asked(CommandId(2), lock()));
    world.answers.clear();
    world.send_command("a", unlock());
    world.run(1_000);
    assert!(world.answers.is_empty());
    world.give(&"a".parse().unwrap(), Input::Asked(CommandId(3), unlock()));
    world.run(100);
    let second =
        world.answers.iter().find_map(|a| if let Answer::Locked(t, 1) = a { Some(*t) } else { None });
    assert!(second.is_some_and(|t| t > first), "{:?}", world.answers);
}

#[test]
fn a_job_that_asks_for_more_than_the_registry_gives_is_refused_with_all_that_came_with_it() {
    let mut world = TestCluster::default();
    world.add(Settings { class: DurabilityClass::B, ..settings("n1") });
    let asking = |name: &str, guarantee| JobFile { min_durability: guarantee, ..job(name, "@every 10s") };
    let both = [asking("b", Some(DurabilityClass::B)), asking("pay", Some(DurabilityClass::A))];
    let refused = world.send_command("n1", Command::Apply(both.to_vec()));
    let Answer::Refused(Refusal::Invalid, text) = refused else { panic!("{refused:?}") };
    assert!(text.contains("pay: it asks for min_durability = \"A\"") && text.contains("class B"), "{text}");
    let specs = world.actors.values().map(|actor| actor.node.view().ids().count()).sum::<usize>();
    assert_eq!(specs, 0);
    let [modest, _] = both;
    assert!(matches!(world.send_command("n1", Command::Apply([modest].to_vec())), Answer::Applied(_)));
}

#[test]
fn a_rollback_declares_as_an_apply_does() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    world.send_command("a", Command::Apply([job("j", "@every 60s")].into()));
    let back = |schedule: &str| Command::Rollback(alloc::boxed::Box::new(job("j", schedule)), 1);
    let name: crate::ids::JobName = "j".parse().unwrap();
    let answer = |applied| Answer::Applied(alloc::vec![(name.clone(), applied)]);
    assert_eq!(world.send_command("a", back("@every 60s")), answer(ApplyResult::Unchanged));
    assert_eq!(world.send_command("a", back("@every 90s")), answer(ApplyResult::Updated));
    world.send_command("a", Command::Delete(name.clone()));
    assert_eq!(world.send_command("a", back("@every 60s")), answer(ApplyResult::Created));
    let refused = world.send_command("a", back("never"));
    assert!(matches!(&refused, Answer::Refused(Refusal::Invalid, _)), "{refused:?}");
    let described = back("@daily");
    let described = described.describe().unwrap();
    assert_eq!((described.verb, alloc::format!("{}", described.object)), ("rollback", "job j".into()));
}
