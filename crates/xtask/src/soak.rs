//! The soak: the long runs that the gate leaves out. It goes on where it stopped, and names each failure by a line that repeats it.
//!
//! - [`list`] says which steps there are, [`record`] remembers their results, [`log`] finds the failures in what a step prints.

mod list;
mod log;
mod record;

use crate::parts::{minutes, timed};
use crate::{changed, engines, tools};
use anyhow::{Context as _, Result, bail};
use list::{SoakStep, SoakWork};
use record::{Record, StepResult};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// What a person asked for.
#[derive(Debug, Default, PartialEq)]
struct Request {
    /// Names of parts; all parts where there are none.
    parts: Vec<String>,
    /// How long steps are started anew, with other seeds; without it each step runs once.
    hours: Option<f64>,
    /// Whether steps that have passed on this source tree run again.
    again: bool,
}

/// Carries out `cargo xtask soak`.
///
/// # Errors
/// When the arguments mean nothing, or the results cannot be kept.
pub fn command(args: &[String]) -> Result<ExitCode> {
    if crate::asks_for_help(args) {
        print!("{}", help());
        return Ok(ExitCode::SUCCESS);
    }
    let request = parse(args)?;
    let runner = tools::runner();
    let mut record = Record::open(&crate::target().join("soak"), &source_tree()?, request.again)?;
    bring_up_engines(&request)?;
    let begun = std::cell::Cell::new(Duration::ZERO);
    let limit = request.hours.map(|hours| Duration::from_secs_f64(hours * 3600.0));
    'rounds: for round in 0.. {
        for step in list::steps(round, runner) {
            if !is_chosen(&request, &step) || record.has_passed(&step.key(round)) {
                continue;
            }
            if limit.is_some_and(|limit| begun.get() >= limit) {
                break 'rounds;
            }
            let result = run(&step, round, &record)?;
            begun.set(begun.get() + result.took);
            record.add(step.key(round), result)?;
        }
        if limit.is_none() {
            break;
        }
    }
    engines::take_down()?;
    println!("{}", table(&record));
    let failures = record.failures();
    for line in &failures {
        println!("repeat: {line}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn help() -> String {
    use std::fmt::Write as _;
    let mut out = String::from(
        "cargo xtask soak [PART…] [--hours N] [--again]

Runs the named parts, or all. A part goes on where it stopped: steps that have passed on the same sources do not run again.
The end is a table and, for each failure, one line that repeats it. Results and logs are in target/soak.

  --hours N   start anew with other seeds until N hours have passed
  --again     also run steps that have passed on these sources

",
    );
    for part in list::PARTS {
        let engines = if part.engines { " (starts real engines on loopback)" } else { "" };
        let _ = writeln!(out, "  {:<15} {}{engines}", part.name, part.about);
    }
    out
}

fn parse(args: &[String]) -> Result<Request> {
    let mut request = Request::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--again" => request.again = true,
            "--hours" => {
                let hours = args.next().and_then(|hours| hours.parse().ok()).filter(|hours| *hours > 0.0);
                request.hours = Some(hours.context("say how many hours, for example --hours 2")?);
            }
            part if list::PARTS.iter().any(|known| known.name == part) => request.parts.push(part.to_owned()),
            other => {
                let known: Vec<_> = list::PARTS.iter().map(|part| part.name).collect();
                bail!("the soak has no part `{other}`: it has {}", known.join(", "));
            }
        }
    }
    Ok(request)
}

fn is_chosen(request: &Request, step: &SoakStep) -> bool {
    request.parts.is_empty() || request.parts.iter().any(|part| part == step.part)
}

/// Starts the engines that the chosen parts need.
fn bring_up_engines(request: &Request) -> Result<()> {
    let needs_engines = |part: &list::SoakPart| {
        part.engines && (request.parts.is_empty() || request.parts.iter().any(|name| name == part.name))
    };
    if list::PARTS.iter().any(needs_engines) {
        engines::bring_up(&crate::root())?;
        engines::bring_up_quorums()?;
    }
    Ok(())
}

