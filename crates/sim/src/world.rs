//! A world: nodes, one registry, executors and a history, in virtual time that jumps from event to event.
//!
//! Events are ordered by (time, number), randomness comes from one seed, and nothing reads a clock: a world run twice
//! is the same world. The checker observes everything, and tests the invariants after each event.

use std::collections::BTreeMap;

use evenkeel_core::effect::{Effect, Event as Announced};
use evenkeel_core::ids::{NodeName, RunId};
use evenkeel_core::input::{Answer, Command, CommandId, Input, LeaseEvent};
use evenkeel_core::node::{Node, Settings, Wake};
use evenkeel_core::registry::Revision;
use evenkeel_core::store::Store;
use evenkeel_core::time::{Millis, Now};

use crate::faults::{FaultCounts, FaultRates};
use crate::invariants::{InvariantChecker, InvariantViolation};
use crate::mutation::{Mutation, NoMutation};
use crate::random::SimRandom;
use crate::trace::{Trace, describe};

mod actor;
pub mod clock;
mod event;
mod executor;
mod feed;
mod gather;
mod guard;
mod guard_task;
mod history;
mod operate;
mod peer_network;
mod peers;
mod query;
mod queue;
mod registry;
mod request;
mod rewind;
mod rewind_counts;
mod verdict_store;

pub use actor::RegistryLink;
pub(crate) use actor::{HostedRun, SimNode};
use clock::SimClock;
use event::WorldEvent;
pub(crate) use request::TIMEOUT;
pub use rewind::RegistrySnapshot;

/// The options of a world.
#[derive(Clone, Copy)]
pub struct WorldOptions {
    /// The seed of its randomness.
    pub seed: u64,
    /// Whether the text of the trace is kept.
    pub keeps_text: bool,
    /// Whether each step is compared with a decision about everything.
    pub thorough: bool,
    /// Whether the registry ends leases by itself; otherwise it does so at the next request.
    pub sweeps: bool,
    /// How much before its term the registry ends a lease, in milliseconds.
    pub early: i64,
    /// Whether nodes handle answers and ends of runs that came together in one step, as busy ones do.
    pub gathers: bool,
    /// The fault that is planted, if any.
    pub mutation: &'static dyn Mutation,
    /// Whether an invariant is violated on purpose, to test that violations are reported.
    pub sentinel: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            keeps_text: false,
            thorough: true,
            sweeps: true,
            early: 0,
            gathers: false,
            mutation: &NoMutation,
            sentinel: false,
        }
    }
}

/// A world.
pub struct SimWorld {
    options: WorldOptions,
    at: i64,
    number: u64,
    queue: queue::EventQueue,
    store: Store,
    /// The position up to which the checker has the registry's changes.
    told: Revision,
    /// The rewinds of the registry.
    past: rewind_counts::RewindCounts,
    actors: BTreeMap<NodeName, SimNode>,
    weather: FaultRates,
    network: SimRandom,
    hosts: SimRandom,
    /// The random waits of inputs before a common step.
    gathering: SimRandom,
    /// The random faults of guards after the death of their nodes' processes.
    guards: SimRandom,
    /// Whether they occur.
    faulty_guards: bool,
    tally: FaultCounts,
    history: verdict_store::SimHistory,
    peers: peer_network::PeerNetwork,
    answers: BTreeMap<CommandId, Answer>,
    /// Kill requests for runs that did not run at the time of the request.
    kills: BTreeMap<CommandId, RunId>,
    next_ask: u64,
    events: Vec<(i64, NodeName, Announced)>,
    checker: InvariantChecker,
    trace: Trace,
    steps: u64,
    /// The number of steps at this moment.
    rounds: (i64, u32),
}

/// The interval at which a registry that ends leases by itself looks for them.
const SWEEP: i64 = 100;

