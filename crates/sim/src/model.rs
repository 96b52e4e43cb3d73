//! The exhaustive model: every order of events for two nodes, one job and two fires, with a fault.
//!
//! The nodes are the real ones: each state has two `Node`s, a `Store`, the messages between them, and their
//! executors. From the first state on, every possible action is tried, and each state is visited once; the ledger,
//! which has the physical facts, checks it. `docs/concepts/model.md` says what is covered and what is not.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use evenkeel_core::job::Delivery;

mod act;
mod action_text;
mod choices;
mod fault_steps;
mod fingerprint;
mod flaw;
mod ledger;
mod names;
mod scope;
mod sharding;
mod state;

use choices::ModelAction;
pub use flaw::ProtocolFlaw;
pub use scope::{ModelCommand, ModelScope};
use state::ModelState;

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchReport {
    /// Distinct states.
    pub states: usize,
    /// Steps from state to state, including those to known states.
    pub steps: usize,
    /// States without a further action.
    pub ends: usize,
    /// The length of the longest path.
    pub depth: usize,
    /// Whether every state within the scope was seen.
    pub complete: bool,
    /// The violation, if there is one.
    pub failure: Option<Counterexample>,
}

/// A violated invariant and the path to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The invariant and the facts.
    pub broken: String,
    /// The number of steps.
    pub length: usize,
    /// The events, line by line.
    pub trace: String,
}

/// The order in which states are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOrder {
    /// Breadth first: finds a shortest path to a violation, and stores wide layers.
    Breadth,
    /// Depth first: needs little memory.
    Depth,
}

impl ModelScope {
    /// Two nodes that race for the job and its two fires, without a fault: every order of messages.
    #[must_use]
    pub fn race(delivery: Delivery) -> Self {
        Self { joined: false, split: true, faults: 0, ..Self::fault(delivery) }
    }

    /// Two nodes that have joined, two fires, one fault at any moment.
    #[must_use]
    pub fn fault(delivery: Delivery) -> Self {
        Self {
            delivery,
            shards: None,
            dispatched: false,
            due: vec![1_000, 2_000],
            joined: true,
            split: false,
            faults: 1,
            plain: false,
            lasting: None,
            commands: 0,
            choice: ModelCommand::CLAIMED,
            heal: 5_000,
            end: 13_000,
            flaw: None,
            states: usize::MAX,
        }
    }

    /// Two nodes that have joined, two fires, one command at any moment: every order of messages.
    #[must_use]
    pub fn one_command(delivery: Delivery) -> Self {
        Self { split: true, faults: 0, commands: 1, ..Self::fault(delivery) }
    }

    /// A sharded job of two shards and one fire; both nodes have joined and have one each; one fault at any moment.
    #[must_use]
    pub fn shards(delivery: Delivery) -> Self {
        Self { shards: Some(2), due: vec![2_000], choice: ModelCommand::SHARDED, ..Self::fault(delivery) }
    }

    /// The same with the simplest faults only, all repaired soon, and one shard whose run lasts: the leader's is 0, the
    /// other's 1.
    #[must_use]
    pub fn failover(delivery: Delivery, lasting: u32) -> Self {
        Self { plain: true, lasting: Some(lasting), heal: 3_500, ..Self::shards(delivery) }
    }

    /// The same without a fault: two nodes that start at the same moment, and race for the leadership and a fire that
    /// can be claimed at once.
    #[must_use]
    pub fn election(delivery: Delivery) -> Self {
        Self { joined: false, faults: 0, due: vec![1_000], ..Self::shards(delivery) }
    }

    /// The same without a fault: two nodes that have joined, and one command at any moment that causes a reshard.
    #[must_use]
    pub fn reshard(delivery: Delivery) -> Self {
        Self { faults: 0, commands: 1, due: vec![2_000], ..Self::shards(delivery) }
    }

    /// A dispatched job with one fire: two nodes that have joined take a beat, plan, offer, accept, and plan again; one
    /// of the simplest faults at any moment.
    #[must_use]
    pub fn plan(delivery: Delivery) -> Self {
        Self { dispatched: true, plain: true, due: vec![2_000], heal: 4_000, ..Self::fault(delivery) }
    }

