//! Parts of a long run: each is announced, timed and listed in a table. Time never fails a part.

use crate::cargo_command::CargoCommand;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// One part of a run.
pub struct GatePart {
    /// A word or two, for the table.
    pub name: &'static str,
    /// What the part does, in plain words.
    pub about: String,
    /// How the part does it.
    pub work: GateWork,
}

/// How a part does its work.
pub enum GateWork {
    /// By cargo commands, one after another.
    Steps(Vec<CargoCommand>),
    /// By a function, which gets the root of the repository.
    Own(fn(&Path) -> Result<()>),
    /// Not at all in this run, for the reason given.
    Skipped(String),
}

impl GatePart {
    /// A part made of cargo commands.
    #[must_use]
    pub fn steps(name: &'static str, does: impl Into<String>, steps: Vec<CargoCommand>) -> Self {
        Self { name, about: does.into(), work: GateWork::Steps(steps) }
    }

    /// A part that is a function.
    #[must_use]
    pub fn own(name: &'static str, does: impl Into<String>, work: fn(&Path) -> Result<()>) -> Self {
        Self { name, about: does.into(), work: GateWork::Own(work) }
    }
}

/// The parts that have run, and how long each took.
#[derive(Default)]
pub struct PartTable {
    rows: Vec<(&'static str, Duration)>,
}

impl PartTable {
    /// Runs parts one after another until one fails.
    ///
    /// # Errors
    /// Names the part that failed.
    pub fn run(&mut self, parts: Vec<GatePart>) -> Result<()> {
        for part in parts {
            println!("\n== {}: {}", part.name, part.about);
            let (took, result) = timed(|| match &part.work {
                GateWork::Steps(steps) => steps.iter().try_for_each(CargoCommand::run),
                GateWork::Own(work) => work(&crate::paths::root()),
                GateWork::Skipped(why) => {
                    println!("skipped: {why}");
                    Ok(())
                }
            });
            self.rows.push((part.name, took));
            result.with_context(|| format!("{} failed after {:.1} minutes", part.name, minutes(took)))?;
        }
        Ok(())
    }

    /// A line for each part with its minutes, and their sum.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("\n{:<24} {:>8}\n", "part", "minutes");
        for (name, took) in &self.rows {
            let _ = writeln!(out, "{name:<24} {:>8.2}", minutes(*took));
        }
        let all: Duration = self.rows.iter().map(|(_, took)| *took).sum();
        let _ = writeln!(out, "{:<24} {:>8.2}", "all", minutes(all));
        out
    }
}

/// A span in minutes, for people.
#[must_use]
pub fn minutes(span: Duration) -> f64 {
    span.as_secs_f64() / 60.0
}

/// Runs `work` and measures how long it took.
#[expect(clippy::disallowed_methods, reason = "the duration of a build is real time")]
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let result = work();
    (began.elapsed(), result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn parts_run_in_order_until_one_fails() {
        let mut table = PartTable::default();
        let skipped =
            GatePart { name: "b", about: String::new(), work: GateWork::Skipped("no need".to_owned()) };
        table.run(vec![GatePart::own("a", "", |_| Ok(())), skipped]).unwrap();
        let rest = vec![GatePart::own("c", "", |_| bail!("broken")), GatePart::own("d", "", |_| Ok(()))];
        let error = table.run(rest).unwrap_err();
        assert_eq!(format!("{error:#}"), "c failed after 0.0 minutes: broken");
        let names: Vec<_> = table.rows.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn the_table_adds_up() {
        let table = PartTable { rows: vec![("a", Duration::from_secs(90)), ("b", Duration::from_secs(30))] };
        let text = table.text();
        assert!(text.contains("a                            1.50\n"), "{text}");
        assert!(text.contains("all                          2.00\n"), "{text}");
    }
}
