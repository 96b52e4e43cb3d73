//! Checks whether a history of concurrent calls is linearizable: each call took effect at some moment between its
//! begin and its end.
//!
//! In general that takes a search. Here every answer has the revision at which it was true, so the order is known and
//! only has to be checked: replayed in that order each answer must be right, and no call may come before one that had
//! ended when it began.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Entry, Guard, Revision, Txn, TxnOutcome, Write};

/// A call and its answer.
#[derive(Clone, Debug)]
pub(super) enum CallRecord {
    /// One call of `commit`.
    Commit(Vec<Txn>, Vec<TxnOutcome>),
    /// One call of `read`.
    Read(Vec<Key>, Vec<Change>),
    /// One call of `list`.
    List(Vec<Change>, Revision),
}

/// One recorded call. A call whose end is below another's begin was answered before that one was made.
#[derive(Clone, Debug)]
pub(super) struct HistoryCall {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) record: CallRecord,
    /// Whether an answer was lost on the way to this one.
    pub(super) lost: bool,
}

/// Checks a history that began on an empty registry, of transactions without leases whose values are all different. One
/// that only deletes must guard on the key's presence or absence, for its answer alone does not say whether it changed
/// anything.
///
/// A transaction whose answer is unknown counts as made if its value was seen; so it must write one that can be seen.
///
/// # Errors
/// The contradiction.
pub(super) fn check(calls: &[HistoryCall]) -> Result<(), String> {
    let past = KeyTimeline::replay(&applied_txns(calls))?;
    for call in calls {
        past.check_answer(call)?;
    }
    check_real_time(calls, &past)
}

/// A transaction that was made.
struct AppliedTxn<'a> {
    call: usize,
    place: usize,
    txn: &'a Txn,
}

/// Every transaction that was made, by revision.
fn applied_txns(calls: &[HistoryCall]) -> BTreeMap<Revision, Vec<AppliedTxn<'_>>> {
    let seen = observed_values(calls);
    let mut made = BTreeMap::<_, Vec<_>>::new();
    for (call, place, txn, outcome) in transactions(calls) {
        let revision = match outcome {
            TxnOutcome::Applied(revision) => Some(*revision),
            TxnOutcome::Refused(_) => None,
            TxnOutcome::Unknown => values(txn).find_map(|value| seen.get(value).copied()),
        };
        if let Some(revision) = revision {
            made.entry(revision).or_default().push(AppliedTxn { call, place, txn });
        }
    }
    made
}

fn transactions(calls: &[HistoryCall]) -> impl Iterator<Item = (usize, usize, &Txn, &TxnOutcome)> {
    calls.iter().enumerate().flat_map(|(call, it)| {
        let both = match &it.record {
            CallRecord::Commit(txns, outcomes) => Some(txns.iter().zip(outcomes)),
            CallRecord::Read(..) | CallRecord::List(..) => None,
        };
        let both = both.into_iter().flatten().enumerate();
        both.map(move |(place, (txn, outcome))| (call, place, txn, outcome))
    })
}

fn values(txn: &Txn) -> impl Iterator<Item = &[u8]> {
    txn.writes.iter().filter_map(|write| match write {
        Write::Put { value, .. } => Some(&**value),
        Write::Delete { .. } => None,
    })
}

/// Every observed value, and when it was written.
fn observed_values(calls: &[HistoryCall]) -> BTreeMap<&[u8], Revision> {
    let told = calls.iter().flat_map(|call| -> Vec<&Change> {
        match &call.record {
            CallRecord::Read(_, found) | CallRecord::List(found, _) => found.iter().collect(),
            CallRecord::Commit(_, outcomes) => outcomes.iter().flat_map(refused).collect(),
        }
    });
    told.filter_map(|change| change.entry.as_ref()).map(|entry| (&*entry.value, entry.revision)).collect()
}

fn refused(outcome: &TxnOutcome) -> &[Change] {
    match outcome {
        TxnOutcome::Refused(found) => found,
        TxnOutcome::Applied(_) | TxnOutcome::Unknown => &[],
    }
}

