//! Works out a batch's results in memory, from the rows that it names.
//!
//! No other writer is active meanwhile, so what was read stays true. A final state is never overwritten; later results
//! are stored separately (`I22`).

mod notices;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{FireId, JobName, RunId, Shard};
use evenkeel_core::job::RunParameters;
use evenkeel_core::time::Wall;

use super::audit::AuditBatch;
use super::entry::HistoryWrite;
use super::job_versions::JobVersionBatch;
use super::notice::Notice;
use super::record::{AttemptState, EventRecord, LoadPoint, RunRecord};
use super::summary::mark::{FireMark, late_start};
use super::summary::tally::CountChanges;

/// A result that came after the final one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LateResult {
    pub(super) run: RunId,
    pub(super) attempt: u32,
    pub(super) node: String,
    pub(super) state: AttemptState,
}

/// An attempt, and whether its row has to be written.
#[derive(Debug)]
pub(super) struct AttemptDraft {
    pub(super) record: RunRecord,
    /// What it counts as in the roll-ups.
    pub(super) mark: FireMark,
    stored: bool,
    pub(super) touched: bool,
}

/// The last sequence number of each table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastNumbers {
    pub(super) attempt: u64,
    pub(super) event: u64,
    pub(super) notice: i64,
}

/// A batch in progress.
#[derive(Debug, Default)]
pub(super) struct BatchDraft {
    pub(super) now: Wall,
    pub(super) last: LastNumbers,
    pub(super) attempts: BTreeMap<RunId, Vec<AttemptDraft>>,
    /// Since when each shard of a job fails: before the batch, and by now.
    failing_before: BTreeMap<(JobName, Shard), Wall>,
    failing: BTreeMap<(JobName, Shard), Wall>,
    /// The parameters of manual fires, for all their shards.
    pub(super) parameters: BTreeMap<FireId, RunParameters>,
    /// Rows to delete.
    pub(super) gone: Vec<u64>,
    /// Late results with their reasons; only the first of equal ones.
    pub(super) late: BTreeMap<LateResult, String>,
    pub(super) events: Vec<EventRecord>,
    pub(super) audits: AuditBatch,
    pub(super) versions: JobVersionBatch,
    pub(super) loads: BTreeMap<(String, Wall), LoadPoint>,
    /// Notices that may have to be sent, each once and with the node that sends it.
    pub(super) notices: Vec<(Notice, String)>,
    named: BTreeSet<String>,
    /// Notices that were sent.
    pub(super) sent_notices: Vec<i64>,
    /// Nodes that ask for the unsent notices of their earlier lives.
    pub(super) resend_for: Vec<String>,
    /// How many new rows each job has.
    pub(super) jobs: BTreeMap<JobName, u32>,
    /// The changes of the roll-ups.
    pub(super) tally: CountChanges,
    /// Whether the roll-ups changed, so that changes of jobs have to be merged.
    pub(super) is_counted: bool,
    /// Runs that started later than their jobs allow.
    pub(super) late_starts: BTreeSet<RunId>,
}

impl BatchDraft {
    pub(super) fn new(now: Wall, last: LastNumbers) -> Self {
        Self { now, last, ..Self::default() }
    }

    /// Adds an attempt that the table has.
    pub(super) fn found(&mut self, record: RunRecord, mark: FireMark) {
        let line = AttemptDraft { record, mark, stored: true, touched: false };
        self.attempts.entry(line.record.run.clone()).or_default().push(line);
    }

    /// Adds that a shard of a job fails.
    pub(super) fn found_failing(&mut self, job: JobName, shard: Shard, since: Wall) {
        self.failing_before.insert((job.clone(), shard), since);
        self.failing.insert((job, shard), since);
    }

