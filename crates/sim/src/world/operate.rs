//! Operations on nodes and hosts from outside: kill, stop, cut off, step the clock; and their recovery.

use evenkeel_core::ids::NodeName;
use evenkeel_core::input::{Answer, Command, CommandId, Input};
use evenkeel_core::keys;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::record::{ClusterRecord, Layouts, encode};
use evenkeel_core::registry::{Txn, Write};
use evenkeel_core::time::{Millis, Mono, Now};

use super::guard_task::GuardTask;
use super::{RegistryLink, SimNode, SimWorld};
use crate::faults::{FaultCounts, FaultRates, SimFault};

impl SimWorld {
    /// Sets the rates of faults of messages and starts from now on.
    pub fn set_fault_rates(&mut self, weather: FaultRates) {
        self.weather = weather;
    }

    /// Lets guards fail or be slow from now on, after the death of their nodes' processes, or no longer.
    pub fn set_faulty_guards(&mut self, faulty: bool) {
        self.faulty_guards = faulty;
    }

    /// Counts a fault that was injected from outside.
    pub fn count(&mut self, fault: SimFault) {
        self.tally.count(fault);
    }

    /// The number of occurrences of each fault.
    #[must_use]
    pub fn tally(&self) -> &FaultCounts {
        &self.tally
    }

    /// Kills a node's process. Its guard ends its runs and removes its member.
    pub fn crash(&mut self, name: &NodeName) {
        self.end_process(name);
        self.guard_ends_runs(name);
        self.guard_sees_death(name);
    }

    /// Kills a node's process. Its guard ends its runs, but does not reach the registry: the member stays until its lease
    /// ends.
    pub fn crash_out_of_reach(&mut self, name: &NodeName) {
        self.end_process(name);
        self.guard_ends_runs(name);
        if let Some(actor) = self.actors.get_mut(name) {
            actor.member = None;
        }
    }

    /// Reboots a node's host: its process, its guard and its runs end at once, and its clock restarts.
    pub fn reboot(&mut self, name: &NodeName) {
        self.end_process(name);
        let Some(actor) = self.actors.get_mut(name) else { return };
        actor.clock.reboot(self.at);
        actor.member = None;
        for (run, attempt) in std::mem::take(&mut actor.runs).into_keys() {
            let ended = evenkeel_core::input::RunOutcome::Stopped(evenkeel_core::effect::StopReason::Fenced);
            self.checker.ended(self.at, name, &run, attempt, ended);
        }
    }

    /// Notes a command to a node; of a run that does not run there, that it is to end.
    pub(super) fn note_command(&mut self, name: &NodeName, ask: CommandId, command: &Command) {
        let Command::Kill(run) = command else { return };
        self.checker.cancel_requested(run);
        if self.node(name).is_some_and(|node| !node.executes(run)) {
            self.kills.insert(ask, run.clone());
        }
    }

    /// Notes the answer to a command.
    pub(super) fn note_answer(&mut self, ask: CommandId, answer: &Answer) {
        if let Some(run) = self.kills.remove(&ask).filter(|_| *answer == Answer::Done) {
            self.checker.cancel_reported(&run);
        }
    }

    /// Whether a node's process is up.
    #[must_use]
    pub fn is_up(&self, name: &NodeName) -> bool {
        self.actors.get(name).is_some_and(|a| a.node.is_some())
    }

    /// Whether runs of a node's earlier lives are still ending, or its guard removes its member; its data folder is
    /// locked until then.
    #[must_use]
    pub fn is_ending(&self, name: &NodeName) -> bool {
        let guarded = |a: &&SimNode| a.node.is_none() && self.options.mutation.guards();
        self.actors
            .get(name)
            .filter(guarded)
            .is_some_and(|a| !a.runs.is_empty() || !matches!(a.guard, GuardTask::None))
    }

    /// Stops a node's process; its guard goes on.
    pub fn pause(&mut self, name: &NodeName) {
        if let Some(actor) = self.actors.get_mut(name).filter(|a| a.node.is_some()) {
            actor.paused = true;
            actor.stopped = self.at;
            self.trace.note(self.at, name.as_str(), &actor.life, || "is stopped".to_owned());
            if !self.options.mutation.guard_knows_death() {
                self.guard_ends_runs(name);
                self.guard_sees_death(name);
            }
        }
    }

    /// Whether a node's process is stopped.
    #[must_use]
    pub fn is_paused(&self, name: &NodeName) -> bool {
        self.actors.get(name).is_some_and(|a| a.paused)
    }

    /// Resumes a stopped process, which gets the inputs of the meantime.
    pub fn resume(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        if !std::mem::replace(&mut actor.paused, false) {
            return;
        }
        if !self.options.mutation.counts_suspend() {
            actor.slept += self.at - actor.stopped;
        }
        self.trace.note(self.at, name.as_str(), &actor.life, || "goes on".to_owned());
        let life = actor.life;
        // An immediate call gets an answer from a process that has handled nothing since.
        self.let_in(name);
        self.give(name, Input::Tick);
        while self.actors.get(name).is_some_and(|actor| actor.life == life && !actor.inbox.is_empty()) {
            let found = self.take_found(name);
            self.give_all(name, found);
        }
    }

