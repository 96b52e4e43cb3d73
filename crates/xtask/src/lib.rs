//! The house's own commands: what CI runs, and what keeps the house as it was meant.
//!
//! - [`tidy`] holds the walls; [`tree`], [`rust`], [`tokens`], [`modules`], [`imports`] and [`markdown`] are their eyes.
//! - [`requirements`] reads what must hold and who proves it; [`references`] keeps generated pages from drifting.
//! - [`engines`] brings up the real engines that tests want to speak to.
//! - [`cargo_command`] is one cargo command, [`parts`] runs and times many; [`ci`] lists those of the gate, [`soak`] those of the long runs.
//! - [`tools`] gets what those need, [`changed`] says what a change touches, [`dist`] builds the binary that is given away, [`console`] the console that is in it.

mod arguments;
pub mod cargo_command;
pub mod changed;
pub mod ci;
pub mod console;
pub mod dist;
pub mod engines;
pub mod imports;
pub mod markdown;
pub mod modules;
pub mod parts;
mod paths;
pub mod references;
pub mod requirements;
pub mod rust;
pub mod soak;
pub mod tidy;
pub mod tokens;
pub mod tools;
pub mod tree;

pub use paths::{cargo, root, target};

use anyhow::{Result, bail};
use arguments::{asks_for_help, only_flag, show};
use cargo_command::CargoCommand;
use std::path::PathBuf;
use std::process::ExitCode;
use tree::SourceTree;

struct XtaskCommand {
    name: &'static str,
    args: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<ExitCode>,
}

const COMMANDS: &[XtaskCommand] = &[
    XtaskCommand {
        name: "ci",
        args: "[--no-nextest]",
        about: "everything that CI runs, with the minutes of each part",
        run: ci::ci,
    },
    XtaskCommand {
        name: "test",
        args: "[--no-nextest]",
        about: "build the house and prove that it works",
        run: ci::test,
    },
    XtaskCommand {
        name: "tidy",
        args: "[FOLDER]",
        about: "look over the walls of the house",
        run: tidy_command,
    },
    XtaskCommand {
        name: "requirements",
        args: "[--check]",
        about: "what must hold, and which tests prove it",
        run: requirements_command,
    },
    XtaskCommand {
        name: "references",
        args: "[--check]",
        about: "write the generated pages anew",
        run: references_command,
    },
    XtaskCommand { name: "sim", args: "SEED | --seeds N | …", about: "the simulator", run: sim },
    XtaskCommand {
        name: "oracle",
        args: "[CASES [SEED]]",
        about: "schedules against a brute-force judge",
        run: oracle,
    },
    XtaskCommand {
        name: "engines",
        args: "install|up [--quorum]|down|restart|status|env [NAME…]",
        about: "real engines for the tests, on loopback",
        run: engines::command,
    },
    XtaskCommand {
        name: "soak",
        args: "[PART…] [--hours N] [--again]",
        about: "the long runs that the gate leaves out",
        run: soak::command,
    },
    XtaskCommand {
        name: "dist",
        args: "",
        about: "the small, fast, reproducible binary, with its bill of materials and checksums",
        run: dist::command,
    },
    XtaskCommand {
        name: "console",
        args: "[--check]",
        about: "build the console from console/, with Node.js",
        run: console::command,
    },
    XtaskCommand {
        name: "browser",
        args: "",
        about: "try the console in Chromium, with Node.js",
        run: console::browser,
    },
    XtaskCommand { name: "bench", args: "[NAME]", about: "the benchmarks", run: bench },
    XtaskCommand { name: "help", args: "", about: "this page", run: help },
];

/// Commands that answer `--help` themselves.
const HAVE_HELP: [&str; 2] = ["sim", "soak"];

