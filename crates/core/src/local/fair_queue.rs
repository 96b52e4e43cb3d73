//! A fair queue of jobs that wait for a scarce resource.
//!
//! The order is fair among jobs of one priority: they take turns, so the backlog of one job delays that job alone. Each
//! job has one place, for its earliest start that waits. A job enters the current round, or a later one where it had
//! starts in this one while others waited; within a round the job goes first whose start was due first. A round is no
//! longer than there are jobs, so no job waits for ever behind others of its priority.
//!
//! Turns alone are not on time: with 10,000 jobs due at one moment a job that fires each second would wait for all of
//! them, fire after fire. So every other turn goes to the job that fires again soonest. Starts that are not due yet
//! wait behind those that are due.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::job::Priority;
use crate::time::{Millis, Wall};
use crate::view::JobId;

/// How long before its due moment a start counts as due: the time that its claim takes.
const SOON: Millis = Millis(50);

/// A job with a start that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter<K = JobId> {
    /// Its priority: higher ones always go first.
    pub priority: Reverse<Priority>,
    /// When the earliest start of the job that waits was due.
    pub due: Wall,
    /// When the job fires again; [`Wall::MAX`] where that is unknown or does not matter.
    pub again: Wall,
    /// The job.
    pub id: K,
}

/// The rank of a job in the order of turns: a start that is not due yet by its moment, behind all that are due; of the
/// due ones the round counts before the due moment.
type QueueRank<K> = (Reverse<Priority>, Wall, u64, Wall, K);
/// The rank of a job of one priority by when it fires again.
type NextFireRank<K> = (Wall, u64, K);

/// A fair queue. `K` is the key of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FairQueue<K = JobId> {
    turns: BTreeSet<QueueRank<K>>,
    /// The jobs of each priority whose start is due, as far as they fire again.
    soonest: BTreeMap<Reverse<Priority>, BTreeSet<NextFireRank<K>>>,
    /// The other jobs.
    early: BTreeSet<(Wall, K)>,
    /// The place of each job.
    of: BTreeMap<K, QueuePlace<K>>,
    /// The jobs that leave at the end of the step, unless they are added again.
    leaving: Vec<K>,
    /// The rounds of each priority of which jobs wait.
    rounds: BTreeMap<Reverse<Priority>, FairRounds<K>>,
}

/// The place of a job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct QueuePlace<K> {
    rank: QueueRank<K>,
    /// When the job fires again.
    again: Wall,
    /// Whether the job leaves at the end of the step, unless it is added again.
    leaves: bool,
}

/// The rounds of one priority: which jobs have had turns while others waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct FairRounds<K> {
    /// The earliest round of which jobs wait.
    current: u64,
    /// The first round that a job may enter, where that is a later one.
    next: BTreeMap<K, u64>,
    /// Whether the next turn of this priority belongs to the job that fires again soonest.
    soonest_next: bool,
}

impl<K: Ord> FairRounds<K> {
    fn of(&self, id: &K) -> u64 {
        self.next.get(id).copied().unwrap_or(self.current)
    }
}

impl<K: Copy + Ord + Default> FairQueue<K> {
    /// How many jobs wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// The jobs that wait, in no order of turns.
    pub fn ids(&self) -> impl Iterator<Item = K> {
        self.of.keys().copied()
    }

    /// Adds a job whose start is due, or leaves it in a better place that it has.
    pub fn insert(&mut self, waiter: Waiter<K>) {
        self.put(waiter, Wall::MIN);
    }

    /// Adds a job whose start may not be due at this moment.
    pub fn insert_at(&mut self, waiter: Waiter<K>, now: Wall) {
        self.put(waiter, if waiter.due > now + SOON { waiter.due } else { Wall::MIN });
    }

    fn put(&mut self, waiter: Waiter<K>, early: Wall) {
        let (priority, _, round, due, id) = self.rank(&waiter);
        let turn = (priority, early, round, due, id);
        if let Some(place) = self.of.get_mut(&id) {
            let stays = place.rank == turn && place.again == waiter.again;
            if stays || (place.rank < turn && !place.leaves) {
                place.leaves = false;
                return;
            }
        }
        self.remove(id);
        self.turns.insert(turn);
        match early {
            Wall::MIN if waiter.again == Wall::MAX => false,
            Wall::MIN => self.soonest.entry(priority).or_default().insert((waiter.again, round, id)),
            _ => self.early.insert((due, id)),
        };
        self.of.insert(id, QueuePlace { rank: turn, again: waiter.again, leaves: false });
    }

