//! Cases of races: one client wins, the others get the winner's entry, and nothing is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{Change, Entry, Guard, LeaseId, Revision, Txn, TxnOutcome, Write};

use tokio::task::JoinHandle;

use super::{MachineStall, Stage, absent, at, born, changes_until, delete, key, present, put, put_by, txn};
use crate::Registry;

/// How many clients race.
const RACERS: usize = 16;

/// How many connections they share.
const CONNECTIONS: usize = 4;

/// How often they race, and in how many places at once: else an engine that waits for a disk waits a thousand times.
const ROUNDS: usize = 1_000;
const PLACES: usize = 20;

async fn connections(stage: &Stage) -> Vec<Arc<dyn Registry>> {
    let mut connections = vec![stage.registry.clone()];
    while connections.len() < CONNECTIONS {
        connections.push(stage.connect_again().await);
    }
    connections
}

/// A race in progress, in the clients' order.
type Race = Vec<JoinHandle<TxnOutcome>>;

/// Starts all transactions at once.
fn start(connections: &[Arc<dyn Registry>], of: impl Fn(usize) -> Txn) -> Race {
    let racers = (0..RACERS).map(|racer| {
        let (registry, txn) = (connections[racer % connections.len()].clone(), of(racer));
        tokio::spawn(async move { commit_until_answered(&registry, &txn).await })
    });
    racers.collect()
}

/// Sends a transaction until it is answered: on a slow machine an engine may time out the last of many requests. A
/// client that finds its own value then has won before.
async fn commit_until_answered(registry: &Arc<dyn Registry>, txn: &Txn) -> TxnOutcome {
    let is_own = |change: &Change| {
        txn.writes.iter().any(|write| match write {
            Write::Put { key, value, .. } => {
                *key == change.key && change.entry.as_ref().is_some_and(|entry| entry.value == *value)
            }
            Write::Delete { .. } => false,
        })
    };
    let mut outcome = registry.commit(vec![txn.clone()]).await.remove(0);
    if outcome != TxnOutcome::Unknown {
        return outcome;
    }
    while outcome == TxnOutcome::Unknown {
        outcome = registry.commit(vec![txn.clone()]).await.remove(0);
    }
    let TxnOutcome::Refused(found) = &outcome else { return outcome };
    let own = found.iter().find(|change| is_own(change)).and_then(|change| change.entry.as_ref());
    own.map_or(outcome.clone(), |entry| TxnOutcome::Applied(entry.revision))
}

async fn end(race: Race) -> Vec<TxnOutcome> {
    let mut outcomes = Vec::new();
    for racer in race {
        outcomes.push(racer.await.expect("a racer ends"));
    }
    outcomes
}

async fn race(connections: &[Arc<dyn Registry>], of: impl Fn(usize) -> Txn) -> Vec<TxnOutcome> {
    end(start(connections, of)).await
}

/// The winner, and the revision.
fn winner(outcomes: &[TxnOutcome]) -> (usize, Revision) {
    let won = outcomes.iter().enumerate().filter_map(|(racer, outcome)| match outcome {
        TxnOutcome::Applied(revision) => Some((racer, *revision)),
        TxnOutcome::Refused(_) => None,
        TxnOutcome::Unknown => panic!("racer {racer} was not answered"),
    });
    let won: Vec<_> = won.collect();
    assert_eq!(won.len(), 1, "winners: {won:?}");
    won[0]
}

/// Checks that all but the winner get the present entry.
fn check_losers(outcomes: &[TxnOutcome], entry: &Entry) {
    for outcome in outcomes {
        if let TxnOutcome::Refused(found) = outcome {
            assert_eq!(found[0].entry.as_ref(), Some(entry), "a loser is told who won");
        }
    }
}

