//! Entries about a change that may have been made.

use evenkeel_core::time::Wall;

use super::*;

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
