//! Parts of a long run: each is told in plain words, timed, and held to the budget of its kind.

use crate::pace;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// What a part is paid from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Budget {
    /// Compiling and linting.
    Builds,
    /// Unit, property, conformance and documentation tests.
    Tests,
    /// The simulator.
    Simulation,
    /// Real processes under fire.
    Chaos,
    /// Everything else together.
    Rest,
}

impl Budget {
    /// How long all parts of this kind may take together on an [ordinary machine](crate::pace).
    #[must_use]
    pub fn limit(self) -> Duration {
        let minutes = match self {
            Self::Builds => 17,
            Self::Tests => 12,
            Self::Chaos => 10,
            Self::Simulation => 7,
            Self::Rest => 2,
        };
        Duration::from_secs(minutes * 60)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Builds => "builds",
            Self::Tests => "tests",
            Self::Simulation => "simulation",
            Self::Chaos => "chaos",
            Self::Rest => "rest",
        })
    }
}

/// One part.
pub struct Part {
    /// A word or two, for the table.
    pub name: &'static str,
    /// What it is paid from.
    pub budget: Budget,
    /// What it does, in plain words.
    pub does: String,
    /// How.
    pub work: Work,
}

/// How a part does what it does.
pub enum Work {
    /// By commands, one after another.
    Steps(Vec<Step>),
    /// By a function of ours that is given the root of the repository.
    Own(fn(&Path) -> Result<()>),
}

/// Whether cargo set a variable for one package alone.
fn is_of_package(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
}

/// A command line, run from the root of the repository.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Arguments of cargo.
    pub args: Vec<String>,
    /// What is added to its environment.
    pub env: Vec<(&'static str, String)>,
}

impl Step {
    /// A cargo command.
    #[must_use]
    pub fn cargo(args: &[&str]) -> Self {
        Self { args: args.iter().map(|arg| (*arg).to_owned()).collect(), env: Vec::new() }
    }

    /// The same with one variable more.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    fn line(&self) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
        format!("{env}cargo {}", self.args.join(" "))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(crate::cargo());
        // What cargo tells us of ourselves: build scripts would take it for another world and run once more.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_package(name)) {
            command.env_remove(name);
        }
        command
            .current_dir(crate::root())
            .args(&self.args)
            .envs(crate::engines::environment())
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Shows the command line and runs it.
    ///
    /// # Errors
    /// When it cannot be started or does not end well.
    pub fn run(&self) -> Result<()> {
        println!("$ {}", self.line());
        let status = self.command().status().context("cargo cannot be started")?;
        if !status.success() {
            bail!("this failed ({status}): {}", self.line());
        }
        Ok(())
    }

    /// Runs it in our place: what it says is all that is said, and its exit code is ours.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn pass_on(&self) -> Result<ExitCode> {
        let status = self.command().status().context("cargo cannot be started")?;
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
    }

    /// What it prints, for a command whose words we read.
    ///
    /// # Errors
    /// When it cannot be started or does not end well.
    pub fn output(&self) -> Result<String> {
        let out = self.command().output().context("cargo cannot be started")?;
        if !out.status.success() {
            bail!("this failed: {}\n{}", self.line(), String::from_utf8_lossy(&out.stderr).trim_end());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }
}

/// What was run and how long it took.
pub struct Ledger {
    rows: Vec<Row>,
    /// Tells how slow the machine is.
    pace: fn() -> f64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { rows: Vec::new(), pace: pace::slowness }
    }
}

struct Row {
    name: &'static str,
    budget: Budget,
    took: Duration,
    /// How slow the machine was meanwhile.
    slowness: f64,
}

impl Row {
    /// How long it had taken on an ordinary machine.
    fn ordinary(&self) -> Duration {
        self.took.div_f64(self.slowness)
    }
}

