//! Runs that wait and that no history has, for lists of runs and for single ones.

use std::collections::BTreeSet;

use evenkeel_core::ids::{JobName, RunId};

use super::{App, fanout, running};
use crate::queries::explain::{self, WaitingRuns};

/// Those of one job, or of all that are known to have some: jobs with requests that no node has taken, jobs in full pools, jobs
/// whose runs go on, and jobs that no living node fits. None while the registry does not answer.
pub(super) async fn all(app: &App, job: Option<&JobName>) -> WaitingRuns {
    let (names, more): (Vec<JobName>, usize) = match job {
        Some(job) => (vec![job.clone()], 0),
        None => {
            let (names, more) = candidates(app).await;
            (names.into_iter().collect(), more)
        }
    };
    if names.is_empty() {
        return WaitingRuns::default();
    }
    let troubles = fanout::troubles(app).await;
    let found = explain::waiting(&app.handle, &names, &troubles).await.unwrap_or_default();
    WaitingRuns { more: found.more + more, ..found }
}

/// The jobs, and of how many more requests are known to wait.
async fn candidates(app: &App) -> (BTreeSet<JobName>, usize) {
    let (mut names, more): (BTreeSet<JobName>, usize) = app.handle.with_node(|node| {
        let view = node.view();
        let more = view.requested().count().saturating_sub(explain::JOBS_MAX);
        let unfit = view.groups().filter(|group| view.is_unschedulable(*group));
        let unfit = unfit.flat_map(|group| view.free_of(group));
        let ids = view.requested().chain(view.crowded()).chain(unfit).take(explain::JOBS_MAX);
        (ids.map(|id| view.job(id).name().clone()).collect(), more)
    });
    // What comes due while a run goes on waits for its end. A history that does not answer names none.
    let running = running::all(app, fanout::PATIENCE).await.unwrap_or_default();
    names.extend(running.attempts.into_iter().map(|record| record.job));
    (names, more)
}

/// Why a run that was not attempted yet has not begun; `None` where it does not wait, or nobody can say.
pub(super) async fn why(app: &App, run: &RunId) -> Option<String> {
    let troubles = fanout::troubles(app).await;
    explain::why(&app.handle, run, &troubles).await
}

/// That nothing can run what was just asked for, why, and how to take it back.
pub(super) fn stuck(run: &str, why: &str) -> String {
    format!("run {run} waits: {why}; `evenkeel run kill {run}` takes it back")
}