/// Names the sources that results belong to: the commit, and what is changed or new since then.
fn source_tree() -> Result<String> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let commit = changed::git(&["rev-parse", "HEAD"])?;
    let changes = changed::git(&["diff", "HEAD"])?;
    let new_files = changed::git(&["ls-files", "--others", "--exclude-standard"])?;
    if changes.is_empty() && new_files.is_empty() {
        return Ok(commit);
    }
    let mut hasher = DefaultHasher::new();
    changes.hash(&mut hasher);
    for path in new_files.lines() {
        (path, std::fs::read(crate::root().join(path)).ok()).hash(&mut hasher);
    }
    Ok(format!("{commit}+{:016x}", hasher.finish()))
}

/// Runs one step to its end. A step that fails ends no other.
fn run(step: &SoakStep, round: u64, record: &Record) -> Result<StepResult> {
    println!(
        "\n== {}: {}{}",
        step.part,
        step.label,
        if round > 0 { format!(", round {round}") } else { String::new() }
    );
    let (took, failures) = match &step.work {
        SoakWork::Cargo(cargo) => {
            println!("$ {}", cargo.line());
            let path = record.log(&step.key(round));
            let (took, ended) = timed(|| log::run(cargo, &path));
            let failures = match ended {
                Ok((true, _)) => Vec::new(),
                Ok((false, output)) => log::repeat_lines(step, cargo, &output),
                Err(error) => vec![format!("{} # {error:#}", cargo.line())],
            };
            (took, failures)
        }
        SoakWork::Own(work) => {
            let (took, ended) = timed(|| work(&crate::root()));
            let failures = ended.err().map(|error| format!("cargo xtask soak {} # {error:#}", step.part));
            (took, failures.into_iter().collect())
        }
    };
    Ok(StepResult { took, failures })
}

/// A line for each part: its steps, those that failed, and its minutes.
fn table(record: &Record) -> String {
    use std::fmt::Write as _;
    let mut rows: BTreeMap<&str, (u32, u32, Duration)> = BTreeMap::new();
    for (key, result) in record.results() {
        let part = key.split(':').next().unwrap_or(key);
        let row = rows.entry(part).or_default();
        *row = (row.0 + 1, row.1 + u32::from(!result.failures.is_empty()), row.2 + result.took);
    }
    let mut out = format!("\n{:<20} {:>6} {:>7} {:>8}\n", "part", "steps", "failed", "minutes");
    for (part, (steps, failed, took)) in rows {
        let _ = writeln!(out, "{part:<20} {steps:>6} {failed:>7} {:>8.2}", minutes(took));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Request> {
        parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn parts_hours_and_again_are_understood() {
        assert_eq!(parsed("").unwrap(), Request::default());
        let request = parsed("worlds --hours 1.5 chaos --again").unwrap();
        assert_eq!(request.parts, ["worlds", "chaos"]);
        assert_eq!((request.hours, request.again), (Some(1.5), true));
    }

    #[test]
    fn the_help_names_every_part() {
        let help = help();
        for part in list::PARTS {
            assert!(help.contains(&format!("  {:<15} {}", part.name, part.about)), "{}", part.name);
        }
    }

    #[test]
    fn what_cannot_be_understood_is_refused_with_the_fix() {
        let error = parsed("chaoss").unwrap_err().to_string();
        assert!(error.contains("worlds") && error.contains("chaoss"), "{error}");
        for words in ["--hours", "--hours x", "--hours 0"] {
            assert!(parsed(words).unwrap_err().to_string().contains("--hours 2"), "{words}");
        }
    }

    #[test]
    fn the_table_counts_steps_and_failures_of_a_part() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(folder.path(), "tree", false).unwrap();
        let minute = |failures: &[&str]| StepResult {
            took: Duration::from_secs(60),
            failures: failures.iter().map(|line| (*line).to_owned()).collect(),
        };
        record.add("worlds: 0".to_owned(), minute(&[])).unwrap();
        record.add("worlds: 1000".to_owned(), minute(&["cargo xtask sim 7"])).unwrap();
        let text = table(&record);
        assert!(text.contains("worlds                    2       1     2.00"), "{text}");
    }
}
