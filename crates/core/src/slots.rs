//! Free slots over time decide which node gets the next run of a batch. Before each run the node with the most slots
//! free at the run's moment is found; it then has one fewer until the run is expected to end (S0-39 … S0-42).

use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::load::Score;
use crate::time::{Millis, Wall};

mod ranking;

use ranking::{NodeRank, NodeRanking};

/// The slots of the nodes while one step places runs in the order in which they are due. Nodes are known by their
/// places in the order of their names, so that ties fall alike on every node.
///
/// Neither a moment that passes nor a choice looks at every node: nodes are looked at when a run of theirs is expected
/// to end, and each set of nodes that runs are chosen from is kept in the order of choice.
#[derive(Clone, Debug)]
pub struct SlotTimeline<G> {
    nodes: Vec<NodeSlots>,
    now: Wall,
    /// For each node with runs, when the first of them is expected to end; an entry may be stale.
    ends: BinaryHeap<Reverse<(Wall, usize)>>,
    /// The sets of nodes that runs are chosen from.
    orders: BTreeMap<G, NodeRanking>,
    changed: SlotChanges,
}

/// The latest changes of nodes' slots, as many as there are nodes: with more of them an order is made anew.
#[derive(Clone, Debug, Default)]
struct SlotChanges {
    /// The places of the nodes, the latest last.
    latest: VecDeque<usize>,
    /// How many changes there were.
    count: usize,
}

impl SlotChanges {
    fn note(&mut self, at: usize, nodes: usize) {
        self.latest.push_back(at);
        self.count += 1;
        if self.latest.len() > nodes {
            self.latest.pop_front();
        }
    }

    /// The nodes that changed since there were so many changes; `None` when that is no longer known.
    fn since(&self, count: usize) -> Option<impl Iterator<Item = usize>> {
        let first = self.latest.len().checked_sub(self.count - count)?;
        Some(self.latest.range(first..).copied())
    }
}

/// The slots of one node at the present moment of the timeline.
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
    /// When each slot in use will be free for a run that queues; free slots have no entry.
    busy_until: BinaryHeap<Reverse<Wall>>,
    /// Whether it gets no new run.
    closed: bool,
}

impl NodeSlots {
    /// A node with its number of slots, of which other work takes `busy`, and its load score.
    #[must_use]
    pub fn new(slots: u32, busy: u32, score: Score) -> Self {
        let free = i64::from(slots) - i64::from(busy);
        let (ends, busy_until) = (BinaryHeap::new(), BinaryHeap::new());
        Self { free, given: 0, score, slots, ends, busy_until, closed: false }
    }

    /// The same node, which gets no new run. The runs that it has stay.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { closed: true, ..self }
    }

    /// Frees the slots of runs whose expected end has come.
    fn advance(&mut self, now: Wall) {
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= now) {
            self.ends.pop();
            self.free += 1;
        }
    }

    /// When the first of its runs is expected to end.
    fn next_end(&self) -> Option<Wall> {
        self.ends.peek().map(|Reverse(end)| *end)
    }

    /// Takes a slot from `due` on, or from when the first one is free for a run that queues.
    fn take(&mut self, now: Wall, due: Wall, length: Millis) {
        while self.busy_until.peek().is_some_and(|Reverse(end)| *end <= now) {
            self.busy_until.pop();
        }
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
    fn load_per_slot(&self) -> i64 {
        self.given * 1_000_000 / i64::from(self.slots.max(1))
    }

    /// The score with the runs given since it was measured: each takes a slot, and all slots are 32 points.
    fn projected(&self) -> i64 {
        i64::from(self.score.0) + self.given * 3_200 / i64::from(self.slots.max(1))
    }

    /// Its rank in the order of choice, at this place in the order of the nodes' names; the highest is chosen.
    fn rank(&self, at: usize) -> NodeRank {
        let even = (Reverse(self.next_end()), Reverse(self.load_per_slot()));
        (self.free, even, Reverse(self.score), Reverse(at))
    }
}

impl<G: Ord> SlotTimeline<G> {
    /// The snapshot that a batch begins with: the nodes in the order of their names.
    pub fn new(nodes: impl IntoIterator<Item = NodeSlots>) -> Self {
        let (ends, orders, changed) = (BinaryHeap::new(), BTreeMap::new(), SlotChanges::default());
        Self { nodes: nodes.into_iter().collect(), now: Wall::MIN, ends, orders, changed }
    }