/// proves: S1-06, S4-11, S4-24
pub async fn of_sixteen_who_insert_one_wins(stage: Stage) {
    let connections = connections(&stage).await;
    for round in 0..ROUNDS / PLACES {
        let locks: Vec<_> = (0..PLACES).map(|place| format!("lock/{round}/{place}")).collect();
        let insert =
            |lock: &String| start(&connections, |racer| txn([absent(lock)], [put(lock, &racer.to_string())]));
        let races: Vec<_> = locks.iter().map(insert).collect();
        let mut won = Vec::new();
        for race in races {
            won.push(end(race).await);
        }
        let found = stage.registry.read(locks.iter().map(|lock| key(lock)).collect()).await;
        for (outcomes, found) in won.iter().zip(found.expect("the locks")) {
            let ((racer, revision), entry) = (winner(outcomes), found.entry.expect("the lock is there"));
            let value = String::from_utf8_lossy(&entry.value).into_owned();
            assert_eq!((value, entry.born), (racer.to_string(), revision));
            check_losers(outcomes, &entry);
        }
    }
}

/// proves: S1-06, S4-29
pub async fn of_sixteen_who_replace_one_wins(stage: Stage) {
    let connections = connections(&stage).await;
    let places: Vec<_> = (0..PLACES).map(|place| format!("job/{place}/assignment")).collect();
    let mut last = Vec::new();
    for place in &places {
        last.push(stage.commit_applied([], [put(place, "free")]).await);
    }
    for _ in 0..ROUNDS / PLACES {
        let replace = |(place, last): (&String, &Revision)| {
            start(&connections, |racer| txn([at(place, *last)], [put(place, &racer.to_string())]))
        };
        let races: Vec<_> = places.iter().zip(&last).map(replace).collect();
        let mut won = Vec::new();
        for race in races {
            won.push(end(race).await);
        }
        let found = stage.registry.read(places.iter().map(|place| key(place)).collect()).await;
        for ((outcomes, found), last) in won.iter().zip(found.expect("the places")).zip(&mut last) {
            let ((racer, revision), entry) = (winner(outcomes), found.entry.expect("the place is there"));
            let value = String::from_utf8_lossy(&entry.value).into_owned();
            assert_eq!((value, entry.revision), (racer.to_string(), revision));
            assert!(revision > *last);
            check_losers(outcomes, &entry);
            *last = revision;
        }
    }
}

