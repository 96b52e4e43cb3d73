//! The gate: what CI runs, and the shorter list that README names. Nothing in it depends on how fast the machine is.

use crate::parts::{Part, PartTable, Work};
use crate::step::Step;
use crate::tools::{self, Runner};
use crate::{changed, engines};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Builds everything and tests it: what README calls the second command.
///
/// # Errors
/// Names the part that failed.
pub fn test(args: &[String]) -> Result<ExitCode> {
    let runner = runner(args)?;
    println!("This builds Evenkeel, runs its tests and simulations, and two short trials under faults.");
    println!(
        "Engines that are missing are installed where this is Debian and the user is root; else their tests are skipped."
    );
    finish(|table| table.run(test_parts(runner, false)))
}

/// Everything that CI runs.
///
/// # Errors
/// Names the part that failed.
pub fn ci(args: &[String]) -> Result<ExitCode> {
    let runner = runner(args)?;
    finish(|table| {
        table.run(house_parts())?;
        println!("\n==== cargo xtask test");
        table.run(test_parts(runner, true))
    })
}

/// Stops the engines and prints the table, also when the work failed.
fn finish(work: impl FnOnce(&mut PartTable) -> Result<()>) -> Result<ExitCode> {
    let mut table = PartTable::default();
    let result = work(&mut table);
    let result = result.and(engines::take_down());
    println!("{}", table.text());
    result.map(|()| ExitCode::SUCCESS)
}

fn runner(args: &[String]) -> Result<Runner> {
    if crate::only_flag(args, "--no-nextest")? {
        return Ok(Runner::Cargo);
    }
    Ok(tools::runner())
}

fn house_parts() -> Vec<Part> {
    let doc = ["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"];
    vec![
        Part::steps(
            "format",
            "every file as rustfmt writes it",
            vec![Step::cargo(&["fmt", "--all", "--check"])],
        ),
        Part::own("tidy", "the rules of the source tree", tidy),
        Part::steps("clippy", "no warning anywhere", clippy()),
        Part::own(
            "core alone",
            "core is built without its neighbours and without the standard library",
            core_alone,
        ),
        Part::steps(
            "docs",
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
    let slow = ["clippy", "--workspace", "--test", "chaos", "--locked", "--", "-D", "warnings"];
    vec![Step::cargo(&all), Step::cargo(&slow)]
}

/// Every target that the tests are in. All steps name the same packages and the same profile, so that nothing is compiled twice.
pub(crate) const TARGETS: [&str; 6] = ["--workspace", "--lib", "--bins", "--tests", "--examples", "--locked"];

/// What tests the house; with `all`, an engine that is missing is a failure.
fn test_parts(runner: Runner, all: bool) -> Vec<Part> {
    let required = |step: Step| if all { step.with("REQUIRE", "all") } else { step };
    let build: &[&str] = match runner {
        Runner::Nextest => &["nextest", "run", "--no-run"],
        Runner::Cargo => &["test", "--no-run"],
    };
    let mut build_chaos = chaos();
    build_chaos.args.push("--no-run".to_owned());
    let doc = ["test", "--workspace", "--doc", "--locked"];
    vec![
        Part::steps(
            "build",
            "everything is compiled once, for all that follows",
            vec![Step::cargo(&[build, &TARGETS].concat()), build_chaos],
        ),
        Part::own("engines", "real engines are started on loopback", engines::bring_up),
        tests(runner, required),
        servers(runner, required),
        Part::steps("doctests", "the examples in the documentation work", vec![Step::cargo(&doc)]),
        Part::steps(
            "chaos",
            "real processes are killed and stopped on two engines, and no fire is lost or doubled",
            vec![required(chaos())],
        ),
    ]
}

/// The tests of the registry crate that need a real engine, by the names of their binaries.
const SERVERS: [&str; 5] = ["etcd", "zookeeper", "redis", "mysql", "postgres"];

fn tests(runner: Runner, required: impl Fn(Step) -> Step) -> Part {
    let does =
        "unit tests, scenarios, 200 simulated worlds, planted faults, two models, and nodes as processes";
    let step = match runner {
        Runner::Nextest => nextest(&format!("not ({})", server_filter())),
        Runner::Cargo => Step::cargo(&[["test"].as_slice(), &TARGETS].concat()),
    };
    Part::steps("tests", does, vec![required(step)])
}

/// The conformance suite on every real engine: nothing but the registry crate can break it. Plain cargo has run it among all tests.
fn servers(runner: Runner, required: impl Fn(Step) -> Step) -> Part {
    let name = "real engines";
    let skipped =
        |does: &str, why: &str| Part { name, does: does.to_owned(), work: Work::Skipped(why.to_owned()) };
    let does = "the conformance suite of the registry on every real engine";
    if runner == Runner::Cargo {
        return skipped(does, "plain cargo has run it among the tests");
    }
    match changed::registry() {
        Some(why) => Part::steps(name, format!("{does}: {why}"), vec![required(nextest(&server_filter()))]),
        None => {
            skipped(does, "neither the registry nor its dependencies changed; `cargo xtask soak` runs it")
        }
    }
}

fn server_filter() -> String {
    let binaries: Vec<_> = SERVERS.iter().map(|name| format!("binary({name})")).collect();
    format!("package(evenkeel-registry) & ({})", binaries.join(" | "))
}

fn nextest(filter: &str) -> Step {
    let threads = threads();
    let run = ["nextest", "run", "--test-threads", &threads, "-E", filter];
    Step::cargo(&[run.as_slice(), &TARGETS].concat())
}

/// How many tests run at once: half as many again as there are cores, since many wait for a moment to come or for a server.
fn threads() -> String {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (cores + cores / 2).to_string()
}

/// The chaos trials that the gate runs.
pub(crate) fn chaos() -> Step {
    // All packages, as the other tests name them: with one package alone its dependencies would be compiled once more.
    Step::cargo(&["test", "--locked", "--workspace", "--test", "chaos"])
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
