//! How entries become rows: coalesced, once, and never over an end that stands.
//!
//! A batch is one transaction with every other writer locked out: what it names is read, worked out in memory, and written.
//! With it goes the batch's number, so that a commit whose answer was lost is found again and not made twice.

use std::collections::BTreeMap;

use evenkeel_core::effect::Verdict;
use evenkeel_core::ids::{JobName, RunId};
use evenkeel_core::time::Wall;

use super::audit::AuditEntry;
use super::connection::{DatabaseError, HistoryConnection};
use super::notice::{Notice, NoticePolicy};
use super::record::{AttemptState, LoadPoint, RunRecord};
use super::store;

/// One thing to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HistoryWrite {
    /// An attempt as it stands now.
    Attempt(Box<RunRecord>),
    /// It was given to an executor and did not start.
    NotStarted { run: RunId, attempt: u32 },
    /// The last attempt of a run, at its end, and whom to tell.
    Outcome(Box<RunRecord>, Option<Box<NoticePolicy>>),
    /// A verdict that must be acknowledged, and whom to tell.
    Verdict(Box<Verdict>, Option<Box<NoticePolicy>>),
    /// Something to be told, which this node made.
    Notice(Box<Notice>, String),
    /// The notice of this number was told.
    NoticeSent(i64),
    /// What this node's earlier lives have not told is wanted.
    ResendNotices(String),
    /// How busy the node was.
    Load(Box<LoadPoint>),
    /// An entry of the audit log, as it is to stand.
    Audit(Box<AuditEntry>),
    /// Something that happened to the node.
    Event { at: Wall, node: String, kind: &'static str, text: String },
}

/// Drops what later entries of the same batch make needless: most attempts start and end within one.
pub(super) fn coalesce(batch: Vec<HistoryWrite>) -> Vec<HistoryWrite> {
    let mut started: BTreeMap<(RunId, u32), usize> = BTreeMap::new();
    let mut kept: Vec<Option<HistoryWrite>> = Vec::with_capacity(batch.len());
    for entry in batch {
        let key = match &entry {
            HistoryWrite::Attempt(record) | HistoryWrite::Outcome(record, _) => {
                (record.run.clone(), record.attempt)
            }
            HistoryWrite::NotStarted { run, attempt } => (run.clone(), *attempt),
            HistoryWrite::Verdict(..)
            | HistoryWrite::Load(_)
            | HistoryWrite::Event { .. }
            | HistoryWrite::Audit(_)
            | HistoryWrite::Notice(..)
            | HistoryWrite::NoticeSent(_)
            | HistoryWrite::ResendNotices(_) => {
                kept.push(Some(entry));
                continue;
            }
        };
        let running =
            matches!(&entry, HistoryWrite::Attempt(record) if record.state == AttemptState::Running);
        let before = started.remove(&key);
        if let Some(before) = before {
            kept[before] = None;
        }
        // Ends stay in their order: whether a job fails or has recovered is what the last of them says.
        if before.is_none() || !matches!(entry, HistoryWrite::NotStarted { .. }) {
            kept.push(Some(entry));
        }
        if running {
            started.insert(key, kept.len() - 1);
        }
    }
    kept.into_iter().flatten().collect()
}

/// What a batch came to.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchResult {
    /// How many rows each job got.
    pub(super) jobs: BTreeMap<JobName, u32>,
    /// What is to be told.
    pub(super) notices: Vec<Notice>,
}

/// Which batch of which life of which node this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BatchId {
    /// The node.
    pub(super) name: String,
    /// Another one each time it begins to write.
    pub(super) life: i64,
    /// Counted from 1.
    pub(super) batch: i64,
}

/// Writes all of it in one transaction.
///
/// `unsure` is what the same batch came to when its commit was sent and not answered: it may have been made then. It is
/// left there for the next try when this one is not answered either.
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
        batch.iter().for_each(|entry| draft.take(entry));
        let notices = store::save(link, &mut draft, stamp).await?;
        *unsure = Some(BatchResult { jobs: draft.jobs, notices });
    }
    link.commit().await?;
    Ok(unsure.take().unwrap_or_default())
}
