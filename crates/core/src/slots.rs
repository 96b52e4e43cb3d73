//! Free slots over time: who gets the next run of a batch. Before each run the node with the most slots free at the run's
//! moment is found, and then has one fewer until the run is expected to end (S0-39 … S0-42).

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::load::Score;
use crate::time::{Millis, Wall};

/// The slots of the nodes while one step hands out runs in the order in which they are due. Nodes are known by their places
/// in the order of their names, so that ties fall alike on every node.
#[derive(Clone, Debug, Default)]
pub struct SlotTimeline {
    nodes: Vec<NodeSlots>,
}

/// The slots of one node at the moment that the timeline has come to.
#[derive(Clone, Debug)]
pub struct NodeSlots {
    /// Slots that dispatched runs may take, less those that they have taken. Below zero runs queue.
    free: i64,
    /// How many runs it was given since the score was measured.
    given: i64,
    score: Score,
    slots: u32,
    /// When each run that was given is expected to end.
    ends: BinaryHeap<Reverse<Wall>>,
    /// When each slot that is taken will be free for a run that queues; of slots that are free there is no entry.
    busy_until: BinaryHeap<Reverse<Wall>>,
}

impl NodeSlots {
    /// A node with so many slots, of which other work takes `busy`, and its load score.
    #[must_use]
    pub fn new(slots: u32, busy: u32, score: Score) -> Self {
        let free = i64::from(slots) - i64::from(busy);
        Self { free, given: 0, score, slots, ends: BinaryHeap::new(), busy_until: BinaryHeap::new() }
    }

    /// Runs whose expected end has come have left their slots.
    fn advance(&mut self, now: Wall) {
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= now) {
            self.ends.pop();
            self.free += 1;
        }
        while self.busy_until.peek().is_some_and(|Reverse(end)| *end <= now) {
            self.busy_until.pop();
        }
    }

    /// Takes a slot from `due` on, or from when the first one is free for a run that queues.
    fn take(&mut self, due: Wall, length: Millis) {
        let queues = self.free <= 0;
        let first = self.busy_until.peek().map(|Reverse(end)| *end).filter(|_| queues);
        if first.is_some() {
            self.busy_until.pop();
        }
        let end = first.map_or(due, |free| free.max(due)) + length.max(Millis(1));
        self.busy_until.push(Reverse(end));
        self.ends.push(Reverse(end));
        self.free -= 1;
        self.given += 1;
    }

    /// How many runs it was given for each of its slots, in millionths.
    fn given_share(&self) -> i64 {
        self.given * 1_000_000 / i64::from(self.slots.max(1))
    }

    /// The score as the runs that it was given since raise it: each takes a slot, and all slots are 32 points.
    fn projected(&self) -> i64 {
        i64::from(self.score.0) + self.given * 3_200 / i64::from(self.slots.max(1))
    }
}

impl SlotTimeline {
    /// The snapshot that a batch begins with: the nodes in the order of their names.
    pub fn new(nodes: impl IntoIterator<Item = NodeSlots>) -> Self {
        Self { nodes: nodes.into_iter().collect() }
    }

    /// Goes on to a moment, which is no earlier than the one before.
    pub fn advance(&mut self, now: Wall) {
        self.nodes.iter_mut().for_each(|node| node.advance(now));
    }

    /// The node with the most free slots among those at these places, and how many it has. It may have none left: then
    /// the run queues there. Of equals the one whose next run ends first, so that nodes stay even when runs end; then the one
    /// that was given the fewest runs for its slots, so that runs which never meet go to all nodes in turn; then the one with
    /// the lower score, then the first by name (I0-09). `None` when there are none.
    #[must_use]
    pub fn best(&self, among: impl IntoIterator<Item = usize>) -> Option<(usize, i64)> {
        let among = among.into_iter().filter_map(|at| Some((at, self.nodes.get(at)?)));
        let order = |(at, node): &(usize, &NodeSlots)| {
            let next_end = node.ends.peek().map(|Reverse(end)| *end);
            let even = (Reverse(next_end), Reverse(node.given_share()));
            (node.free, even, Reverse(node.score), Reverse(*at))
        };
        among.max_by_key(order).map(|(at, node)| (at, node.free))
    }

    /// The node with the lowest score among those at these places, and how many slots it has free (S0-54).
    #[must_use]
    pub fn idlest(&self, among: impl IntoIterator<Item = usize>) -> Option<(usize, i64)> {
        let among = among.into_iter().filter_map(|at| Some((at, self.nodes.get(at)?)));
        among.min_by_key(|(at, node)| (node.projected(), *at)).map(|(at, node)| (at, node.free))
    }

    /// How many slots a node has free.
    #[must_use]
    pub fn free(&self, at: usize) -> Option<i64> {
        self.nodes.get(at).map(|node| node.free)
    }

