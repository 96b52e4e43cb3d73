//! The dispatched jobs that a view knows, and the runs of their plans.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use super::job_id::JobId;
use super::job_state::JobTerms;
use super::known_entry::KnownEntry;
use crate::ids::Member;
use crate::record::Plan;
use crate::registry::Revision;

/// A dispatched job, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DispatchedState {
    /// Its plan; `None` while it was not read in this life.
    pub plan: Option<KnownPlan>,
    /// Its terms; `None` when it is deleted, not dispatched any more, or unreadable.
    pub terms: Option<Box<JobTerms>>,
    /// Whether its assignment says that its plan may hold runs.
    pub planned: bool,
}

/// A plan, and up to which revision nothing newer is missing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownPlan {
    /// The plan at that revision.
    pub known: KnownEntry<Plan>,
    /// That revision.
    pub as_of: Revision,
}

/// The runs of each member, as far as plans are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PlannedRuns {
    /// For each member the jobs of which runs are planned for it, or executing.
    pub(super) by: BTreeMap<Member, BTreeSet<JobId>>,
    /// How many runs this node has accepted in this life.
    pub(super) accepted: usize,
}
