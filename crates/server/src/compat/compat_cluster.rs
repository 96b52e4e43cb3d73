//! A snapshot of the whole cluster, for the forms that show more than one job.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::{Member, NodeName, RequestId};
use evenkeel_core::job::{Job, Spec};
use evenkeel_core::record::{Attempt, BeatRecord, LoadRecord, MemberInfo, Plan, ServingRecord};
use evenkeel_core::schedule::CalendarFilter;
use evenkeel_core::time::Wall;

/// The cluster at about one moment.
#[derive(Clone, Debug)]
pub(crate) struct CompatCluster {
    /// The online nodes, the latest incarnation of each, by name.
    pub(crate) nodes: Vec<CompatNode>,
    /// The names of draining or drained nodes, online or not.
    pub(crate) drained: BTreeSet<NodeName>,
    /// Offline nodes, and when they last reported their load.
    pub(crate) away: BTreeMap<NodeName, Wall>,
    /// The operations done once a beat: the node that took each last, and when that beat began.
    pub(crate) beats: Vec<(String, BeatRecord, Wall)>,
    /// The serving leader, if the planner is a leader.
    pub(crate) serving: Option<ServingRecord>,
    /// The jobs, by name.
    pub(crate) jobs: Vec<CompatJobSummary>,
    /// When the snapshot was taken.
    pub(crate) now: Wall,
}

/// An online node.
#[derive(Clone, Debug)]
pub(crate) struct CompatNode {
    /// The member: node and incarnation.
    pub(crate) member: Member,
    /// Its member entry.
    pub(crate) info: MemberInfo,
    /// The number of jobs that it owns (X).
    pub(crate) held: usize,
    /// Its quota (N).
    pub(crate) quota: usize,
    /// Its last reported load.
    pub(crate) load: Option<LoadRecord>,
    /// The number of its strikes: beats in which peers could not reach it.
    pub(crate) strikes: u32,
    /// Since when it is offline.
    pub(crate) offline: Option<Wall>,
    /// When it joined, if history has that.
    pub(crate) joined: Option<Wall>,
}

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct CompatJobSummary {
    /// The declaration with the operators' switches.
    pub(crate) spec: Spec,
    /// The calendars that it names, unless one of them is missing.
    pub(crate) calendars: Option<CalendarFilter>,
    /// The members that own it, or shards of it.
    pub(crate) holders: BTreeSet<Member>,
    /// Its open fires, if it is claimed as a whole.
    pub(crate) open: Vec<Attempt>,
    /// Its plan, if it is dispatched.
    pub(crate) plan: Option<Plan>,
    /// Unclaimed requests to run it now, and when they were made.
    pub(crate) waiting: Vec<(RequestId, Wall)>,
}

impl CompatCluster {
    /// The address of a node. A node that is gone has none: then its name is used.
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

    /// Whether a run of it has begun, by its run state.
    pub(super) fn runs(&self, now: Wall) -> bool {
        self.open.iter().any(|open| open.starts_at() <= now)
    }
}
