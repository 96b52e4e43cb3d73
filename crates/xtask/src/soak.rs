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
use record::{SoakRecord, StepResult};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// What a person asked for.
#[derive(Debug, Default, PartialEq)]
struct SoakRequest {
    /// Names of parts; all parts where there are none.
    parts: Vec<String>,
    /// How long steps are started anew, with other seeds; without it each step runs once.
    limit: Option<Duration>,
    /// Whether steps that have passed on this source tree run again.
    again: bool,
}

/// Carries out `cargo xtask soak`.
///
/// # Errors
/// When the arguments mean nothing, or the results cannot be kept.
pub fn command(args: &[String]) -> Result<ExitCode> {
    if crate::arguments::asks_for_help(args) {
        return crate::arguments::show(&help());
    }
    let request = parse(args)?;
    let needs_tests = list::PARTS.iter().any(|part| part.tests && request.has_part(part.name));
    let runner = if needs_tests { tools::runner() } else { tools::TestRunner::Cargo };
    let tree = source_tree()?;
    let forgotten = |part: &str| request.again && request.has_part(part);
    let mut record = SoakRecord::open(&crate::paths::target().join("soak"), &tree, forgotten)?;
    bring_up_engines(&request)?;
    if ["tests", "login"].into_iter().any(|part| request.has_part(part)) {
        tools::install_login_provider()?;
    }
    if ["tests", "contract"].into_iter().any(|part| request.has_part(part)) {
        tools::install_schemathesis()?;
    }
    let mut spent = Duration::ZERO;
    let is_over = |spent| request.limit.is_some_and(|limit| spent >= limit);
    // Without a limit later rounds have nothing new: only what failed in them runs again.
    let rounds = if request.limit.is_some() { u64::MAX } else { record.last_round() + 1 };
    'rounds: for round in 0..rounds {
        let steps: Vec<_> =
            list::steps(round, runner).into_iter().filter(|step| request.has_part(step.part)).collect();
        if steps.is_empty() || is_over(spent) {
            break;
        }
        for step in &steps {
            let key = step.key(round);
            let is_due = if round == 0 || request.limit.is_some() {
                !record.has_passed(&key)
            } else {
                record.has_failed(&key)
            };
            if !is_due {
                continue;
            }
            if is_over(spent) {
                break 'rounds;
            }
            let result = run(step, round, &record)?;
            if source_tree()? != tree {
                engines::take_down()?;
                bail!("the sources changed while `{key}` ran: start the soak again");
            }
            spent += result.took;
            record.add(key, result)?;
        }
    }
    engines::take_down()?;
    println!("{}", table(&record, &request));
    let failures = record.failures(|part| request.has_part(part));
    for line in &failures {
        println!("repeat: {line}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn help() -> String {
    use std::fmt::Write as _;
    let mut out = String::from(
        "cargo xtask soak [PART…] [--hours N] [--again]

Runs the named parts, or all. A part goes on where it stopped: steps that have passed on the same sources, committed or not,
do not run again. The end is a table and, for each failure, one line that repeats it. Results and logs are in target/soak.

  --hours N   start anew with other seeds until N hours have passed
  --again     forget earlier results of these parts

",
    );
    for part in list::PARTS {
        let engines = if part.engines { " (starts real engines on loopback)" } else { "" };
        let _ = writeln!(out, "  {:<15} {}{engines}", part.name, part.about);
    }
    out
}

fn parse(args: &[String]) -> Result<SoakRequest> {
    let mut request = SoakRequest::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--again" => request.again = true,
            "--hours" => {
                let hours =
                    args.next().and_then(|hours| hours.parse::<f64>().ok()).filter(|hours| *hours > 0.0);
                let limit = hours.and_then(|hours| Duration::try_from_secs_f64(hours * 3600.0).ok());
                request.limit = Some(limit.context("say how many hours, for example --hours 2")?);
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

impl SoakRequest {
    /// Whether a part is asked for.
    fn has_part(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|name| name == part)
    }
}

/// Starts the engines that the chosen parts need.
fn bring_up_engines(request: &SoakRequest) -> Result<()> {
    if list::PARTS.iter().any(|part| part.engines && request.has_part(part.name)) {
        engines::bring_up(&crate::paths::root())?;
        engines::bring_up_quorums()?;
    }
    Ok(())
}

/// Names the sources that results belong to: every file that git tracks or would track, by its contents. Whether they are
/// committed makes no difference.
fn source_tree() -> Result<String> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let files = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let files = changed::git(&files).context("the soak names its results after what git tracks")?;
    let mut files: Vec<_> = files.lines().collect();
    files.sort_unstable();
    files.dedup();
    let mut hasher = DefaultHasher::new();
    for path in files {
        (path, std::fs::read(crate::paths::root().join(path)).ok()).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Runs one step to its end. A step that fails ends no other.
fn run(step: &SoakStep, round: u64, record: &SoakRecord) -> Result<StepResult> {
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
            let (took, ended) = timed(|| work(&crate::paths::root()));
            let failures = ended.err().map(|error| format!("cargo xtask soak {} # {error:#}", step.part));
            (took, failures.into_iter().collect())
        }
    };
    Ok(StepResult { took, failures })
}

/// A line for each part that was asked for: its steps, those that failed, and its minutes.
fn table(record: &SoakRecord, request: &SoakRequest) -> String {
    use std::fmt::Write as _;
    let mut rows: BTreeMap<&str, (u32, u32, Duration)> = BTreeMap::new();
    for (key, result) in record.results().filter(|(key, _)| request.has_part(record::part(key))) {
        let part = record::part(key);
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

    fn parsed(words: &str) -> Result<SoakRequest> {
        parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn parts_hours_and_again_are_understood() {
        assert_eq!(parsed("").unwrap(), SoakRequest::default());
        let request = parsed("worlds --hours 1.5 chaos --again").unwrap();
        assert_eq!(request.parts, ["worlds", "chaos"]);
        assert_eq!((request.limit, request.again), (Some(Duration::from_secs(5_400)), true));
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
        for words in ["--hours", "--hours x", "--hours 0", "--hours inf", "--hours 1e30"] {
            assert!(parsed(words).unwrap_err().to_string().contains("--hours 2"), "{words}");
        }
    }

    #[test]
    fn the_table_counts_steps_and_failures_of_a_part() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = SoakRecord::open(folder.path(), "tree", |_| false).unwrap();
        let minute = |failures: &[&str]| StepResult {
            took: Duration::from_secs(60),
            failures: failures.iter().map(|line| (*line).to_owned()).collect(),
        };
        record.add("worlds: 0".to_owned(), minute(&[])).unwrap();
        record.add("worlds: 1000".to_owned(), minute(&["cargo xtask sim 7"])).unwrap();
        let text = table(&record, &SoakRequest::default());
        assert!(text.contains("worlds                    2       1     2.00"), "{text}");
        let other = SoakRequest { parts: vec!["chaos".to_owned()], ..SoakRequest::default() };
        assert!(!table(&record, &other).contains("worlds"), "it was not asked for");
    }
}
