//! The exhaustive model: every order in which things can happen to two nodes, one job and two fires, with a fault.
//!
//! The nodes are the real ones: each state holds two `Node`s, a `Store`, what is under way between them, and their
//! executors. From the first state on everything that can happen is tried, each state is looked at once, and the ledger,
//! which knows what really happened, judges it. `docs/concepts/model.md` says what is covered and what is not.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use evenkeel_core::input::{Command, NodeSwitch};
use evenkeel_core::job::Delivery;

mod act;
mod action_text;
mod choices;
mod fault_steps;
mod fingerprint;
mod flaw;
mod ledger;
mod sharding;
mod state;

use choices::ModelAction;
pub use flaw::ProtocolFlaw;
use state::ModelState;

/// How wide a search is.
#[derive(Clone, Debug)]
pub struct ModelScope {
    /// What doubt about a run of the job means.
    pub delivery: Delivery,
    /// Into how many shards a fire is cut; `None` for a job that is claimed.
    pub shards: Option<u32>,
    /// Whether the job is dispatched instead: nodes take beats, plan, offer and accept.
    pub dispatched: bool,
    /// When the job is due, in whole seconds from the start, in ms.
    pub due: Vec<i64>,
    /// Whether the nodes have joined already, one after the other, and the first one holds the job. Otherwise both start
    /// in the same moment, and race for it.
    pub joined: bool,
    /// Whether answers take their own time, so that any message may come between a request and its answer. Otherwise that
    /// is a fault.
    pub split: bool,
    /// How many faults may happen.
    pub faults: u8,
    /// Whether only the plainest faults may happen: a crash, a cut, an answer that is lost.
    pub plain: bool,
    /// Of a sharded job, the only shard whose run lasts: the others' end before time goes on. `None`: all last.
    pub lasting: Option<u32>,
    /// How many wishes somebody may have.
    pub commands: u8,
    /// Which.
    pub choice: &'static [ModelCommand],
    /// From this moment on, in ms, no fault begins, troubles end and runs end.
    pub heal: i64,
    /// By this moment, in ms, every fire must have its outcome.
    pub end: i64,
    /// The rule that is taken away, to see whether the search notices.
    pub flaw: Option<ProtocolFlaw>,
    /// After so many states the search stops, incomplete.
    pub states: usize,
}

/// What somebody may ask of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelCommand {
    /// Pause the job.
    Pause,
    /// Disable the job.
    Disable,
    /// Delete the job.
    Delete,
    /// Drain the node that holds the job first.
    Drain,
    /// Leave.
    Leave,
    /// Let the node that does not lead take no part in the job.
    SwitchOff,
}

impl ModelCommand {
    const CLAIMED: &'static [Self] = &[Self::Pause, Self::Disable, Self::Delete, Self::Drain, Self::Leave];
    const SHARDED: &'static [Self] =
        &[Self::Pause, Self::Disable, Self::Delete, Self::Drain, Self::Leave, Self::SwitchOff];

    fn command(self) -> Command {
        match self {
            Self::Pause => Command::Pause(state::job()),
            Self::Disable => Command::Disable(state::job()),
            Self::Delete => Command::Delete(state::job()),
            Self::Drain => Command::Drain(state::name(0)),
            Self::Leave => Command::Leave,
            Self::SwitchOff => Command::Switch(state::job(), state::name(1), NodeSwitch::Disabled(true)),
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct SearchReport {
    /// Distinct states.
    pub states: usize,
    /// Steps from state to state, those to states seen before included.
    pub steps: usize,
    /// States in which nothing is left to happen.
    pub ends: usize,
    /// The longest way looked at.
    pub depth: usize,
    /// Whether every state within the scope was seen.
    pub complete: bool,
    /// What broke, and how.
    pub failure: Option<Counterexample>,
}

/// A broken invariant and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// Which invariant, and by what.
    pub broken: String,
    /// How many steps lead there.
    pub length: usize,
    /// What happened, line by line.
    pub trace: String,
}

/// The order in which states are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOrder {
    /// Near ones first: finds a shortest way to a failure, and remembers wide layers.
    Breadth,
    /// Far ones first: needs little memory.
    Depth,
}

impl ModelScope {
    /// Two nodes that race for the job and its two fires, without a fault: every message in every order.
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

    /// Two nodes that have joined, two fires, one wish at any moment: every message in every order.
    #[must_use]
    pub fn one_command(delivery: Delivery) -> Self {
        Self { split: true, faults: 0, commands: 1, ..Self::fault(delivery) }
    }

    /// A sharded job of two shards and one fire; both nodes have joined and have one each; one fault at any moment.
    #[must_use]
    pub fn shards(delivery: Delivery) -> Self {
        Self { shards: Some(2), due: vec![2_000], choice: ModelCommand::SHARDED, ..Self::fault(delivery) }
    }

    /// The same with the plainest faults only, all mended soon, and one shard whose run lasts: the leader's is 0, the
    /// other's 1.
    #[must_use]
    pub fn failover(delivery: Delivery, lasting: u32) -> Self {
        Self { plain: true, lasting: Some(lasting), heal: 3_500, ..Self::shards(delivery) }
    }

    /// The same without a fault: two nodes that start in the same moment, and race for the leadership and a fire that
    /// can be claimed at once.
    #[must_use]
    pub fn election(delivery: Delivery) -> Self {
        Self { joined: false, faults: 0, due: vec![1_000], ..Self::shards(delivery) }
    }

    /// The same without a fault: two nodes that have joined, and one wish at any moment, so that the shares are cut anew.
    #[must_use]
    pub fn reshard(delivery: Delivery) -> Self {
        Self { faults: 0, commands: 1, due: vec![2_000], ..Self::shards(delivery) }
    }

    /// A dispatched job with one fire: two nodes that have joined take a beat, plan, offer, accept, and plan again; one of
    /// the plainest faults at any moment.
    #[must_use]
    pub fn plan(delivery: Delivery) -> Self {
        Self { dispatched: true, plain: true, due: vec![2_000], heal: 4_000, ..Self::fault(delivery) }
    }

    /// The scope in which a flaw shows soonest.
    #[must_use]
    pub fn of(flaw: ProtocolFlaw) -> Self {
        let shown = match flaw {
            // A takeover from the living needs news that lags behind an answer, as in a race.
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
            ProtocolFlaw::NoGuardProcess | ProtocolFlaw::NotAfterIgnored => {
                Self::fault(Delivery::AtLeastOnce)
            }
            _ => Self::fault(Delivery::AtMostOnce),
        };
        Self { flaw: Some(flaw), ..shown }
    }
}

/// Every flaw, and what the search in its scope says: each must be found.
pub fn mutants() -> impl Iterator<Item = (ProtocolFlaw, SearchReport)> {
    ProtocolFlaw::ALL.into_iter().map(|flaw| (flaw, explore(&ModelScope::of(flaw), SearchOrder::Breadth)))
}

/// The way to a state, as a chain through an arena.
#[derive(Clone, Copy)]
struct PathStep {
    parent: u32,
    act: ModelAction,
}

/// The parent of the first step.
const ROOT: u32 = u32::MAX;

/// Looks at every state within the scope, or stops at the first that breaks an invariant.
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

/// Goes the way to a failure once more, and writes down what happens.
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
        // The last act breaks the invariant again; its line is in the log by then.
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
