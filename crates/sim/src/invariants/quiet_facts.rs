//! What is read of a cluster at rest, and how soon it has to act.

use std::collections::BTreeSet;

use evenkeel_core::ids::{Member, NodeName};
use evenkeel_core::time::Millis;

use super::RecordedVerdicts;
use super::pools::PoolWaits;
use crate::workload::Workload;

/// How long a fire of a job at rest may be due and unclaimed, in milliseconds.
pub(super) const PROMPT: i64 = 3_000;

/// How long a run may take beyond its job's stated duration, and how long its closing takes, in milliseconds.
pub(super) const CLOSING: i64 = 4_000;

/// The data of the check, read together.
pub(super) struct QuietCluster<'a> {
    pub(super) at: i64,
    pub(super) ttl: Millis,
    pub(super) workload: &'a Workload,
    pub(super) members: BTreeSet<Member>,
    pub(super) drained: BTreeSet<NodeName>,
    pub(super) verdicts: &'a RecordedVerdicts,
    pub(super) pools: PoolWaits,
}
