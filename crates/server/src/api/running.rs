//! The attempts that run now: the list behind the API, the command line and the console.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::{AttemptState, Handle, RunFilter, RunRecord};
use evenkeel_core::ids::NodeName;

use super::fanout::latest;
use super::{ApiError, App};
use crate::queries;

/// The maximum number of attempts to request at once.
const PAGE: u32 = 1_000;

/// All attempts that run now, the latest first.
#[derive(Default)]
pub(crate) struct RunningAttempts {
    /// The attempts.
    pub(crate) attempts: Vec<RunRecord>,
    /// Records that were found and are not current.
    stale: latest::LocatedAttempts,
    /// Online nodes whose histories could not be read.
    pub(crate) missing: Vec<NodeName>,
}

fn filter() -> RunFilter {
    RunFilter { states: vec![AttemptState::Running], limit: PAGE, ..RunFilter::default() }
}

/// Reads all histories.
///
/// # Errors
/// This node's history cannot be read.
pub(super) async fn all(app: &App, patience: Duration) -> Result<RunningAttempts, ApiError> {
    let (mut found, mut from) = (RunningAttempts::default(), None);
    loop {
        let page = latest::runs(app, filter(), from, patience).await?;
        found.attempts.extend(page.rows.into_iter().map(|(_, record)| record));
        found.stale.extend(page.stale);
        found.missing.extend(page.missing);
        from = page.next;
        if from.is_none() {
            return Ok(found.tidied(&app.handle));
        }
    }
}

/// The attempts running on this node, or on all if they share a history.
pub(super) async fn here(handle: &Handle) -> Vec<RunRecord> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let filter = RunFilter { before, ..filter() };
        let rows = handle.runs(filter).await.unwrap_or_default();
        before = rows.last().map(|record| record.seq);
        let full = rows.len() >= PAGE as usize;
        found.extend(rows);
        if !full {
            return found;
        }
    }
}

impl RunningAttempts {
    /// Adds these attempts of this node's own history.
    pub(super) fn and(&self, more: Vec<RunRecord>, handle: &Handle) -> Self {
        let stands = |record: &RunRecord| {
            let id = (record.run.clone(), record.attempt);
            !self.stale.contains(&(handle.name().clone(), id))
        };
        let attempts = self.attempts.iter().cloned().chain(more.into_iter().filter(stands)).collect();
        Self { attempts, stale: latest::LocatedAttempts::new(), missing: self.missing.clone() }.tidied(handle)
    }

    /// Each attempt once, and only if it still runs: an attempt of a dead node does not, whatever its history has.
    fn tidied(mut self, handle: &Handle) -> Self {
        let mut seen = BTreeSet::new();
        self.attempts.retain(|record| {
            queries::still_runs(handle, record) && seen.insert((record.run.clone(), record.attempt))
        });
        self.attempts.sort_by_key(|record| std::cmp::Reverse((record.started, record.seq)));
        self.missing.sort();
        self.missing.dedup();
        self
    }
}
