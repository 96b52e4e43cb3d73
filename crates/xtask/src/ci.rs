//! The one list CI runs, and the shorter one that README names.

use crate::parts::{Budget, Ledger, Part, Step, Work};
use crate::tree::Tree;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Seeds that `cargo xtask test` and `cargo xtask ci` simulate.
const SEEDS: (&str, &str) = ("200", "2000");

/// Rounds of chaos in CI and in `cargo xtask chaos --long`: each kills or freezes a node.
pub(crate) const ROUNDS: (u32, u32) = (10, 200);

/// What all of `cargo xtask test` may take.
const TEST_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Builds the house and proves that it works: what README calls the second command.
///
/// # Errors
/// Names the part that failed, or the budget that was not kept.
pub fn test(args: &[String]) -> Result<ExitCode> {
    let runner = runner(args)?;
    println!("This builds Evenkeel and runs its tests, a short simulation and a short trial by fire.");
    println!(
        "No system packages needed: nothing is installed, and nothing is written outside the build folder."
    );
    finish(Some(TEST_LIMIT), |ledger| ledger.run(test_parts(runner)))
}

/// Everything CI runs. The simulation is longer here, so that the tests at the end need not repeat it.
///
/// # Errors
/// Names the part that failed, or the budget that was not kept.
pub fn ci(args: &[String]) -> Result<ExitCode> {
    let runner = runner(args)?;
    finish(None, |ledger| {
        ledger.run(house_parts())?;
        ledger.run(vec![simulation(SEEDS.1)])?;
        println!("\n==== cargo xtask test");
        ledger.run(test_parts(runner))
    })
}

fn finish(limit: Option<Duration>, work: impl FnOnce(&mut Ledger) -> Result<()>) -> Result<ExitCode> {
    let mut ledger = Ledger::default();
    let result = work(&mut ledger);
    println!("{}", ledger.table());
    result?;
    let over = ledger.over(limit);
    for (what, limit) in &over {
        eprintln!("xtask: {what} took longer than its {limit:.0} minutes: make it faster, or cut it");
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
        own("references", Budget::Rest, "generated pages agree with the house", |root| {
            crate::references::check(&Tree::read(root)?)
        }),
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
            vec![Step::cargo(&doc).with("RUSTDOCFLAGS", "-D warnings")],
        ),
    ]
}

fn clippy() -> Vec<Step> {
    let all = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    // `--all-targets` leaves out the targets that run only when asked for.
    let slow =
        ["clippy", "--package", "evenkeel-server", "--test", "chaos", "--locked", "--", "-D", "warnings"];
    vec![Step::cargo(&all), Step::cargo(&slow)]
}

fn test_parts(runner: Runner) -> Vec<Part> {
    let (with, build, run) = match runner {
        Runner::Nextest => {
            ("cargo-nextest", ["nextest", "run", "--no-run"].as_slice(), ["nextest", "run"].as_slice())
        }
        Runner::Cargo => ("cargo", ["test", "--no-run"].as_slice(), ["test"].as_slice()),
    };
    // Documentation tests are a part of their own, since nextest cannot run them.
    let targets = ["--workspace", "--lib", "--bins", "--tests", "--examples", "--locked"].as_slice();
    let doc = ["test", "--workspace", "--doc", "--locked"];
    let release = ["build", "--release", "--package", "evenkeel-sim", "--bin", "sim", "--locked"];
    let part = |name, budget, does: String, steps| Part { name, budget, does, work: Work::Steps(steps) };
    let mut no_run = chaos(ROUNDS.0);
    no_run.args.push("--no-run".to_owned());
    vec![
        part(
            "build",
            Budget::Builds,
            "everything is compiled".to_owned(),
            vec![Step::cargo(&[build, targets].concat()), Step::cargo(&release), no_run],
        ),
        part(
            "tests",
            Budget::Tests,
            format!("unit, property and conformance tests, run by {with}"),
            vec![Step::cargo(&[run, targets].concat())],
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
            "real processes are killed and stopped, and nothing is lost or doubled".to_owned(),
            vec![chaos(ROUNDS.0)],
        ),
    ]
}

fn simulation(seeds: &str) -> Part {
    let mut step = simulator();
    step.args.extend(["--seeds", seeds].map(str::to_owned));
    let does = format!("{seeds} worlds with faults, then healing, and invariants after each step");
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

/// The trial by fire, of so many rounds.
pub(crate) fn chaos(rounds: u32) -> Step {
    let test = ["test", "--locked", "--package", "evenkeel-server", "--test", "chaos"];
    Step::cargo(&test).with("EVENKEEL_CHAOS_ROUNDS", &rounds.to_string())
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

/// Builds core by itself, then builds a crate on top of it that brings a panic handler of its own. Where the standard
/// library hides anywhere beneath core, the compiler finds two of them and refuses.
fn core_alone(root: &Path) -> Result<()> {
    Step::cargo(&["build", "--package", "evenkeel-core", "--locked"]).run()?;
    no_std_features()?;
    let target = target_folder(root)?;
    let probe = Path::new(&target).join("xtask").join("no_std.rs");
    std::fs::create_dir_all(probe.with_file_name(""))?;
    std::fs::write(&probe, PROBE)?;
    let rlib = format!("evenkeel_core={target}/debug/libevenkeel_core.rlib");
    let deps = format!("dependency={target}/debug/deps");
    let out = Command::new("rustc")
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "rlib",
            "--emit",
            "metadata",
            "--extern",
            &rlib,
            "-L",
            &deps,
            "-o",
        ])
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

fn target_folder(root: &Path) -> Result<String> {
    let metadata = Step::cargo(&["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let found = metadata.split_once("\"target_directory\":\"").and_then(|(_, rest)| rest.split_once('"'));
    Ok(found.map_or_else(|| root.join("target").display().to_string(), |(folder, _)| folder.to_owned()))
}