impl Ledger {
    /// Whether a part of this name has been run.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.name == name)
    }

    /// Runs the parts in order and stops at the first that fails. A part that has been run before is not run again.
    ///
    /// # Errors
    /// Names the part that failed.
    pub fn run(&mut self, parts: Vec<Part>) -> Result<()> {
        let mut before = None;
        for part in parts {
            println!("\n== {}: {}", part.name, part.does);
            if self.has(part.name) {
                println!("done above");
                continue;
            }
            let slow = before.unwrap_or_else(self.pace);
            let (took, result) = timed(|| match &part.work {
                Work::Steps(steps) => steps.iter().try_for_each(Step::run),
                Work::Own(work) => work(&crate::root()),
            });
            let after = (self.pace)();
            let slowness = f64::midpoint(slow, after);
            self.rows.push(Row { name: part.name, budget: part.budget, took, slowness });
            before = Some(after);
            result.with_context(|| format!("{} failed after {:.1} minutes", part.name, minutes(took)))?;
        }
        Ok(())
    }

    /// Minutes a part and how slow the machine was meanwhile, and minutes of an ordinary machine a budget with its limit.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!("\n{:<24} {:>8} {:>8}\n", "part", "minutes", "slowness");
        for Row { name, took, slowness, .. } in &self.rows {
            let _ = writeln!(out, "{name:<24} {:>8.2} {slowness:>8.2}", minutes(*took));
        }
        let all: Duration = self.rows.iter().map(|row| row.took).sum();
        let _ = writeln!(out, "{:<24} {:>8.2}", "all", minutes(all));
        let _ = writeln!(out, "\n{:<30} {:>8} {:>8}", "budget, of an ordinary machine", "minutes", "limit");
        for (budget, spent) in self.spent() {
            let _ = writeln!(out, "{budget:<30} {:>8.2} {:>8}", minutes(spent), minutes(budget.limit()));
        }
        let _ = writeln!(out, "{:<30} {:>8.2}", "all", minutes(self.all()));
        out
    }

    /// The budgets that were not kept, with their limits in minutes; `limit` is for everything together.
    #[must_use]
    pub fn over(&self, limit: Option<Duration>) -> Vec<(String, f64)> {
        let kinds =
            self.spent().into_iter().map(|(budget, spent)| (budget.to_string(), spent, budget.limit()));
        let all = limit.map(|limit| ("all".to_owned(), self.all(), limit));
        let over = kinds.chain(all).filter(|(_, spent, limit)| spent > limit);
        over.map(|(what, _, limit)| (what, minutes(limit))).collect()
    }

    fn all(&self) -> Duration {
        self.rows.iter().map(Row::ordinary).sum()
    }

    fn spent(&self) -> BTreeMap<Budget, Duration> {
        let mut spent = BTreeMap::new();
        for row in &self.rows {
            *spent.entry(row.budget).or_default() += row.ordinary();
        }
        spent
    }
}

fn minutes(span: Duration) -> f64 {
    span.as_secs_f64() / 60.0
}

#[expect(clippy::disallowed_methods, reason = "a build is timed by the clock on the wall")]
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let result = work();
    (began.elapsed(), result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(rows: Vec<Row>) -> Ledger {
        Ledger { rows, pace: || 1.0 }
    }

    fn part(name: &'static str, work: fn(&Path) -> Result<()>) -> Part {
        Part { name, budget: Budget::Rest, does: String::new(), work: Work::Own(work) }
    }

    #[test]
    fn a_part_is_run_once() {
        let mut ledger = ledger(Vec::new());
        ledger.run(vec![part("a", |_| Ok(()))]).unwrap();
        ledger.run(vec![part("a", |_| bail!("again")), part("b", |_| Ok(()))]).unwrap();
        assert!(ledger.has("b"));
        let error = ledger.run(vec![part("c", |_| bail!("broken")), part("d", |_| Ok(()))]).unwrap_err();
        assert_eq!(format!("{error:#}"), "c failed after 0.0 minutes: broken");
        assert!(ledger.has("c") && !ledger.has("d"));
    }

    #[test]
    fn budgets_are_kept_for_all_parts_of_a_kind_together() {
        let row = |name, budget, slowness| Row { name, budget, took: Duration::from_secs(180), slowness };
        let mut ledger = ledger(vec![row("a", Budget::Rest, 1.5), row("b", Budget::Builds, 1.0)]);
        let five = Duration::from_secs(300);
        assert!(ledger.over(Some(five)).is_empty());
        assert_eq!(ledger.over(Some(five - Duration::from_secs(1))), [("all".to_owned(), 299.0 / 60.0)]);
        ledger.rows.push(row("c", Budget::Rest, 1.0));
        assert_eq!(ledger.over(None), [("rest".to_owned(), 2.0)]);
        let table = ledger.table();
        assert!(table.contains("a                            3.00     1.50"), "{table}");
        assert!(table.contains("rest                               5.00        2"), "{table}");
    }
}