    /// Advances to a moment, which is no earlier than the one before.
    pub fn advance(&mut self, now: Wall) {
        self.now = now;
        while let Some(Reverse((end, at))) = self.ends.peek().copied()
            && end <= now
        {
            self.ends.pop();
            let node = &mut self.nodes[at];
            // Another entry of the node may have done all of it.
            if node.next_end().is_some_and(|end| end <= now) {
                node.advance(now);
                self.ends.extend(node.next_end().map(|end| Reverse((end, at))));
                self.changed.note(at, self.nodes.len());
            }
        }
    }

    /// The node with the most free slots among those of a group that may be given the run, and how many it has. A group
    /// has the same nodes each time. The node may have no slot left: then the run queues there. Of equals the one whose
    /// next run ends first, so that nodes stay even when runs end; then the one that was given the fewest runs for its
    /// slots, so that runs that never overlap go to all nodes in turn; then the one with the lower score, then the
    /// first by name (I0-09). `None` when there are none.
    pub fn best(&mut self, group: G, among: &[usize], may: impl Fn(&usize) -> bool) -> Option<(usize, i64)> {
        let (nodes, changed) = (&self.nodes, &self.changed);
        let order = self.orders.entry(group).or_insert_with(|| NodeRanking::new(nodes.len()));
        let rank = |at: usize| nodes[at].rank(at);
        match order.seen.and_then(|seen| changed.since(seen)) {
            Some(since) => since.for_each(|at| order.moved(at, rank)),
            None => order.renew(among.iter().copied().filter(|at| *at < nodes.len()), rank),
        }
        order.seen = Some(changed.count);
        order.best(|at| !nodes[*at].closed && may(at)).map(|at| (at, nodes[at].free))
    }

    /// The node with the lowest score among those at these places, and how many slots it has free (S0-54).
    #[must_use]
    pub fn least_loaded(&self, among: impl IntoIterator<Item = usize>) -> Option<(usize, i64)> {
        let among = among.into_iter().filter_map(|at| Some((at, self.nodes.get(at)?)));
        let among = among.filter(|(_, node)| !node.closed);
        among.min_by_key(|(at, node)| (node.projected(), *at)).map(|(at, node)| (at, node.free))
    }

    /// How many slots a node has free for a run that it has already. A closed node has more than any other, so that its
    /// runs stay.
    #[must_use]
    pub fn free(&self, at: usize) -> Option<i64> {
        self.nodes.get(at).map(|node| if node.closed { i64::MAX } else { node.free })
    }