    /// The scope in which a flaw shows soonest.
    #[must_use]
    pub fn of(flaw: ProtocolFlaw) -> Self {
        let shown = match flaw {
            // A takeover from an online node needs news that lags behind an answer, as in a race.
            ProtocolFlaw::TakeoverUnguarded => Self::race(Delivery::AtMostOnce),
            ProtocolFlaw::OpenRunDropped => {
                Self { due: vec![1_000], heal: 3_000, end: 6_000, ..Self::fault(Delivery::AtMostOnce) }
            }
            ProtocolFlaw::ElectionUnguarded => Self::election(Delivery::AtMostOnce),
            ProtocolFlaw::FailoverCopies => Self::failover(Delivery::AtLeastOnce, 1),
            ProtocolFlaw::ClaimUnguarded => Self {
                choice: &[ModelCommand::SwitchOff, ModelCommand::Drain],
                ..Self::reshard(Delivery::AtMostOnce)
            },
            ProtocolFlaw::AcceptUnguarded | ProtocolFlaw::PlanUnguarded => {
                Self { plain: false, ..Self::plan(Delivery::AtMostOnce) }
            }
            ProtocolFlaw::NoGuardProcess
            | ProtocolFlaw::StoppedTakenForDead
            | ProtocolFlaw::NotAfterIgnored => Self::fault(Delivery::AtLeastOnce),
            _ => Self::fault(Delivery::AtMostOnce),
        };
        Self { flaw: Some(flaw), ..shown }
    }
}

/// Searches the scope of every flaw: each flaw must be found.
pub fn mutants() -> impl Iterator<Item = (ProtocolFlaw, SearchReport)> {
    ProtocolFlaw::ALL.into_iter().map(|flaw| (flaw, explore(&ModelScope::of(flaw), SearchOrder::Breadth)))
}

/// A step of the path to a state, as a chain through an arena.
#[derive(Clone, Copy)]
struct PathStep {
    parent: u32,
    act: ModelAction,
}

/// The parent of the first step.
const ROOT: u32 = u32::MAX;

/// Visits every state within the scope, or stops at the first violation.
#[must_use]
pub fn explore(scope: &ModelScope, order: SearchOrder) -> SearchReport {
    let mut report = SearchReport { complete: true, ..SearchReport::default() };
    let mut links: Vec<PathStep> = Vec::new();
    let mut first = ModelState::first(scope);
    let mut seen = BTreeSet::from([first.print()]);
    let mut open = VecDeque::from([(first, ROOT, 0_usize)]);
    'search: while let Some((state, link, depth)) = match order {
        SearchOrder::Breadth => open.pop_front(),
        SearchOrder::Depth => open.pop_back(),
    } {
        report.depth = report.depth.max(depth);
        let acts = state.choices(scope);
        if acts.is_empty() {
            report.ends += 1;
            if let Err(broken) = state.judge(scope) {
                report.failure = Some(retrace(scope, &links, link, None, broken));
                break;
            }
        }
        for act in acts {
            let mut next = state.clone();
            report.steps += 1;
            if let Err(broken) = next.apply(scope, act, &mut None) {
                report.failure = Some(retrace(scope, &links, link, Some(act), broken));
                break 'search;
            }
            if seen.insert(next.print()) {
                links.push(PathStep { parent: link, act });
                let id = u32::try_from(links.len() - 1).expect("fewer than 2^32 states fit in memory");
                open.push_back((next, id, depth + 1));
            }
        }
        if seen.len() >= scope.states {
            break;
        }
    }
    report.complete = open.is_empty() && report.failure.is_none();
    report.states = seen.len();
    report
}

/// Repeats the path to a violation, and writes down the events.
fn retrace(
    scope: &ModelScope,
    links: &[PathStep],
    mut at: u32,
    last: Option<ModelAction>,
    broken: String,
) -> Counterexample {
    let mut acts: Vec<ModelAction> = last.into_iter().collect();
    while let Some(link) = links.get(at as usize) {
        acts.push(link.act);
        at = link.parent;
    }
    acts.reverse();
    let mut log = Some(String::new());
    let mut state = ModelState::first(scope);
    for act in &acts {
        // The last action violates the invariant again; its line is in the log by then.
        let _ = state.apply(scope, *act, &mut log);
    }
    Counterexample { broken, length: acts.len(), trace: log.unwrap_or_default() }
}

impl fmt::Display for SearchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, steps, ends, depth, .. } = self;
        let extent = if self.complete { "all" } else { "the first" };
        write!(f, "{extent} {states} states, {steps} steps, {ends} ends, depth {depth}: ")?;
        match &self.failure {
            None => f.write_str("clean"),
            Some(failure) => write!(f, "broken after {} steps\n  {failure}", failure.length),
        }
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.broken, self.trace.trim_start_matches('\n'))
    }
}