    /// Moves starts that have become due by this moment to their rounds.
    pub fn come(&mut self, now: Wall) {
        while let Some((due, id)) = self.early.first().copied().filter(|(due, _)| *due <= now + SOON) {
            self.early.remove(&(due, id));
            if let Some(QueuePlace { rank: (priority, ..), again, .. }) = self.of.get(&id).copied() {
                self.insert(Waiter { priority, due, again, id });
            }
        }
    }

    /// Takes up to `most` jobs whose next fire has come while they wait, each with its start's due moment. They keep their
    /// turns, but have none as those that fire again soonest until [`fires_again`](Self::fires_again) or
    /// [`insert`](Self::insert) says when that is now.
    pub fn take_overtaken(&mut self, now: Wall, most: usize) -> Vec<(K, Wall)> {
        let mut taken = Vec::new();
        for soonest in self.soonest.values_mut() {
            while taken.len() < most
                && soonest.first().is_some_and(|(again, ..)| *again <= now)
                && let Some((.., id)) = soonest.pop_first()
            {
                taken.extend(self.of.get(&id).map(|place| (id, place.rank.3)));
            }
        }
        self.soonest.retain(|_, soonest| !soonest.is_empty());
        taken
    }

    /// Notes when a job that was overtaken by its next fire fires again. Nothing else of its place changes.
    pub fn fires_again(&mut self, id: K, again: Wall) {
        let Some(place) = self.of.get_mut(&id) else { return };
        let (priority, _, round, ..) = place.rank;
        place.again = again;
        if again < Wall::MAX {
            self.soonest.entry(priority).or_default().insert((again, round, id));
        }
    }

    /// The earliest moment at which a waiting job fires again, or at which its start comes due.
    #[must_use]
    pub fn next_change(&self) -> Option<Wall> {
        let soonest = self.soonest.values().filter_map(|soonest| soonest.first()).map(|(again, ..)| *again);
        soonest.chain(self.early.first().map(|(due, _)| *due)).min()
    }

    /// Removes a job at the end of the step, unless it is added again until then: most are, in the place that they have.
    pub fn leave(&mut self, id: K) {
        if let Some(place) = self.of.get_mut(&id) {
            place.leaves = true;
            self.leaving.push(id);
        }
    }

    /// Removes a job.
    pub fn remove(&mut self, id: K) {
        if let Some(QueuePlace { rank, again, .. }) = self.of.remove(&id) {
            let (priority, early, round, due, _) = rank;
            self.turns.remove(&rank);
            match early {
                Wall::MIN => self.remove_soonest(priority, &(again, round, id)),
                _ => drop(self.early.remove(&(due, id))),
            }
        }
    }

    fn remove_soonest(&mut self, priority: Reverse<Priority>, rank: &NextFireRank<K>) {
        if let Some(soonest) = self.soonest.get_mut(&priority)
            && soonest.remove(rank)
            && soonest.is_empty()
        {
            self.soonest.remove(&priority);
        }
    }

    /// The job that is next, if no turns are kept for the jobs that fire again soonest.
    #[must_use]
    pub fn first(&self) -> Option<K> {
        self.turns.first().map(|(.., id)| *id)
    }

    /// Removes and returns that job.
    pub fn pop_first(&mut self) -> Option<K> {
        let id = self.first()?;
        self.remove(id);
        Some(id)
    }

    /// The next `limit` jobs, in the order of their turns at this moment. They stay until they are removed.
    #[must_use]
    pub fn next_ranked(&self, now: Wall, most: usize) -> Vec<K> {
        let mut next = Vec::new();
        let mut taken = BTreeSet::new();
        let mut soonest_next = false;
        let mut turns = self.turns.iter().peekable();
        let mut of = Reverse(Priority::MAX);
        let mut soonest = self.soonest_of(of, now).peekable();
        while next.len() < most {
            while turns.next_if(|(.., id)| taken.contains(id)).is_some() {}
            let Some((priority, .., first)) = turns.peek().copied() else { break };
            if of != *priority {
                of = *priority;
                soonest_next = self.rounds.get(priority).is_some_and(|rounds| rounds.soonest_next);
                soonest = self.soonest_of(of, now).peekable();
            }
            while soonest.next_if(|id| taken.contains(id)).is_some() {}
            let id = soonest.peek().copied().filter(|_| soonest_next).unwrap_or(*first);
            taken.insert(id);
            next.push(id);
            soonest_next = !soonest_next;
        }
        next
    }

