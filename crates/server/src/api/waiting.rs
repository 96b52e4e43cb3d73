//! Waiting runs that no history has, for lists of runs and for single ones.

use std::collections::BTreeSet;

use evenkeel_core::ids::{JobName, Namespace, RunId};

use super::running::RunningAttempts;
use super::{App, fanout, running};
use crate::queries::explain::{self, WaitingRuns};

/// The waiting runs of one job, or of all jobs of a namespace, or of all namespaces, that are known to have some: jobs with requests that no node has claimed, full
/// pools, running runs or no eligible node. None while the registry does not answer.
pub(super) async fn all(app: &App, job: Option<&JobName>, namespace: Option<&Namespace>) -> WaitingRuns {
    let (names, more): (Vec<JobName>, usize) = match job {
        Some(job) => (vec![job.clone()], 0),
        None => {
            // A fire that comes due during a run waits for its end. A history that does not answer names no runs.
            let running = running::all(app, fanout::PATIENCE).await.unwrap_or_default();
            let (names, more) = candidates(app, &running);
            let is_of = |job: &JobName| namespace.is_none_or(|of| job.namespace() == of.as_str());
            // How many of the further requests are of the namespace is not known.
            (names.into_iter().filter(is_of).collect(), if namespace.is_some() { 0 } else { more })
        }
    };
    if names.is_empty() {
        return WaitingRuns::default();
    }
    let troubles = fanout::troubles(app).await;
    let found = explain::waiting(&app.handle, &names, &troubles).await.unwrap_or_default();
    WaitingRuns { more: found.more + more, ..found }
}

/// The jobs that are known to have waiting runs, and the number of further requests that wait.
pub(super) fn candidates(app: &App, running: &RunningAttempts) -> (BTreeSet<JobName>, usize) {
    let (mut names, more): (BTreeSet<JobName>, usize) = app.handle.with_node(|node| {
        let view = node.view();
        let more = view.requested().count().saturating_sub(explain::JOBS_MAX);
        let unfit = view.groups().filter(|group| view.is_unschedulable(*group));
        let unfit = unfit.flat_map(|group| view.free_of(group));
        let ids = view.requested().chain(view.crowded()).chain(unfit).take(explain::JOBS_MAX);
        (ids.map(|id| view.job(id).name().clone()).collect(), more)
    });
    names.extend(running.attempts.iter().map(|record| record.job.clone()));
    (names, more)
}

/// Why a run has no attempt yet; `None` if it does not wait, or the reason is unknown.
pub(super) async fn why(app: &App, run: &RunId) -> Option<String> {
    let troubles = fanout::troubles(app).await;
    explain::why(&app.handle, run, &troubles).await
}

/// A message that no node can run a requested run, why, and how to cancel it.
pub(super) fn stuck(run: &str, why: &str) -> String {
    format!("run {run} waits: {why}; `evenkeel run kill {run}` takes it back")
}
