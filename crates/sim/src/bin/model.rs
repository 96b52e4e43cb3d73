//! `model` searches the protocol exhaustively; `model --mutants` removes each rule and checks that the search fails.

use std::process::ExitCode;

use evenkeel_core::job::Delivery;
use evenkeel_sim::model::{ModelScope, ProtocolFlaw, SearchOrder, explore};

const USAGE: &str = "usage: model [scope [states]] | model --mutants [words]; scopes: race, wish, fault, election, recut, \
                     rescue, succession, shards, plan";

/// A function that makes a scope for a delivery guarantee.
type ScopeMaker = fn(Delivery) -> ModelScope;

/// Every scope with its name.
const SCOPES: [(&str, ScopeMaker); 9] = [
    ("race", ModelScope::race),
    ("wish", ModelScope::one_command),
    ("fault", ModelScope::fault),
    ("election", ModelScope::election),
    ("recut", ModelScope::reshard),
    ("rescue", |delivery| ModelScope::failover(delivery, 1)),
    ("succession", |delivery| ModelScope::failover(delivery, 0)),
    ("shards", ModelScope::shards),
    ("plan", ModelScope::plan),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let scope = |name: &str| SCOPES.iter().position(|(known, _)| *known == name);
    match words.as_slice() {
        [] => search(&SCOPES, usize::MAX),
        ["--mutants", words @ ..] => take_away(words),
        [one, rest @ ..] if rest.len() < 2 => {
            let most = rest.first().map_or(Ok(usize::MAX), |most| most.parse());
            match (scope(one), most) {
                (Some(at), Ok(most)) => search(&SCOPES[at..=at], most),
                _ => refuse(),
            }
        }
        _ => refuse(),
    }
}

fn refuse() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Searches these scopes under both delivery guarantees, each up to this many states.
fn search(scopes: &[(&str, ScopeMaker)], states: usize) -> ExitCode {
    let mut clean = true;
    for (name, scope) in scopes {
        for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
            let begun = ModelStopwatch::start();
            let report = explore(&ModelScope { states, ..scope(delivery) }, SearchOrder::Depth);
            let seconds = begun.seconds();
            let speed = report.states as f64 / seconds.max(0.001);
            println!("{name} {delivery:?}: {report}");
            println!("  {seconds:.1} s, {speed:.0} states/s");
            clean &= report.failure.is_none();
        }
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Removes each rule whose text has all these words, one at a time, and prints a shortest path to the violation.
fn take_away(words: &[&str]) -> ExitCode {
    let mut all = true;
    for flaw in
        ProtocolFlaw::ALL.into_iter().filter(|flaw| words.iter().all(|word| flaw.to_string().contains(word)))
    {
        let report = explore(&ModelScope::of(flaw), SearchOrder::Breadth);
        println!("{flaw}: {report}\n");
        all &= report.failure.is_some();
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures the speed of the search. The model itself reads no clock.
struct ModelStopwatch(std::time::Instant);

impl ModelStopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "the speed of the program is real time; the model has its own"
    )]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
