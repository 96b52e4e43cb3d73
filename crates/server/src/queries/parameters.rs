//! The parameters of jobs and of requested runs.

use evenkeel::Handle;
use evenkeel_core::ids::{Fire, JobName, RunId};
use evenkeel_core::job::RunParameters;

/// The names of the parameters that a job declares; none if there is no such job.
pub(crate) fn parameter_names(handle: &Handle, name: &JobName) -> Vec<String> {
    handle.with_node(|node| {
        let spec = node.view().find(name).and_then(|job| job.spec());
        spec.map(|spec| spec.job.parameters.keys().cloned().collect()).unwrap_or_default()
    })
}

/// The parameters of a manual run that no node has claimed yet.
pub(crate) fn requested_parameters(handle: &Handle, run: &RunId) -> RunParameters {
    let Fire::Asked(id) = &run.fire else { return RunParameters::default() };
    handle.with_node(|node| {
        let job = node.view().find(&run.job);
        let Some(record) = job.and_then(|job| job.triggers()?.value.as_ref()) else {
            return RunParameters::default();
        };
        match record.requests.iter().find(|request| request.id == *id) {
            Some(request) => request.parameters.clone(),
            None => {
                let backfill = record.backfills.iter().find(|backfill| backfill.awaits(&run.fire));
                backfill.map(|backfill| backfill.parameters.clone()).unwrap_or_default()
            }
        }
    })
}
