//! Free slots: who gets the next run of a batch. Before each run the node with most free slots is found, and then has one
//! fewer (S0-39 … S0-42).

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::load::Score;

/// The free slots of the nodes as they stand within one batch. Nodes are known by their places in the order of their
/// names, so that ties fall alike on every node.
#[derive(Clone, Debug, Default)]
pub struct FreeSlots {
    /// Most free slots first; of equals the lower score, then the first by name (I0-09).
    heap: BinaryHeap<(i64, Reverse<Score>, Reverse<usize>)>,
}

impl FreeSlots {
    /// The snapshot that a batch begins with: free slots and score of each node, in the order of names.
    pub fn new(nodes: impl IntoIterator<Item = (i64, Score)>) -> Self {
        let nodes = nodes.into_iter().enumerate();
        Self { heap: nodes.map(|(at, (free, score))| (free, Reverse(score), Reverse(at))).collect() }
    }

    /// Gives one run to the node with most free slots among those that `may` have it, and says which that is and how many
    /// it had. It may have none left: then the run queues there. `None` when no node may have it.
    pub fn give(&mut self, may: impl Fn(usize) -> bool) -> Option<(usize, i64)> {
        self.first(may, 1)
    }

    /// Who would be given one, and how many slots it has free.
    pub fn best(&mut self, may: impl Fn(usize) -> bool) -> Option<(usize, i64)> {
        self.first(may, 0)
    }

    fn first(&mut self, may: impl Fn(usize) -> bool, taken: i64) -> Option<(usize, i64)> {
        let mut passed = Vec::new();
        let mut found = None;
        while let Some((free, score, Reverse(at))) = self.heap.pop() {
            if may(at) {
                found = Some((at, free));
                passed.push((free - taken, score, Reverse(at)));
                break;
            }
            passed.push((free, score, Reverse(at)));
        }
        self.heap.extend(passed);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(free: &mut FreeSlots, times: usize) -> Vec<usize> {
        (0..times).map(|_| free.give(|_| true).unwrap().0).collect()
    }

    /// proves: S0-39, S0-40, S0-42, I42
    #[test]
    fn six_runs_over_three_one_and_two_free_slots() {
        let mut free = FreeSlots::new([3, 1, 2].map(|free| (free, Score(0))));
        assert_eq!(give(&mut free, 6), [0, 0, 2, 0, 1, 2]);
        assert_eq!(free.give(|_| true), Some((0, 0)), "all are used up: the next one queues");
        assert_eq!(free.give(|_| true), Some((1, 0)));
    }

    /// proves: S0-41, I42
    #[test]
    fn each_run_goes_where_most_slots_are_free_at_that_moment() {
        for seed in 0..200_u64 {
            let mut random = seed;
            let mut next = |below: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % below
            };
            let mut counts: Vec<(i64, Score)> = (0..=next(12))
                .map(|_| (i64::try_from(next(9)).unwrap() - 2, Score(u32::try_from(next(3)).unwrap())))
                .collect();
            let mut free = FreeSlots::new(counts.iter().copied());
            for _ in 0..40 {
                let closed = usize::try_from(next(20)).unwrap();
                let best = (0..counts.len())
                    .filter(|at| *at != closed)
                    .max_by_key(|at| (counts[*at].0, Reverse(counts[*at].1), Reverse(*at)));
                let got = free.give(|at| at != closed);
                assert_eq!(got.map(|(at, _)| at), best, "seed {seed}");
                if let Some(at) = best {
                    assert_eq!(got, Some((at, counts[at].0)));
                    counts[at].0 -= 1;
                }
            }
        }
    }

    /// proves: S0-41
    #[test]
    fn of_equals_the_idler_one_is_taken_and_then_the_first_by_name() {
        let mut free = FreeSlots::new([(2, Score(900)), (2, Score(100)), (2, Score(100))]);
        assert_eq!(give(&mut free, 3), [1, 2, 0]);
        assert_eq!(FreeSlots::new([]).give(|_| true), None);
    }
}
