//! What a view keeps of one job, and the terms by which it fires.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::group_index::{GroupId, GroupedJob};
use super::known_entry::KnownEntry;
use super::packed_spec::PackedSpec;
use super::sharded_index::ShardTerms;
use crate::ids::{JobName, Member};
use crate::job::{Delivery, MisfireSettings, Placement, Priority};
use crate::record::RunState;
use crate::registry::Revision;
use crate::schedule::Schedule;
use crate::time::{Mono, Wall};

/// The view's data of one job. Kept small: the declaration stays encoded, and most jobs belong to other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JobState {
    pub(crate) name: JobName,
    pub(crate) spec: PackedSpec,
    pub(crate) enabled: bool,
    pub(crate) live: bool,
    /// Whether an operator has switched something of it.
    pub(crate) switched: bool,
    pub(crate) placement: Placement,
    pub(crate) priority: Priority,
    /// The jobs that may run on the same nodes.
    pub(crate) group: GroupId,
    pub(crate) owner: Option<Arc<Member>>,
    pub(crate) epoch: u64,
    pub(crate) assignment: Revision,
    /// Whether it has no owner while its run waits for another attempt.
    pub(crate) waits: bool,
    /// The version of the spec, and the version that the assignment goes with.
    pub(crate) versions: (u64, u64),
    /// Since when, by our clock, it has had no owner.
    pub(crate) free_since: Mono,
    /// Our own order among free jobs.
    pub(crate) order: u64,
    /// The last listing that named it.
    pub(super) listing: u32,
}

/// The part of a job's declaration that firing needs, decoded once for the jobs owned here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobTerms {
    /// The schedule, under the calendars that the job names; `None` for a job that runs only when triggered, and while
    /// one of its calendars is missing.
    pub schedule: Option<Schedule>,
    /// Fires up to here are ignored.
    pub since: Wall,
    /// Whether it runs only when triggered manually.
    pub paused: bool,
    /// Whether it may be owned at all.
    pub enabled: bool,
    /// The delivery: what becomes of a run whose outcome is unknown.
    pub delivery: Delivery,
    /// Its misfire settings; `None` for the default ones.
    pub(super) misfire: Option<Box<MisfireSettings>>,
    /// After how many runs in a row that ended badly it is paused.
    pub pause_after_failures: Option<u32>,
    /// The terms that only sharded jobs have.
    pub shards: Option<Box<ShardTerms>>,
}

/// An owned job: its run state and the decoded terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnedJob {
    /// The run state; `None` while it was not read yet.
    pub run_state: Option<KnownEntry<Box<RunState>>>,
    /// The job's terms; `None` when the job is deleted or unreadable.
    pub terms: Option<JobTerms>,
    /// How many fires are open that this node runs in this life.
    pub(super) opens: usize,
}

impl JobState {
    /// The part of it that the groups count.
    pub(super) fn grouped(&self) -> GroupedJob {
        GroupedJob {
            group: self.group,
            enabled: self.enabled,
            claimable: self.enabled && self.placement == Placement::Claimed,
            owner: self.owner.clone(),
        }
    }
}

impl JobTerms {
    /// Its misfire settings.
    #[must_use]
    pub fn misfire(&self) -> MisfireSettings {
        self.misfire.as_deref().copied().unwrap_or_default()
    }
}

impl OwnedJob {
    /// The record of the run state; `None` while it is unread or absent.
    #[must_use]
    pub fn record(&self) -> Option<&RunState> {
        self.run_state.as_ref()?.value.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with a million jobs has a million of each.
    #[test]
    fn a_job_takes_little_memory() {
        assert!(size_of::<JobState>() <= 128, "{}", size_of::<JobState>());
        assert!(size_of::<OwnedJob>() <= 144, "{}", size_of::<OwnedJob>());
    }
}
