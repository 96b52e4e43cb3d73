//! Three sharding strategies, from the design of Elastic-Job-Lite, bit by bit.
//!
//! Each assigns `total` shards to nodes in an order: every node gets `total / n` in a row, and the first ones get one
//! more each of the remainder. They differ in the order only. The design's first version orders nodes by ascending
//! name, the later ones by descending name; so the order is a job's own choice too.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::{JobName, Shard};
use crate::shards::ShardSet;

/// The sharding strategy of a job: the order in which nodes get shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardingStrategy {
    /// In the base order.
    #[default]
    Average,
    /// In the base order, or the reverse of it, by the parity of a hash of the job's name.
    OddEven,
    /// Beginning at a place in the base order that a hash of the job's name chooses, so that jobs of few shards spread.
    Rotate,
}

/// The base order of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeOrder {
    /// By the bytes of their names, as version 1 of the design (S2-08).
    #[default]
    Ascending,
    /// By descending names, as its versions 2 and 3.
    Descending,
}

/// Assigns `total` shards to these nodes; returns those of each, in the order of `nodes`, which does not affect them.
#[must_use]
pub fn assign_shards(
    strategy: ShardingStrategy,
    order: NodeOrder,
    job: &JobName,
    total: u32,
    nodes: &[&str],
) -> Vec<ShardSet> {
    let mut line: Vec<usize> = (0..nodes.len()).collect();
    line.sort_by_key(|at| nodes[*at]);
    if order == NodeOrder::Descending {
        line.reverse();
    }
    let hash = java_hash(job.as_str());
    match strategy {
        ShardingStrategy::Average => {}
        ShardingStrategy::OddEven if hash % 2 == 0 => line.reverse(),
        ShardingStrategy::OddEven => {}
        // The design's own code takes the absolute value in 32 bits, which fails for one hash in four billion.
        ShardingStrategy::Rotate => line.rotate_left(hash.unsigned_abs() as usize % nodes.len().max(1)),
    }
    let mut assignments = Vec::new();
    assignments.resize(nodes.len(), ShardSet::empty());
    for (assignment, at) in split_evenly(total, nodes.len()).zip(line) {
        assignments[at] = assignment;
    }
    assignments
}

/// Assignments of equal size in a row; the remainder goes to the first, one each.
fn split_evenly(total: u32, nodes: usize) -> impl Iterator<Item = ShardSet> {
    let n = u32::try_from(nodes).unwrap_or(u32::MAX).max(1);
    let (each, rest) = (total / n, total % n);
    (0..n).map(move |k| {
        let mut assignment = ShardSet::range(k * each, (k + 1) * each);
        if k < rest {
            assignment.insert(Shard(each * n + k));
        }
        assignment
    })
}

/// `String.hashCode` of Java, by UTF-16 code units.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    fn shown(
        strategy: ShardingStrategy,
        order: NodeOrder,
        job: &str,
        total: u32,
        nodes: &[&str],
    ) -> Vec<String> {
        let job = job.parse().unwrap();
        assign_shards(strategy, order, &job, total, nodes).iter().map(ToString::to_string).collect()
    }

    /// proves: S2-08
    #[test]
    fn the_worked_examples_of_version_1() {
        let abc = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let cut = |total| shown(ShardingStrategy::Average, NodeOrder::Ascending, "any", total, &abc);
        assert_eq!(cut(8), ["0-1,6", "2-3,7", "4-5"]);
        assert_eq!(cut(10), ["0-2,9", "3-5", "6-8"]);
        assert_eq!(cut(9), ["0-2", "3-5", "6-8"]);
        assert_eq!(cut(1), ["0", "", ""]);
    }

    /// proves: S2-08
    #[test]
    fn the_worked_examples_of_version_3() {
        let abc = ["10.0.0.1@-@100", "10.0.0.2@-@200", "10.0.0.3@-@300"];
        let cut =
            |strategy, job, total, nodes: &[&str]| shown(strategy, NodeOrder::Descending, job, total, nodes);
        assert_eq!(cut(ShardingStrategy::Average, "any", 10, &abc), ["6-8", "3-5", "0-2,9"]);
        assert_eq!(cut(ShardingStrategy::Average, "any", 2, &abc), ["", "1", "0"]);
        assert_eq!(cut(ShardingStrategy::Average, "any", 8, &abc), ["4-5", "2-3,7", "0-1,6"]);
        let mixed = ["10.0.0.10@-@5", "10.0.0.2@-@5", "10.0.0.9@-@5", "10.0.0.9@-@12"];
        assert_eq!(cut(ShardingStrategy::Average, "any", 9, &mixed), ["6-7", "4-5", "0-1,8", "2-3"]);
        assert_eq!(cut(ShardingStrategy::OddEven, "jobA", 4, &abc[..2]), ["0-1", "2-3"]);
        assert_eq!(cut(ShardingStrategy::OddEven, "jobB", 4, &abc[..2]), ["2-3", "0-1"]);
        assert_eq!(cut(ShardingStrategy::OddEven, "jobC", 1, &abc), ["0", "", ""]);
        assert_eq!(cut(ShardingStrategy::Rotate, "jobA", 4, &abc), ["0,3", "2", "1"]);
        assert_eq!(cut(ShardingStrategy::Rotate, "jobB", 4, &abc), ["2", "1", "0,3"]);
        assert_eq!(cut(ShardingStrategy::Rotate, "billing", 10, &abc), ["3-5", "0-2,9", "6-8"]);
    }

    #[test]
    fn hashes_are_those_of_java() {
        let hashes = ["jobA", "jobB", "jobC", "billing", "polygenelubricants"].map(java_hash);
        assert_eq!(hashes, [3_267_620, 3_267_621, 3_267_622, -109_829_509, i32::MIN]);
        let cut =
            shown(ShardingStrategy::Rotate, NodeOrder::Descending, "polygenelubricants", 3, &["a", "b", "c"]);
        assert_eq!(cut.len(), 3, "the one hash without an absolute value is cut too");
    }

    /// proves: I32, I34
    #[test]
    fn every_shard_is_dealt_once_and_evenly_whoever_came_first() {
        let names = ["n-1", "n-10", "n-2", "n-3", "a", "Z", "z"];
        for strategy in [ShardingStrategy::Average, ShardingStrategy::OddEven, ShardingStrategy::Rotate] {
            for total in 0..40 {
                for n in 1..=names.len() {
                    let job = "some-job".parse().unwrap();
                    let cut = |nodes: &[&str]| {
                        super::assign_shards(strategy, NodeOrder::Ascending, &job, total, nodes)
                    };
                    let assignments = cut(&names[..n]);
                    let all = assignments.iter().fold(ShardSet::empty(), |all, p| all.or(p));
                    let sizes: Vec<usize> = assignments.iter().map(ShardSet::len).collect();
                    assert_eq!((all, sizes.iter().sum()), (ShardSet::all(total), total as usize));
                    assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
                    let mut reversed: Vec<&str> = names[..n].to_vec();
                    reversed.reverse();
                    let again: Vec<ShardSet> = cut(&reversed).into_iter().rev().collect();
                    assert_eq!(again, assignments, "the order of arrival does not matter");
                }
            }
        }
    }
}
