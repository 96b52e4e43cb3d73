//! What the driver remembers of runs under way, so that history gets whole records.

use std::collections::BTreeMap;

use evenkeel_core::effect::{Reason, Run};
use evenkeel_core::input::{Ended, RunEvent};
use evenkeel_core::job::{Backoff, Work};
use evenkeel_core::time::Millis;
use evenkeel_core::words::{JobName, NodeName, RunId};

use crate::clock;
use crate::executor::{Executor, Finish, News};
use crate::history::{Entry, History, RunRecord, State, Wish};
use crate::upgrade::PassedRun;

/// Runs given to an executor.
pub(super) struct Runs {
    node: NodeName,
    under_way: BTreeMap<(RunId, u32), UnderWay>,
    starting: Vec<UnderWay>,
}

/// A run, and whether another attempt follows it where it fails.
struct UnderWay {
    record: Box<RunRecord>,
    retry: Option<Box<Backoff>>,
    /// Whether it is executed in this process.
    inside: bool,
}

impl Runs {
    pub(super) fn new(node: NodeName) -> Self {
        Self { node, under_way: BTreeMap::new(), starting: Vec::new() }
    }

    /// The same with runs that an earlier program of this process started.
    pub(super) fn resume(mut self, passed: Vec<PassedRun>) -> Self {
        for PassedRun { record, retry } in passed {
            let key = (record.run.clone(), record.attempt);
            self.under_way.insert(key, UnderWay { record: Box::new(record), retry, inside: false });
        }
        self
    }

    /// What the next program is to know of them.
    pub(super) fn passed(&self) -> Vec<PassedRun> {
        let passed = |run: &UnderWay| PassedRun { record: (*run.record).clone(), retry: run.retry.clone() };
        self.under_way.values().map(passed).collect()
    }

    /// Those that are executed in this process, each with its attempt.
    pub(super) fn inside(&self) -> BTreeMap<&RunId, u32> {
        let inside = self.under_way.iter().filter(|(_, run)| run.inside);
        inside.map(|((run, attempt), _)| (run, *attempt)).collect()
    }

    pub(super) fn node(&self) -> &NodeName {
        &self.node
    }

    /// Which runs have not ended.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &RunId> {
        self.under_way.keys().map(|(run, _)| run)
    }

    /// A run is about to start. Its record is written when the step that decided it is over: every start comes first.
    pub(super) fn starting(&mut self, run: &Run) {
        let record = RunRecord {
            seq: 0,
            run: run.id.clone(),
            attempt: run.attempt,
            job: run.id.job.clone(),
            shard: run.id.shard,
            due: run.due,
            node: self.node.to_string(),
            state: State::Running,
            reason: String::new(),
            sent: run.sent.clone(),
            code: None,
            token: Some(run.token),
            started: Some(clock::now().wall),
            ended: None,
            from: run.due,
            output: 0,
        };
        let inside = !matches!(run.work, Work::Command(_));
        self.starting.push(UnderWay { record: Box::new(record), retry: run.retry.clone(), inside });
    }

    /// History hears of what was started.
    pub(super) fn started(&mut self, history: &History) {
        for run in self.starting.drain(..) {
            history.put(Entry::Attempt(run.record.clone()));
            self.under_way.insert((run.record.run.clone(), run.record.attempt), run);
        }
    }

    /// A run came to its end, or never began. Returns what the node is to hear.
    pub(super) fn ended(
        &mut self,
        news: News,
        executor: &mut Executor,
        history: &History,
        wish: &dyn Fn(&JobName) -> Option<Box<Wish>>,
    ) -> Option<(RunId, u32, RunEvent)> {
        match news {
            News::NotStarted { run, attempt } => {
                executor.forget(&run);
                self.under_way.remove(&(run.clone(), attempt));
                history.put(Entry::NotStarted { run: run.clone(), attempt });
                Some((run, attempt, RunEvent::NotStarted))
            }
            News::Ended(finish) => {
                executor.forget(&finish.run);
                let (run, attempt, ended) = (finish.run.clone(), finish.attempt, finish.ended);
                if let Some(UnderWay { record, retry, .. }) = self.under_way.remove(&(run.clone(), attempt)) {
                    // With the end, so that nobody sees a run at its end that goes on.
                    let wait = retry.and_then(|retry| retry.after(&run, attempt, ended));
                    let next = wait.map(|wait| waiting(&record, wait));
                    let end = closed(record, finish);
                    match next {
                        Some(next) => {
                            history.put(Entry::Attempt(end));
                            history.put(Entry::Attempt(Box::new(next)));
                        }
                        None => {
                            let wish = wish(&end.job);
                            history.put(Entry::Outcome(end, wish));
                        }
                    }
                }
                Some((run, attempt, RunEvent::Ended(ended)))
            }
            News::Able(_) => None,
        }
    }
}

/// The attempt that follows one that failed, until it starts.
fn waiting(record: &RunRecord, wait: Millis) -> RunRecord {
    RunRecord {
        attempt: record.attempt + 1,
        state: State::Waiting,
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
const TOOK_ITS_PLACE: &str = "a later fire took its place";

fn closed(mut record: Box<RunRecord>, finish: Finish) -> Box<RunRecord> {
    record.state = match finish.ended {
        Ended::Succeeded => State::Succeeded,
        Ended::Failed(_) => State::Failed,
        Ended::Stopped(Reason::Killed | Reason::Replaced) => State::Killed,
        Ended::Stopped(Reason::TimedOut) => State::TimedOut,
        Ended::Stopped(Reason::Fenced) => State::Fenced,
    };
    record.reason = match finish.ended {
        Ended::Stopped(Reason::Replaced) if finish.reason.is_empty() => TOOK_ITS_PLACE.to_owned(),
        Ended::Stopped(Reason::Replaced) => format!("{TOOK_ITS_PLACE}: {}", finish.reason),
        _ => finish.reason.into_owned(),
    };
    record.code = finish.code;
    record.started = Some(finish.started);
    record.ended = Some(finish.at);
    record.output = finish.output;
    record
}
