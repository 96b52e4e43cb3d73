//! Whether a history of concurrent questions can have happened one after the other, each at some moment between its
//! beginning and its end.
//!
//! Usually that is a search. Here every answer says at which revision it was true, so the order is told and only has to
//! be checked: replayed in that order each answer must be right, and nobody may be placed before something that had ended
//! when it began.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Entry, Guard, Outcome, Revision, Txn, Write};

/// What was asked, and what was answered.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// One call of `commit`.
    Commit(Vec<Txn>, Vec<Outcome>),
    /// One call of `read`.
    Read(Vec<Key>, Vec<Change>),
    /// One call of `list`.
    List(Vec<Change>, Revision),
}

/// One question. Whoever's end is below another's beginning had been answered when that was asked.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) said: Said,
    /// Whether an answer was lost on the way to this one.
    pub(super) lost: bool,
}

/// Checks a history that began on an empty registry, of transactions without leases whose values are all different. One that
/// only deletes must guard on that being there or not, for its answer alone does not say whether it changed anything.
///
/// A transaction whose answer is unknown counts as made where its value was seen; so it must leave one that is seen.
///
/// # Errors
/// What cannot have been.
pub(super) fn check(calls: &[Call]) -> Result<(), String> {
    let past = Past::replay(&made(calls))?;
    for call in calls {
        past.answers(call)?;
    }
    real_time(calls, &past)
}

/// A transaction that was made.
struct Made<'a> {
    call: usize,
    place: usize,
    txn: &'a Txn,
}

/// Every transaction that was made, by revision.
fn made(calls: &[Call]) -> BTreeMap<Revision, Vec<Made<'_>>> {
    let seen = seen(calls);
    let mut made = BTreeMap::<_, Vec<_>>::new();
    for (call, place, txn, outcome) in transactions(calls) {
        let revision = match outcome {
            Outcome::Applied(revision) => Some(*revision),
            Outcome::Refused(_) => None,
            Outcome::Unknown => values(txn).find_map(|value| seen.get(value).copied()),
        };
        if let Some(revision) = revision {
            made.entry(revision).or_default().push(Made { call, place, txn });
        }
    }
    made
}

