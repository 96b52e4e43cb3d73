//! The one list CI runs, and the shorter one that README names.

use crate::parts::{Budget, Ledger, Part, Step, Work};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Seeds that `cargo xtask test` and `cargo xtask ci` simulate, each ten minutes of a cluster's life.
const SEEDS: (&str, &str) = ("200", "2000");
/// Compiles the simulator as it is played.
const SIMULATOR: [&str; 7] = ["build", "--release", "--package", "evenkeel-sim", "--bin", "sim", "--locked"];

/// How often each trial of `cargo xtask chaos --long` plays each of its faults.
pub(crate) const LONG_CHAOS: u32 = 10;

/// What all of `cargo xtask test` may take on an ordinary machine.
const TEST_LIMIT: Duration = Duration::from_secs(35 * 60);

/// Builds the house and proves that it works: what README calls the second command.
///
/// # Errors
/// Names the part that failed, or the budget that was not kept.
pub fn test(args: &[String]) -> Result<ExitCode> {
    let runner = runner(args)?;
    println!("This builds Evenkeel and runs its tests, a short simulation and a short trial by fire.");
    println!(
        "Engines that are missing are installed where this is Debian and you are root; else their tests are skipped."
    );
    finish(Some(TEST_LIMIT), |ledger| ledger.run(test_parts(runner, false)))
}

/// Everything CI runs. The simulation is longer here, so that the tests at the end need not repeat it.
///
/// # Errors
/// Names the part that failed, or the budget that was not kept.
pub fn ci(args: &[String]) -> Result<ExitCode> {
    let runner = runner(args)?;
    finish(None, |ledger| {
        ledger.run(house_parts())?;
        ledger.run(vec![simulator_built(), simulation(SEEDS.1)])?;
        println!("\n==== cargo xtask test");
        ledger.run(test_parts(runner, true))
    })
}

