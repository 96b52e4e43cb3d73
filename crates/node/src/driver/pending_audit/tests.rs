//! Entries about a change that may have been made.

use evenkeel_core::job::{Job, JobFile, Spec, Work};
use evenkeel_core::record::SpecRecord;
use evenkeel_core::time::Wall;

use super::super::declared_change::DeclaredChange;
use super::*;
use crate::history::JobVersionEntry;
use crate::job_version::JobChange;

const ASK: CommandId = CommandId(1);

/// A change whose entry is durable; `sent` says whether it went to the registry.
fn tried(command: Command, sent: bool) -> PendingAudit {
    let mut trails = PendingAudit::new("a".parse().unwrap(), "life".into());
    let now = Now { mono: Mono(0), wall: Wall(0) };
    trails.begin(ASK, Requester::process(), command, now);
    trails.take_command(ASK);
    let part = ActionPart { ticket: Ticket(1), made: false, change: ChangeSummary::default() };
    trails.open.get_mut(&ASK).unwrap().parts.extend(sent.then_some((0, part)));
    trails
}

fn disable() -> Command {
    Command::Disable("j".parse().unwrap())
}

fn outcomes(entries: &[HistoryWrite]) -> Vec<AuditOutcome> {
    let outcome = |entry: &HistoryWrite| match entry {
        HistoryWrite::Audit(noted) => noted.record.outcome,
        _ => panic!("another entry"),
    };
    entries.iter().map(outcome).collect()
}

fn unknown() -> Answer {
    Answer::Refused(Refusal::Unknown, "not known".into())
}

#[test]
fn what_was_sent_is_unknown_until_the_registry_answers_and_what_was_not_is_refused() {
    for (made, outcome) in [(true, AuditOutcome::Applied), (false, AuditOutcome::Refused)] {
        let mut trails = tried(disable(), true);
        assert_eq!(outcomes(&trails.answered(ASK, &unknown())), [AuditOutcome::Unknown]);
        assert_eq!(outcomes(&trails.concluded((ASK, 0), made)), [outcome]);
    }
    let refused = Answer::Refused(Refusal::Unavailable, "no lease".into());
    assert_eq!(outcomes(&tried(disable(), false).answered(ASK, &refused)), [AuditOutcome::Refused]);
}

#[test]
fn a_run_that_may_have_been_ended_is_unknown() {
    let kill = Command::Kill("j:1:0".parse().unwrap());
    assert_eq!(outcomes(&tried(kill, false).answered(ASK, &unknown())), [AuditOutcome::Unknown]);
}

#[test]
fn of_a_node_that_ends_what_was_never_sent_is_refused() {
    for (sent, outcome) in [(true, AuditOutcome::Unknown), (false, AuditOutcome::Refused)] {
        let mut trails = tried(disable(), sent);
        assert_eq!(trails.may_be_done(ASK), sent);
        assert_eq!(outcomes(&trails.close()), [outcome]);
    }
}

fn spec(schedule: &str, version: u64) -> Spec {
    let file = JobFile::new("j".parse().unwrap(), schedule, Work::Function("f".into()));
    Spec::new(Job::parse(file).unwrap(), version, Wall(0))
}

/// A command whose transaction is under way, which changes a job from one spec to another.
fn declares(command: Command, old: Option<&Spec>, new: SpecRecord) -> PendingAudit {
    let mut trails = tried(command, true);
    let part = trails.open.get_mut(&ASK).unwrap().parts.get_mut(&0).unwrap();
    part.change.declared = DeclaredChange::of(&"j".parse().unwrap(), old, &new);
    trails
}

fn versions(entries: Vec<HistoryWrite>) -> Vec<JobVersionEntry> {
    let version = |entry| if let HistoryWrite::JobVersion(entry) = entry { Some(*entry) } else { None };
    entries.into_iter().filter_map(version).collect()
}

#[test]
fn what_is_declared_is_written_when_the_registry_has_it_and_once() {
    let live = |schedule| SpecRecord::Live(Box::new(spec(schedule, 8)));
    let file = || spec("@daily", 1).job.to_file();
    let (before, apply) = (spec("@hourly", 7), Command::Apply(vec![file()]));
    let rollback = Command::Rollback(Box::new(file()), 3);
    let rollback = Command::If(evenkeel_core::input::Precondition::Exists, Box::new(rollback));
    let delete = Command::Delete("j".parse().unwrap());
    let accept = Command::Accept("j".parse().unwrap(), evenkeel_core::registry::Revision(5));
    for (command, old, new, change, restored) in [
        (apply.clone(), None, live("@daily"), JobChange::Created, None),
        (apply.clone(), Some(&before), live("@daily"), JobChange::Changed, None),
        (rollback, Some(&before), live("@daily"), JobChange::RolledBack, Some(3)),
        (accept, None, live("@daily"), JobChange::Accepted, None),
        (delete, Some(&before), SpecRecord::Deleted { version: 8 }, JobChange::Deleted, None),
    ] {
        let mut trails = declares(command.clone(), old, new.clone());
        let written = versions(trails.concluded((ASK, 0), true));
        let [entry] = &written[..] else { panic!("{change}: {written:?}") };
        assert_eq!(
            (entry.version.change, entry.version.version, entry.version.restored),
            (change, 8, restored)
        );
        assert_eq!(entry.version.asker, Some(Requester::process()));
        assert_eq!(entry.job.is_none(), change == JobChange::Deleted);
        assert_eq!(entry.replaced, old.map(|old| (7, Box::new(old.job.clone()))));
        assert!(versions(trails.concluded((ASK, 0), true)).is_empty(), "{change}: once");
        assert!(versions(declares(command, old, new).concluded((ASK, 0), false)).is_empty(), "not made");
    }
    // Its caller stopped waiting: it is written all the same.
    let mut trails = declares(apply, Some(&before), live("@daily"));
    assert_eq!(outcomes(&trails.answered(ASK, &unknown())), [AuditOutcome::Unknown]);
    assert_eq!(versions(trails.concluded((ASK, 0), true)).len(), 1);
}

#[test]
fn a_switch_is_no_version() {
    let before = spec("@daily", 7);
    let mut paused = Spec { version: 8, paused: true, ..before.clone() };
    let origin = evenkeel_core::job::SwitchOrigin { at: Wall(7), by: "ops".into() };
    paused.switch_enabled(evenkeel_core::job::SwitchPosition::Off, origin);
    let name = "j".parse().unwrap();
    let change = |old: &Spec, new: &Spec| {
        DeclaredChange::of(&name, Some(old), &SpecRecord::Live(Box::new(new.clone())))
    };
    assert_eq!(change(&before, &paused), None);
    assert_eq!(change(&paused, &before), None);
    assert!(change(&paused, &spec("@hourly", 9)).is_some());
}
