//! The exhaustive model: every order in which things can happen to two nodes, one job and two fires, with a fault.
//!
//! The nodes are the real ones: each state holds two `Node`s, a `Store`, what is under way between them, and their
//! executors. From the first state on everything that can happen is tried, each state once, and each is judged by the
//! invariants of the ledger, which knows what really happened. `docs/concepts/model.md` says what is covered.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use evenkeel_core::job::Delivery;

mod act;
mod flaw;
mod ledger;
mod print;
mod state;
mod tell;

use act::{Act, Outlook};
pub use flaw::Flaw;
use state::State;

/// How wide a search is.
#[derive(Clone, Debug)]
pub struct Scope {
    /// What doubt about a run of the job means.
    pub delivery: Delivery,
    /// When the job is due, in whole seconds from the start, in ms.
    pub due: Vec<i64>,
    /// How long before its due moment a fire may be claimed, in ms.
    pub lead: i64,
    /// Whether the nodes have joined already and the first one holds the job.
    pub warm: bool,
    /// How long after the first node the second one starts, in ms.
    pub stagger: i64,
    /// Whether answers take their own time, so that any message may come between a request and its answer.
    pub split: bool,
    /// How many faults may happen.
    pub faults: u8,
    /// From this moment on, in ms, no fault begins, troubles end and runs end.
    pub heal: i64,
    /// By this moment, in ms, every fire must have its outcome.
    pub end: i64,
    /// The rule that is taken away, to see whether the search notices.
    pub flaw: Option<Flaw>,
    /// After so many states the search stops, incomplete.
    pub states: usize,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Report {
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
    pub failure: Option<Failure>,
}

/// A broken invariant and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which invariant, and by what.
    pub broken: String,
    /// How many steps lead there.
    pub length: usize,
    /// What happened, line by line.
    pub trace: String,
}

/// The order in which states are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Near ones first: finds a shortest way to a failure, and remembers wide layers.
    Breadth,
    /// Far ones first: needs little memory.
    Depth,
}

/// The way to a state, as a chain through an arena.
#[derive(Clone, Copy)]
struct Link {
    parent: u32,
    act: Act,
}

const ROOT: u32 = u32::MAX;

/// Looks at every state within the scope, or stops at the first that breaks an invariant.
#[must_use]
pub fn explore(scope: &Scope, order: Order) -> Report {
    let mut report = Report { complete: true, ..Report::default() };
    let mut seen = BTreeSet::new();
    let mut links: Vec<Link> = Vec::new();
    let mut first = State::first(scope);
    seen.insert(first.print());
    let mut open = VecDeque::from([(first, ROOT, 0_usize)]);
    while let Some((state, link, depth)) = match order {
        Order::Breadth => open.pop_front(),
        Order::Depth => open.pop_back(),
    } {
        report.depth = report.depth.max(depth);
        let acts = match state.outlook(scope) {
            Outlook::Acts(acts) => acts,
            Outlook::Over => {
                report.ends += 1;
                if let Err(broken) = state.ledger.get().judge(state.faults < scope.faults) {
                    return fail(report, scope, &links, link, None, broken, seen.len());
                }
                continue;
            }
        };
        for act in acts {
            let mut next = state.clone();
            report.steps += 1;
            if let Err(broken) = next.apply(scope, act, &mut None) {
                return fail(report, scope, &links, link, Some(act), broken, seen.len());
            }
            if seen.insert(next.print()) {
                links.push(Link { parent: link, act });
                let id = u32::try_from(links.len() - 1).expect("fewer than 2^32 states fit in memory");
                open.push_back((next, id, depth + 1));
            }
        }
        if seen.len() >= scope.states {
            report.complete = open.is_empty();
            break;
        }
    }
    report.states = seen.len();
    report
}

fn fail(mut report: Report, scope: &Scope, links: &[Link], at: u32, last: Option<Act>, broken: String, states: usize) -> Report {
    let mut acts: Vec<Act> = last.into_iter().collect();
    let mut at = at;
    while let Some(link) = links.get(at as usize) {
        acts.push(link.act);
        at = link.parent;
    }
    acts.reverse();
    let mut log = Some(String::new());
    let mut state = State::first(scope);
    for act in &acts {
        // The last act breaks the invariant again; its line is in the log by then.
        let _ = state.apply(scope, *act, &mut log);
    }
    report.states = states;
    report.complete = false;
    report.failure = Some(Failure { broken, length: acts.len(), trace: log.unwrap_or_default() });
    report
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extent = if self.complete { "all" } else { "the first" };
        write!(f, "{extent} {} states, {} steps, {} ends, depth {}", self.states, self.steps, self.ends, self.depth)?;
        match &self.failure {
            None => f.write_str(": clean"),
            Some(failure) => write!(f, "\nbroken after {} steps: {}{}", failure.length, failure.broken, failure.trace),
        }
    }
}
