//! Tracks running attempts, so that history gets complete records.

use std::collections::BTreeMap;

use evenkeel_core::effect::{Run, StopReason};
use evenkeel_core::ids::{Fire, JobName, NodeName, RunId};
use evenkeel_core::input::{RunEvent, RunOutcome};
use evenkeel_core::job::{Backoff, RunParameters, Work};
use evenkeel_core::time::Millis;

use crate::clock;
use crate::executor::{AttemptResult, ExecutorEvent};
use crate::executors::Executors;
use crate::history::{AttemptState, History, HistoryWrite, NoticePolicy, RunRecord};
use crate::upgrade::HandoffRecord;

/// Runs given to an executor.
pub(super) struct RunTracker {
    node: NodeName,
    running: BTreeMap<(RunId, u32), TrackedRun>,
    starting: Vec<TrackedRun>,
}

/// A run, and whether another attempt follows if it fails.
struct TrackedRun {
    record: Box<RunRecord>,
    retry: Option<Box<Backoff>>,
    /// Whether it is executed in this process.
    inside: bool,
    /// Whether nothing of it is executed.
    shadow: bool,
    /// Whether it starts later than its job allows.
    late: bool,
}

impl RunTracker {
    pub(super) fn new(node: NodeName) -> Self {
        Self { node, running: BTreeMap::new(), starting: Vec::new() }
    }

    /// Adds runs that an earlier program of this process started.
    pub(super) fn resume(mut self, passed: Vec<HandoffRecord>) -> Self {
        for HandoffRecord { record, retry } in passed {
            let key = (record.run.clone(), record.attempt);
            self.running.insert(
                key,
                TrackedRun {
                    record: Box::new(record),
                    retry,
                    inside: false,
                    // A shadow ends at once, and so is never handed over.
                    shadow: false,
                    late: false,
                },
            );
        }
        self
    }

    /// The records of the runs for the next program.
    pub(super) fn handoff(&self) -> Vec<HandoffRecord> {
        let passed =
            |run: &TrackedRun| HandoffRecord { record: (*run.record).clone(), retry: run.retry.clone() };
        self.running.values().map(passed).collect()
    }

    /// The runs that are executed in this process, each with its attempt.
    pub(super) fn inside(&self) -> BTreeMap<&RunId, u32> {
        let inside = self.running.iter().filter(|(_, run)| run.inside);
        inside.map(|((run, attempt), _)| (run, *attempt)).collect()
    }

    pub(super) fn node(&self) -> &NodeName {
        &self.node
    }

    /// The runs that have not ended.
    pub(super) fn running(&self) -> impl Iterator<Item = &RunId> {
        self.running.keys().map(|(run, _)| run)
    }

    /// Records a run that is about to start, and whether that is later than its job allows. Its record is written when
    /// the step is over: every start comes first.
    pub(super) fn starting(&mut self, run: &Run, late: bool) {
        let record = RunRecord {
            seq: 0,
            run: run.id.clone(),
            attempt: run.attempt,
            job: run.id.job.clone(),
            shard: run.id.shard,
            due: run.due,
            node: self.node.to_string(),
            state: AttemptState::Running,
            reason: String::new(),
            sent: run.sent.clone(),
            code: None,
            token: Some(run.token),
            started: Some(clock::now().wall),
            ended: None,
            from: run.due,
            output: 0,
            // A fire of the schedule has the defaults, which the declaration says.
            parameters: match run.id.fire {
                Fire::Asked(_) => run.parameters.clone(),
                Fire::Due(_) => RunParameters::default(),
            },
        };
        let inside = run.shadow || !matches!(run.work, Work::Command(_));
        let (record, retry, shadow) = (Box::new(record), run.retry.clone(), run.shadow);
        self.starting.push(TrackedRun { record, retry, inside, shadow, late });
    }

    /// Writes the started runs to history.
    pub(super) fn started(&mut self, history: &History) {
        for run in self.starting.drain(..) {
            history.put(HistoryWrite::Attempt(run.record.clone()));
            if run.late {
                history.put(HistoryWrite::StartedLate(run.record.run.clone()));
            }
            self.running.insert((run.record.run.clone(), run.record.attempt), run);
        }
    }

    /// Records a run that ended, or never began. Returns the node's input.
    pub(super) fn ended(
        &mut self,
        news: ExecutorEvent,
        executor: &mut Executors,
        history: &History,
        item: &dyn Fn(&JobName) -> Option<Box<NoticePolicy>>,
    ) -> Option<(RunId, u32, RunEvent)> {
        match news {
            ExecutorEvent::NotStarted { run, attempt } => {
                executor.forget(&run);
                self.running.remove(&(run.clone(), attempt));
                history.put(HistoryWrite::NotStarted { run: run.clone(), attempt });
                Some((run, attempt, RunEvent::NotStarted))
            }
            ExecutorEvent::Ended(finish) => {
                executor.forget(&finish.run);
                let (run, attempt, ended) = (finish.run.clone(), finish.attempt, finish.ended);
                if let Some(TrackedRun { record, retry, shadow, .. }) =
                    self.running.remove(&(run.clone(), attempt))
                {
                    // Together with the end, so that a run to be retried never appears as ended.
                    let wait = retry.and_then(|retry| retry.delay_after(&run, attempt, ended));
                    let next = wait.map(|wait| waiting(&record, wait));
                    let end = closed(record, finish, shadow);
                    match next {
                        Some(next) => {
                            history.put(HistoryWrite::Attempt(end));
                            history.put(HistoryWrite::Attempt(Box::new(next)));
                        }
                        None => {
                            let item = item(&end.job);
                            history.put(HistoryWrite::Outcome(end, item));
                        }
                    }
                }
                Some((run, attempt, RunEvent::Ended(ended)))
            }
            ExecutorEvent::Able(_) => None,
        }
    }
}

/// The record of the attempt that follows a failed one, until it starts.
fn waiting(record: &RunRecord, wait: Millis) -> RunRecord {
    RunRecord {
        attempt: record.attempt + 1,
        state: AttemptState::Waiting,
        reason: format!(
            "attempt {} failed, and this one follows in about {} s",
            record.attempt,
            (wait.0 + 500) / 1000
        ),
        sent: String::new(),
        token: None,
        started: None,
        ..record.clone()
    }
}

/// Why a run was ended for another one.
const REPLACED: &str = "a later fire took its place";

fn closed(mut record: Box<RunRecord>, finish: AttemptResult, shadow: bool) -> Box<RunRecord> {
    record.state = match finish.ended {
        // Nothing ran, so no reader may take it for a success.
        RunOutcome::Succeeded if shadow => AttemptState::Skipped,
        RunOutcome::Succeeded => AttemptState::Succeeded,
        RunOutcome::Failed(_) => AttemptState::Failed,
        RunOutcome::Stopped(StopReason::Killed | StopReason::Replaced) => AttemptState::Killed,
        RunOutcome::Stopped(StopReason::TimedOut) => AttemptState::TimedOut,
        RunOutcome::Stopped(StopReason::Fenced) => AttemptState::Fenced,
    };
    record.reason = match finish.ended {
        RunOutcome::Stopped(StopReason::Replaced) if finish.reason.is_empty() => REPLACED.to_owned(),
        RunOutcome::Stopped(StopReason::Replaced) => format!("{REPLACED}: {}", finish.reason),
        _ => finish.reason.into_owned(),
    };
    record.code = finish.code;
    record.started = Some(finish.started);
    record.ended = Some(finish.at);
    record.output = finish.output;
    record
}