    /// Applies an entry of the batch.
    pub(super) fn take(&mut self, entry: &HistoryWrite) {
        match entry {
            HistoryWrite::Attempt(record) => {
                self.put(record);
                self.count(&record.job);
            }
            HistoryWrite::Outcome(record, item) => {
                if self.put(record) {
                    notices::of_outcome(self, record, item.as_deref());
                }
                self.count(&record.job);
            }
            HistoryWrite::NotStarted { run, attempt } => self.not_started(run, *attempt),
            HistoryWrite::StartedLate(run) => drop(self.late_starts.insert(run.clone())),
            HistoryWrite::Verdict(verdict, item, _) => {
                let shards: Vec<Shard> = shards_of(verdict).collect();
                let mut new = shards.clone();
                new.retain(|shard| self.put(&of_verdict(verdict, *shard, self.now)));
                notices::of_verdict(self, verdict, (&shards, &new), item.as_deref());
                self.count(&verdict.run.job);
            }
            HistoryWrite::Notice(made, node) => self.add_notice((**made).clone(), node),
            HistoryWrite::NoticeSent(seq) => self.sent_notices.push(*seq),
            HistoryWrite::ResendNotices(node) => self.resend_for.push(node.clone()),
            HistoryWrite::Load(load) => {
                drop(self.loads.insert((load.node.clone(), load.at), (**load).clone()))
            }
            HistoryWrite::Event { at, node, kind, job, text } => {
                self.event((*at, node), kind, job.as_ref(), text);
            }
            HistoryWrite::Audit(noted) => self.audits.take(noted),
            HistoryWrite::JobVersion(entry) => self.versions.take(entry),
        }
    }

    fn count(&mut self, job: &JobName) {
        *self.jobs.entry(job.clone()).or_default() += 1;
    }

    /// Applies the state of an attempt. Returns whether it was accepted.
    fn put(&mut self, record: &RunRecord) -> bool {
        if !record.parameters.is_empty() {
            self.parameters.insert(FireId::from(&record.run), record.parameters.clone());
        }
        let lines = self.attempts.entry(record.run.clone()).or_default();
        let written = match lines.iter_mut().find(|line| line.record.attempt == record.attempt) {
            None => {
                self.last.attempt += 1;
                let record = RunRecord { seq: self.last.attempt, ..record.clone() };
                lines.push(AttemptDraft { record, mark: FireMark::default(), stored: false, touched: true });
                true
            }
            Some(line) if !line.record.state.is_end() => {
                merge(&mut line.record, record);
                line.touched = true;
                true
            }
            Some(line) => {
                // The same final state, reported twice, counts once.
                if record.state.is_end() && record.state != line.record.state {
                    let RunRecord { run, attempt, node, state, reason, .. } = record.clone();
                    self.late.entry(LateResult { run, attempt, node, state }).or_insert(reason);
                }
                false
            }
        };
        end_earlier(lines, record.attempt, self.now);
        written
    }

    /// If the run was attempted before, another attempt follows; otherwise there is nothing to report.
    fn not_started(&mut self, run: &RunId, attempt: u32) {
        let Some(lines) = self.attempts.get_mut(run) else { return };
        let runs = |line: &AttemptDraft| {
            line.record.attempt == attempt && line.record.state == AttemptState::Running
        };
        let Some(nth) = lines.iter().position(runs) else { return };
        let line = &mut lines[nth];
        if attempt > 1 {
            (line.record.state, line.touched) = (AttemptState::Waiting, true);
            return;
        }
        self.gone.extend(line.stored.then_some(line.record.seq));
        if line.mark.late {
            self.tally.add(&run.job, line.record.due, &late_start().reversed());
        }
        lines.swap_remove(nth);
    }

    /// The state of an attempt, if it is known.
    pub(super) fn attempt_state(&self, run: &RunId, attempt: u32) -> Option<AttemptState> {
        let line = self.attempts.get(run)?.iter().find(|line| line.record.attempt == attempt);
        line.map(|line| line.record.state)
    }

    /// Marks a shard of a job as failing from now on, unless it is already.
    pub(super) fn fail(&mut self, job: &JobName, shard: Shard) {
        self.failing.entry((job.clone(), shard)).or_insert(self.now);
    }

