//! What runs now: the one list from which the API, the command line and the console count.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::{Handle, RunFilter, RunRecord, State};
use evenkeel_core::words::NodeName;

use super::{ApiError, App, elsewhere};
use crate::board;

/// The most attempts that are asked for at once.
const PAGE: u32 = 1_000;

/// All attempts that run now, the latest first.
#[derive(Default)]
pub(crate) struct Running {
    /// Each of them.
    pub(crate) attempts: Vec<RunRecord>,
    /// Nodes that live and did not say what their histories have.
    pub(crate) missing: Vec<NodeName>,
}

fn filter() -> RunFilter {
    RunFilter { states: vec![State::Running], limit: PAGE, ..RunFilter::default() }
}

/// Asks all histories.
///
/// # Errors
/// This node's history cannot be read.
pub(super) async fn all(app: &App) -> Result<Running, ApiError> {
    let mut found = Running::default();
    let mut from = None;
    loop {
        let page = elsewhere::runs(app, filter(), from).await?;
        found.attempts.extend(page.rows);
        found.missing.extend(page.missing);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    Ok(found.tidied(&app.handle))
}

/// What runs on other nodes that keep histories of their own, as far as they say so in time.
pub(super) async fn elsewhere(app: &App, patience: Duration) -> Running {
    let mut found = Running::default();
    let mut from: Option<elsewhere::Cursor> = None;
    loop {
        let sources = elsewhere::other_runs(app, &filter(), from.as_ref(), patience).await;
        let page = sources.page((app.handle.name().clone(), Vec::new()), PAGE);
        found.attempts.extend(page.rows);
        found.missing.extend(page.missing);
        from = page.next;
        if from.is_none() {
            return found;
        }
    }
}

/// What runs on the node that is asked, or on all where they share a history.
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

impl Running {
    /// With these too.
    pub(super) fn and(&self, more: Vec<RunRecord>, handle: &Handle) -> Self {
        let attempts = self.attempts.iter().cloned().chain(more).collect();
        Self { attempts, missing: self.missing.clone() }.tidied(handle)
    }

    /// Each once, and only what goes on: what a dead node ran does not, whatever its history says.
    fn tidied(mut self, handle: &Handle) -> Self {
        let mut seen = BTreeSet::new();
        self.attempts.retain(|record| {
            board::still_runs(handle, record) && seen.insert((record.run.clone(), record.attempt))
        });
        self.attempts.sort_by_key(|record| std::cmp::Reverse((record.started, record.seq)));
        self.missing.sort();
        self.missing.dedup();
        self
    }
}
