//! Executors and the guard process of each node: the physical starts and ends of runs.
//!
//! The guard survives a stopped or killed node. It ends runs at the moment up to which the node was trusted,
//! or when the node's process is gone.

use evenkeel_core::effect::{Run, StopReason};
use evenkeel_core::ids::{NodeName, RunId};
use evenkeel_core::input::{Input, RunEvent, RunOutcome};
use evenkeel_core::job::Work;
use evenkeel_core::time::Mono;

use super::{HostedRun, SimWorld, WorldEvent};
use crate::faults::SimFault;

/// How long a process takes to start when its host is busy, in milliseconds.
const LATE: i64 = 3_000;

impl SimWorld {
    pub(super) fn give_to_executor(&mut self, name: &NodeName, run: Run) {
        let mut delay = self.hosts.between(0, 3);
        if self.strikes(SimFault::StartLate) {
            delay = self.hosts.between(100, LATE);
        }
        let Some(actor) = self.actors.get_mut(name) else { return };
        let member = actor.node.as_ref().and_then(evenkeel_core::node::Node::member);
        actor.starting.insert((run.id.clone(), run.attempt), member);
        let life = actor.life;
        self.after(delay, WorldEvent::Start { node: name.clone(), life, run: Box::new(run) });
    }

    /// Starts the process of a run, after a last check that it is not too late.
    pub(super) fn start_run(&mut self, name: &NodeName, life: u64, run: Run) {
        // A cancelled start is answered too, whichever program of the process gets the answer.
        let Some(actor) = self.actors.get_mut(name).filter(|a| life >= a.process) else { return };
        let life = actor.life;
        let key = (run.id.clone(), run.attempt);
        let now = actor.clock.read(self.at);
        let wanted = actor.starting.remove(&key);
        let late = now.mono >= run.not_after;
        let Some(member) = wanted.filter(|_| !late && !self.strikes(SimFault::StartFails)) else {
            return self.report_run(name, key, RunEvent::NotStarted);
        };
        let Some(actor) = self.actors.get_mut(name) else { return };
        let physical = HostedRun { life, member: member.clone(), end: 0, stopping: false };
        actor.runs.insert(key.clone(), physical);
        self.trace.note(self.at, name.as_str(), &key, || {
            format!("runs {} attempt {} token {}", run.id, run.attempt, run.token)
        });
        match self.is_behind(name) {
            true => self.checker.started_before(self.at, name, member.as_ref(), now, &run),
            false => self.checker.started(self.at, name, member, now, &run, &self.store),
        }
        let (takes, ended) = self.fate(&run);
        self.plan_end(name, &key, takes, ended);
        let trusted = self.actors.get(name).and_then(|a| a.deadline).is_some_and(|d| now.mono < d);
        if !trusted {
            self.guard_ends_runs(name);
        }
    }

    /// The duration of a run, in milliseconds, and its outcome if it is not ended: `run 1500` takes about that long,
    /// and a shard whose parameter is a number takes that long.
    fn fate(&mut self, run: &Run) -> (i64, RunOutcome) {
        let nominal = match &run.work {
            Work::Command(argv) => {
                let own = run.parameter.parse().ok();
                own.or_else(|| argv.get(1)?.parse().ok()).unwrap_or(2_i64)
            }
            Work::Function(_) | Work::Http(_) => 2,
        };
        let takes = nominal + self.hosts.between(0, nominal / 4);
        match run.timeout {
            Some(limit) if takes > limit.0 => (limit.0, RunOutcome::Stopped(StopReason::TimedOut)),
            _ if self.hosts.chance(100) => (takes, RunOutcome::Failed(Some(1))),
            _ => (takes, RunOutcome::Succeeded),
        }
    }

    /// Plans the end of a run; an end planned earlier is void.
    fn plan_end(&mut self, name: &NodeName, key: &(RunId, u32), after: i64, ended: RunOutcome) {
        let number = self.number;
        let run = self.actors.get_mut(name).and_then(|a| a.runs.get_mut(key));
        let Some(run) = run else { return };
        run.end = number;
        let (id, attempt) = key.clone();
        self.after(after, WorldEvent::End { node: name.clone(), run: id, attempt, number, ended });
    }

    pub(super) fn end_run(
        &mut self,
        name: &NodeName,
        run: RunId,
        attempt: u32,
        number: u64,
        ended: RunOutcome,
    ) {
        let key = (run, attempt);
        let Some(actor) = self.actors.get_mut(name) else { return };
        if actor.runs.get(&key).is_none_or(|r| r.end != number) {
            return;
        }
        let Some(physical) = actor.runs.remove(&key) else { return };
        let alive = actor.life == physical.life;
        self.trace
            .note(self.at, name.as_str(), &key, || format!("ended {} attempt {attempt}: {ended:?}", key.0));
        self.checker.ended(self.at, name, &key.0, attempt, ended);
        if alive {
            self.report_run(name, key, RunEvent::Ended(ended));
        }
        self.guard_goes_on(name);
    }

    fn report_run(&mut self, name: &NodeName, (id, attempt): (RunId, u32), event: RunEvent) {
        let Some(life) = self.actors.get(name).map(|a| a.life) else { return };
        let delay = self.hosts.between(0, 2);
        let input = Input::Run { id, attempt, event };
        self.after(delay, WorldEvent::Give { node: name.clone(), life, input });
    }

    /// Requests a run's end: its process group is ended within the time for that.
    pub(super) fn stop_run(&mut self, name: &NodeName, run: &RunId, reason: StopReason) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        actor.starting.retain(|(id, _), _| id != run);
        let life = actor.life;
        let running: Vec<(RunId, u32)> = actor
            .runs
            .iter()
            .filter(|(k, r)| k.0 == *run && r.life == life)
            .map(|(k, _)| k.clone())
            .collect();
        running.iter().for_each(|key| self.end_soon(name, key, reason));
    }

    fn end_soon(&mut self, name: &NodeName, key: &(RunId, u32), reason: StopReason) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        let patience = actor.settings.ttl.0 / 6;
        let Some(run) = actor.runs.get_mut(key).filter(|r| !r.stopping) else { return };
        run.stopping = true;
        let takes = self.hosts.between(1, patience);
        self.plan_end(name, key, takes, RunOutcome::Stopped(reason));
    }

    /// Notifies the guard after each step how long runs may go on.
    pub(super) fn notify_guard(&mut self, name: &NodeName, until: Option<Mono>) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        actor.deadline = until;
        let Some(deadline) = until else { return self.guard_ends_runs(name) };
        if !std::mem::replace(&mut actor.guarding, true) {
            let at = actor.clock.when(deadline);
            self.at_moment(at, WorldEvent::Guard { node: name.clone() });
        }
    }

    /// Lets the guard check its deadline, which has moved since in most cases.
    pub(super) fn guard(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        match actor.deadline {
            Some(deadline) if actor.clock.read(self.at).mono < deadline => {
                let at = actor.clock.when(deadline);
                self.at_moment(at, WorldEvent::Guard { node: name.clone() });
            }
            _ => {
                actor.guarding = false;
                self.guard_ends_runs(name);
            }
        }
    }

    pub(super) fn guard_ends_runs(&mut self, name: &NodeName) {
        if !self.options.mutation.guards() {
            return;
        }
        let Some(actor) = self.actors.get(name) else { return };
        let keys: Vec<(RunId, u32)> = actor.runs.keys().cloned().collect();
        keys.iter().for_each(|key| self.end_soon(name, key, StopReason::Fenced));
    }
}