    /// The jobs of this priority that fire again, by when. Those whose next fire has come meanwhile are left out: they
    /// are to be added anew.
    fn soonest_of(&self, priority: Reverse<Priority>, now: Wall) -> impl Iterator<Item = K> {
        let from = (now, 0, K::default());
        let soonest = self.soonest.get(&priority);
        soonest.into_iter().flat_map(move |soonest| soonest.range(from..)).map(|(.., id)| *id)
    }

    /// Notes that a job had a start. Where others wait, it enters a later round next.
    pub fn served(&mut self, priority: Priority, id: K) {
        let rounds = self.rounds.entry(Reverse(priority)).or_default();
        rounds.soonest_next = !rounds.soonest_next;
        let next = rounds.of(&id).max(rounds.current) + 1;
        rounds.next.insert(id, next);
    }

    /// Ends a step: all waiting jobs and all starts are noted. Where no job waits any more, the turns are forgotten.
    pub fn settle(&mut self) {
        for id in core::mem::take(&mut self.leaving) {
            if self.of.get(&id).is_some_and(|place| place.leaves) {
                self.remove(id);
            }
        }
        let turns = &self.turns;
        self.rounds.retain(|priority, rounds| {
            let from = (*priority, Wall::MIN, 0, Wall::MIN, K::default());
            let first = turns.range(from..).next().filter(|(of, ..)| of == priority);
            let Some((_, _, round, ..)) = first else { return false };
            if *round > rounds.current {
                rounds.current = *round;
                rounds.next.retain(|_, next| *next > *round);
            }
            true
        });
    }

    /// Whether no other job that waits goes before it.
    #[must_use]
    pub fn is_first(&self, waiter: &Waiter<K>) -> bool {
        let turn = self.rank(waiter);
        self.turns.iter().find(|(.., id)| *id != waiter.id).is_none_or(|other| turn < *other)
    }

    /// Whether another job waits whose priority is no lower than that of this one.
    #[must_use]
    pub fn has_rivals(&self, priority: Priority, id: K) -> bool {
        self.turns.iter().take(2).any(|(of, .., other)| *other != id && *of <= Reverse(priority))
    }

    /// Whether the job waits.
    #[must_use]
    pub fn contains(&self, id: K) -> bool {
        self.of.contains_key(&id)
    }

