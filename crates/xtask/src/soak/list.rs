//! The parts of the soak and the steps of each.

use crate::cargo_command::CargoCommand;
use crate::ci::TARGETS;
use crate::dist;
use crate::tools::{self, TestRunner};
use anyhow::Result;
use std::path::Path;

/// One part, which can be asked for by its name.
pub(super) struct SoakPart {
    pub(super) name: &'static str,
    /// What it runs, for a person who chooses.
    pub(super) about: &'static str,
    /// Whether real engines must run for it.
    pub(super) engines: bool,
    /// Whether it runs tests, which are best run by nextest.
    pub(super) tests: bool,
    /// Whether a second round has other seeds, or real time, and so can find something new.
    repeats: bool,
    steps: fn(&SoakRound) -> Vec<SoakStep>,
}

/// One step, which runs and is remembered as a whole.
pub(super) struct SoakStep {
    pub(super) part: &'static str,
    /// What tells it from the other steps of its part.
    pub(super) label: String,
    pub(super) work: SoakWork,
    /// The package and the binary, where the step is plain cargo's run of one of them.
    pub(super) tests: Option<(&'static str, &'static str)>,
}

/// How a step does its work.
pub(super) enum SoakWork {
    Cargo(CargoCommand),
    Own(fn(&Path) -> Result<()>),
}

/// What the steps of a round depend on.
pub(super) struct SoakRound {
    number: u64,
    runner: TestRunner,
}

/// Long worlds of a round, and how many are one step.
const WORLDS: u64 = 2_000;
const WORLDS_OF_STEP: u64 = 1_000;
/// Histories of concurrent clients that are checked for linearizability, on each engine.
const HISTORIES: &str = "200";
/// Rows of the longest history whose pages are read.
const ROWS: &str = "20000000";
/// Schedules that are compared with a brute-force judge.
const SCHEDULES: &str = "200000";

/// All parts, in the order in which they run.
pub(super) const PARTS: &[SoakPart] = &[
    SoakPart {
        name: "worlds",
        about: "2,000 long worlds of the simulator",
        engines: false,
        tests: false,
        repeats: true,
        steps: worlds,
    },
    SoakPart {
        name: "planted-faults",
        about: "the simulator and the model search for every planted fault",
        engines: false,
        tests: false,
        repeats: false,
        steps: planted_faults,
    },
    SoakPart {
        name: "model",
        about: "the wide scopes of the model, up to three million states each",
        engines: false,
        tests: false,
        repeats: false,
        steps: model,
    },
    SoakPart {
        name: "oracle",
        about: "200,000 schedules against a brute-force judge",
        engines: false,
        tests: false,
        repeats: true,
        steps: oracle,
    },
    SoakPart {
        name: "tests",
        about: "the tests of every crate that are marked for the soak",
        engines: true,
        tests: true,
        repeats: true,
        steps: tests,
    },
    SoakPart {
        name: "contract",
        about: "schemathesis tries every address with each role, by the API's own description",
        engines: false,
        tests: true,
        repeats: true,
        steps: contract,
    },
    SoakPart {
        name: "login",
        about: "people log in by a provider from npm",
        engines: false,
        tests: true,
        repeats: false,
        steps: login,
    },
    SoakPart {
        name: "engines",
        about: "conformance and fault tests on every engine",
        engines: true,
        tests: true,
        repeats: true,
        steps: engines,
    },
    SoakPart {
        name: "histories",
        about: "200 histories of concurrent clients on every engine, checked for linearizability",
        engines: true,
        tests: true,
        repeats: true,
        steps: histories,
    },
    SoakPart {
        name: "chaos",
        about: "nodes, engines and networks are killed, cut and paused while jobs run",
        engines: true,
        tests: false,
        repeats: true,
        steps: chaos,
    },
    SoakPart {
        name: "long-history",
        about: "pages of a history of 20 million attempts",
        engines: false,
        tests: false,
        repeats: false,
        steps: long_history,
    },
    SoakPart {
        name: "reproducible",
        about: "`cargo xtask dist` in two folders gives the same bytes",
        engines: false,
        tests: false,
        repeats: false,
        steps: reproducible,
    },
];

