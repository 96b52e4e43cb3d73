//! The judge: what writers were told, against what was committed and what is there in the end.

use std::collections::{BTreeMap, BTreeSet};

use super::chronicle::CommittedAct;
use super::writers::{OrderOutcome, WriteOrder};

/// The evidence.
pub(crate) struct LeaderCase<'a> {
    pub(crate) orders: &'a [WriteOrder],
    /// In the order in which it was committed.
    pub(crate) acts: &'a [CommittedAct],
    /// What the last leader says in the end: of each job its version and its value.
    pub(crate) last: &'a BTreeMap<String, (u64, u64)>,
}

impl LeaderCase<'_> {
    /// What is wrong; empty when nothing is.
    pub(crate) fn judge(&self) -> Vec<String> {
        let mut complaints = self.answers();
        complaints.extend(self.leads());
        for job in self.orders.iter().map(|order| &order.job).collect::<BTreeSet<_>>() {
            complaints.extend(self.history_of(job));
        }
        complaints
    }

    fn order(&self, value: u64) -> Option<&WriteOrder> {
        self.orders.iter().find(|order| order.value == value)
    }

    /// What was said to be done is done once, and what was refused is not.
    fn answers(&self) -> Vec<String> {
        let mut done: BTreeMap<(&str, u64), usize> = BTreeMap::new();
        for act in self.acts {
            if let CommittedAct::Set { job, value, .. } = act {
                *done.entry((job, *value)).or_default() += 1;
            }
        }
        let complain = |order: &WriteOrder| {
            let times = done.get(&(order.job.as_str(), order.value)).copied().unwrap_or(0);
            let what = match (order.told, times) {
                (OrderOutcome::Done, 0) => "acknowledged and gone",
                (OrderOutcome::Standby | OrderOutcome::Unheard, 1) => "refused and done",
                (_, 0 | 1) => return None,
                _ => "done twice",
            };
            Some(format!("{what}: {order:?}"))
        };
        self.orders.iter().filter_map(complain).collect()
    }

    /// Orders are done by whom the registry says that it serves, and each leader has an epoch of its own.
    fn leads(&self) -> Vec<String> {
        let (mut now, mut complaints): ((Option<usize>, u64, bool), _) = ((None, 0, false), Vec::new());
        for act in self.acts {
            match act {
                CommittedAct::Lead { leader, epoch, serves } => {
                    let other = leader.is_some() && (*leader != now.0 || (now.2 && !serves));
                    if *epoch < now.1 || (other && *epoch == now.1) {
                        complaints.push(format!("an epoch did not rise: {act:?} after {now:?}"));
                    }
                    now = (*leader, *epoch, *serves);
                }
                CommittedAct::Set { value, .. } => {
                    let by = self.order(*value).map(|order| order.node);
                    if by.is_none() || by != now.0 || !now.2 {
                        complaints.push(format!("{act:?} by node {by:?}, while {now:?} has the lead"));
                    }
                }
            }
        }
        complaints
    }

    /// Versions rise one by one, nobody overwrites what was acknowledged before they asked, and the end is the last of it.
    fn history_of(&self, job: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        let (mut before, mut latest) = (None, i64::MIN);
        for act in self.acts {
            let CommittedAct::Set { job: of, version, value } = act else { continue };
            if of != job {
                continue;
            }
            if before.is_some_and(|(last, _)| *version != last + 1) {
                complaints.push(format!("{job}: version {version} follows {before:?}"));
            }
            before = Some((*version, *value));
            let Some(order) = self.order(*value) else { continue };
            if order.told == OrderOutcome::Done && order.answered < latest {
                complaints.push(format!("{job}: {order:?} was done after one that was asked for later"));
            }
            latest = latest.max(order.sent);
        }
        let last = self.last.get(job).copied();
        if last != before {
            complaints.push(format!("{job}: the leader has {last:?}, committed was {before:?}"));
        }
        complaints
    }

    /// From when to when no order was acknowledged, between one leader and the next, in milliseconds.
    pub(crate) fn gaps(&self) -> Vec<(i64, i64)> {
        let mut spans: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
        let mut epoch = 0;
        for act in self.acts {
            match act {
                CommittedAct::Lead { epoch: next, .. } => epoch = *next,
                CommittedAct::Set { value, .. } => {
                    let Some(order) = self.order(*value).filter(|order| order.told == OrderOutcome::Done)
                    else {
                        continue;
                    };
                    let span = spans.entry(epoch).or_insert((order.answered, order.answered));
                    *span = (span.0.min(order.answered), span.1.max(order.answered));
                }
            }
        }
        let spans: Vec<_> = spans.into_values().collect();
        spans.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(version: u64, value: u64) -> CommittedAct {
        CommittedAct::Set { job: "kept-0".into(), version, value }
    }

    fn lead(leader: usize, epoch: u64, serves: bool) -> CommittedAct {
        CommittedAct::Lead { leader: Some(leader), epoch, serves }
    }

    fn order(value: u64, node: usize, told: OrderOutcome) -> WriteOrder {
        let sent = i64::try_from(value).expect("small") * 100;
        WriteOrder { job: "kept-0".into(), value, node, sent, answered: sent + 10, told }
    }

    /// Two orders to node 0, its end, two to node 1; and what one test changes of it.
    struct LeaderStory {
        orders: Vec<WriteOrder>,
        acts: Vec<CommittedAct>,
        last: (u64, u64),
    }

    impl LeaderStory {
        fn fair() -> Self {
            let orders = [
                (1, 0, OrderOutcome::Done),
                (2, 1, OrderOutcome::Standby),
                (3, 0, OrderOutcome::Unknown),
                (50, 0, OrderOutcome::Unheard),
            ];
            let later = [(51, 1, OrderOutcome::Done), (52, 1, OrderOutcome::Done)];
            Self {
                orders: orders
                    .into_iter()
                    .chain(later)
                    .map(|(value, node, told)| order(value, node, told))
                    .collect(),
                acts: vec![
                    lead(0, 1, false),
                    lead(0, 1, true),
                    set(1, 1),
                    set(2, 3),
                    lead(1, 2, false),
                    lead(1, 2, true),
                    set(3, 51),
                    set(4, 52),
                ],
                last: (4, 52),
            }
        }

        #[track_caller]
        fn judged(&self, expected: &[&str]) {
            let last = [("kept-0".to_owned(), self.last)].into();
            let found = LeaderCase { orders: &self.orders, acts: &self.acts, last: &last }.judge();
            let seen = expected.iter().zip(&found).all(|(expected, found)| found.contains(expected));
            assert!(seen && found.len() == expected.len(), "expected {expected:?}, found {found:#?}");
        }
    }

    #[test]
    fn nothing_is_found_where_all_is_well_and_the_gap_is_measured() {
        let story = LeaderStory::fair();
        story.judged(&[]);
        let last = BTreeMap::new();
        let case = LeaderCase { orders: &story.orders, acts: &story.acts, last: &last };
        assert_eq!(case.gaps(), [(110, 5_110)]);
    }

    #[test]
    fn an_answer_that_was_not_true_is_found() {
        let mut gone = LeaderStory::fair();
        gone.acts.remove(7);
        gone.last = (3, 51);
        gone.judged(&["acknowledged and gone"]);
        let mut refused = LeaderStory::fair();
        refused.orders[2].told = OrderOutcome::Standby;
        refused.judged(&["refused and done"]);
        let mut twice = LeaderStory::fair();
        twice.acts.push(set(5, 51));
        twice.last = (5, 51);
        twice.judged(&["done twice", "asked for later"]);
    }

    #[test]
    fn two_leaders_at_once_are_found() {
        let mut old = LeaderStory::fair();
        old.orders[4].node = 0;
        old.judged(&["has the lead"]);
        let mut early = LeaderStory::fair();
        early.acts.swap(5, 6);
        early.judged(&["has the lead"]);
        let mut same = LeaderStory::fair();
        same.acts[4] = lead(1, 1, false);
        same.acts[5] = lead(1, 1, true);
        same.judged(&["an epoch did not rise"]);
        let mut back = LeaderStory::fair();
        back.acts[5] = lead(1, 0, true);
        back.judged(&["an epoch did not rise"]);
    }

    #[test]
    fn what_was_overwritten_in_silence_is_found() {
        let mut skipped = LeaderStory::fair();
        skipped.acts[7] = set(5, 52);
        skipped.last = (5, 52);
        skipped.judged(&["version 5 follows"]);
        let mut older = LeaderStory::fair();
        older.acts[6] = set(3, 52);
        older.acts[7] = set(4, 51);
        older.last = (4, 51);
        older.judged(&["asked for later"]);
        let mut stale = LeaderStory::fair();
        stale.last = (3, 51);
        stale.judged(&["committed was"]);
    }
}
