//! The alarm of a node that holds more jobs than it should.

use super::*;
use crate::keys;
use crate::registry::TxnOutcome;

fn alarms(world: &TestCluster) -> Vec<&str> {
    world.events.iter().filter(|event| event.starts_with("alarm")).map(String::as_str).collect()
}

/// A world in which a node with threshold nought just sent its claim of the one job there is; and that claim.
fn claiming() -> (TestCluster, NodeName, Ticket, Txn) {
    let mut world = TestCluster::default();
    world.add(Settings { alarm: 0, ..settings("a") });
    world.run(5_000);
    world.delay = 30;
    let name: NodeName = "a".parse().unwrap();
    world.give(&name, Input::Asked(CommandId(1), Command::Apply([job("j", "@every 1h")].into())));
    world.run(40);
    let place = keys::assignment(&"j".parse().unwrap());
    let claim = world.commits.extract_if(.., |(.., txn)| txn.writes.iter().any(|w| *w.key() == place)).next();
    let (_, _, ticket, txn) = claim.unwrap();
    (world, name, ticket, txn)
}

/// proves: I40, S1-25
#[test]
fn a_claim_that_is_made_after_it_was_refused_sounds_the_alarm() {
    let (mut world, name, ticket, txn) = claiming();
    let refused = TxnOutcome::Refused(world.store.found(&txn));
    world.give(&name, Input::Committed { ticket, outcome: refused });
    assert_eq!((world.held("a"), alarms(&world)), (0, [].into()));
    // The first try of it, that was under way all the time.
    world.store.commit(Mono(world.now), &txn);
    world.deliver();
    assert_eq!((world.held("a"), alarms(&world)), (1, ["alarm: holds 1 job, threshold is 0"].into()));
}

/// proves: I40
#[test]
fn a_claim_whose_news_come_before_its_answer_sounds_the_alarm_once() {
    let (mut world, name, ticket, txn) = claiming();
    let outcome = world.store.commit(Mono(world.now), &txn);
    world.deliver();
    assert_eq!((world.held("a"), alarms(&world).len()), (1, 0), "the answer tells");
    world.give(&name, Input::Committed { ticket, outcome });
    world.run(1_000);
    assert_eq!(alarms(&world).len(), 1);
}
