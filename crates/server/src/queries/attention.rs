//! Which jobs may need a person, by the view alone.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::{Handle, clock};
use evenkeel_core::ids::{JobName, Member, NodeName};
use evenkeel_core::job::Occasion;
use evenkeel_core::time::{Millis, Now, Wall};
use evenkeel_core::view::{GroupId, JobId, JobView, View};

use super::JobSearch;
use super::lookup::LOOK;
use super::names::no_job;

/// The most jobs that are checked for being unschedulable.
const SUSPECTS_MAX: usize = 10_000;

/// A job that no node can run, or that is never due, until somebody changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnschedulableJob {
    /// The job.
    pub(crate) job: JobName,
    /// Since when, as far as this node knows.
    pub(crate) since: Option<Wall>,
    /// Why, and the fix.
    pub(crate) why: String,
}

/// How long the runs of a job may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunBounds {
    /// One attempt.
    pub(crate) timeout: Option<Millis>,
    /// A run with all its attempts.
    pub(crate) run_timeout: Option<Millis>,
    /// From the moment of a fire to its outcome.
    pub(crate) absent_after: Option<Millis>,
}

/// Whether a job is one of those that are searched for.
fn is_meant(job: &JobView<'_>, search: JobSearch<'_>) -> bool {
    let in_namespace = search.namespace.is_none_or(|of| job.name().namespace() == of.as_str());
    let fits =
        || search.labels.is_none_or(|labels| job.spec().is_some_and(|spec| labels.fits(&spec.job.labels)));
    in_namespace && fits()
}

/// Those of these jobs that exist, are enabled and are searched for.
pub(crate) fn enabled_jobs(handle: &Handle, names: Vec<JobName>, search: JobSearch<'_>) -> Vec<JobName> {
    let mut found = Vec::new();
    for some in names.chunks(LOOK) {
        handle.with_node(|node| {
            let meant = |name: &&JobName| {
                let job = node.view().find(name);
                job.is_some_and(|job| job.is_enabled() && is_meant(&job, search))
            };
            found.extend(some.iter().filter(meant).cloned());
        });
    }
    found
}

/// Up to this many jobs with a due fire that waits for a slot of this node.
pub(crate) fn slot_waiters(handle: &Handle, most: usize) -> Vec<JobName> {
    handle.with_node(|node| {
        let waiting = node.local().slot_waiters().take(most);
        waiting.map(|id| node.view().job(id).name().clone()).collect()
    })
}

/// Up to this many jobs of which people were notified that a fire is late or has no outcome, the latest first.
pub(crate) fn notified_jobs(handle: &Handle, most: usize) -> Vec<JobName> {
    let mut found: Vec<(Wall, JobName)> = handle.with_node(|node| {
        let latest = |job: JobView<'_>| {
            let known = job.notifications()?;
            Some((known.late.max(known.absent)?, job.name().clone()))
        };
        node.view().watched().filter_map(latest).collect()
    });
    found.sort_by(|one, other| other.cmp(one));
    found.into_iter().take(most).map(|(_, job)| job).collect()
}

/// How long after their moments the fires of these jobs are late, where the jobs say so.
pub(crate) fn late_limits(handle: &Handle, names: &BTreeSet<JobName>) -> BTreeMap<JobName, Millis> {
    handle.with_node(|node| {
        let limit = |name: &JobName| {
            let limit = node.view().find(name)?.notify()?.limit(Occasion::Late)?;
            Some((name.clone(), limit))
        };
        names.iter().filter_map(limit).collect()
    })
}

/// How long the runs of these jobs may take, of the jobs that are searched for.
pub(crate) fn run_bounds(
    handle: &Handle,
    names: &BTreeSet<JobName>,
    search: JobSearch<'_>,
) -> BTreeMap<JobName, RunBounds> {
    let names: Vec<&JobName> = names.iter().collect();
    let mut found = BTreeMap::new();
    for some in names.chunks(LOOK) {
        handle.with_node(|node| {
            let bounds = |name: &&JobName| {
                let job = node.view().find(name).filter(|job| is_meant(job, search))?;
                let spec = job.spec()?;
                let absent_after = spec.job.notify.as_ref().and_then(|notify| notify.limit(Occasion::Absent));
                let (timeout, run_timeout) = (spec.job.timeout, spec.job.run_timeout);
                Some(((*name).clone(), RunBounds { timeout, run_timeout, absent_after }))
            };
            found.extend(some.iter().filter_map(bounds));
        });
    }
    found
}

