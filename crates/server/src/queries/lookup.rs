//! Facts about a job or a node that many queries need.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::Handle;
use evenkeel_core::ids::{JobName, Member, NodeName};
use evenkeel_core::job::{JobLabels, Spec};
use evenkeel_core::node::Node;
use evenkeel_core::record::LoadRecord;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::view::{JobView, View};

/// Why histories of nodes take no entries, so that these nodes start nothing.
pub(crate) type HistoryFaults = BTreeMap<NodeName, String>;

/// The number of jobs copied in one look at the view, for which the node waits.
pub(super) const LOOK: usize = 200;

/// The planner of dispatched jobs; `None` also if this node does not trust its lease and cannot know it.
pub(super) fn planner(node: &Node) -> Option<&Member> {
    node.trusted_until(evenkeel::clock::now().mono)?;
    node.view().planner()
}

/// The declaration of a job, and the time up to which fires are ignored, also by changes of its calendars.
pub(crate) fn timed(view: &View, job: &JobView<'_>) -> Option<Spec> {
    let spec = job.spec()?;
    Some(Spec { since: view.since_of(&spec), ..spec })
}

/// Whether there is a job of this name.
pub(crate) fn is_job(handle: &Handle, name: &JobName) -> bool {
    handle.with_node(|node| node.view().find(name).is_some_and(|job| job.is_live()))
}

/// The labels of a job, if it exists.
pub(crate) fn labels(handle: &Handle, name: &JobName) -> Option<JobLabels> {
    handle.with_node(|node| Some(node.view().find(name)?.spec()?.job.labels.clone()))
}

/// The number of jobs that may fire: jobs that may be owned (K), sharded and dispatched ones.
pub(crate) fn enabled(handle: &Handle) -> usize {
    handle.with_node(|node| {
        let view = node.view();
        let others = view.sharded().chain(view.dispatched()).filter(|id| view.job(*id).is_enabled());
        view.enabled() + others.count()
    })
}

/// Whether a node of this name is online, drained or cordoned.
pub(crate) fn is_known(handle: &Handle, name: &NodeName) -> bool {
    handle.with_node(|node| {
        let view = node.view();
        !view.is_schedulable(name) || view.members().any(|(member, _)| member.node == *name)
    })
}

/// The names of the online nodes.
pub(crate) fn names(handle: &Handle) -> BTreeSet<NodeName> {
    handle.with_node(|node| node.view().members().map(|(member, _)| member.node.clone()).collect())
}

/// A load score in the API's format.
pub(super) fn points(load: &LoadRecord) -> f64 {
    f64::from(load.score.0) / 100.0
}

/// A job's schedule with its calendars, whatever its switches; `None` if there is no such job.
pub(crate) fn schedule(handle: &Handle, name: &JobName) -> Option<Option<Schedule>> {
    let (job, calendars) = handle.with_node(|node| {
        let job = node.view().find(name)?.spec()?.job;
        let calendars = node.view().calendars_of(&job);
        Some((job, calendars))
    })?;
    Some(job.schedule_with_calendars(calendars.as_ref()))
}