    /// Marks it as no longer failing; returns since when it was, if it was.
    pub(super) fn heal(&mut self, job: &JobName, shard: Shard) -> Option<Wall> {
        self.failing.remove(&(job.clone(), shard))
    }

    /// Adds a notice that may have to be sent.
    pub(super) fn add_notice(&mut self, notice: Notice, node: &str) {
        if self.named.insert(notice.id.clone()) {
            self.notices.push((notice, node.to_owned()));
        }
    }

    pub(super) fn event(&mut self, (at, node): (Wall, &str), kind: &str, job: Option<&JobName>, text: &str) {
        self.last.event += 1;
        let (seq, node, kind, text) = (self.last.event, node.into(), kind.into(), text.into());
        self.events.push(EventRecord { seq, at, node, kind, job: job.cloned(), text });
    }

    /// The attempts whose rows have to be written, in the order in which history received them.
    pub(super) fn touched(&self) -> Vec<(&RunRecord, FireMark)> {
        let touched = self.attempts.values().flatten().filter(|line| line.touched);
        let mut all: Vec<_> = touched.map(|line| (&line.record, line.mark)).collect();
        all.sort_by_key(|(record, _)| record.seq);
        all
    }

    /// The shards whose stored failure differs or is over.
    pub(super) fn healed(&self) -> impl Iterator<Item = &(JobName, Shard)> {
        differ(&self.failing_before, &self.failing).map(|(key, _)| key)
    }

    /// The failing shards, with a time that the table does not have.
    pub(super) fn failed(&self) -> impl Iterator<Item = (&(JobName, Shard), &Wall)> {
        differ(&self.failing, &self.failing_before)
    }
}

/// Ends the earlier attempts of a run: their nodes will send no result, or a late one.
fn end_earlier(lines: &mut [AttemptDraft], attempt: u32, now: Wall) {
    for line in lines.iter_mut().filter(|line| line.record.attempt < attempt && !line.record.state.is_end()) {
        line.record.state = AttemptState::Lost;
        line.record.reason = "taken over by a later attempt".into();
        line.record.ended = Some(now);
        line.touched = true;
    }
}

/// The keys that one map has, and the other lacks or has with another value.
fn differ<'a, K: Ord, V: Eq>(
    one: &'a BTreeMap<K, V>,
    other: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, &'a V)> {
    one.iter().filter(|(key, value)| other.get(key) != Some(value))
}

/// Updates an attempt that has not ended.
fn merge(known: &mut RunRecord, said: &RunRecord) {
    // The node that started it runs it, not the one that announced it; the start may have been left out for the end.
    if said.started.is_some() {
        known.node.clone_from(&said.node);
    }
    if !said.sent.is_empty() {
        known.sent.clone_from(&said.sent);
    }
    known.state = said.state;
    known.reason.clone_from(&said.reason);
    known.code = said.code;
    known.token = said.token.or(known.token);
    known.started = said.started.or(known.started);
    known.ended = said.ended;
    known.output = said.output;
}

/// The shards of a verdict: it may cover many shards of one fire, and each is a run.
pub(crate) fn shards_of(verdict: &Verdict) -> impl Iterator<Item = Shard> {
    let own = verdict.shards.is_empty().then_some(verdict.run.shard);
    verdict.shards.iter().chain(own)
}

fn of_verdict(verdict: &Verdict, shard: Shard, now: Wall) -> RunRecord {
    RunRecord {
        seq: 0,
        run: RunId { shard, ..verdict.run.clone() },
        attempt: verdict.attempt,
        job: verdict.run.job.clone(),
        shard,
        due: verdict.due,
        node: verdict.node.clone(),
        state: match verdict.state {
            VerdictState::Lost => AttemptState::Lost,
            VerdictState::Skipped => AttemptState::Skipped,
        },
        reason: verdict.reason.clone(),
        code: None,
        sent: String::new(),
        token: None,
        started: None,
        ended: Some(now),
        from: verdict.from,
        output: 0,
        parameters: RunParameters::default(),
    }
}
