//! The job, the nodes and the first moment of every search.

use evenkeel_core::ids::{JobName, NodeName};

/// The wall time when the model's clock shows 0: 2026-01-01T00:00:00Z.
pub(super) const EPOCH: i64 = 1_767_225_600_000;

pub(super) fn job() -> JobName {
    "j".parse().expect("a letter is a name")
}

pub(super) fn name(index: usize) -> NodeName {
    ["a", "b"][index].parse().expect("a letter is a name")
}
