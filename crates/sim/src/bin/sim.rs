//! `sim SEED` shows one seed, `sim --seeds N` runs many, `sim --mutants` checks that each planted fault is found.
//! Worlds last ten minutes, with `--brief` three.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use evenkeel_sim::faults::SimFault;
use evenkeel_sim::invariants::Invariant;
use evenkeel_sim::mutants::{self, HuntOutcome, MutantSpec, SEEDS_MAX};
use evenkeel_sim::seed::{SeedOptions, SeedReport, judge, play, run_seed};
use evenkeel_sim::workload::SimDuration;

const USAGE: &str =
    "usage: sim [--brief] SEED | sim [--brief] --seeds N [--from SEED] | sim --mutants [NAME [SEED] | --record]
  SEED is a number, in decimal or as 0x…";
const THREADS: usize = 2;
/// From this many seeds on, every fault must have occurred and every invariant must have been tested.
const ENOUGH: u64 = 1_000;
/// The maximum number of failures to collect.
const BROKEN_MAX: usize = 20;

/// Prints a line. A closed standard output is no error.
macro_rules! say {
    ($($text:tt)*) => {
        if writeln!(std::io::stdout(), $($text)*).is_err() {
            std::process::exit(0);
        }
    };
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let (span, words) = match words.as_slice() {
        ["--brief", rest @ ..] => (SimDuration::Brief, rest),
        all => (SimDuration::Long, all),
    };
    let done = match words {
        ["--seeds", n] => number(n).map(|n| seeds(0, n, span)),
        ["--seeds", n, "--from", from] => number(n).zip(number(from)).map(|(n, from)| seeds(from, n, span)),
        ["--mutants"] => Some(hunt("", SEEDS_MAX, false)),
        ["--mutants", "--record"] => Some(hunt("", SEEDS_MAX, true)),
        ["--mutants", name] => Some(hunt(name, SEEDS_MAX, false)),
        ["--mutants", name, seed] => number(seed).and_then(|seed| show_fault(name, seed)),
        [seed] => number(seed).map(|seed| show(seed, span)),
        _ => None,
    };
    done.unwrap_or_else(|| {
        eprintln!("{USAGE}");
        ExitCode::from(2)
    })
}

/// Shows one seed with the planted fault of this name, if there is one.
fn show_fault(name: &str, seed: u64) -> Option<ExitCode> {
    let mutant = mutants::ALL.iter().find(|mutant| mutant.name == name)?;
    let world = play(seed, SeedOptions { keeps_text: true, ..mutant.manner() });
    world.trace().text().iter().for_each(|line| say!("{line}"));
    say!("{:?}", world.broken());
    Some(ExitCode::SUCCESS)
}