/// proves: S1-09
pub async fn no_increment_is_lost(stage: Stage) {
    const EACH: u32 = 25;
    stage.commit_applied([], [put("count", "0")]).await;
    let other = stage.connect_again().await;
    let adders: Vec<_> = (0..8)
        .map(|adder| {
            let registry = if adder % 2 == 0 { stage.registry.clone() } else { other.clone() };
            tokio::spawn(async move {
                for _ in 0..EACH {
                    add_one(&registry).await;
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.expect("an adder ends");
    }
    assert_eq!(stage.value("count").await, Some((8 * EACH).to_string()));
}

async fn add_one(registry: &Arc<dyn Registry>) {
    loop {
        let found = registry.read(vec![key("count")]).await.expect("the count").remove(0);
        let entry = found.entry.expect("the count is there");
        let count: u32 = String::from_utf8_lossy(&entry.value).parse().expect("a number");
        let next = txn([at("count", entry.revision)], [put("count", &(count + 1).to_string())]);
        if let TxnOutcome::Applied(_) = registry.commit(vec![next]).await.remove(0) {
            return;
        }
    }
}

/// The protocol relies on this (docs/design/protocol.md): no takeover from a living owner, however often it is tried.
pub async fn a_takeover_needs_the_member_to_be_gone(stage: Stage) -> Result<(), MachineStall> {
    let connections = connections(&stage).await;
    let mut held = stage.short_lease().await;
    let member = put_by(held.lease, "node/d@1", "");
    stage.commit_applied_by(&held, [Guard::Open(held.lease)], [member]).await?;
    let place = stage.commit_applied([], [put("job/a/assignment", "d@1")]).await;
    let takeover = |racer: usize| {
        txn(
            [at("job/a/assignment", place), absent("node/d@1")],
            [put("job/a/assignment", &racer.to_string())],
        )
    };
    for _ in 0..5 {
        stage.renew_timed(&mut held).await?;
        let outcomes = race(&connections, takeover).await;
        // A living owner is not taken over.
        stage.expect_open(&held, outcomes.iter().all(|outcome| matches!(outcome, TxnOutcome::Refused(_))))?;
    }
    stage.wait_removed(&held, async || stage.holds([absent("node/d@1")]).await).await;
    winner(&race(&connections, takeover).await);
    Ok(())
}

pub async fn every_revision_is_given_once(stage: Stage) {
    let connections = connections(&stage).await;
    let mut given = BTreeSet::new();
    for round in 0..20 {
        let outcomes =
            race(&connections, |racer| txn([], [put(&format!("k{racer}"), &round.to_string())])).await;
        for outcome in outcomes {
            let TxnOutcome::Applied(revision) = outcome else { panic!("should have been made: {outcome:?}") };
            assert!(given.insert(revision), "{revision} was given twice");
        }
    }
}

/// proves: I46
pub async fn a_dropped_commit_is_made_whole_or_not_at_all(stage: Stage) {
    for round in 0..100_u64 {
        let (left, right) = (format!("l{round}"), format!("r{round}"));
        let commit = stage.registry.commit(vec![txn([absent(&left)], [put(&left, "1"), put(&right, "1")])]);
        let _ = tokio::time::timeout(Duration::from_micros(round * 7 % 300), commit).await;
        // Sent again, as a client does without an answer: whatever the first try did, now both are there.
        stage.commit(txn([absent(&left)], [put(&left, "1"), put(&right, "1")])).await;
        let found = stage.read([&left, &right]).await;
        let revisions: BTreeSet<_> = found.iter().map(|c| c.entry.as_ref().map(|e| e.revision)).collect();
        assert!(revisions.len() == 1 && !revisions.contains(&None), "round {round}: {found:?}");
    }
}

/// proves: S4-25, I10
pub async fn a_close_and_a_renewal_never_both_win(stage: Stage) {
    let other = stage.connect_again().await;
    for _ in 0..30 {
        let lease: LeaseId = stage.lease().await;
        let renewals: Vec<_> = (0..4)
            .map(|_| {
                let registry = other.clone();
                tokio::spawn(async move { registry.renew(lease).await.expect("an answer") })
            })
            .collect();
        stage.close(lease).await;
        assert!(stage.renew(lease).await.is_none(), "renewed after its close was answered");
        for renewal in renewals {
            renewal.await.expect("a renewal ends");
        }
        assert!(!stage.holds([Guard::Open(lease)]).await, "a renewal revived a closed lease");
    }
}

/// How many of each kind of writer, over so few keys that they always meet.
const WRITERS: usize = 4;
const HOT: [&str; 2] = ["run/a/claim", "run/b/claim"];
const COLD: &str = "job/a/triggers";

/// Writers of one run state, and of a run state and a cold entry together, add to the same numbers. Every addition that
/// was answered is in the sum, and who reads never sees one go back.
pub async fn run_states_lose_no_increment_beside_other_writers(stage: Stage) {
    const EACH: u64 = 60;
    let connections = connections(&stage).await;
    stage.commit_applied([], [HOT[0], HOT[1], COLD].map(|at| put(at, "0"))).await;
    let adders: Vec<_> = (0..3 * WRITERS)
        .map(|adder| {
            let registry = connections[adder % CONNECTIONS].clone();
            let hot = HOT[adder % 2];
            // One in three writes the cold entry as well.
            let keys = if adder % 3 == 0 { vec![hot, COLD] } else { vec![hot] };
            tokio::spawn(async move {
                for _ in 0..EACH {
                    add_to(&registry, &keys).await;
                }
            })
        })
        .collect();
    let mut seen = (Revision(0), [0; 3]);
    let mut feed = stage.watch(stage.list().await.revision).await;
    while !adders.iter().all(JoinHandle::is_finished) {
        let found = connections[1].read([HOT[0], HOT[1], COLD].map(key).to_vec()).await.expect("the numbers");
        let now = (found[0].revision, [0, 1, 2].map(|place: usize| number(&found[place])));
        assert!(
            now.0 >= seen.0 && now.1.iter().zip(seen.1).all(|(now, seen)| *now >= seen),
            "{now:?} {seen:?}"
        );
        assert!(
            found.iter().all(|it| it.entry.as_ref().is_some_and(|e| e.revision <= it.revision)),
            "{found:?}"
        );
        seen = now;
        let listed = connections[2].list().await.expect("the listing");
        assert!(listed.revision >= seen.0, "{} is behind {seen:?}", listed.revision);
        assert!(number(&listed.changes[0]) >= seen.1[2], "{listed:?} {seen:?}");
    }
    for adder in adders {
        adder.await.expect("an adder ends");
    }
    let sums = stage.read([HOT[0], HOT[1], COLD]).await.iter().map(number).collect::<Vec<_>>();
    let writers = 3 * WRITERS as u64;
    assert_eq!((sums[0] + sums[1], sums[2]), (writers * EACH, writers / 3 * EACH));
    let mut last = 0;
    for change in changes_until(&mut feed, stage.list().await.revision).await {
        assert!(change.key == key(COLD) && number(&change) > last, "{change:?} after {last}");
        last = number(&change);
    }
    assert_eq!(last, sums[2]);
}

fn number(change: &Change) -> u64 {
    let entry = change.entry.as_ref().expect("the number is there");
    String::from_utf8_lossy(&entry.value).parse().expect("a number")
}

/// Adds one to each number at once. A refusal tells the numbers as they are.
async fn add_to(registry: &Arc<dyn Registry>, keys: &[&str]) {
    let mut found = registry.read(keys.iter().map(|at| key(at)).collect()).await.expect("the numbers");
    loop {
        let entries =
            || found.iter().filter_map(|it| Some((it.key.as_str(), it.entry.as_ref()?.revision, number(it))));
        let next = txn(
            entries().map(|(name, revision, _)| at(name, revision)).collect::<Vec<_>>(),
            entries().map(|(name, _, number)| put(name, &(number + 1).to_string())).collect::<Vec<_>>(),
        );
        match registry.commit(vec![next]).await.remove(0) {
            TxnOutcome::Applied(_) => return,
            TxnOutcome::Refused(now) => found = now,
            TxnOutcome::Unknown => panic!("should have been answered: {:?}", registry.last_error()),
        }
    }
}

/// A member that is gone writes no run state: every write was made while the life that guards it lasted.
pub async fn a_run_state_is_written_in_the_life_that_guards_it(stage: Stage) {
    const LIVES: u32 = 60;
    let connections = connections(&stage).await;
    let (announced, lives) =
        tokio::sync::watch::channel(Some(stage.commit_applied([], [put("node/a", "")]).await));
    let (wrote, mut writes) = tokio::sync::mpsc::unbounded_channel();
    let writers: Vec<_> = (0..2 * WRITERS)
        .map(|writer| {
            let (registry, lives, wrote) =
                (connections[writer % CONNECTIONS].clone(), lives.clone(), wrote.clone());
            tokio::spawn(async move {
                let (name, mut known, mut written) = (format!("run/j/{writer}"), None, Vec::new());
                while let Some(life) = { *lives.borrow() } {
                    let own = known.map_or_else(|| absent(&name), |known| at(&name, known));
                    let next = txn([born("node/a", life), own], [put(&name, "")]);
                    match registry.commit(vec![next]).await.remove(0) {
                        TxnOutcome::Applied(revision) => {
                            known = Some(revision);
                            written.push((life, revision));
                            let _ = wrote.send(life);
                        }
                        TxnOutcome::Refused(_) => {}
                        TxnOutcome::Unknown => {
                            panic!("should have been answered: {:?}", registry.last_error())
                        }
                    }
                    // An engine that answers at once never waits.
                    tokio::task::yield_now().await;
                }
                written
            })
        })
        .collect();
    let (mut ends, mut life) = (std::collections::BTreeMap::new(), lives.borrow().expect("the first life"));
    for _ in 0..LIVES {
        ends.insert(life, stage.commit_applied([present("node/a")], [delete("node/a")]).await);
        life = stage.commit_applied([absent("node/a")], [put("node/a", "")]).await;
        announced.send_replace(Some(life));
        // The next life begins while all of them write in this one.
        while writes.recv().await != Some(life) {}
    }
    announced.send_replace(None);
    let mut written = 0;
    for writer in writers {
        for (life, revision) in writer.await.expect("a writer ends") {
            let end = ends.get(&life).copied().unwrap_or(Revision(u64::MAX));
            assert!(
                life < revision && revision < end,
                "written at {revision} in the life from {life} to {end}"
            );
            written += 1;
        }
    }
    assert!(written > 0, "they wrote in some life");
}