fn finish(limit: Option<Duration>, work: impl FnOnce(&mut Ledger) -> Result<()>) -> Result<ExitCode> {
    let mut ledger = Ledger::default();
    let result = work(&mut ledger);
    // Also when the work failed.
    let result = result.and(crate::engines::take_down());
    println!("{}", ledger.table());
    result?;
    let over = ledger.over(limit);
    for (what, limit) in &over {
        eprintln!(
            "xtask: {what} took longer than its {limit:.0} minutes of an ordinary machine: make it faster, or cut it"
        );
    }
    Ok(if over.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Who runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Nextest,
    Cargo,
}

fn runner(args: &[String]) -> Result<Runner> {
    if crate::only_flag(args, "--no-nextest")? {
        return Ok(Runner::Cargo);
    }
    let found = Command::new(crate::cargo()).args(["nextest", "--version"]).output();
    Ok(if found.is_ok_and(|out| out.status.success()) { Runner::Nextest } else { Runner::Cargo })
}

fn house_parts() -> Vec<Part> {
    let steps = |name, budget, does: &str, steps| Part {
        name,
        budget,
        does: does.to_owned(),
        work: Work::Steps(steps),
    };
    let own =
        |name, budget, does: &str, work| Part { name, budget, does: does.to_owned(), work: Work::Own(work) };
    let doc = ["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"];
    vec![
        steps(
            "format",
            Budget::Rest,
            "every file as rustfmt writes it",
            vec![Step::cargo(&["fmt", "--all", "--check"])],
        ),
        own("tidy", Budget::Rest, "the walls of the house", tidy),
        own(
            "core alone",
            Budget::Builds,
            "core is built without its neighbours and without the standard library",
            core_alone,
        ),
        steps("clippy", Budget::Builds, "no warning anywhere", clippy()),
        steps(
            "docs",
            Budget::Builds,
            "documentation is built, and its links lead somewhere",
            vec![Step::cargo(&doc).with("RUSTDOCFLAGS", DOC_LINTS)],
        ),
    ]
}

/// Private items are documented too, so links to them lead somewhere.
const DOC_LINTS: &str = "-D warnings -A rustdoc::private-intra-doc-links";

fn clippy() -> Vec<Step> {
    let all = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    // `--all-targets` leaves out the targets that run only when asked for.
    let slow =
        ["clippy", "--package", "evenkeel-server", "--test", "chaos", "--locked", "--", "-D", "warnings"];
    vec![Step::cargo(&all), Step::cargo(&slow)]
}

/// What tests the house; with `all`, an engine that is missing is a failure.
fn test_parts(runner: Runner, all: bool) -> Vec<Part> {
    let threads = threads();
    let nextest = ["nextest", "run", "--test-threads", &threads];
    let (with, build, run) = match runner {
        Runner::Nextest => ("cargo-nextest", ["nextest", "run", "--no-run"].as_slice(), nextest.as_slice()),
        Runner::Cargo => ("cargo", ["test", "--no-run"].as_slice(), ["test"].as_slice()),
    };
    // Documentation tests are a part of their own, since nextest cannot run them.
    let targets = ["--workspace", "--lib", "--bins", "--tests", "--examples", "--locked"].as_slice();
    let doc = ["test", "--workspace", "--doc", "--locked"];
    let part = |name, budget, does: String, steps| Part { name, budget, does, work: Work::Steps(steps) };
    let mut no_run = chaos();
    no_run.args.push("--no-run".to_owned());
    let required = |step: Step| if all { step.with("REQUIRE", "all") } else { step };
    let tests = required(Step::cargo(&[run, targets].concat()));
    vec![
        part(
            "build",
            Budget::Builds,
            "everything is compiled".to_owned(),
            vec![Step::cargo(&[build, targets].concat()), Step::cargo(&SIMULATOR), no_run],
        ),
        Part {
            name: "engines",
            budget: Budget::Tests,
            does: "real engines are started on loopback".to_owned(),
            work: Work::Own(crate::engines::bring_up),
        },
        part(
            "tests",
            Budget::Tests,
            format!("unit, property and conformance tests, run by {with}"),
            vec![tests],
        ),
        part(
            "doctests",
            Budget::Tests,
            "the examples in the documentation work".to_owned(),
            vec![Step::cargo(&doc)],
        ),
        simulation(SEEDS.0),
        part(
            "chaos",
            Budget::Chaos,
            "real processes are killed, stopped and cut off, and nothing is lost or doubled".to_owned(),
            vec![required(chaos())],
        ),
    ]
}

/// How many tests run at once: half as many again as there are cores, since many wait for a moment to come or for a server.
fn threads() -> String {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (cores + cores / 2).to_string()
}

/// The simulator as it is played, so that what it plays is all that its budget pays for.
fn simulator_built() -> Part {
    Part {
        name: "simulator",
        budget: Budget::Builds,
        does: "the simulator is compiled as it is played".to_owned(),
        work: Work::Steps(vec![Step::cargo(&SIMULATOR)]),
    }
}

fn simulation(seeds: &str) -> Part {
    let mut step = simulator();
    step.args.extend(["--seeds", seeds].map(str::to_owned));
    let does =
        format!("{seeds} worlds of ten minutes with faults, then healing, and invariants after each step");
    Part { name: "simulation", budget: Budget::Simulation, does, work: Work::Steps(vec![step]) }
}

/// The simulator, still without arguments.
pub(crate) fn simulator() -> Step {
    Step::cargo(&[
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "evenkeel-sim",
        "--bin",
        "sim",
        "--",
    ])
}

/// The trials by fire.
pub(crate) fn chaos() -> Step {
    Step::cargo(&["test", "--locked", "--package", "evenkeel-server", "--test", "chaos"])
}

/// Looks over the walls and prints what they say.
pub(crate) fn tidy(root: &Path) -> Result<()> {
    let said = crate::tidy::tidy(root)?;
    for (wall, complaint) in &said {
        println!("[{wall}] {complaint}");
    }
    if !said.is_empty() {
        bail!("{} complaints", said.len());
    }
    Ok(())
}

/// Checks core by itself, then a crate on top of it that brings a panic handler of its own. Where the standard
/// library hides anywhere beneath core, the compiler finds two of them and refuses.
fn core_alone(_: &Path) -> Result<()> {
    let check = ["check", "--package", "evenkeel-core", "--locked", "--message-format", "json"];
    let told = Step::cargo(&check).output()?;
    let of_core = told.lines().filter(|line| line.contains("\"name\":\"evenkeel_core\""));
    let core = of_core.flat_map(|line| line.split('"')).find(|word| word.ends_with(".rmeta"));
    let Some(core) = core.map(Path::new) else {
        bail!("cargo does not say where it put what it knows of core")
    };
    no_std_features()?;
    let deps = core.parent().unwrap_or(core);
    let probe = deps.with_file_name("no_std.rs");
    std::fs::write(&probe, PROBE)?;
    let out = Command::new("rustc")
        .args(["--edition", "2024", "--crate-type", "rlib", "--emit", "metadata"])
        .args(["--extern", &format!("evenkeel_core={}", core.display())])
        .args(["-L", &format!("dependency={}", deps.display()), "-o"])
        .arg(probe.with_extension("rmeta"))
        .arg(&probe)
        .output()?;
    if !out.status.success() {
        bail!("core needs the standard library:\n{}", String::from_utf8_lossy(&out.stderr).trim_end());
    }
    println!("core stands alone: a crate without the standard library can be built on it");
    Ok(())
}

const PROBE: &str = "//! Proves that nothing beneath core brings the standard library.
#![no_std]
extern crate evenkeel_core;
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
";

/// A feature named `std` beneath core is refused by name, which is easier to mend than what the compiler says.
fn no_std_features() -> Result<()> {
    let edges = ["--edges", "normal,no-proc-macro,features", "--prefix", "none", "--locked"];
    let tree = Step::cargo(&[["tree", "--package", "evenkeel-core"].as_slice(), &edges].concat()).output()?;
    let guilty: Vec<_> = tree.lines().filter(|line| line.contains("feature \"std\"")).collect();
    if !guilty.is_empty() {
        bail!("core must not ask for the standard library: turn off {}", guilty.join(", "));
    }
    Ok(())
}