    /// Whether no job waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    fn rank(&self, waiter: &Waiter<K>) -> QueueRank<K> {
        let round = self.rounds.get(&waiter.priority).map_or(0, |rounds| rounds.of(&waiter.id));
        (waiter.priority, Wall::MIN, round, waiter.due, waiter.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(due: i64, id: u32) -> Waiter {
        Waiter { priority: Reverse(Priority::default()), due: Wall(due), again: Wall::MAX, id: JobId(id) }
    }

    fn again(due: i64, again: i64, id: u32) -> Waiter {
        Waiter { again: Wall(again), ..waiter(due, id) }
    }

    fn served(queue: &mut FairQueue, now: i64) -> u32 {
        let id = queue.next_ranked(Wall(now), 1)[0];
        queue.remove(id);
        queue.served(Priority::default(), id);
        queue.settle();
        id.0
    }

    #[test]
    fn a_job_has_one_place_its_best() {
        let mut queue = FairQueue::default();
        [waiter(5, 1), waiter(3, 2), waiter(2, 1), waiter(9, 1)].into_iter().for_each(|it| queue.insert(it));
        assert!(queue.is_first(&waiter(2, 1)) && !queue.is_first(&waiter(3, 2)));
        assert!(queue.is_first(&waiter(1, 3)));
        assert_eq!(queue.pop_first(), Some(JobId(1)));
        assert!(!queue.contains(JobId(1)) && queue.contains(JobId(2)));
        queue.remove(JobId(2));
        assert_eq!(queue, FairQueue::default());
    }

    #[test]
    fn a_job_that_leaves_keeps_only_the_place_that_it_asks_for_again() {
        let mut queue = FairQueue::default();
        [1, 2, 3, 4].into_iter().for_each(|id| queue.insert(again(5, 9, id)));
        [1, 2, 3].into_iter().for_each(|id| queue.leave(JobId(id)));
        queue.insert(again(5, 9, 1));
        queue.insert(again(7, 9, 2));
        queue.insert(again(6, 9, 2));
        queue.settle();
        let mut others = FairQueue::default();
        [again(5, 9, 1), again(6, 9, 2), again(5, 9, 4)].into_iter().for_each(|it| others.insert(it));
        assert_eq!(queue, others, "the first as it was, the second in a later place, the third no more");
        queue.settle();
        assert_eq!(queue, others, "nothing is left of the step before");
    }

    #[test]
    fn jobs_with_a_backlog_take_turns() {
        let mut queue = FairQueue::default();
        let order: Vec<u32> = (0..9)
            .map(|_| {
                // Each waits again as soon as it was served, and is late; the first has been due for longest.
                (1..=3).for_each(|id| queue.insert(waiter(i64::from(id), id)));
                served(&mut queue, 60_000)
            })
            .collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn a_job_that_fires_again_soon_waits_for_one_of_a_backlog_at_most() {
        let mut queue = FairQueue::default();
        (10..1_000).for_each(|id| queue.insert(again(0, 86_400_000, id)));
        let mut between = Vec::new();
        for second in 0..20 {
            // One start of a job that fires each second, also when the others were due, and ten of the others.
            let due = second * 1_000;
            queue.insert(again(due, due + 1_000, 1_000));
            let order: Vec<u32> = (0..11).map(|_| served(&mut queue, due + 5)).collect();
            between.push(order.iter().position(|id| *id == 1_000).unwrap());
        }
        assert!(between.iter().all(|others| *others <= 1), "{between:?}");
    }

    #[test]
    fn a_job_that_is_behind_catches_up_and_one_with_a_backlog_of_fires_takes_no_turns_of_others() {
        let mut queue = FairQueue::default();
        (10..1_000).for_each(|id| queue.insert(again(-1, 86_400_000, id)));
        let now = 30_000;
        // Both fire each second. The one is 30 fires behind, the other two.
        let (mut first, mut second) = (0, 0);
        for _ in 0..8 {
            queue.insert(again(first * 1_000, now + 1_000, 1));
            queue.insert(again(28_000 + second * 1_000, now + 1_000, 2));
            match served(&mut queue, now) {
                1 => first += 1,
                2 => second += 1,
                _ => {}
            }
        }
        assert_eq!((first, second), (2, 2));
    }

    #[test]
    fn a_start_that_is_not_due_yet_takes_no_slot_from_those_that_are() {
        let mut queue = FairQueue::default();
        queue.insert_at(again(2_000, 3_000, 1), Wall(1_000));
        queue.insert_at(waiter(1_000, 2), Wall(1_000));
        queue.insert_at(again(1_500, 2_500, 3), Wall(1_000));
        queue.served(Priority::default(), JobId(2));
        assert_eq!(queue.next_ranked(Wall(1_000), 9), [JobId(2), JobId(3), JobId(1)]);
        queue.remove(JobId(2));
        queue.insert_at(waiter(900, 2), Wall(1_460));
        queue.come(Wall(1_460));
        // It is due in a moment, and the other one has had a start.
        assert_eq!(queue.next_ranked(Wall(1_460), 9), [JobId(3), JobId(2), JobId(1)]);
        [1, 2, 3].into_iter().for_each(|id| queue.remove(JobId(id)));
        queue.settle();
        assert_eq!(queue, FairQueue::default());
    }

    #[test]
    fn those_that_fire_again_soonest_get_every_other_turn_and_no_more() {
        let mut queue = FairQueue::default();
        (0..10).for_each(|id| queue.insert(waiter(0, id)));
        (10..20).for_each(|id| queue.insert(again(5_000, 6_000, id)));
        let ids = queue.next_ranked(Wall(5_500), 8).into_iter().map(|id| id.0);
        assert_eq!(ids.collect::<Vec<_>>(), [0, 10, 1, 11, 2, 12, 3, 13]);
        let ids = queue.next_ranked(Wall(6_001), 4).into_iter().map(|id| id.0);
        assert_eq!(ids.collect::<Vec<_>>(), [0, 1, 2, 3], "none of them was put in its place anew");
        assert_eq!(queue.next_ranked(Wall(5_500), 100).len(), 20);
    }

    #[test]
    fn a_job_that_fires_again_while_it_waits_keeps_its_turn_and_is_soonest_by_the_fire_after() {
        let mut queue = FairQueue::default();
        [again(0, 9_000, 1), again(1, 3_000, 2), again(2, 2_000, 3)]
            .into_iter()
            .for_each(|it| queue.insert(it));
        queue.insert_at(again(4_000, 5_000, 4), Wall(0));
        let late = Waiter { priority: Reverse(Priority::MAX), ..again(5, 2_500, 5) };
        queue.insert(late);
        assert_eq!(queue.next_change(), Some(Wall(2_000)));
        assert_eq!(queue.take_overtaken(Wall(1_999), 9), []);
        assert_eq!(queue.take_overtaken(Wall(3_000), 2).len(), 2, "no more than asked for");
        assert_eq!(queue.take_overtaken(Wall(3_000), 9).len(), 1);
        assert_eq!(queue.next_change(), Some(Wall(4_000)), "the start that is not due yet comes due");
        let next = [(2, 12_000), (3, 4_000), (5, i64::MAX)];
        next.into_iter().for_each(|(id, at)| queue.fires_again(JobId(id), Wall(at)));
        queue.fires_again(JobId(9), Wall(5_000));
        let mut others = FairQueue::default();
        [again(0, 9_000, 1), again(1, 12_000, 2), again(2, 4_000, 3), Waiter { again: Wall::MAX, ..late }]
            .into_iter()
            .for_each(|it| others.insert(it));
        others.insert_at(again(4_000, 5_000, 4), Wall(0));
        assert_eq!(queue, others);
        (1..=5).for_each(|id| queue.remove(JobId(id)));
        assert_eq!(queue, FairQueue::default());
    }

    #[test]
    fn a_higher_priority_goes_first_and_takes_no_turn_of_the_lower_ones() {
        let mut queue = FairQueue::default();
        let urgent = Waiter { priority: Reverse(Priority::MAX), ..waiter(9, 1) };
        [waiter(1, 2), waiter(2, 3), urgent].into_iter().for_each(|it| queue.insert(it));
        assert_eq!(queue.next_ranked(Wall(60_000), 3), [JobId(1), JobId(2), JobId(3)]);
        assert!(
            queue.has_rivals(Priority::default(), JobId(2)) && !queue.has_rivals(Priority::MAX, JobId(1))
        );
        queue.remove(JobId(1));
        queue.served(Priority::MAX, JobId(1));
        queue.settle();
        assert!(queue.is_first(&waiter(1, 2)) && queue.is_first(&Waiter { due: Wall(60), ..urgent }));
    }

    #[test]
    fn starts_of_a_higher_priority_take_no_turn_of_the_job_that_fires_again_soonest() {
        let mut queue = FairQueue::default();
        let urgent = Waiter { priority: Reverse(Priority::MAX), ..waiter(0, 9) };
        (1..=2).for_each(|id| queue.insert(waiter(i64::from(id), id)));
        let mut order = Vec::new();
        for step in 0..12 {
            let now = 100 + step;
            queue.insert(urgent);
            queue.insert(again(now, 60_000, 3));
            (1..=2).for_each(|id| queue.insert(waiter(i64::from(id), id)));
            // One slot for the urgent job, and the next for the others.
            for id in queue.next_ranked(Wall(now), 2) {
                queue.remove(id);
                let priority = if id.0 == 9 { Priority::MAX } else { Priority::default() };
                queue.served(priority, id);
                order.extend((id.0 != 9).then_some(id.0));
            }
            queue.settle();
        }
        assert_eq!(order.iter().filter(|id| **id == 3).count(), 6, "every other turn: {order:?}");
    }

    #[test]
    fn with_nobody_waiting_no_turn_is_remembered() {
        let mut queue = FairQueue::default();
        queue.insert(waiter(1, 1));
        queue.insert(waiter(1, 2));
        served(&mut queue, 60_000);
        assert_ne!(queue.rounds, BTreeMap::new());
        served(&mut queue, 60_000);
        assert_eq!(queue, FairQueue::default());
    }
}
