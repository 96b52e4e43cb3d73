//! Entries without a valid seal: they count for nothing until an administrator accepts or replaces them.

use alloc::boxed::Box;

use super::*;
use crate::job::{Placement, Spec};
use crate::principal::PrincipalKind;
use crate::record::{PrincipalRecord, SpecRecord, decode, encode};
use crate::registry::{Guard, Write};

impl TestCluster {
    /// Writes an entry as the view of every node has it that finds no valid seal on it.
    fn write_unsealed(&mut self, job: &str, file: JobFile, version: u64) -> Revision {
        let key = keys::spec(&job.parse().unwrap());
        let record = SpecRecord::Unsealed(Box::new(Spec::new(Job::parse(file).unwrap(), version, Wall(0))));
        let write = Write::Put { key, value: encode(&record), owner: None };
        self.store.commit(Mono(self.now), &Txn { guards: Vec::new(), writes: [write].into() });
        self.run(20);
        self.store.revision()
    }

    fn spec_version(&self, job: &str) -> u64 {
        let found = self.store.read(&[keys::spec(&job.parse().unwrap())]);
        decode::<SpecRecord>(&found[0].entry.as_ref().unwrap().value).unwrap().version()
    }
}

fn conflict(answer: &Answer) -> &str {
    match answer {
        Answer::Refused(Refusal::Conflict, why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_whose_entry_has_no_seal_does_not_run_until_it_is_declared_anew() {
    for placement in [Placement::Claimed, Placement::Sharded, Placement::Dispatched, Placement::Broadcast] {
        let file = || JobFile { placement, ..job("j", "@every 1s") };
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(2_000);
        world.send_command("a", Command::Apply([file()].into()));
        world.run(3_500);
        let before = world.starts.len();
        assert!(before > 2, "{placement:?}: {before}");
        let evil = Work::Command(["evil".to_string()].into());
        let evil = JobFile { placement, ..JobFile::new("j".parse().unwrap(), "@every 1s", evil) };
        world.write_unsealed("j", evil, 9);
        world.run(4_000);
        let evil = |(_, run): &(String, Run)| alloc::format!("{run:?}").contains("evil");
        assert!(!world.starts.iter().any(evil), "{placement:?}");
        // What was claimed ahead may start; no more does.
        let during = world.starts.len();
        world.run(4_000);
        assert_eq!(world.starts.len(), during, "{placement:?}");
        let said = world.events.iter().filter(|event| event.contains("job j does not run")).count();
        assert_eq!(said, 2, "{placement:?}: each node says it once: {:?}", world.events);
        let applied = world.send_command("b", Command::Apply([file()].into()));
        assert!(matches!(applied, Answer::Applied(_)), "{placement:?}: {applied:?}");
        assert_eq!(world.spec_version("j"), 10, "{placement:?}");
        world.run(4_000);
        assert!(world.starts.len() > during + 2, "{placement:?}");
        assert!(!world.starts.iter().any(evil), "{placement:?}");
    }
}

#[test]
fn an_entry_is_accepted_as_it_was_looked_at() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(2_000);
    let first = world.write_unsealed("j", job("j", "@every 1s"), 4);
    let second = world.write_unsealed("j", job("j", "@every 2s"), 4);
    let accept = |job: &str, at| Command::Accept(job.parse().unwrap(), at);
    assert!(conflict(&world.send_command("a", accept("j", first))).contains("written again"));
    assert_eq!(world.send_command("a", accept("j", second)), Answer::Done);
    world.run(6_000);
    assert_eq!(world.spec_version("j"), 5);
    assert!(world.dues("j").len() > 1, "{:?}", world.dues("j"));
    assert_eq!(world.send_command("b", accept("j", second)), Answer::Unchanged);
    let other = world.write_unsealed("k", job("j", "@every 1s"), 1);
    assert!(conflict(&world.send_command("a", accept("k", other))).contains("declares job j: delete it"));
    assert_eq!(world.send_command("a", Command::Delete("k".parse().unwrap())), Answer::Done);
    let none = world.send_command("a", accept("k", other));
    assert!(matches!(none, Answer::Refused(Refusal::NotFound, _)), "{none:?}");
}

/// The version of such an entry is what a stranger wrote.
#[test]
fn the_greatest_version_breaks_nothing() {
    let mut world = TestCluster::with(&["a"]);
    world.run(2_000);
    let at = world.write_unsealed("j", job("j", "@every 1s"), u64::MAX);
    assert_eq!(world.send_command("a", Command::Accept("j".parse().unwrap(), at)), Answer::Done);
    world.write_unsealed("j", job("j", "@every 1s"), u64::MAX);
    assert_eq!(world.send_command("a", Command::Delete("j".parse().unwrap())), Answer::Done);
}

#[test]
fn a_user_whose_entry_has_no_seal_is_none_and_can_be_deleted_or_created_anew() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(2_000);
    let ann = super::principals::ann();
    let key = keys::principal(PrincipalKind::User, &ann.name);
    let unsealed = PrincipalRecord::Unsealed { principal: Box::new(ann.clone()), version: 3 };
    let mut write = || {
        let write = Write::Put { key: key.clone(), value: encode(&unsealed), owner: None };
        let found = world.store.read(core::slice::from_ref(&key));
        let guard = match &found[0].entry {
            Some(entry) => Guard::At(key.clone(), entry.revision),
            None => Guard::Absent(key.clone()),
        };
        world.store.commit(Mono(world.now), &Txn { guards: [guard].into(), writes: [write].into() });
        world.run(100);
        let view = world.actors[&"a".parse::<NodeName>().unwrap()].node.view();
        assert_eq!(view.principals(PrincipalKind::User).count(), 0);
    };
    write();
    let said = world.events.iter().filter(|event| event.contains("user ann is not let in")).count();
    assert_eq!(said, 2, "{:?}", world.events);
    let delete = Command::DeletePrincipal(PrincipalKind::User, ann.name.clone());
    assert_eq!(world.send_command("a", delete), Answer::Done);
    assert_eq!(world.send_command("a", Command::Principal(Box::new(ann), 0)), Answer::Done);
}