impl SimWorld {
    /// A world without nodes and faults.
    #[must_use]
    pub fn new(options: WorldOptions) -> Self {
        let mut world = Self {
            options,
            at: 0,
            number: 0,
            queue: queue::EventQueue::default(),
            store: Store::default(),
            told: Revision(0),
            past: rewind_counts::RewindCounts::default(),
            actors: BTreeMap::new(),
            weather: FaultRates::calm(4),
            network: SimRandom::new(options.seed, "network"),
            hosts: SimRandom::new(options.seed, "hosts"),
            gathering: SimRandom::new(options.seed, "gathering"),
            guards: SimRandom::new(options.seed, "guards"),
            faulty_guards: false,
            tally: FaultCounts::default(),
            history: verdict_store::SimHistory::default(),
            peers: peer_network::PeerNetwork::new(options.seed),
            answers: BTreeMap::new(),
            kills: BTreeMap::new(),
            next_ask: 0,
            events: Vec::new(),
            checker: InvariantChecker::new(options.sentinel),
            trace: Trace::new(options.keeps_text),
            steps: 0,
            rounds: (0, 0),
        };
        if options.sweeps {
            world.after(SWEEP, WorldEvent::Sweep);
        }
        world
    }

    /// Adds a node on a host with these clocks, and starts it.
    pub fn add(&mut self, settings: Settings, clock: SimClock) {
        let name = settings.name.clone();
        self.actors.insert(name.clone(), SimNode::new(settings, clock));
        self.start(&name);
    }

    /// Lets time pass up to this moment, in milliseconds since the world began, or until an invariant is violated.
    pub fn run_until(&mut self, until: i64) {
        while self.checker.broken().is_none()
            && let Some((at, event)) = self.queue.take(until)
        {
            self.at = at;
            self.happen(event);
        }
        self.at = self.at.max(until);
    }

    /// Lets this many milliseconds pass.
    pub fn run_for(&mut self, ms: i64) {
        self.run_until(self.at + ms);
    }

    /// The first violation of an invariant, if there is one.
    #[must_use]
    pub fn broken(&self) -> Option<&InvariantViolation> {
        self.checker.broken()
    }

    fn after(&mut self, ms: i64, event: WorldEvent) {
        self.at_moment(self.at + ms, event);
    }