/// Runs one command of `cargo xtask`.
///
/// # Errors
/// When the command is unknown or cannot be carried out.
pub fn run(args: &[String]) -> Result<ExitCode> {
    let Some((name, rest)) = args.split_first() else { return help(&[]) };
    if asks_for_help(std::slice::from_ref(name)) {
        return help(&[]);
    }
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(XtaskCommand { args, about, .. })
            if asks_for_help(rest) && !HAVE_HELP.contains(&name.as_str()) =>
        {
            println!("cargo xtask {name} {args}\n\n{about}");
            Ok(ExitCode::SUCCESS)
        }
        Some(command) => (command.run)(rest),
        None => bail!("there is no command `{name}`: `cargo xtask help` lists all"),
    }
}

fn help(_: &[String]) -> Result<ExitCode> {
    use std::fmt::Write as _;
    let mut out = String::from("cargo xtask COMMAND\n\n");
    for XtaskCommand { name, args, about, .. } in COMMANDS {
        let _ = writeln!(out, "  {:<34} {about}", format!("{name} {args}"));
    }
    out.push_str("\nThe walls that `tidy` looks over keep out:\n");
    for wall in tidy::CHECKS {
        let _ = writeln!(out, "  {:<14} {}", wall.name, wall.forbids);
    }
    show(&out)
}

fn tidy_command(args: &[String]) -> Result<ExitCode> {
    if args.len() > 1 || args.iter().any(|arg| arg.starts_with('-')) {
        bail!("tidy takes one folder, or none for this repository");
    }
    let folder = args.first().map_or_else(root, PathBuf::from);
    ci::tidy(&folder)?;
    println!("tidy: {} walls, nothing to complain about", tidy::CHECKS.len());
    Ok(ExitCode::SUCCESS)
}

fn requirements_command(args: &[String]) -> Result<ExitCode> {
    let check = only_flag(args, "--check")?;
    let tree = SourceTree::read(&root())?;
    if !check {
        return show(&requirements::report(&tree));
    }
    let said: Vec<_> = ["proofs", "mentions"].iter().flat_map(|wall| tidy::run_check(&tree, wall)).collect();
    said.iter().for_each(|complaint| println!("{complaint}"));
    Ok(if said.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn references_command(args: &[String]) -> Result<ExitCode> {
    let check = only_flag(args, "--check")?;
    let tree = SourceTree::read(&root())?;
    if check {
        references::check(&tree)?
    } else {
        references::write(&tree)?
    }
    Ok(ExitCode::SUCCESS)
}

fn sim(args: &[String]) -> Result<ExitCode> {
    let run = ["run", "--quiet", "--locked", "--package", "evenkeel-sim", "--bin", "sim", "--"];
    let mut step = CargoCommand::cargo(&run);
    step.args.extend_from_slice(args);
    step.run_in_place()
}

/// The number of schedules that meet every zone in every year.
const EVERY_ZONE_AND_YEAR: &str = "100000";

fn oracle(args: &[String]) -> Result<ExitCode> {
    let mut step = ci::oracle_step().with("EVENKEEL_ORACLE_CASES", EVERY_ZONE_AND_YEAR);
    if args.len() > 2 {
        bail!("`{}` means nothing here: give a number of cases and a seed", args[2]);
    }
    for (name, value) in ["EVENKEEL_ORACLE_CASES", "EVENKEEL_ORACLE_SEED"].into_iter().zip(args) {
        if value.parse::<u64>().is_err() {
            bail!("`{value}` is no number: give a number of cases and a seed");
        }
        step = step.with(name, value);
    }
    step.run_in_place()
}

fn bench(args: &[String]) -> Result<ExitCode> {
    let tree = SourceTree::read(&root())?;
    let all: Vec<_> = modules::benches(&tree).collect();
    let chosen: Vec<_> = all.iter().filter(|(_, name)| args.is_empty() || args.contains(name)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = all.iter().map(|(_, name)| name.as_str()).collect();
        bail!("there is no such benchmark: there are {}", names.join(", "));
    }
    for (package, name) in chosen {
        CargoCommand::cargo(&["bench", "--package", package, "--bench", name]).run()?;
    }
    Ok(ExitCode::SUCCESS)
}
