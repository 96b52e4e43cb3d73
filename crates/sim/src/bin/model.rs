//! `model` searches the protocol exhaustively; `model --mutants` takes each rule away and looks whether that is found.

use std::process::ExitCode;

use evenkeel_core::job::Delivery;
use evenkeel_sim::model::{Order, Scope, explore, mutants};

const USAGE: &str = "usage: model [race | fault | wish] | model --mutants";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => search(&["race", "wish", "fault"]),
        [one @ ("race" | "fault" | "wish")] => search(&[*one]),
        ["--mutants"] => take_away(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Searches these scopes under both deliveries.
fn search(names: &[&str]) -> ExitCode {
    let mut clean = true;
    for name in names {
        let scope = match *name {
            "race" => Scope::race,
            "wish" => Scope::wish,
            _ => Scope::fault,
        };
        for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
            let begun = Stopwatch::start();
            let report = explore(&scope(delivery), Order::Depth);
            let seconds = begun.seconds();
            let speed = report.states as f64 / seconds.max(0.001);
            println!("{name} {delivery:?}: {report}");
            println!("  {seconds:.1} s, {speed:.0} states/s");
            clean &= report.failure.is_none();
        }
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Takes each rule away alone, and prints a shortest way to what breaks.
fn take_away() -> ExitCode {
    let mut all = true;
    for (flaw, report) in mutants() {
        println!("{flaw}: {report}\n");
        all &= report.failure.is_some();
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures how fast the search is. The model itself reads no clock.
struct Stopwatch(std::time::Instant);

impl Stopwatch {
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
