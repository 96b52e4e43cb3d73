//! The ranking of nodes for a choice, kept as their slots are taken and freed.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::load::Score;
use crate::time::Wall;

/// The rank of a node: by its free slots, then by when its next run ends, what it was given, its score and its place in
/// the order of the nodes' names. No two ranks are equal.
pub(super) type NodeRank = (i64, (Reverse<Option<Wall>>, Reverse<i64>), Reverse<Score>, Reverse<usize>);

/// A set of nodes in the order of choice.
#[derive(Clone, Debug)]
pub(super) struct NodeRanking {
    ranks: BTreeSet<NodeRank>,
    /// By place: the rank of each node in `ranks`, if it is one of them.
    of: Vec<Option<NodeRank>>,
    /// How many changes of nodes the order has followed; `None` while it was not made.
    pub(super) seen: Option<usize>,
}

impl NodeRanking {
    /// An empty ranking for this number of nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Self { ranks: BTreeSet::new(), of: alloc::vec![None; nodes], seen: None }
    }

    /// Makes the order of the nodes at these places anew.
    pub(super) fn renew(&mut self, among: impl Iterator<Item = usize>, rank: impl Fn(usize) -> NodeRank) {
        self.of.fill(None);
        among.for_each(|at| self.of[at] = Some(rank(at)));
        self.ranks = self.of.iter().flatten().copied().collect();
    }

    /// Updates the rank of the node at this place.
    pub(super) fn moved(&mut self, at: usize, rank: impl Fn(usize) -> NodeRank) {
        if let Some(had) = &mut self.of[at] {
            let now = rank(at);
            if now != *had {
                self.ranks.remove(had);
                self.ranks.insert(now);
                *had = now;
            }
        }
    }

    /// The first node that may be chosen.
    pub(super) fn best(&self, may: impl Fn(&usize) -> bool) -> Option<usize> {
        self.ranks.iter().rev().map(|(.., Reverse(at))| *at).find(|at| may(at))
    }
}
