//! What is given to history to write, and the number of a batch of it.

use std::collections::BTreeMap;

use evenkeel_core::effect::{EventReport, Verdict};
use evenkeel_core::ids::{JobName, RunId};
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;

use super::audit::AuditEntry;
use super::job_versions::JobVersionEntry;
use super::notice::{Notice, NoticePolicy};
use super::record::{AttemptState, LoadPoint, RunRecord};

/// An entry for history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HistoryWrite {
    /// The present state of an attempt.
    Attempt(Box<RunRecord>),
    /// An attempt was given to an executor and did not start.
    NotStarted { run: RunId, attempt: u32 },
    /// The last attempt of a run, with its final state, and the notice policy.
    Outcome(Box<RunRecord>, Option<Box<NoticePolicy>>),
    /// The first attempt of a scheduled run started later than its job allows. Follows the entry of the attempt.
    StartedLate(RunId),
    /// A verdict that must be acknowledged, the notice policy, and which fires it counts for.
    Verdict(Box<Verdict>, Option<Box<NoticePolicy>>, VerdictFires),
    /// A notice that this node made.
    Notice(Box<Notice>, String),
    /// The notice of this number was sent.
    NoticeSent(i64),
    /// Asks for the unsent notices of this node's earlier lives.
    ResendNotices(String),
    /// The node's load.
    Load(Box<LoadPoint>),
    /// An entry of the audit log, as it should be stored.
    Audit(Box<AuditEntry>),
    /// A changed declaration of a job.
    JobVersion(Box<JobVersionEntry>),
    /// An event of the node.
    Event { at: Wall, node: String, kind: &'static str, job: Option<JobName>, text: String },
}

/// Which fires a verdict counts for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VerdictFires {
    /// The schedule of the job, which says how many fires a skipped span has.
    pub(crate) schedule: Option<Box<Schedule>>,
    /// Whether another node writes the same verdict into a history of its own, and counts there.
    pub(crate) elsewhere: bool,
}

impl HistoryWrite {
    /// The entry of an event that happened to this node.
    pub(crate) fn event(at: Wall, node: String, report: &EventReport) -> Self {
        Self::Event { at, node, kind: report.kind, job: report.job.clone(), text: report.text.clone() }
    }
}

/// Drops what later entries of the same batch replace: most attempts start and end within one.
pub(super) fn coalesce(batch: Vec<HistoryWrite>) -> Vec<HistoryWrite> {
    let mut started: BTreeMap<(RunId, u32), usize> = BTreeMap::new();
    let mut kept: Vec<Option<HistoryWrite>> = Vec::with_capacity(batch.len());
    for entry in batch {
        let key = match &entry {
            HistoryWrite::Attempt(record) | HistoryWrite::Outcome(record, _) => {
                (record.run.clone(), record.attempt)
            }
            HistoryWrite::NotStarted { run, attempt } => (run.clone(), *attempt),
            HistoryWrite::StartedLate(_)
            | HistoryWrite::Verdict(..)
            | HistoryWrite::Load(_)
            | HistoryWrite::Event { .. }
            | HistoryWrite::Audit(_)
            | HistoryWrite::JobVersion(_)
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
        // Final states stay in their order: the last of them decides whether a job fails or has recovered.
        if before.is_none() || !matches!(entry, HistoryWrite::NotStarted { .. }) {
            kept.push(Some(entry));
        }
        if running {
            started.insert(key, kept.len() - 1);
        }
    }
    kept.into_iter().flatten().collect()
}

/// The id of a batch: node, life and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BatchId {
    /// The node.
    pub(super) name: String,
    /// A new number each time the node begins to write.
    pub(super) life: i64,
    /// Counted from 1.
    pub(super) batch: i64,
}