    /// Gives a node a run that is due now and expected to take so long. Returns its free slots before that.
    pub fn take_slot(&mut self, at: usize, due: Wall, length: Millis) -> Option<i64> {
        let nodes = self.nodes.len();
        let node = self.nodes.get_mut(at)?;
        let (free, before) = (node.free, node.next_end());
        node.take(self.now, due, length);
        if node.next_end() != before {
            self.ends.extend(node.next_end().map(|end| Reverse((end, at))));
        }
        self.changed.note(at, nodes);
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type TestTimeline = SlotTimeline<u32>;

    fn timeline(free: &[u32]) -> TestTimeline {
        SlotTimeline::new(free.iter().map(|slots| NodeSlots::new(*slots, 0, Score(0))))
    }

    /// The best of all nodes that may be given a run.
    fn best(slots: &mut TestTimeline, may: impl Fn(&usize) -> bool) -> Option<(usize, i64)> {
        let all: Vec<usize> = (0..slots.nodes.len()).collect();
        slots.best(0, &all, may)
    }

    /// Gives so many runs of this length, all due at one moment, and says to whom.
    fn give(slots: &mut TestTimeline, times: usize, due: i64, length: i64) -> Vec<usize> {
        slots.advance(Wall(due));
        let one = |_| {
            let (at, free) = best(slots, |_| true).unwrap();
            assert_eq!(slots.take_slot(at, Wall(due), Millis(length)), Some(free));
            at
        };
        (0..times).map(one).collect()
    }

    /// The same nodes, of which each is looked at for each choice.
    struct LinearScan(Vec<NodeSlots>);

    impl LinearScan {
        fn best(&self, among: impl Iterator<Item = usize>) -> Option<(usize, i64)> {
            among.max_by_key(|at| self.0[*at].rank(*at)).map(|at| (at, self.0[at].free))
        }
    }

    /// proves: S0-39, S0-41, I42
    #[test]
    fn the_order_that_is_kept_chooses_as_a_look_at_every_node_would() {
        for seed in 0..300_u64 {
            let mut random = seed;
            let mut next = |below: usize| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(random >> 33).unwrap() % below
            };
            let span = |n: usize| Millis(i64::try_from(n).unwrap());
            let node = |slots, busy, score| NodeSlots::new(slots, busy, Score(score));
            let mut small = |below| u32::try_from(next(below)).unwrap();
            let nodes: Vec<NodeSlots> = (0..=small(20)).map(|_| node(small(9), small(4), small(3))).collect();
            let groups: Vec<Vec<usize>> =
                (0..4).map(|_| (0..nodes.len()).filter(|_| small(3) > 0).collect()).collect();
            let (mut slots, mut scan, mut now) =
                (TestTimeline::new(nodes.clone()), LinearScan(nodes), Wall(0));
            for step in 0..400 {
                // Nearly always a moment or none; now and then so long that runs end on many nodes.
                now = now + span(next(2) * next(40) + next(2) * next(2) * next(900));
                slots.advance(now);
                scan.0.iter_mut().for_each(|node| node.advance(now));
                let (group, closed, length) = (next(4), next(30), span(next(300)));
                let may = |at: &usize| at % 30 != closed;
                let chosen = slots.best(u32::try_from(group).unwrap(), &groups[group], may);
                assert_eq!(
                    chosen,
                    scan.best(groups[group].iter().copied().filter(may)),
                    "seed {seed} step {step}"
                );
                // Others are given runs as well, which stand in plans already.
                let (any, other) = (next(scan.0.len()), next(3) == 0);
                let Some(at) = chosen.map(|(at, _)| at).filter(|_| !other).or(other.then_some(any)) else {
                    continue;
                };
                assert_eq!(slots.take_slot(at, now, length), Some(scan.0[at].free));
                scan.0[at].take(now, now, length);
            }
        }
    }

    /// proves: S0-42, I42
    #[test]
    fn six_runs_over_three_one_and_two_free_slots() {
        let mut slots = timeline(&[3, 1, 2]);
        assert_eq!(give(&mut slots, 6, 0, 300_000), [0, 2, 0, 1, 2, 0]);
        assert_eq!(best(&mut slots, |_| true), Some((0, 0)), "all are used up: the next one queues");
        assert_eq!(best(&mut slots, |at| *at == 2), Some((2, 0)));
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
                let Some((at, has)) = best(&mut slots, |at| *at != closed) else {
                    assert_eq!(most, None);
                    continue;
                };
                assert_eq!((Some(has), free(at)), (most, has), "seed {seed}");
                if has <= 0 {
                    continue;
                }
                let length = 1 + next(5_000);
                slots.take_slot(at, Wall(now), Millis(length));
                given.push((at, now + length));
            }
        }
    }

    /// proves: S0-41
    #[test]
    fn of_equals_the_idler_one_is_taken_and_then_the_first_by_name() {
        let scores = [900, 100, 100];
        let mut slots = TestTimeline::new(scores.map(|score| NodeSlots::new(2, 0, Score(score))));
        assert_eq!(give(&mut slots, 3, 0, 1_000), [1, 2, 0]);
        assert_eq!(TestTimeline::new([]).best(0, &[0], |_| true), None);
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
        assert_eq!(best(&mut slots, |_| true).map(|(_, free)| free), Some(0));
        slots.advance(Wall(3_000));
        assert_eq!(best(&mut slots, |_| true), Some((0, 1)));
    }

    /// proves: S0-42
    #[test]
    fn what_queues_takes_its_slot_when_one_is_free() {
        let mut slots = timeline(&[1]);
        give(&mut slots, 3, 0, 4_000);
        for (now, free) in [(0, -2), (4_000, -1), (7_999, -1), (8_000, 0), (12_000, 1)] {
            slots.advance(Wall(now));
            assert_eq!(best(&mut slots, |_| true), Some((0, free)), "at {now}");
        }
    }
}