/// The steps of a round: of the first one all, later only those that can find something new.
pub(super) fn steps(number: u64, runner: TestRunner) -> Vec<SoakStep> {
    let round = SoakRound { number, runner };
    let parts = PARTS.iter().filter(|part| number == 0 || part.repeats);
    parts.flat_map(|part| (part.steps)(&round)).collect()
}

impl SoakStep {
    /// The name under which its result is kept.
    pub(super) fn key(&self, round: u64) -> String {
        let Self { part, label, .. } = self;
        if round == 0 { format!("{part}: {label}") } else { format!("{part}: {label}, round {round}") }
    }
}

fn step(part: &'static str, label: impl Into<String>, step: CargoCommand) -> SoakStep {
    SoakStep { part, label: label.into(), work: SoakWork::Cargo(step), tests: None }
}

/// A program of the simulator's crate, as the tests have compiled it.
fn program(name: &str, args: &[&str]) -> CargoCommand {
    let run = ["run", "--quiet", "--locked", "--package", "evenkeel-sim", "--bin", name, "--"];
    CargoCommand::cargo(&[run.as_slice(), args].concat())
}

fn worlds(round: &SoakRound) -> Vec<SoakStep> {
    let first = round.number * WORLDS;
    let from = (first..first + WORLDS).step_by(WORLDS_OF_STEP as usize);
    let worlds = |from: u64| {
        let (count, from) = (WORLDS_OF_STEP.to_string(), from.to_string());
        let args = ["--seeds", &count, "--from", &from];
        step("worlds", format!("{count} long seeds from {from}"), program("sim", &args))
    };
    from.map(worlds).collect()
}

fn planted_faults(_: &SoakRound) -> Vec<SoakStep> {
    vec![
        step("planted-faults", "the simulator finds each", program("sim", &["--mutants"])),
        step("planted-faults", "the model finds each", program("model", &["--mutants"])),
    ]
}

/// The wide scopes. `model` lists them in its usage.
const SCOPES: [&str; 9] =
    ["race", "wish", "fault", "election", "recut", "rescue", "succession", "shards", "plan"];
/// A scope that is wider than this is searched up to so many states of each delivery.
const STATES_MAX: &str = "3000000";

fn model(_: &SoakRound) -> Vec<SoakStep> {
    SCOPES.map(|scope| step("model", scope, program("model", &[scope, STATES_MAX]))).into()
}

fn oracle(round: &SoakRound) -> Vec<SoakStep> {
    let seed = (round.number + 1).to_string();
    let oracle =
        crate::ci::oracle_step().with("EVENKEEL_ORACLE_CASES", SCHEDULES).with("EVENKEEL_ORACLE_SEED", &seed);
    vec![step("oracle", format!("{SCHEDULES} schedules, seed {seed}"), oracle)]
}

/// Packages and binaries; an empty name is the library.
type TestBinaries = &'static [(&'static str, &'static str)];

/// Binaries with tests that only the soak runs, but for those of the registry and of chaos.
const TESTS: TestBinaries = &[
    ("evenkeel-core", ""),
    ("evenkeel", ""),
    ("evenkeel-sim", "model"),
    ("evenkeel-sim", "seeds"),
    ("evenkeel-server", "it"),
];
const ENGINES: TestBinaries = &[
    ("evenkeel-registry", "etcd"),
    ("evenkeel-registry", "zookeeper"),
    ("evenkeel-registry", "redis"),
    ("evenkeel-registry", "mysql"),
    ("evenkeel-registry", "postgres"),
    ("evenkeel-registry", "sql_faults"),
    ("evenkeel-registry", "redis_faults"),
    ("evenkeel-registry", "etcd_faults"),
    ("evenkeel-registry", "zookeeper_faults"),
];
const SERVERS: [&str; 5] = ["etcd", "zookeeper", "redis", "mysql", "postgres"];

fn tests(round: &SoakRound) -> Vec<SoakStep> {
    TESTS.iter().map(|binary| ignored_tests("tests", round, *binary, TestSelection::Ignored)).collect()
}

/// The real provider alone; `tests` runs this test too.
fn login(round: &SoakRound) -> Vec<SoakStep> {
    let run = TestSelection::Named("oidc_real");
    vec![ignored_tests("login", round, ("evenkeel-server", "it"), run)]
}

