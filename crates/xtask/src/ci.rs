//! The gate: what CI runs, and the shorter list that README names. Nothing in it depends on how fast the machine is.

use crate::cargo_command::CargoCommand;
use crate::parts::{GatePart, GateWork, PartTable};
use crate::tools::{self, TestRunner};
use crate::{changed, console, engines};
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
        table.run(source_parts())?;
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

fn runner(args: &[String]) -> Result<TestRunner> {
    if crate::arguments::only_flag(args, "--no-nextest")? {
        return Ok(TestRunner::Cargo);
    }
    Ok(tools::runner())
}

fn source_parts() -> Vec<GatePart> {
    let doc = ["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"];
    vec![
        GatePart::steps(
            "format",
            "every file as rustfmt writes it",
            vec![CargoCommand::cargo(&["fmt", "--all", "--check"])],
        ),
        GatePart::own("tidy", "the rules of the source tree", tidy),
        console_part(),
        GatePart::steps("clippy", "no warning anywhere", clippy()),
        GatePart::own(
            "core alone",
            "core is built without its neighbours and without the standard library",
            core_alone,
        ),
        GatePart::steps(
            "docs",
            "documentation is built, and its links lead somewhere",
            vec![CargoCommand::cargo(&doc).with("RUSTDOCFLAGS", DOC_LINTS)],
        ),
    ]
}

/// The built files of the console are committed; where its tools are, they are built again and compared.
fn console_part() -> GatePart {
    let (name, about) = ("console", "the console's program is what its sources give");
    if console::can_build() {
        return GatePart::own(name, about, |_| console::check(&console::committed()));
    }
    let why = "Node.js and npm are not here; tidy has compared the digests".to_owned();
    GatePart { name, about: about.to_owned(), work: GateWork::Skipped(why) }
}

/// Private items are documented too, so links to them lead somewhere.
const DOC_LINTS: &str = "-D warnings -A rustdoc::private-intra-doc-links";

fn clippy() -> Vec<CargoCommand> {
    let all = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    // `--all-targets` leaves out the targets that run only when asked for.
    let slow = ["clippy", "--workspace", "--test", "chaos", "--locked", "--", "-D", "warnings"];
    vec![CargoCommand::cargo(&all), CargoCommand::cargo(&slow)]
}

/// Every target that the tests are in. All steps name the same packages and the same profile, so that nothing is compiled twice.
pub(crate) const TARGETS: [&str; 6] = ["--workspace", "--lib", "--bins", "--tests", "--examples", "--locked"];

/// What tests the house; with `all`, an engine that is missing is a failure.
fn test_parts(runner: TestRunner, all: bool) -> Vec<GatePart> {
    let required = |step: CargoCommand| if all { step.with("REQUIRE", "all") } else { step };
    let build: &[&str] = match runner {
        TestRunner::Nextest => &["nextest", "run", "--no-run"],
        TestRunner::Cargo => &["test", "--no-run"],
    };
    let mut build_chaos = chaos();
    build_chaos.args.push("--no-run".to_owned());
    let doc = ["test", "--workspace", "--doc", "--locked"];
    vec![
        GatePart::steps(
            "build",
            "everything is compiled once, for all that follows",
            vec![CargoCommand::cargo(&[build, &TARGETS].concat()), build_chaos],
        ),
        GatePart::own("engines", "real engines are started on loopback", engines::bring_up),
        tests(runner, required),
        servers(runner, required),
        GatePart::steps(
            "doctests",
            "the examples in the documentation work",
            vec![CargoCommand::cargo(&doc)],
        ),
        GatePart::steps(
            "chaos",
            "real processes are killed and stopped on two engines, and no fire is lost or doubled",
            vec![required(chaos())],
        ),
    ]
}

/// The tests of the registry crate that need a real engine, by the names of their binaries.
const SERVERS: [&str; 5] = ["etcd", "zookeeper", "redis", "mysql", "postgres"];

fn tests(runner: TestRunner, required: impl Fn(CargoCommand) -> CargoCommand) -> GatePart {
    let does =
        "unit tests, scenarios, 200 simulated worlds, planted faults, two models, and nodes as processes";
    let step = match runner {
        TestRunner::Nextest => nextest(&format!("not ({})", server_filter())),
        TestRunner::Cargo => CargoCommand::cargo(&[["test"].as_slice(), &TARGETS].concat()),
    };
    GatePart::steps("tests", does, vec![required(step)])
}

/// The conformance suite on every real engine: nothing but the registry crate can break it. Plain cargo has run it among all tests.
fn servers(runner: TestRunner, required: impl Fn(CargoCommand) -> CargoCommand) -> GatePart {
    let name = "real engines";
    let skipped = |does: &str, why: &str| GatePart {
        name,
        about: does.to_owned(),
        work: GateWork::Skipped(why.to_owned()),
    };
    let does = "the conformance suite of the registry on every real engine";
    if runner == TestRunner::Cargo {
        return skipped(does, "plain cargo has run it among the tests");
    }
    match changed::registry() {
        Some(why) => {
            GatePart::steps(name, format!("{does}: {why}"), vec![required(nextest(&server_filter()))])
        }
        None => {
            skipped(does, "neither the registry nor its dependencies changed; `cargo xtask soak` runs it")
        }
    }
}

fn server_filter() -> String {
    let binaries: Vec<_> = SERVERS.iter().map(|name| format!("binary({name})")).collect();
    format!("package(evenkeel-registry) & ({})", binaries.join(" | "))
}

fn nextest(filter: &str) -> CargoCommand {
    let threads = threads();
    let run = ["nextest", "run", "--test-threads", &threads, "-E", filter];
    CargoCommand::cargo(&[run.as_slice(), &TARGETS].concat())
}

/// How many tests run at once: half as many again as there are cores, since many wait for a moment to come or for a server.
fn threads() -> String {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (cores + cores / 2).to_string()
}

/// The comparison of schedules with a brute-force judge.
pub(crate) fn oracle_step() -> CargoCommand {
    let test = ["test", "--quiet", "--locked", "--package", "evenkeel-core", "--test", "oracle"];
    CargoCommand::cargo(&[test.as_slice(), &["--", "--nocapture", "the_oracle"]].concat())
}

/// The chaos trials that the gate runs.
pub(crate) fn chaos() -> CargoCommand {
    // All packages, as the other tests name them: with one package alone its dependencies would be compiled once more.
    CargoCommand::cargo(&["test", "--locked", "--workspace", "--test", "chaos"])
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
    let told = CargoCommand::cargo(&check).output()?;
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
    let tree = CargoCommand::cargo(&[["tree", "--package", "evenkeel-core"].as_slice(), &edges].concat())
        .output()?;
    let guilty: Vec<_> = tree.lines().filter(|line| line.contains("feature \"std\"")).collect();
    if !guilty.is_empty() {
        bail!("core must not ask for the standard library: turn off {}", guilty.join(", "));
    }
    Ok(())
}
