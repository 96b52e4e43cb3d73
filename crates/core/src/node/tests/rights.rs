//! Roles on jobs with certain labels: the labels at the moment of the change decide.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use super::*;
use crate::ids::{Fire, JobName, Shard};
use crate::principal::{Grants, JobRights, Role};

fn labelled(name: &str, team: &str, text: &str) -> JobFile {
    let mut file = JobFile::new(name.parse().unwrap(), "@every 60s", Work::Function("f".to_string()));
    file.description = text.to_string();
    let labels: BTreeMap<String, String> = match team {
        "" => BTreeMap::new(),
        team => BTreeMap::from([("team".to_string(), team.to_string())]),
    };
    file.labels = labels.try_into().unwrap();
    file
}

/// The command of a caller with these roles, at an address that demands this one.
fn as_one_of(grants: &str, role: Role, command: Command) -> Command {
    let grants = Grants(grants.split(' ').map(|grant| grant.parse().unwrap()).collect());
    Command::Within(Box::new(JobRights { grants, role }), Box::new(command))
}

const BILLING: &str = "author:default:team=billing";

impl TestCluster {
    #[track_caller]
    fn allowed(&mut self, command: Command) {
        let answer = self.send_command("a", command);
        assert!(!matches!(answer, Answer::Refused(..)), "{answer:?}");
    }

    #[track_caller]
    fn forbidden(&mut self, command: Command) -> String {
        let answer = self.send_command("a", command);
        let Answer::Refused(Refusal::Forbidden, why) = answer else { panic!("{answer:?}") };
        why
    }
}

#[test]
fn an_author_by_labels_neither_takes_over_a_job_nor_gives_one_away() {
    let mut world = TestCluster::with(&["a"]);
    world.run(3_000);
    let apply = |file| as_one_of(BILLING, Role::Author, Command::Apply([file].into()));
    world.allowed(apply(labelled("own", "billing", "1")));
    world.allowed(apply(labelled("own", "billing", "2")));
    world.allowed(Command::Apply([labelled("other", "core", "1"), labelled("bare", "", "1")].into()));
    world.run(1_000);
    let why = world.forbidden(apply(labelled("own", "core", "3")));
    assert!(
        why.contains("job own, which would have team=core: you have author:default:team=billing"),
        "{why}"
    );
    world.forbidden(apply(labelled("own", "", "3")));
    let why = world.forbidden(apply(labelled("other", "billing", "2")));
    assert!(why.contains("job other, which has team=core"), "{why}");
    world.forbidden(apply(labelled("bare", "billing", "2")));
    world.forbidden(apply(labelled("new", "core", "1")));
    let delete = |name: &str| as_one_of(BILLING, Role::Author, Command::Delete(name.parse().unwrap()));
    world.forbidden(delete("other"));
    world.allowed(delete("own"));
    world.run(1_000);
    world.allowed(apply(labelled("own", "billing", "1")));
}

#[test]
fn an_operator_by_labels_changes_the_jobs_that_have_them_now() {
    let mut world = TestCluster::with(&["a"]);
    world.run(3_000);
    world.allowed(Command::Apply([labelled("j", "billing", "1")].into()));
    let by = |command| as_one_of("operator:default:team=billing viewer", Role::Operator, command);
    let name = || "j".parse::<JobName>().unwrap();
    world.allowed(by(Command::Pause(name())));
    world.allowed(by(Command::RunNow(name(), "one".parse().unwrap())));
    world.run(1_000);
    world.allowed(Command::Apply([labelled("j", "core", "1")].into()));
    let run = RunId { job: name(), fire: Fire::Asked("one".parse().unwrap()), shard: Shard(0) };
    for command in [
        Command::Pause(name()),
        Command::Resume(name()),
        Command::Disable(name()),
        Command::RunNow(name(), "two".parse().unwrap()),
        Command::Kill(run.clone()),
    ] {
        world.forbidden(by(command));
    }
    world.allowed(Command::Delete(name()));
    world.run(1_000);
    let gone = world.send_command("a", by(Command::Pause(name())));
    assert!(matches!(gone, Answer::Refused(Refusal::NotFound, _)), "{gone:?}");
}

/// A condition on the version and a role by labels hold together.
#[test]
fn both_conditions_of_a_command_are_looked_at() {
    let mut world = TestCluster::with(&["a"]);
    world.run(3_000);
    world.allowed(Command::Apply([labelled("j", "billing", "1")].into()));
    let pause = |versions: &[u64]| {
        let pause = Command::Pause("j".parse().unwrap());
        let pause = Command::If(crate::input::Precondition::Version(versions.into()), Box::new(pause));
        as_one_of("operator:default:team=billing", Role::Operator, pause)
    };
    let stale = world.send_command("a", pause(&[7]));
    assert!(matches!(stale, Answer::Refused(Refusal::Stale(1), _)), "{stale:?}");
    world.allowed(pause(&[1]));
    world.allowed(Command::Apply([labelled("j", "core", "1")].into()));
    world.forbidden(pause(&[7]));
}