fn transactions(calls: &[Call]) -> impl Iterator<Item = (usize, usize, &Txn, &Outcome)> {
    calls.iter().enumerate().flat_map(|(call, it)| {
        let both = match &it.said {
            Said::Commit(txns, outcomes) => Some(txns.iter().zip(outcomes)),
            Said::Read(..) | Said::List(..) => None,
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

/// Every value that anybody was told, and when it was written.
fn seen(calls: &[Call]) -> BTreeMap<&[u8], Revision> {
    let told = calls.iter().flat_map(|call| -> Vec<&Change> {
        match &call.said {
            Said::Read(_, found) | Said::List(found, _) => found.iter().collect(),
            Said::Commit(_, outcomes) => outcomes.iter().flat_map(refused).collect(),
        }
    });
    told.filter_map(|change| change.entry.as_ref()).map(|entry| (&*entry.value, entry.revision)).collect()
}

fn refused(outcome: &Outcome) -> &[Change] {
    match outcome {
        Outcome::Refused(found) => found,
        Outcome::Applied(_) | Outcome::Unknown => &[],
    }
}

/// How every key stood, by when it came to stand so.
#[derive(Default)]
struct Past {
    keys: BTreeMap<Key, BTreeMap<Revision, Option<Entry>>>,
    /// Where something changed.
    moves: BTreeSet<Revision>,
    /// The calls' transactions that changed something.
    changed: BTreeMap<(usize, usize), Revision>,
}

impl Past {
    /// Makes everything again in the order that was told.
    fn replay(made: &BTreeMap<Revision, Vec<Made<'_>>>) -> Result<Self, String> {
        let mut past = Self::default();
        for (at, group) in made {
            past.group(*at, group)?;
        }
        Ok(past)
    }

    /// What was made at one revision: by one call, and none concerning another.
    fn group(&mut self, at: Revision, group: &[Made<'_>]) -> Result<(), String> {
        let before = Revision(at.0.saturating_sub(1));
        let (movers, rest): (Vec<_>, Vec<_>) = group.iter().partition(|made| moves(made.txn));
        for mover in &movers {
            if !self.hold(mover.txn, before) {
                return Err(format!("made at {at} though a guard did not hold: {:?}", mover.txn));
            }
            let meets = |other: &Made<'_>| other.place != mover.place && concerns(other.txn, mover.txn);
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
            self.moves.insert(at);
        }
        for made in rest {
            if !self.hold(made.txn, at) {
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

    fn hold(&self, txn: &Txn, at: Revision) -> bool {
        txn.guards.iter().all(|guard| match guard {
            Guard::Absent(key) => self.entry(key, at).is_none(),
            Guard::Present(key) => self.entry(key, at).is_some(),
            Guard::At(key, revision) => self.entry(key, at).is_some_and(|it| it.revision == *revision),
            Guard::Born(key, born) => self.entry(key, at).is_some_and(|it| it.born == *born),
            Guard::Open(_) => true,
        })
    }

    /// The last change that somebody knew who was told of a revision.
    fn place(&self, told: Revision) -> Revision {
        self.moves.range(..=told).next_back().copied().unwrap_or_default()
    }

    /// Whether all that was told was so at the revision at which it was said to be.
    fn answers(&self, call: &Call) -> Result<(), String> {
        match &call.said {
            Said::Read(keys, found) => {
                let asked = keys.iter().eq(found.iter().map(|change| &change.key));
                let one = found.windows(2).all(|two| two[0].revision == two[1].revision);
                if !asked || !one {
                    return Err(format!("asked for {keys:?}, told {found:?}"));
                }
                self.so(found)
            }
            Said::List(found, at) => {
                let told: BTreeSet<_> = found.iter().map(|change| &change.key).collect();
                let there = self.keys.keys().filter(|key| key.is_cold() && self.entry(key, *at).is_some());
                let there: BTreeSet<_> = there.collect();
                if told != there || told.len() != found.len() {
                    return Err(format!("listed {told:?} at {at}, when there were {there:?}"));
                }
                found.iter().try_for_each(|it| self.so(&[Change { revision: *at, ..it.clone() }]))
            }
            Said::Commit(txns, outcomes) => self.outcomes(txns, outcomes),
        }
    }

    fn so(&self, found: &[Change]) -> Result<(), String> {
        let wrong =
            found.iter().find(|change| self.entry(&change.key, change.revision) != change.entry.as_ref());
        wrong.map_or(Ok(()), |it| {
            Err(format!("told {it:?}, when there was {:?}", self.entry(&it.key, it.revision)))
        })
    }

    fn outcomes(&self, txns: &[Txn], outcomes: &[Outcome]) -> Result<(), String> {
        if txns.len() != outcomes.len() {
            return Err(format!("{} answers to {} transactions", outcomes.len(), txns.len()));
        }
        for (place, (txn, outcome)) in txns.iter().zip(outcomes).enumerate() {
            let found = refused(outcome);
            self.so(found)?;
            if let Outcome::Refused(_) = outcome {
                let told = found.iter().map(|change| &change.key).eq(txn.keys());
                if !told || found.iter().all(|change| self.hold(txn, change.revision)) {
                    return Err(format!("refused for nothing: {txn:?}, told {found:?}"));
                }
            }
            // Of two that concern each other, the earlier goes first.
            for (earlier, before) in txns[..place].iter().zip(outcomes) {
                if concerns(earlier, txn) && order(before) > order(outcome) {
                    return Err(format!("{txn:?} was answered as if before {earlier:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Where an answer stands; those that are unknown stand anywhere.
fn order(outcome: &Outcome) -> Option<Revision> {
    match outcome {
        Outcome::Applied(revision) => Some(*revision),
        Outcome::Refused(found) => found.iter().map(|change| change.revision).min(),
        Outcome::Unknown => None,
    }
}

/// Whether one writes what the other names.
fn concerns(one: &Txn, other: &Txn) -> bool {
    let writes = |a: &Txn, b: &Txn| a.writes.iter().any(|write| b.keys().any(|key| key == write.key()));
    writes(one, other) || writes(other, one)
}

/// Whether one changes anything when it is made: it puts, or deletes what it guards on being there.
fn moves(txn: &Txn) -> bool {
    let there = |key: &Key| {
        let guards = txn.guards.iter().filter(|guard| !matches!(guard, Guard::Absent(_)));
        guards.filter_map(Guard::key).any(|guarded| guarded == key)
    };
    txn.writes.iter().any(|write| match write {
        Write::Put { .. } => true,
        Write::Delete { key } => there(key),
    })
}

/// Nobody is placed before something that had ended when it began; who changed something, behind all of that.
fn real_time(calls: &[Call], past: &Past) -> Result<(), String> {
    let mut begun: Vec<_> = calls.iter().enumerate().collect();
    begun.sort_by_key(|(_, call)| call.begin);
    let mut ended: Vec<_> = calls.iter().collect();
    ended.sort_by_key(|call| call.end);
    let mut ended = ended.into_iter().peekable();
    let mut reached = Revision(0);
    for (at, call) in begun {
        while let Some(before) = ended.next_if(|before| before.end < call.begin) {
            let places = told(before).into_iter().map(|revision| past.place(revision));
            reached = places.fold(reached, Ord::max);
        }
        let changed = past.changed.range((at, 0)..(at + 1, 0)).map(|(_, revision)| *revision);
        let told = told(call).into_iter().map(|revision| (past.place(revision), false));
        for (stands, moved) in told.chain(changed.map(|revision| (revision, true))) {
            if stands < reached || (moved && stands == reached) {
                return Err(format!("begun when {reached} was known, and placed at {stands}: {call:?}"));
            }
        }
    }
    Ok(())
}

/// Every revision that a call was told of.
fn told(call: &Call) -> Vec<Revision> {
    match &call.said {
        Said::Read(_, found) => found.iter().map(|change| change.revision).collect(),
        Said::List(_, revision) => vec![*revision],
        Said::Commit(_, outcomes) => outcomes.iter().filter_map(order).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{absent, at, born, delete, key, put, txn};
    use super::*;

    fn call(begin: u64, end: u64, said: Said) -> Call {
        Call { begin, end, said, lost: false }
    }

    fn made(begin: u64, end: u64, txn: Txn, at: u64) -> Call {
        call(begin, end, Said::Commit(vec![txn], vec![Outcome::Applied(Revision(at))]))
    }

    fn refused(begin: u64, end: u64, txn: Txn, found: Vec<Change>) -> Call {
        call(begin, end, Said::Commit(vec![txn], vec![Outcome::Refused(found)]))
    }

    fn unknown(begin: u64, end: u64, txn: Txn) -> Call {
        call(begin, end, Said::Commit(vec![txn], vec![Outcome::Unknown]))
    }

    /// `k` as it stood at a moment.
    fn stood(value: &str, revision: u64, born: u64, at: u64) -> Change {
        let (revision, born) = (Revision(revision), Revision(born));
        let entry = Entry { value: value.as_bytes().into(), revision, born, owner: None };
        Change { key: key("k"), entry: Some(entry), revision: Revision(at) }
    }

    fn none(at: u64) -> Change {
        Change { key: key("k"), entry: None, revision: Revision(at) }
    }

    fn read(begin: u64, end: u64, found: Change) -> Call {
        call(begin, end, Said::Read(vec![key("k")], vec![found]))
    }

    fn list(begin: u64, end: u64, found: Vec<Change>, at: u64) -> Call {
        call(begin, end, Said::List(found, Revision(at)))
    }

    fn over(revision: u64, value: &str) -> Txn {
        txn([at("k", Revision(revision))], [put("k", value)])
    }

    fn why(calls: &[Call]) -> String {
        check(calls).expect_err("this cannot have been")
    }

    fn says(calls: &[Call], what: &str) {
        let why = why(calls);
        assert!(why.contains(what), "{why}");
    }

    #[test]
    fn what_was_so_is_accepted() {
        let create = txn([absent("k")], [put("k", "1")]);
        let history = [
            made(1, 4, create.clone(), 3),
            // Begun before it ended: it may have been asked before or after.
            read(2, 5, none(2)),
            read(3, 6, stood("1", 3, 3, 3)),
            made(7, 8, over(3, "2"), 4),
            refused(9, 10, create, vec![stood("2", 4, 3, 5)]),
            made(11, 12, txn([born("k", Revision(3))], [delete("k")]), 6),
            // It changes nothing and is told of the moment at which it did not.
            made(13, 14, txn([absent("k")], [delete("k")]), 6),
            list(15, 16, vec![], 9),
            made(17, 18, txn([], [put("k", "3")]), 10),
            list(19, 20, vec![stood("3", 10, 10, 10)], 10),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn a_stale_reading_is_found() {
        let first = made(1, 2, txn([], [put("k", "1")]), 1);
        says(&[first.clone(), read(3, 4, none(0))], "begun when 1 was known");
        says(&[first.clone(), list(3, 4, vec![], 0)], "begun when 1 was known");
        says(&[first.clone(), refused(3, 4, over(1, "2"), vec![none(0)])], "begun when 1 was known");
        // One who read after another had is no earlier, though the write had not ended.
        let (slow, later) = (made(1, 9, txn([], [put("k", "1")]), 1), read(2, 3, stood("1", 1, 1, 1)));
        says(&[slow, later, read(4, 5, none(0))], "begun when 1 was known");
    }

    #[test]
    fn a_lost_update_is_found() {
        let first = made(1, 2, txn([], [put("k", "1")]), 1);
        let history = [first.clone(), made(3, 5, over(1, "2"), 2), made(4, 6, over(1, "3"), 3)];
        says(&history, "a guard did not hold");
        // Answered, and nobody ever sees it.
        let lost = [first, made(3, 4, over(1, "2"), 2), read(5, 6, stood("1", 1, 1, 2))];
        says(&lost, "when there was");
    }

    #[test]
    fn what_was_made_twice_is_found() {
        let twice = txn([], [put("k", "1")]);
        says(&[made(1, 2, twice, 1), read(3, 4, stood("1", 2, 1, 2))], "when there was");
        let deleted = made(3, 4, txn([at("k", Revision(1))], [delete("k")]), 2);
        let again = made(5, 6, txn([at("k", Revision(1))], [delete("k")]), 3);
        says(&[made(1, 2, txn([], [put("k", "1")]), 1), deleted, again], "a guard did not hold");
    }

    #[test]
    fn an_order_that_was_turned_round_is_found() {
        let history = [made(1, 2, txn([], [put("k", "1")]), 2), made(3, 4, txn([], [put("z", "2")]), 1)];
        says(&history, "begun when 2 was known");
        // Told by somebody before it was asked for.
        let history = [read(1, 2, stood("1", 1, 1, 1)), made(3, 4, txn([], [put("k", "1")]), 1)];
        says(&history, "begun when 1 was known");
        let batch = vec![txn([], [put("k", "1")]), txn([], [put("k", "2")])];
        let turned = vec![Outcome::Applied(Revision(2)), Outcome::Applied(Revision(1))];
        says(&[call(1, 2, Said::Commit(batch, turned))], "as if before");
    }

    #[test]
    fn a_revision_that_two_have_is_found() {
        let two = [made(1, 3, txn([], [put("k", "1")]), 1), made(2, 4, txn([], [put("z", "2")]), 1)];
        says(&two, "given twice");
        let batch = |other: Txn| {
            let both = vec![Outcome::Applied(Revision(1)); 2];
            call(1, 2, Said::Commit(vec![txn([], [put("k", "1")]), other], both))
        };
        assert_eq!(check(&[batch(txn([], [put("z", "2")]))]), Ok(()));
        says(&[batch(txn([absent("k")], [put("z", "2")]))], "given twice");
    }

    #[test]
    fn a_refusal_for_nothing_is_found() {
        let first = made(1, 2, txn([], [put("k", "1")]), 1);
        let whole = refused(3, 4, over(1, "2"), vec![stood("1", 1, 1, 1)]);
        says(&[first.clone(), whole], "refused for nothing");
        says(&[first, refused(3, 4, over(9, "2"), vec![])], "refused for nothing");
    }

    #[test]
    fn what_is_left_out_of_a_listing_or_invented_is_found() {
        let first = made(1, 2, txn([], [put("k", "1")]), 1);
        says(&[first.clone(), list(3, 4, vec![], 1)], "when there were");
        says(&[first.clone(), read(3, 4, stood("9", 1, 1, 1))], "when there was");
        says(&[first.clone(), list(3, 4, vec![stood("1", 1, 1, 1); 2], 1)], "when there were");
        says(&[first, read(3, 4, stood("1", 1, 0, 1))], "when there was");
    }

    #[test]
    fn what_nobody_knows_was_made_where_it_was_seen_and_nowhere_else() {
        let doubt = unknown(1, 2, txn([absent("k")], [put("k", "1")]));
        assert_eq!(check(&[doubt.clone(), read(3, 4, none(1))]), Ok(()));
        assert_eq!(check(&[doubt.clone(), read(3, 4, none(1)), read(5, 6, stood("1", 2, 2, 2))]), Ok(()));
        says(
            &[doubt.clone(), read(3, 4, stood("1", 2, 2, 2)), read(5, 6, none(1))],
            "begun when 2 was known",
        );
        // It cannot be seen before it was asked for.
        let early = [read(1, 2, stood("1", 2, 2, 2)), unknown(3, 4, txn([absent("k")], [put("k", "1")]))];
        says(&early, "begun when 2 was known");
    }
}
