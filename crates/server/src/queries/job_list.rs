//! Lists of jobs.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use evenkeel::Handle;
use evenkeel_client::types::{JobPage, JobRow, zone};
use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::job::JobSelector;
use evenkeel_core::time::Wall;
use evenkeel_core::view::{JobView, View};

use super::job_snapshot::{JobSnapshot, job_snapshot, next};
use super::lookup::{LOOK, planner};
use crate::zones;

/// Whether a job's name contains this text, in either case. Every name contains an empty text.
fn is_in(name: &JobName, find: &str) -> bool {
    let (name, find) = (name.as_str().as_bytes(), find.as_bytes());
    find.is_empty() || name.windows(find.len()).any(|part| part.eq_ignore_ascii_case(find))
}

/// Which jobs a list has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobSearch<'a> {
    /// Jobs whose names contain this text, in either case.
    pub(crate) find: &'a str,
    /// Jobs whose labels meet these conditions.
    pub(crate) labels: Option<&'a JobSelector>,
    /// Jobs of this namespace; of all for none.
    pub(crate) namespace: Option<&'a Namespace>,
}

/// A page of the jobs after this name.
pub(crate) fn jobs(handle: &Handle, after: Option<&JobName>, limit: usize, search: JobSearch<'_>) -> JobPage {
    let JobSearch { find, labels, namespace } = search;
    let now = zones::now();
    let (total, elsewhere) = handle.with_node(|node| counts(node.view(), namespace));
    // Whether other jobs match is not known without looking at them.
    let total = Some(total).filter(|_| find.is_empty() && labels.is_none());
    let mut jobs: Vec<JobRow> = Vec::new();
    let mut last = after.cloned();
    loop {
        let looked_at =
            if find.is_empty() && labels.is_none() { LOOK.min(limit - jobs.len() + 1) } else { LOOK };
        let seen = look(handle, last.as_ref(), looked_at, search);
        let more = seen.len() == looked_at;
        for (name, copied) in seen {
            // One more than requested is searched, to know whether the page is the last one.
            if copied.is_some() && jobs.len() >= limit {
                return JobPage {
                    jobs,
                    after: last.map(String::from),
                    total,
                    elsewhere,
                    missing: Vec::new(),
                };
            }
            jobs.extend(copied.map(|copied| row(copied, now)));
            last = Some(name);
        }
        if !more {
            return JobPage { jobs, after: None, total, elsewhere, missing: Vec::new() };
        }
    }
}

/// The jobs that are due soonest, those without a next fire last. It looks at all jobs, and remembers no more than it returns.
pub(crate) fn jobs_by_next(handle: &Handle, limit: usize, search: JobSearch<'_>) -> JobPage {
    let now = zones::now();
    let (total, elsewhere) = handle.with_node(|node| counts(node.view(), search.namespace));
    let mut soonest: BTreeSet<DueJob> = BTreeSet::new();
    let mut last = None;
    loop {
        let seen = look(handle, last.as_ref(), LOOK, search);
        let more = seen.len() == LOOK;
        for (name, copied) in seen {
            soonest.extend(copied.map(|copied| DueJob::of(row(copied, now))));
            if soonest.len() > limit {
                soonest.pop_last();
            }
            last = Some(name);
        }
        if !more {
            let total = Some(total).filter(|_| search.find.is_empty() && search.labels.is_none());
            let jobs = soonest.into_iter().map(|due| due.row).collect();
            return JobPage { jobs, after: None, total, elsewhere, missing: Vec::new() };
        }
    }
}

/// A job in the order of next fires, then of names.
struct DueJob {
    row: JobRow,
}

impl DueJob {
    fn of(row: JobRow) -> Self {
        Self { row }
    }

    /// Moments are written so that their texts have their order.
    fn key(&self) -> (bool, Option<&str>, &str) {
        (self.row.next.is_none(), self.row.next.as_deref(), &self.row.name)
    }
}

impl Ord for DueJob {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for DueJob {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for DueJob {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for DueJob {}

/// Up to so many jobs after this name, each with what is copied of it if it is searched for.
fn look(
    handle: &Handle,
    last: Option<&JobName>,
    count: usize,
    JobSearch { find, labels, namespace }: JobSearch<'_>,
) -> Vec<(JobName, Option<JobSnapshot>)> {
    handle.with_node(|node| {
        let (view, planner) = (node.view(), planner(node));
        let found = |job: JobView<'_>| {
            let copied = is_in(job.name(), find).then(|| job_snapshot(view, planner, job)).flatten();
            copied.filter(|copied| labels.is_none_or(|labels| labels.fits(&copied.spec.job.labels)))
        };
        let named = |job: JobView<'_>| (job.name().clone(), found(job));
        match namespace {
            Some(namespace) => view.page_in(namespace, last, count).map(named).collect(),
            None => view.page(last, count).map(named).collect(),
        }
    })
}

/// How many jobs are in this namespace, or in all, and how many are in the others.
fn counts(view: &View, namespace: Option<&Namespace>) -> (usize, Option<usize>) {
    match namespace {
        Some(namespace) => (view.jobs_in(namespace), Some(view.jobs_outside(namespace))),
        None => {
            let one = Namespace::default();
            (view.jobs_in(&one) + view.jobs_outside(&one), None)
        }
    }
}

fn row(copied: JobSnapshot, now: Wall) -> JobRow {
    let next = next(&copied, now);
    let job = copied.spec.job;
    JobRow {
        name: job.name.to_string(),
        timezone: zone(job.timezone()),
        placement: job.placement.kind(),
        owner: copied.owner,
        nodes: copied.nodes,
        next,
        paused: copied.spec.paused,
        disabled: !job.enabled,
        shadow: job.shadow,
        missing: copied.missing,
        unschedulable: copied.unschedulable,
        labels: job.labels.clone().into(),
        runs: None,
        schedule: job.rules().lines().map(str::trim).collect::<Vec<_>>().join("; "),
    }
}