/// The jobs that no node can run, or that are never due, and how many jobs more may be such ones.
pub(crate) fn unschedulable_jobs(handle: &Handle, search: JobSearch<'_>) -> (Vec<UnschedulableJob>, u64) {
    let (suspects, more) = handle.with_node(|node| suspects(node.view(), search));
    let now = clock::now();
    let mut found = Vec::new();
    for some in suspects.into_iter().collect::<Vec<_>>().chunks(LOOK) {
        handle.with_node(|node| {
            let view = node.view();
            let stuck = |(name, calendar): &(JobName, Option<String>)| {
                let job = view.find(name).filter(|job| job.is_enabled() && is_meant(job, search))?;
                let missing = calendar.as_ref().map(|calendar| without_calendar(name, calendar));
                let why = job.unschedulable_reason().or(missing)?;
                Some(UnschedulableJob { job: name.clone(), since: free_since(&job, now), why })
            };
            found.extend(some.iter().filter_map(stuck));
        });
    }
    found.extend(unsealed_jobs(handle, search));
    (found, more)
}

fn without_calendar(name: &JobName, calendar: &str) -> String {
    format!(
        "job {name} never fires: there is no calendar {calendar}, declare it with `evenkeel calendar apply`"
    )
}

/// Jobs that may be unschedulable, each with a calendar that it names and that is missing; and how many more there are.
/// Nothing is decoded here: the node waits meanwhile.
fn suspects(view: &View, search: JobSearch<'_>) -> (BTreeMap<JobName, Option<String>>, u64) {
    let is_meant = |job: &JobView<'_>| {
        job.is_enabled() && search.namespace.is_none_or(|of| job.name().namespace() == of.as_str())
    };
    let (mut found, mut more) = (BTreeMap::new(), 0);
    let mut add = |job: JobView<'_>, calendar: Option<String>| match found.len() < SUSPECTS_MAX {
        true => drop(found.insert(job.name().clone(), calendar)),
        false => more += 1,
    };
    for (calendar, users) in view.missing_calendars() {
        users.filter(is_meant).for_each(|job| add(job, Some(calendar.to_string())));
    }
    let blocked = blocked_groups(view);
    let switched = |job: &JobView<'_>| job.switched().next().is_some();
    let others = placed_elsewhere(view).map(|id| view.job(id));
    let others = others.filter(|job| blocked.contains(&job.group()) || switched(job));
    // In a group without a node that takes anything, a cordoned node may keep what it has.
    let owners = view.members().flat_map(|(member, _)| view.owned(member)).filter(|_| !blocked.is_empty());
    let owned = owners.map(|id| view.job(id)).filter(|job| blocked.contains(&job.group()));
    let free = blocked.iter().flat_map(|group| view.free_of(*group)).map(|id| view.job(id));
    free.chain(owned).chain(others).filter(is_meant).for_each(|job| add(job, None));
    (found, more)
}

/// The jobs that no single node owns.
fn placed_elsewhere(view: &View) -> impl Iterator<Item = JobId> {
    view.sharded().chain(view.dispatched())
}

/// The groups of jobs with no eligible node that takes anything new.
fn blocked_groups(view: &View) -> BTreeSet<GroupId> {
    let takes = |member: &Member| view.intent(&member.node).is_none() && !view.is_cordoned(&member.node);
    let blocked = |group: &GroupId| view.enabled_of(*group) > 0 && !view.fitting(*group).any(takes);
    view.groups().filter(blocked).collect()
}

/// Since when a claimed job has had no owner, as this node saw it.
fn free_since(job: &JobView<'_>, now: Now) -> Option<Wall> {
    let free = job.owner().is_none() && !job.is_sharded() && !job.is_dispatched();
    Some(job.free_since()).filter(|since| free && since.0 > 0).map(|since| now.wall - (now.mono - since))
}

/// The entries of jobs that no node of the cluster wrote.
fn unsealed_jobs(handle: &Handle, search: JobSearch<'_>) -> Vec<UnschedulableJob> {
    let names: Vec<JobName> = handle.with_node(|node| {
        let meant = |name: &&JobName| search.namespace.is_none_or(|of| name.namespace() == of.as_str());
        let all = node
            .view()
            .unsealed()
            .filter(|(_, spec, _)| search.labels.is_none_or(|labels| labels.fits(&spec.job.labels)));
        all.map(|(name, ..)| name).filter(meant).take(SUSPECTS_MAX).cloned().collect()
    });
    let row = |name: JobName| UnschedulableJob { why: no_job(handle, &name), job: name, since: None };
    names.into_iter().map(row).collect()
}

/// The offline nodes, and since when.
pub(crate) fn offline_nodes(handle: &Handle) -> Vec<(NodeName, Option<Wall>)> {
    handle.with_node(|node| {
        let view = node.view();
        let offline = view.members().map(|(member, _)| member).filter(|member| view.is_offline(member));
        let since = |name: &NodeName| Some(view.offline_entry(name)?.value.as_ref()?.since);
        offline.map(|member| (member.node.clone(), since(&member.node))).collect()
    })
}