    /// Makes a node begin nothing new, or lets it go on.
    pub fn rest(&mut self, name: &NodeName, rest: bool) {
        self.give(name, Input::Rest(rest));
    }

    /// Writes the entry of the cluster in the first layout, as the first node of all does.
    pub fn found(&mut self) {
        let engine = Some(self.past.engine());
        let value = encode(&ClusterRecord { engine, ..ClusterRecord::new("world".to_owned()) });
        let writes = vec![Write::Put { key: keys::cluster(), value, owner: None }];
        self.store.commit(Mono(self.at), &Txn { guards: Vec::new(), writes });
        self.registry_moved(None);
    }

    /// Puts a program that knows these layouts into a node's file; the next start or upgrade uses it.
    pub fn install(&mut self, name: &NodeName, knows: Layouts) {
        if let Some(actor) = self.actors.get_mut(name) {
            actor.settings.knows = knows;
            self.trace.note(self.at, name.as_str(), &knows, || format!("gets a program for layouts {knows}"));
        }
    }

    /// The layouts that a node's process knows, if it is up.
    #[must_use]
    pub fn knows(&self, name: &NodeName) -> Option<Layouts> {
        self.node(name).map(|node| node.local().settings().knows)
    }

    /// Upgrades a node to another program, in the same process. Returns whether that was possible.
    pub fn upgrade(&mut self, name: &NodeName) -> bool {
        let tamper = self.options.mutation;
        // The other program would find another generation, and wait.
        if self.is_behind(name) {
            return false;
        }
        let Some(actor) = self.actors.get_mut(name).filter(|a| !a.paused && a.starting.is_empty()) else {
            return false;
        };
        let now = actor.clock.read(self.at);
        let now = Now { mono: now.mono - Millis(actor.slept), ..now };
        // A node does not continue in a program that cannot be the same member.
        let knows = actor.settings.knows;
        if tamper.checks_programs()
            && actor.node.as_ref().is_some_and(|node| node.is_lost_on(knows).is_some())
        {
            return false;
        }
        let Some(mut baton) = actor.node.as_ref().and_then(|node| node.handoff(now.mono)) else {
            return false;
        };
        tamper.handoff(now, &mut baton);
        let mut settings = Settings { predecessor: actor.folder, ..actor.settings.clone() };
        tamper.settings(&mut settings);
        actor.upgrade(Node::resume_with_rules(settings, baton, tamper.rules()));
        self.trace.note(self.at, name.as_str(), &actor.life, || "is upgraded".to_owned());
        self.give(name, Input::Tick);
        true
    }

    /// Sets the state of a node's link to the registry. The feed is resumed where it stopped, unless `breaks`.
    pub fn set_link(&mut self, name: &NodeName, link: RegistryLink, breaks: bool) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        actor.link = link;
        let lost = link == RegistryLink::Up && breaks && actor.heard.is_some();
        self.trace.note(self.at, name.as_str(), &breaks, || format!("link is {link:?}"));
        if lost {
            actor.heard = None;
            self.give(name, Input::Gap);
        }
        self.publish_to(name);
    }

    /// Repairs the link. A feed that did not break goes on: its lost news stays lost.
    pub fn mend_link(&mut self, name: &NodeName) {
        if self.actors.get(name).is_some_and(|a| a.link != RegistryLink::Up) {
            self.set_link(name, RegistryLink::Up, true);
        }
    }

    /// Withholds all news from a node, or lets it have what was withheld.
    pub fn withhold_news(&mut self, name: &NodeName, deaf: bool) {
        if let Some(actor) = self.actors.get_mut(name) {
            actor.deaf = deaf;
        }
        self.publish_to(name);
    }

    /// Puts a node this many milliseconds further away from the registry: of two equal requests, the nearer one wins.
    pub fn set_far(&mut self, name: &NodeName, ms: i64) {
        if let Some(actor) = self.actors.get_mut(name) {
            actor.far = ms;
        }
    }

    /// Steps a node's wall clock by this many milliseconds.
    pub fn step_clock(&mut self, name: &NodeName, by: i64) {
        if let Some(actor) = self.actors.get_mut(name) {
            actor.clock.step(by);
            self.trace.note(self.at, name.as_str(), &by, || format!("clock steps by {by} ms"));
        }
    }

    /// Corrects a node's wall clock.
    pub fn correct_clock(&mut self, name: &NodeName) {
        if let Some(actor) = self.actors.get_mut(name) {
            actor.clock.correct();
            self.trace.note(self.at, name.as_str(), &0, || "clock is right".to_owned());
        }
    }

    /// Makes a node unable or able to work: its disk is full.
    pub fn set_able(&mut self, name: &NodeName, able: bool) {
        self.give(name, Input::Able(able));
    }
}