/// Shows one seed.
fn show(seed: u64, span: SimDuration) -> ExitCode {
    let world = play(seed, SeedOptions { span, keeps_text: true, ..SeedOptions::default() });
    world.trace().text().iter().for_each(|line| say!("{line}"));
    match judge(seed, span, &world) {
        Ok(report) => {
            say!("{:#x}: {} steps, {} starts, hash {:016x}", seed, report.steps, report.starts, report.hash);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Checks that each planted fault is found: all of them, or those with this text in their name. With `record`, writes
/// the table of seeds that the tests play.
fn hunt(name: &str, most: u64, record: bool) -> ExitCode {
    let chosen: Vec<&MutantSpec> = mutants::ALL.iter().filter(|m| m.name.contains(name)).collect();
    let next = AtomicUsize::new(0);
    let bad = AtomicUsize::new(usize::from(chosen.is_empty()));
    let seeds = Mutex::new(vec![None; chosen.len()]);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(mutant) = chosen.get(at) else { return };
                    let name = mutant.name;
                    match mutant.hunt(most) {
                        HuntOutcome::Found(seed, broken) => {
                            say!("{name}: found in seed {seed:#x}: {broken}");
                            seeds.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(seed);
                        }
                        HuntOutcome::Misnamed(seed, broken) => {
                            say!("{name}: in seed {seed:#x} something else broke: {broken}");
                            bad.fetch_add(1, Ordering::Relaxed);
                        }
                        HuntOutcome::Missed => {
                            say!("{name}: not found in {most} seeds");
                            bad.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let bad = bad.into_inner();
    say!("{} planted faults, {bad} not found by their name", chosen.len());
    if bad > 0 {
        return ExitCode::FAILURE;
    }
    if record && let Err(error) = write_seeds(&chosen, &seeds.into_inner().unwrap_or_default()) {
        eprintln!("{SEEDS_FILE} cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The table of seeds that the tests play.
const SEEDS_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/planted_faults.txt");

fn write_seeds(chosen: &[&MutantSpec], seeds: &[Option<u64>]) -> std::io::Result<()> {
    let found = chosen.iter().zip(seeds).filter_map(|(mutant, seed)| Some((mutant.name, (*seed)?)));
    std::fs::write(SEEDS_FILE, found.map(|(name, seed)| format!("{seed} {name}\n")).collect::<String>())
}

/// Runs many seeds and prints the results; each failure is one line that repeats it.
fn seeds(from: u64, count: u64, span: SimDuration) -> ExitCode {
    let begun = SeedStopwatch::start();
    let next = AtomicU64::new(from);
    let sum = Mutex::new(SeedReport::default());
    let broken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count || broken.load(Ordering::Relaxed) >= BROKEN_MAX {
                        return;
                    }
                    match run_seed(seed, span) {
                        Ok(report) => add(&sum, &report),
                        Err(failure) => {
                            broken.fetch_add(1, Ordering::Relaxed);
                            say!("{failure}");
                        }
                    }
                }
            });
        }
    });
    let broken = broken.into_inner();
    if broken > 0 {
        let played = next.into_inner().min(from + count) - from;
        say!("{broken} of {played} seeds broke an invariant");
        return ExitCode::FAILURE;
    }
    let sum = sum.into_inner().unwrap_or_default();
    print(count, begun.seconds(), &sum);
    match untested(count, &sum) {
        Some(text) => {
            say!("{text}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

fn add(sum: &Mutex<SeedReport>, report: &SeedReport) {
    let Ok(mut sum) = sum.lock() else { return };
    sum.simulated += report.simulated;
    sum.steps += report.steps;
    // A sum, so that the order of the seeds does not matter.
    sum.hash = sum.hash.wrapping_add(report.hash);
    sum.starts += report.starts;
    sum.tally.add(&report.tally);
    for (invariant, count) in &report.tested {
        *sum.tested.entry(*invariant).or_default() += count;
    }
}

fn print(count: u64, seconds: f64, sum: &SeedReport) {
    let minutes = sum.simulated as f64 / 60_000.0;
    let (per_second, each) = (count as f64 / seconds.max(0.001), minutes / count.max(1) as f64);
    say!("{count} seeds in {seconds:.1} s, {per_second:.1} seeds per second");
    say!("{minutes:.0} simulated minutes, {each:.1} a seed; every trace together {:016x}", sum.hash);
    say!("{} steps, {} runs started, no invariant broke", sum.steps, sum.starts);
    say!("faults");
    SimFault::ALL.iter().for_each(|fault| say!("  {fault:<20} {:>10}", sum.tally.of(*fault)));
    say!("invariants, and how often each was put to the test");
    for invariant in Invariant::ALL.iter().filter(|i| **i != Invariant::Sentinel) {
        let tested = sum.tested.get(invariant).copied().unwrap_or(0);
        say!("  {:<20} {tested:>10}", invariant.to_string());
    }
}

/// The faults and invariants that a run of this many seeds should have covered and did not.
fn untested(count: u64, sum: &SeedReport) -> Option<String> {
    if count < ENOUGH {
        return None;
    }
    let invariants = Invariant::ALL.iter().filter(|i| **i != Invariant::Sentinel);
    let idle = invariants.filter(|i| !sum.tested.contains_key(i)).map(ToString::to_string);
    let absent = SimFault::ALL.iter().filter(|f| sum.tally.of(**f) == 0).map(ToString::to_string);
    let missing: Vec<String> = idle.chain(absent).collect();
    (!missing.is_empty()).then(|| format!("never met in {count} seeds: {}", missing.join(", ")))
}

/// Measures the speed of seeds. The worlds themselves read no clock.
struct SeedStopwatch(std::time::Instant);

impl SeedStopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "the speed of the program is real time; worlds have their own"
    )]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
