//! Writes entries as rows: merged, once, and never over a final state.
//!
//! A batch is one transaction with every other writer locked out: its rows are read, worked out in memory, and written.
//! With it goes the batch's number, so that a commit whose answer was lost is recognized and not made twice.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::JobName;
use evenkeel_core::time::Wall;

use super::connection::{DatabaseError, HistoryConnection};
use super::entry::{BatchId, HistoryWrite};
use super::notice::Notice;
use super::{settlement, store};

/// The result of a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchResult {
    /// How many new rows each job has.
    pub(super) jobs: BTreeMap<JobName, u32>,
    /// The jobs with new versions.
    pub(super) redeclared: BTreeSet<JobName>,
    /// Whether the roll-ups changed.
    pub(super) is_counted: bool,
    /// The notices to send.
    pub(super) notices: Vec<Notice>,
}

/// Writes the batch in one transaction.
///
/// `unsure` is the result of the same batch when its commit was sent and not answered: it may have been made then. It
/// stays there for the next try when this one is not answered either.
pub(super) async fn write(
    link: &mut HistoryConnection,
    batch: &[HistoryWrite],
    stamp: &BatchId,
    unsure: &mut Option<BatchResult>,
    now: Wall,
) -> Result<BatchResult, DatabaseError> {
    link.lock().await?;
    if unsure.is_some() && !store::has(link, stamp).await? {
        *unsure = None;
    }
    if unsure.is_none() {
        let mut draft = store::load(link, batch, now).await?;
        for entry in batch {
            draft.take(entry);
            settlement::count(&mut draft, entry);
        }
        settlement::count_late(&mut draft);
        let notices = store::save(link, &mut draft, stamp).await?;
        *unsure = Some(BatchResult {
            redeclared: draft.versions.jobs(),
            jobs: draft.jobs,
            is_counted: draft.is_counted,
            notices,
        });
    }
    link.commit().await?;
    Ok(unsure.take().unwrap_or_default())
}