/// The states of every key, by the revision of each.
#[derive(Default)]
struct KeyTimeline {
    keys: BTreeMap<Key, BTreeMap<Revision, Option<Entry>>>,
    /// The revisions of changes.
    change_points: BTreeSet<Revision>,
    /// The calls' transactions that changed something.
    changed: BTreeMap<(usize, usize), Revision>,
}

impl KeyTimeline {
    /// Replays all transactions in the order of their revisions.
    fn replay(made: &BTreeMap<Revision, Vec<AppliedTxn<'_>>>) -> Result<Self, String> {
        let mut past = Self::default();
        for (at, group) in made {
            past.apply_group(*at, group)?;
        }
        Ok(past)
    }

    /// Replays the transactions of one revision: they are of one call, and independent.
    fn apply_group(&mut self, at: Revision, group: &[AppliedTxn<'_>]) -> Result<(), String> {
        let before = Revision(at.0.saturating_sub(1));
        let (movers, rest): (Vec<_>, Vec<_>) = group.iter().partition(|made| changes_state(made.txn));
        for mover in &movers {
            if !self.guards_hold(mover.txn, before) {
                return Err(format!("made at {at} though a guard did not hold: {:?}", mover.txn));
            }
            let meets =
                |other: &AppliedTxn<'_>| other.place != mover.place && conflicts(other.txn, mover.txn);
            if movers.iter().any(|other| other.call != mover.call || meets(other)) {
                return Err(format!("{at} was given twice: {:?}", mover.txn));
            }
        }
        for mover in &movers {
            for write in &mover.txn.writes {
                self.write(at, before, write);
            }
            self.changed.insert((mover.call, mover.place), at);
        }
        if !movers.is_empty() {
            self.change_points.insert(at);
        }
        for made in rest {
            if !self.guards_hold(made.txn, at) {
                return Err(format!("made at {at} though a guard did not hold: {:?}", made.txn));
            }
        }
        Ok(())
    }

    fn write(&mut self, at: Revision, before: Revision, write: &Write) {
        let now = match write {
            Write::Put { key, value, owner } => {
                let born = self.entry(key, before).map_or(at, |entry| entry.born);
                Some(Entry { value: value.clone(), revision: at, born, owner: *owner })
            }
            Write::Delete { .. } => None,
        };
        self.keys.entry(write.key().clone()).or_default().insert(at, now);
    }

    fn entry(&self, key: &Key, at: Revision) -> Option<&Entry> {
        self.keys.get(key)?.range(..=at).next_back()?.1.as_ref()
    }

    fn guards_hold(&self, txn: &Txn, at: Revision) -> bool {
        txn.guards.iter().all(|guard| match guard {
            Guard::Absent(key) => self.entry(key, at).is_none(),
            Guard::Present(key) => self.entry(key, at).is_some(),
            Guard::At(key, revision) => self.entry(key, at).is_some_and(|it| it.revision == *revision),
            Guard::Born(key, born) => self.entry(key, at).is_some_and(|it| it.born == *born),
            Guard::Open(_) => true,
        })
    }

    /// The last change up to a revision that was in an answer.
    fn position(&self, told: Revision) -> Revision {
        self.change_points.range(..=told).next_back().copied().unwrap_or_default()
    }

    /// Checks that the answer was true at its revision.
    fn check_answer(&self, call: &HistoryCall) -> Result<(), String> {
        match &call.record {
            CallRecord::Read(keys, found) => {
                let asked = keys.iter().eq(found.iter().map(|change| &change.key));
                let one = found.windows(2).all(|two| two[0].revision == two[1].revision);
                if !asked || !one {
                    return Err(format!("asked for {keys:?}, told {found:?}"));
                }
                self.check_changes(found)
            }
            CallRecord::List(found, at) => {
                let told: BTreeSet<_> = found.iter().map(|change| &change.key).collect();
                let there = self.keys.keys().filter(|key| key.is_cold() && self.entry(key, *at).is_some());
                let there: BTreeSet<_> = there.collect();
                if told != there || told.len() != found.len() {
                    return Err(format!("listed {told:?} at {at}, when there were {there:?}"));
                }
                found.iter().try_for_each(|it| self.check_changes(&[Change { revision: *at, ..it.clone() }]))
            }
            CallRecord::Commit(txns, outcomes) => self.check_outcomes(txns, outcomes),
        }
    }

    fn check_changes(&self, found: &[Change]) -> Result<(), String> {
        let wrong =
            found.iter().find(|change| self.entry(&change.key, change.revision) != change.entry.as_ref());
        wrong.map_or(Ok(()), |it| {
            Err(format!("told {it:?}, when there was {:?}", self.entry(&it.key, it.revision)))
        })
    }

    fn check_outcomes(&self, txns: &[Txn], outcomes: &[TxnOutcome]) -> Result<(), String> {
        if txns.len() != outcomes.len() {
            return Err(format!("{} answers to {} transactions", outcomes.len(), txns.len()));
        }
        for (place, (txn, outcome)) in txns.iter().zip(outcomes).enumerate() {
            let found = refused(outcome);
            self.check_changes(found)?;
            if let TxnOutcome::Refused(_) = outcome {
                let told = found.iter().map(|change| &change.key).eq(txn.keys());
                if !told || found.iter().all(|change| self.guards_hold(txn, change.revision)) {
                    return Err(format!("refused for nothing: {txn:?}, told {found:?}"));
                }
            }
            // Of two dependent ones, the earlier goes first.
            for (earlier, before) in txns[..place].iter().zip(outcomes) {
                if conflicts(earlier, txn) && order(before) > order(outcome) {
                    return Err(format!("{txn:?} was answered as if before {earlier:?}"));
                }
            }
        }
        Ok(())
    }
}

/// The revision of an answer; unknown ones have none.
fn order(outcome: &TxnOutcome) -> Option<Revision> {
    match outcome {
        TxnOutcome::Applied(revision) => Some(*revision),
        TxnOutcome::Refused(found) => found.iter().map(|change| change.revision).min(),
        TxnOutcome::Unknown => None,
    }
}

/// Whether one writes what the other names.
fn conflicts(one: &Txn, other: &Txn) -> bool {
    let writes = |a: &Txn, b: &Txn| a.writes.iter().any(|write| b.keys().any(|key| key == write.key()));
    writes(one, other) || writes(other, one)
}

/// Whether it changes anything when it is made: it puts, or deletes a key that it guards as present.
fn changes_state(txn: &Txn) -> bool {
    let there = |key: &Key| {
        let guards = txn.guards.iter().filter(|guard| !matches!(guard, Guard::Absent(_)));
        guards.filter_map(Guard::key).any(|guarded| guarded == key)
    };
    txn.writes.iter().any(|write| match write {
        Write::Put { .. } => true,
        Write::Delete { key } => there(key),
    })
}

/// Checks real time: no call comes before one that ended before it began; one that changed something comes after all of
/// these.
fn check_real_time(calls: &[HistoryCall], past: &KeyTimeline) -> Result<(), String> {
    let mut begun: Vec<_> = calls.iter().enumerate().collect();
    begun.sort_by_key(|(_, call)| call.begin);
    let mut ended: Vec<_> = calls.iter().collect();
    ended.sort_by_key(|call| call.end);
    let mut ended = ended.into_iter().peekable();
    let mut reached = Revision(0);
    for (at, call) in begun {
        while let Some(before) = ended.next_if(|before| before.end < call.begin) {
            let places = reported_revisions(before).into_iter().map(|revision| past.position(revision));
            reached = places.fold(reached, Ord::max);
        }
        let changed = past.changed.range((at, 0)..(at + 1, 0)).map(|(_, revision)| *revision);
        let told = reported_revisions(call).into_iter().map(|revision| (past.position(revision), false));
        for (stands, moved) in told.chain(changed.map(|revision| (revision, true))) {
            if stands < reached || (moved && stands == reached) {
                return Err(format!("begun when {reached} was known, and placed at {stands}: {call:?}"));
            }
        }
    }
    Ok(())
}

/// Every revision in a call's answer.
fn reported_revisions(call: &HistoryCall) -> Vec<Revision> {
    match &call.record {
        CallRecord::Read(_, found) => found.iter().map(|change| change.revision).collect(),
        CallRecord::List(_, revision) => vec![*revision],
        CallRecord::Commit(_, outcomes) => outcomes.iter().filter_map(order).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{absent, at, born, delete, key, put, txn};
    use super::*;

    fn call(begin: u64, end: u64, said: CallRecord) -> HistoryCall {
        HistoryCall { begin, end, record: said, lost: false }
    }

    fn made(begin: u64, end: u64, txn: Txn, at: u64) -> HistoryCall {
        call(begin, end, CallRecord::Commit(vec![txn], vec![TxnOutcome::Applied(Revision(at))]))
    }

    fn refused(begin: u64, end: u64, txn: Txn, found: Vec<Change>) -> HistoryCall {
        call(begin, end, CallRecord::Commit(vec![txn], vec![TxnOutcome::Refused(found)]))
    }

    fn unknown(begin: u64, end: u64, txn: Txn) -> HistoryCall {
        call(begin, end, CallRecord::Commit(vec![txn], vec![TxnOutcome::Unknown]))
    }

    /// `k` with this value at a moment.
    fn entry_at(value: &str, revision: u64, born: u64, at: u64) -> Change {
        let (revision, born) = (Revision(revision), Revision(born));
        let entry = Entry { value: value.as_bytes().into(), revision, born, owner: None };
        Change { key: key("k"), entry: Some(entry), revision: Revision(at) }
    }

    fn none(at: u64) -> Change {
        Change { key: key("k"), entry: None, revision: Revision(at) }
    }

    fn read(begin: u64, end: u64, found: Change) -> HistoryCall {
        call(begin, end, CallRecord::Read(vec![key("k")], vec![found]))
    }

    fn list(begin: u64, end: u64, found: Vec<Change>, at: u64) -> HistoryCall {
        call(begin, end, CallRecord::List(found, Revision(at)))
    }

    fn over(revision: u64, value: &str) -> Txn {
        txn([at("k", Revision(revision))], [put("k", value)])
    }

    fn check_error(calls: &[HistoryCall]) -> String {
        check(calls).expect_err("this cannot have been")
    }

    fn expect_error(calls: &[HistoryCall], what: &str) {
        let why = check_error(calls);
        assert!(why.contains(what), "{why}");
    }

    #[test]
    fn what_was_so_is_accepted() {
        let create = txn([absent("k")], [put("k", "1")]);
        let history = [
            made(1, 4, create.clone(), 3),
            // It began before the other ended: either order is possible.
            read(2, 5, none(2)),
            read(3, 6, entry_at("1", 3, 3, 3)),
            made(7, 8, over(3, "2"), 4),
            refused(9, 10, create, vec![entry_at("2", 4, 3, 5)]),
            made(11, 12, txn([born("k", Revision(3))], [delete("k")]), 6),
            // It changes nothing, and its answer has the revision at which it did not.
            made(13, 14, txn([absent("k")], [delete("k")]), 6),
            list(15, 16, vec![], 9),
            made(17, 18, txn([], [put("k", "3")]), 10),
            list(19, 20, vec![entry_at("3", 10, 10, 10)], 10),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn a_stale_reading_is_found() {
        let first = made(1, 2, txn([], [put("k", "1")]), 1);
        expect_error(&[first.clone(), read(3, 4, none(0))], "begun when 1 was known");
        expect_error(&[first.clone(), list(3, 4, vec![], 0)], "begun when 1 was known");
        expect_error(&[first.clone(), refused(3, 4, over(1, "2"), vec![none(0)])], "begun when 1 was known");
        // A read after another read is no earlier, though the write had not ended.
        let (slow, later) = (made(1, 9, txn([], [put("k", "1")]), 1), read(2, 3, entry_at("1", 1, 1, 1)));
        expect_error(&[slow, later, read(4, 5, none(0))], "begun when 1 was known");
    }

    #[test]
    fn a_lost_update_is_found() {
        let first = made(1, 2, txn([], [put("k", "1")]), 1);
        let history = [first.clone(), made(3, 5, over(1, "2"), 2), made(4, 6, over(1, "3"), 3)];
        expect_error(&history, "a guard did not hold");
        // Answered as made, and never seen.
        let lost = [first, made(3, 4, over(1, "2"), 2), read(5, 6, entry_at("1", 1, 1, 2))];
        expect_error(&lost, "when there was");
    }

    #[test]
    fn what_was_made_twice_is_found() {
        let twice = txn([], [put("k", "1")]);
        expect_error(&[made(1, 2, twice, 1), read(3, 4, entry_at("1", 2, 1, 2))], "when there was");
        let deleted = made(3, 4, txn([at("k", Revision(1))], [delete("k")]), 2);
        let again = made(5, 6, txn([at("k", Revision(1))], [delete("k")]), 3);
        expect_error(&[made(1, 2, txn([], [put("k", "1")]), 1), deleted, again], "a guard did not hold");
    }

    #[test]
    fn an_order_that_was_turned_round_is_found() {
        let history = [made(1, 2, txn([], [put("k", "1")]), 2), made(3, 4, txn([], [put("z", "2")]), 1)];
        expect_error(&history, "begun when 2 was known");
        // In an answer before it was sent.
        let history = [read(1, 2, entry_at("1", 1, 1, 1)), made(3, 4, txn([], [put("k", "1")]), 1)];
        expect_error(&history, "begun when 1 was known");
        let batch = vec![txn([], [put("k", "1")]), txn([], [put("k", "2")])];
        let turned = vec![TxnOutcome::Applied(Revision(2)), TxnOutcome::Applied(Revision(1))];
        expect_error(&[call(1, 2, CallRecord::Commit(batch, turned))], "as if before");
    }

    #[test]
    fn a_revision_that_two_have_is_found() {
        let two = [made(1, 3, txn([], [put("k", "1")]), 1), made(2, 4, txn([], [put("z", "2")]), 1)];
        expect_error(&two, "given twice");
        let batch = |other: Txn| {
            let both = vec![TxnOutcome::Applied(Revision(1)); 2];
            call(1, 2, CallRecord::Commit(vec![txn([], [put("k", "1")]), other], both))
        };
        assert_eq!(check(&[batch(txn([], [put("z", "2")]))]), Ok(()));
        expect_error(&[batch(txn([absent("k")], [put("z", "2")]))], "given twice");
    }

    #[test]
    fn a_refusal_for_nothing_is_found() {
        let first = made(1, 2, txn([], [put("k", "1")]), 1);
        let whole = refused(3, 4, over(1, "2"), vec![entry_at("1", 1, 1, 1)]);
        expect_error(&[first.clone(), whole], "refused for nothing");
        expect_error(&[first, refused(3, 4, over(9, "2"), vec![])], "refused for nothing");
    }

    #[test]
    fn what_is_left_out_of_a_listing_or_invented_is_found() {
        let first = made(1, 2, txn([], [put("k", "1")]), 1);
        expect_error(&[first.clone(), list(3, 4, vec![], 1)], "when there were");
        expect_error(&[first.clone(), read(3, 4, entry_at("9", 1, 1, 1))], "when there was");
        expect_error(&[first.clone(), list(3, 4, vec![entry_at("1", 1, 1, 1); 2], 1)], "when there were");
        expect_error(&[first, read(3, 4, entry_at("1", 1, 0, 1))], "when there was");
    }

    #[test]
    fn what_nobody_knows_was_made_where_it_was_seen_and_nowhere_else() {
        let doubt = unknown(1, 2, txn([absent("k")], [put("k", "1")]));
        assert_eq!(check(&[doubt.clone(), read(3, 4, none(1))]), Ok(()));
        assert_eq!(check(&[doubt.clone(), read(3, 4, none(1)), read(5, 6, entry_at("1", 2, 2, 2))]), Ok(()));
        expect_error(
            &[doubt.clone(), read(3, 4, entry_at("1", 2, 2, 2)), read(5, 6, none(1))],
            "begun when 2 was known",
        );
        // It cannot be seen before it is sent.
        let early = [read(1, 2, entry_at("1", 2, 2, 2)), unknown(3, 4, txn([absent("k")], [put("k", "1")]))];
        expect_error(&early, "begun when 2 was known");
    }
}