    fn at_moment(&mut self, at: i64, event: WorldEvent) {
        self.number += 1;
        self.queue.add(at.max(self.at), self.number, event);
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Wake { node, life, number } => {
                if self.actors.get(&node).is_some_and(|a| a.life == life && a.wake == number) {
                    self.give(&node, Input::Tick);
                }
            }
            WorldEvent::Give { node, life, input } => {
                if self.actors.get(&node).is_some_and(|a| a.accepts(life, &input)) {
                    self.deliver(&node, input);
                }
            }
            WorldEvent::GiveAll { node } => self.deliver_all(&node),
            WorldEvent::Arrive { node, request } => self.arrive(&node, request),
            WorldEvent::Start { node, life, run } => self.start_run(&node, life, *run),
            WorldEvent::End { node, run, attempt, number, ended } => {
                self.end_run(&node, run, attempt, number, ended);
            }
            WorldEvent::Guard { node } => self.guard(&node),
            WorldEvent::GuardRequest { node } => self.guard_request_arrives(&node),
            WorldEvent::Record { node, life, verdict } => self.record(&node, life, *verdict),
            WorldEvent::Knock(number, call) => self.deliver_call(number, *call),
            WorldEvent::Reply { number, by, input } => self.replied(number, &by, *input),
            WorldEvent::GiveUp(number) => self.give_up(number),
            WorldEvent::Waited { node, life } => self.waited(&node, life),
            WorldEvent::Sweep => {
                self.store.sweep(evenkeel_core::time::Mono(self.at));
                self.registry_moved(None);
                self.after(SWEEP, WorldEvent::Sweep);
            }
        }
    }

    /// Gives a node this input, now; a stopped process gets it when it is resumed.
    fn give(&mut self, name: &NodeName, input: Input) {
        self.give_all(name, vec![input]);
    }

    /// Gives a node several inputs in one step.
    fn give_all(&mut self, name: &NodeName, mut inputs: Vec<Input>) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        if actor.paused {
            actor.inbox.extend(inputs);
            return;
        }
        let Some(node) = actor.node.as_mut() else { return };
        let now = actor.clock.read(self.at);
        self.steps += 1;
        self.rounds = if self.rounds.0 == self.at { (self.at, self.rounds.1 + 1) } else { (self.at, 1) };
        self.checker.busy(self.at, name, self.rounds.1);
        let slept = Millis(actor.slept);
        let (mut listed, mut heard) = (None, Vec::new());
        for input in &mut inputs {
            self.trace.note(self.at, name.as_str(), input, || describe(input));
            if let Input::Listed(Some(batch)) = input {
                listed = Some(batch.revision);
            }
            heard.push(self.checker.observe_input(name, actor.life, input));
            if let Input::Committed { ticket, outcome } = input {
                actor.made.record_outcome(*ticket, outcome);
            }
            self.options.mutation.input(node, now, input);
            if let Input::Lease(LeaseEvent::Opened { asked, .. } | LeaseEvent::Renewed { asked, .. })
            | Input::Probed { asked, .. } = input
            {
                *asked = *asked - slept;
            }
        }
        let mut effects = Vec::new();
        let wake = node.step_all(Now { mono: now.mono - slept, ..now }, inputs, &mut effects);
        let wake = wake.map(|wake| Wake { at: wake.at + slept, ..wake });
        self.options.mutation.effects(node, &mut effects);
        for effect in &effects {
            self.trace.note(self.at, name.as_str(), effect, || format!("  → {effect}"));
        }
        self.checker.check_step(self.at, name, actor.life, node, now, heard, &effects);
        if self.options.thorough {
            self.checker.check_overlooked(self.at, name, node, now);
        }
        if let Some(member) = node.member() {
            actor.folder = Some(member.incarnation);
        }
        let trust = node.trusted_until(now.mono - slept).map(|until| until + slept);
        let departed = node.local().availability().has_departed();
        let is_over = |it: &Effect| {
            matches!(it, Effect::Announce(Announced::UnknownLayout(_) | Announced::Outdated(_)))
        };
        let lost = effects.iter().any(is_over);
        self.ask_for_wake(name, wake);
        effects.into_iter().for_each(|effect| self.carry_out(name, effect));
        self.notify_guard(name, trust);
        self.send_member_to_guard(name);
        if let Some(revision) = listed {
            self.take_up_feed(name, revision);
        }
        if departed {
            self.end_process(name);
        }
        if lost {
            self.crash(name);
        }
    }

    fn ask_for_wake(&mut self, name: &NodeName, wake: Option<Wake>) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        actor.wake += 1;
        let Some(wake) = wake else { return };
        let at = actor.clock.when(wake.at).max(self.at);
        let event = WorldEvent::Wake { node: name.clone(), life: actor.life, number: actor.wake };
        self.at_moment(at, event);
    }

    fn carry_out(&mut self, name: &NodeName, effect: Effect) {
        match effect {
            Effect::Probe { to, .. } => self.call(name, to, None),
            Effect::Offer { to, runs, .. } => self.call(name, to, Some(runs)),
            Effect::Start(run) => self.give_to_executor(name, run),
            Effect::Stop(run, reason) => self.stop_run(name, &run, reason),
            Effect::Record(verdict) => self.give_to_history(name, verdict),
            Effect::Announce(event) => self.events.push((self.at, name.clone(), event)),
            Effect::Answer(ask, answer) => {
                self.answer_call(ask, &answer);
                self.note_answer(ask, &answer);
                self.answers.insert(ask, answer);
            }
            Effect::Open { .. }
            | Effect::Renew(_)
            | Effect::Close(_)
            | Effect::List
            | Effect::Read(_)
            | Effect::Commit { .. } => self.send(name, effect),
        }
    }

    /// Sends a command to a node; its answer has the returned id.
    pub fn ask(&mut self, name: &NodeName, command: Command) -> CommandId {
        self.next_ask += 1;
        let ask = CommandId(self.next_ask);
        if let Some(actor) = self.actors.get_mut(name).filter(|a| a.node.is_some()) {
            actor.asked.insert(ask);
        }
        self.note_command(name, ask, &command);
        self.give(name, Input::Asked(ask, command));
        ask
    }

    /// Starts a node's process, if it is down. Its data folder has the previous incarnation.
    pub fn start(&mut self, name: &NodeName) {
        if self.is_up(name) || self.finds_another_generation(name) {
            return;
        }
        self.join_generation(name);
        let Some(actor) = self.actors.get_mut(name) else { return };
        let mut settings = Settings { predecessor: actor.folder, ..actor.settings.clone() };
        self.options.mutation.settings(&mut settings);
        actor.node = Some(Node::with_rules(settings, self.options.mutation.rules()));
        self.trace.note(self.at, name.as_str(), &actor.life, || "starts".to_owned());
        self.give(name, Input::Tick);
    }

    fn end_process(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        self.trace.note(self.at, name.as_str(), &actor.life, || "ends".to_owned());
        self.checker.process_ended(name, actor.life);
        actor.end_process();
    }
}
