//! Declarations whose text the registry has already.

use alloc::boxed::Box;

use super::*;
use crate::ids::JobName;
use crate::input::{Declaration, SameDeclaration};
use crate::record::encode;

fn name(text: &str) -> JobName {
    text.parse().unwrap()
}

/// The declaration of a job as a view has it.
fn same(world: &TestCluster, job: &JobFile) -> Option<SameDeclaration> {
    let text = encode(&Job::parse(job.clone()).unwrap());
    let node = &world.actors.values().next().unwrap().node;
    let revision = node.view().find(job.name.name())?.declares(&text)?;
    Some(SameDeclaration { name: job.name.name().clone(), revision, text })
}

#[test]
fn a_declaration_that_the_registry_has_is_unchanged_for_as_long_as_it_has_it() {
    let mut world = TestCluster::with(&["a"]);
    let (old, new) = (job("j", "@every 1h"), job("j", "@every 2h"));
    world.send_command("a", Command::Apply([old.clone()].into()));
    let known = same(&world, &old).unwrap();
    assert_eq!(same(&world, &new), None, "it says something else");
    let declare = || Command::Declare([Declaration::Same(known.clone())].into());
    let became = |result| Answer::Applied([(name("j"), result)].into());
    assert_eq!(world.send_command("a", declare()), became(ApplyResult::Unchanged));

    world.send_command("a", Command::Apply([new.clone()].into()));
    assert_eq!(
        world.send_command("a", declare()),
        became(ApplyResult::Updated),
        "another one had come between"
    );
    assert!(same(&world, &old).is_some_and(|again| again.revision > known.revision));
    world.send_command("a", Command::Delete(name("j")));
    assert_eq!(same(&world, &old), None);
    assert_eq!(world.send_command("a", declare()), became(ApplyResult::Created));
}

#[test]
fn a_job_that_an_operator_has_switched_is_compared_as_a_whole() {
    let mut world = TestCluster::with(&["a"]);
    let old = job("j", "@every 1h");
    world.send_command("a", Command::Apply([old.clone()].into()));
    for (switch, back) in [
        (Command::Pause(name("j")), Command::Resume(name("j"))),
        (Command::Disable(name("j")), Command::Enable(name("j"))),
    ] {
        world.send_command("a", switch);
        assert_eq!(same(&world, &old), None);
        world.send_command("a", back);
        assert!(same(&world, &old).is_some());
    }
}

#[test]
fn files_and_declarations_that_are_there_are_applied_in_their_order() {
    let mut world = TestCluster::with(&["a"]);
    let old = job("j", "@every 1h");
    world.send_command("a", Command::Apply([old.clone()].into()));
    let file = |name: &str| Declaration::File(Box::new(job(name, "@every 1h")));
    let known = Declaration::Same(same(&world, &old).unwrap());
    let command = Command::Declare([known.clone(), file("k")].into());
    assert_eq!(command.declared().map(JobName::as_str).collect::<Vec<_>>(), ["j", "k"]);
    let Answer::Applied(mut applied) = world.send_command("a", command) else { panic!("it is valid") };
    applied.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(applied, [(name("j"), ApplyResult::Unchanged), (name("k"), ApplyResult::Created)]);

    let wrong = Declaration::File(Box::new(job("l", "61 * * * *")));
    let refused = world.send_command("a", Command::Declare([file("m"), known, wrong].into()));
    assert!(
        matches!(refused, Answer::Refused(Refusal::Invalid, text) if text.ends_with("nothing was applied"))
    );
    assert_eq!(world.actors.values().next().unwrap().node.view().find(&name("m")).map(|job| job.id), None);
}
