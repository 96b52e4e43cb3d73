//! What a look at the whole cluster found, for the forms that write down more than one job.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::{Member, NodeName, RequestId};
use evenkeel_core::job::{Job, Spec};
use evenkeel_core::record::{BeatRecord, LoadRecord, MemberInfo, Open, Plan, ServingRecord};
use evenkeel_core::schedule::CalendarFilter;
use evenkeel_core::time::Wall;

/// The cluster at about one moment.
#[derive(Clone, Debug)]
pub(crate) struct CompatCluster {
    /// The living nodes, the latest life of each, by name.
    pub(crate) nodes: Vec<CompatNode>,
    /// Nodes that somebody wants drained, living or not.
    pub(crate) drained: BTreeSet<NodeName>,
    /// Nodes that are away, and when they last said how busy they were.
    pub(crate) away: BTreeMap<NodeName, Wall>,
    /// The operations that nodes take beat by beat: who took which last, and when that beat began.
    pub(crate) beats: Vec<(String, BeatRecord, Wall)>,
    /// Who leads, where the planner is a leader.
    pub(crate) serving: Option<ServingRecord>,
    /// The jobs, by name.
    pub(crate) jobs: Vec<CompatJobSummary>,
    /// When it was looked.
    pub(crate) now: Wall,
}

/// A living node.
#[derive(Clone, Debug)]
pub(crate) struct CompatNode {
    /// Who, in which life.
    pub(crate) member: Member,
    /// What it says of itself.
    pub(crate) info: MemberInfo,
    /// How many jobs it holds (X).
    pub(crate) held: usize,
    /// How many it may hold (N).
    pub(crate) quota: usize,
    /// How busy it said it is.
    pub(crate) load: Option<LoadRecord>,
    /// In how many beats peers could not reach it, as counted against it.
    pub(crate) strikes: u32,
    /// Since when its peers take it for unreachable.
    pub(crate) offline: Option<Wall>,
    /// When it joined, as far as history knows.
    pub(crate) joined: Option<Wall>,
}

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct CompatJobSummary {
    /// What was declared and switched.
    pub(crate) spec: Spec,
    /// The calendars that it names, unless one of them is missing.
    pub(crate) calendars: Option<CalendarFilter>,
    /// Who holds it, or shards of it.
    pub(crate) holders: BTreeSet<Member>,
    /// The fire that is claimed and not finished, of a job that is held whole.
    pub(crate) open: Vec<Open>,
    /// What is planned of it, where it is dispatched.
    pub(crate) plan: Option<Plan>,
    /// Requests to run it now that nobody has taken, and when they were made.
    pub(crate) waiting: Vec<(RequestId, Wall)>,
}

impl CompatCluster {
    /// Where a node is reached. One that is gone took its address along: then its name stands for it.
    pub(super) fn address<'a>(&'a self, node: &'a NodeName) -> &'a str {
        let found = self.nodes.iter().find(|seen| seen.member.node == *node);
        let address = found.map_or("", |seen| seen.info.address.as_str());
        if address.is_empty() { node.as_str() } else { address }
    }

    pub(super) fn lives(&self, member: &Member) -> bool {
        self.nodes.iter().any(|seen| seen.member == *member)
    }
}

impl CompatJobSummary {
    pub(super) fn job(&self) -> &Job {
        &self.spec.job
    }

    /// Whether a run of it has begun, as far as its lane says.
    pub(super) fn runs(&self, now: Wall) -> bool {
        self.open.iter().any(|open| open.from <= now)
    }
}