    /// Gives a node a run that is due now and expected to take so long. Says how many slots the node had free before.
    pub fn give(&mut self, at: usize, due: Wall, length: Millis) -> Option<i64> {
        let node = self.nodes.get_mut(at)?;
        let free = node.free;
        node.take(due, length);
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(free: &[u32]) -> SlotTimeline {
        SlotTimeline::new(free.iter().map(|slots| NodeSlots::new(*slots, 0, Score(0))))
    }

    fn all(slots: &SlotTimeline) -> core::ops::Range<usize> {
        0..slots.nodes.len()
    }

    /// Gives so many runs of this length, all due at one moment, and says to whom.
    fn give(slots: &mut SlotTimeline, times: usize, due: i64, length: i64) -> Vec<usize> {
        slots.advance(Wall(due));
        let one = |_| {
            let (at, free) = slots.best(all(slots)).unwrap();
            assert_eq!(slots.give(at, Wall(due), Millis(length)), Some(free));
            at
        };
        (0..times).map(one).collect()
    }

    /// proves: S0-42, I42
    #[test]
    fn six_runs_over_three_one_and_two_free_slots() {
        let mut slots = timeline(&[3, 1, 2]);
        assert_eq!(give(&mut slots, 6, 0, 300_000), [0, 2, 0, 1, 2, 0]);
        assert_eq!(slots.best(all(&slots)), Some((0, 0)), "all are used up: the next one queues");
        assert_eq!(slots.best([2]), Some((2, 0)));
    }

    /// proves: S0-41, I42
    #[test]
    fn each_run_goes_where_most_slots_are_free_at_its_moment() {
        for seed in 0..200_u64 {
            let mut random = seed;
            let mut next = |below: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                i64::try_from((random >> 33) % below).unwrap()
            };
            let nodes: Vec<u32> = (0..=next(6)).map(|_| u32::try_from(1 + next(9)).unwrap()).collect();
            let mut slots = timeline(&nodes);
            let mut given: Vec<(usize, i64)> = Vec::new();
            let mut now = 0;
            for _ in 0..60 {
                now += next(3) * next(2_000);
                slots.advance(Wall(now));
                let closed = usize::try_from(next(20)).unwrap();
                // Nothing queues here, so a run takes its slot from when it is due until its end.
                let free = |at: usize| {
                    let going = given.iter().filter(|(node, end)| *node == at && *end > now).count();
                    i64::from(nodes[at]) - i64::try_from(going).unwrap()
                };
                let most = (0..nodes.len()).filter(|at| *at != closed).map(free).max();
                let Some((at, has)) = slots.best(all(&slots).filter(|at| *at != closed)) else {
                    assert_eq!(most, None);
                    continue;
                };
                assert_eq!((Some(has), free(at)), (most, has), "seed {seed}");
                if has <= 0 {
                    continue;
                }
                let length = 1 + next(5_000);
                slots.give(at, Wall(now), Millis(length));
                given.push((at, now + length));
            }
        }
    }

    /// proves: S0-41
    #[test]
    fn of_equals_the_idler_one_is_taken_and_then_the_first_by_name() {
        let scores = [900, 100, 100];
        let mut slots = SlotTimeline::new(scores.map(|score| NodeSlots::new(2, 0, Score(score))));
        assert_eq!(give(&mut slots, 3, 0, 1_000), [1, 2, 0]);
        assert_eq!(SlotTimeline::default().best([0]), None);
    }

    /// proves: S0-12, S0-27
    #[test]
    fn runs_that_do_not_meet_go_to_all_nodes_in_turn() {
        let mut slots = timeline(&[8, 8, 8]);
        let given: Vec<usize> = (0..9).flat_map(|second| give(&mut slots, 1, second * 1_000, 100)).collect();
        assert_eq!(given, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    /// proves: S0-42
    #[test]
    fn a_slot_is_free_again_when_its_run_is_expected_to_end() {
        let mut slots = timeline(&[2, 1]);
        assert_eq!(give(&mut slots, 1, 0, 5_000), [0]);
        assert_eq!(
            give(&mut slots, 1, 1_000, 5_000),
            [1],
            "one is free on each, and the second was given nothing"
        );
        assert_eq!(give(&mut slots, 1, 2_000, 1_000), [0]);
        assert_eq!(slots.best(all(&slots)).map(|(_, free)| free), Some(0));
        slots.advance(Wall(3_000));
        assert_eq!(slots.best(all(&slots)), Some((0, 1)));
    }

    /// proves: S0-42
    #[test]
    fn what_queues_takes_its_slot_when_one_is_free() {
        let mut slots = timeline(&[1]);
        give(&mut slots, 3, 0, 4_000);
        for (now, free) in [(0, -2), (4_000, -1), (7_999, -1), (8_000, 0), (12_000, 1)] {
            slots.advance(Wall(now));
            assert_eq!(slots.best(all(&slots)), Some((0, free)), "at {now}");
        }
    }
}