/// Conformance cases and fault tests; on real servers also what the gate leaves out where the registry did not change.
fn engines(round: &SoakRound) -> Vec<SoakStep> {
    let run = |name: &str| if SERVERS.contains(&name) { TestSelection::All } else { TestSelection::Ignored };
    ENGINES.iter().map(|binary| ignored_tests("engines", round, *binary, run(binary.1))).collect()
}

fn histories(round: &SoakRound) -> Vec<SoakStep> {
    let of = |name: &'static str| {
        let run = TestSelection::Named("histories_can_have_happened");
        let mut step = ignored_tests("histories", round, ("evenkeel-registry", name), run);
        if let SoakWork::Cargo(cargo) = step.work {
            step.work = SoakWork::Cargo(cargo.with("EVENKEEL_HISTORIES", HISTORIES));
        }
        step
    };
    ["memory", "sqlite"].into_iter().chain(SERVERS).map(of).collect()
}

/// Which tests of a binary run.
#[derive(Clone, Copy)]
enum TestSelection {
    /// Those that are marked for the soak.
    Ignored,
    All,
    /// Those whose names contain this.
    Named(&'static str),
}

fn ignored_tests(
    part: &'static str,
    round: &SoakRound,
    (package, binary): (&'static str, &'static str),
    run: TestSelection,
) -> SoakStep {
    let name = if binary.is_empty() { "library" } else { binary };
    let cargo = match round.runner {
        TestRunner::Nextest => {
            let binary = if binary.is_empty() { package } else { &format!("{package}::{binary}") };
            let named =
                if let TestSelection::Named(name) = run { format!(" & test({name})") } else { String::new() };
            let filter = format!("binary_id({binary}){named}");
            let which = if let TestSelection::Ignored = run { "only" } else { "all" };
            let args = [
                "nextest",
                "run",
                "--no-fail-fast",
                "--no-tests",
                "fail",
                "--run-ignored",
                which,
                "-E",
                &filter,
            ];
            CargoCommand::cargo(&[args.as_slice(), &TARGETS].concat())
        }
        TestRunner::Cargo => {
            let target: &[&str] = if binary.is_empty() { &["--lib"] } else { &["--test", binary] };
            let tail: &[&str] = match run {
                TestSelection::Ignored => &["--", "--ignored"],
                TestSelection::All => &["--", "--include-ignored"],
                TestSelection::Named(name) => &["--", "--include-ignored", name],
            };
            CargoCommand::cargo(
                &[&["test", "--locked", "--no-fail-fast", "--package", package], target, tail].concat(),
            )
        }
    };
    let provider = tools::login_provider_folder().display().to_string();
    let schemathesis = tools::schemathesis_folder().join("bin/schemathesis").display().to_string();
    let cargo = cargo
        .with("REQUIRE", "all")
        .with("EVENKEEL_TEST_OIDC", &provider)
        .with("EVENKEEL_TEST_SCHEMATHESIS", &schemathesis);
    let work = SoakWork::Cargo(cargo);
    SoakStep { part, label: format!("{package} {name}"), work, tests: Some((package, binary)) }
}

/// The API is tried by its own description.
fn contract(round: &SoakRound) -> Vec<SoakStep> {
    let run = TestSelection::Named("contract::");
    vec![ignored_tests("contract", round, ("evenkeel-server", "it"), run)]
}

/// Each trial is a step: it needs the machine for itself, and takes minutes.
fn chaos(_: &SoakRound) -> Vec<SoakStep> {
    let trial = |name: &&'static str| {
        let tail = ["--", "--include-ignored", "--exact", name];
        let mut cargo = crate::ci::chaos();
        cargo.args.extend(tail.map(str::to_owned));
        let work = SoakWork::Cargo(cargo.with("REQUIRE", "all"));
        SoakStep { part: "chaos", label: (*name).to_owned(), work, tests: Some(("evenkeel-server", "chaos")) }
    };
    TRIALS.iter().map(trial).collect()
}

