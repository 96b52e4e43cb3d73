//! Runs that wait and that no history has, for lists of runs and for single ones.

use std::collections::BTreeSet;

use evenkeel_core::words::{JobName, RunId};

use super::{App, elsewhere, running};
use crate::board::{self, explain};
use crate::rows::RunRow;

/// Those of one job, or of all that are known to have some: jobs with requests that no node has taken, jobs in full pools, jobs
/// whose runs go on, and jobs that no living node fits. None while the registry does not answer.
pub(super) async fn all(app: &App, job: Option<&JobName>) -> Vec<RunRow> {
    let names: Vec<JobName> = match job {
        Some(job) => vec![job.clone()],
        None => candidates(app).await.into_iter().collect(),
    };
    explain::waiting(&app.handle, &names).await.unwrap_or_default()
}

async fn candidates(app: &App) -> BTreeSet<JobName> {
    let mut names: BTreeSet<JobName> = app.handle.look(|node| {
        let view = node.view();
        let unfit = view.groups().filter(|group| view.fits_nobody(*group));
        let unfit = unfit.flat_map(|group| view.free_of(group));
        let ids = view.requested().chain(view.crowded()).chain(unfit).take(explain::JOBS_MAX);
        ids.map(|id| view.job(id).name().clone()).collect()
    });
    // What comes due while a run goes on waits for its end. A history that does not answer names none.
    let running = running::all(app, elsewhere::PATIENCE).await.unwrap_or_default();
    names.extend(running.attempts.into_iter().map(|record| record.job));
    names
}

/// Why a run that was not attempted yet has not begun; `None` where it does not wait, or nobody can say.
pub(super) async fn why(app: &App, run: &RunId) -> Option<String> {
    let names = [run.job.clone()];
    let rows = explain::waiting(&app.handle, &names).await.ok()?;
    let (one, whole) = (run.to_string(), evenkeel_core::words::FireId::from(run).to_string());
    rows.into_iter().find(|row| row.run == one || row.run == whole)?.reason
}

/// That no node can run what was just asked for, why, and how to take it back.
pub(super) fn stuck(app: &App, job: &JobName, run: &str) -> Option<String> {
    let why = board::fits_nobody(&app.handle, job).or_else(|| explain::no_node(&app.handle, job))?;
    Some(format!("run {run} waits: {why}; `evenkeel run kill {run}` takes it back"))
}
