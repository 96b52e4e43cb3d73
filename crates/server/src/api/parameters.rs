//! Parameters of manual runs: what a request may give, and what the answer about a run shows.

use std::collections::BTreeMap;

use evenkeel::RunRecord;
use evenkeel_core::ids::{JobName, RunId};
use evenkeel_core::job::RunParameters;

use super::{ApiError, App};
use crate::{queries, text_input};

/// Refuses a name that is like one of the job's parameters and is none. The node that writes the request checks the rest,
/// against the declaration that the run begins with.
pub(super) fn check_names(app: &App, job: &JobName, given: &RunParameters) -> Result<(), ApiError> {
    let declared = queries::parameter_names(&app.handle, job);
    let declared: Vec<&str> = declared.iter().map(String::as_str).collect();
    let wrong = given.iter().map(|(name, _)| name).filter(|name| !declared.contains(name));
    let mut meant = wrong.filter_map(|name| Some((name, text_input::nearest(name, &declared)?)));
    match meant.next() {
        Some((name, meant)) => {
            Err(ApiError::invalid(format!("job {job} has no parameter {name:?}: did you mean {meant:?}?")))
        }
        None => Ok(()),
    }
}

/// The parameters of a run, of its first attempt or, before that, of its request.
pub(super) fn shown(app: &App, run: &RunId, first: Option<&RunRecord>) -> Option<BTreeMap<String, String>> {
    let parameters = match first {
        Some(record) => record.parameters.clone(),
        None => queries::requested_parameters(&app.handle, run),
    };
    let shown = parameters.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(shown.collect()).filter(|shown: &BTreeMap<_, _>| !shown.is_empty())
}