/// The trials of `crates/server/tests/chaos`.
const TRIALS: &[&str] = &[
    "nothing_is_lost_in_many_rounds_and_takeovers_are_prompt",
    "peers::dispatched_jobs_outlive_cuts_kills_and_pauses",
    "leader::what_a_leader_acknowledged_outlives_it",
    "engines::redis_keeps_the_books_and_takeovers_are_prompt",
    "engines::etcd_keeps_the_books",
    "engines::zookeeper_keeps_the_books",
    "engines::mysql_keeps_the_books",
    "engines::postgres_keeps_the_books",
    "engines::every_node_is_restarted_in_turn_and_nobody_notices",
    "engines::dispatched_runs_are_spread_evenly_on_every_engine",
    "engines::the_death_of_any_member_of_an_etcd_quorum_is_survived",
    "engines::the_death_of_any_member_of_a_zookeeper_quorum_is_survived",
];

fn long_history(_: &SoakRound) -> Vec<SoakStep> {
    let bench =
        ["bench", "--locked", "--package", "evenkeel", "--bench", "history", "--", "sqlite", "10000", ROWS];
    vec![step("long-history", format!("pages of {ROWS} attempts"), CargoCommand::cargo(&bench))]
}

fn reproducible(_: &SoakRound) -> Vec<SoakStep> {
    let label = "two builds in two folders are the same".to_owned();
    vec![SoakStep { part: "reproducible", label, work: SoakWork::Own(dist::reproducible), tests: None }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::SourceTree;
    use std::collections::BTreeSet;

    #[test]
    fn a_step_has_a_key_of_its_own_in_each_round() {
        for runner in [TestRunner::Nextest, TestRunner::Cargo] {
            let keys: Vec<_> = (0..3)
                .flat_map(|round| steps(round, runner).into_iter().map(move |step| step.key(round)))
                .collect();
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        }
    }

    #[test]
    fn a_second_round_plays_other_worlds() {
        let seeds = |round| worlds(&SoakRound { number: round, runner: TestRunner::Cargo })[0].label.clone();
        assert_eq!(seeds(0), "1000 long seeds from 0");
        assert_eq!(seeds(1), "1000 long seeds from 2000");
    }

    /// A test that is ignored everywhere and whose binary no step runs would be dead.
    #[test]
    fn every_test_that_the_gate_ignores_is_in_a_step_and_no_step_is_empty() {
        let tree = SourceTree::read(&crate::paths::root()).unwrap();
        let listed: BTreeSet<_> =
            TESTS.iter().chain(ENGINES).chain(&[("evenkeel-server", "chaos")]).collect();
        let packages = [
            ("core", "evenkeel-core"),
            ("registry", "evenkeel-registry"),
            ("node", "evenkeel"),
            ("server", "evenkeel-server"),
            ("sim", "evenkeel-sim"),
        ];
        let mut found = BTreeSet::new();
        for (path, rust) in tree.rust_in(&["crates/"]) {
            // The binaries of real servers have the conformance cases, and their steps run all that they have.
            let is_conformance = path.starts_with("crates/registry/src/conformance/");
            if path.starts_with("crates/xtask") || is_conformance || !rust.code.contains("#[ignore") {
                continue;
            }
            let mut parts = path.trim_start_matches("crates/").split('/');
            let (folder, kind, file) = (parts.next(), parts.next(), parts.next());
            let package = packages.iter().find(|(name, _)| Some(*name) == folder).unwrap().1;
            let binary = if kind == Some("tests") { file.unwrap().trim_end_matches(".rs") } else { "" };
            assert!(
                listed.contains(&(package, binary)),
                "{path}: no step of the soak runs {package} {binary}"
            );
            found.insert((package, binary.to_owned()));
        }
        for (package, binary) in TESTS.iter().chain(ENGINES).filter(|(_, binary)| !SERVERS.contains(binary)) {
            let has_tests = found.contains(&(*package, (*binary).to_owned()));
            assert!(has_tests, "{package} {binary} has no test for the soak");
        }
    }

    #[test]
    fn every_trial_of_chaos_is_a_step() {
        let tree = SourceTree::read(&crate::paths::root()).unwrap();
        let folder = "crates/server/tests/chaos/";
        let tests: String = tree
            .rust_in(&[folder])
            .filter(|(path, _)| path.starts_with(folder))
            .map(|(_, rust)| rust.code.as_str())
            .collect();
        for trial in TRIALS {
            let name = trial.rsplit("::").next().unwrap();
            assert!(tests.contains(&format!("fn {name}()")), "chaos has no trial {trial}");
        }
        assert_eq!(tests.matches("#[ignore").count(), TRIALS.len(), "a trial is missing");
    }
}
