//! Runs a step with its output on the terminal and in a file, and finds in it a line for each failure that repeats the failure.

use super::list::SoakStep;
use crate::cargo_command::CargoCommand;
use anyhow::{Context as _, Result};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;

/// So many failures of a step are enough to look at.
const LINES_MAX: usize = 20;

/// Runs a command; whether it ended well, and all that it printed.
pub(super) fn run(step: &CargoCommand, log: &Path) -> Result<(bool, String)> {
    let mut command = step.command();
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cargo cannot be started")?;
    let file = std::fs::File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
    let sink = Mutex::new((file, String::new()));
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(|| copy(out, &sink));
        scope.spawn(|| copy(err, &sink));
    });
    let status = child.wait().context("cargo cannot be waited for")?;
    let (_, output) = sink.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok((status.success(), output))
}

fn copy(stream: Option<impl Read>, sink: &Mutex<(std::fs::File, String)>) {
    let Some(stream) = stream else { return };
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        let mut sink = sink.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A full disk ends the copy in the file; the text that is judged is whole all the same.
        let _ = writeln!(sink.0, "{line}");
        sink.1.push_str(&line);
        sink.1.push('\n');
    }
}

/// A line for each failure in the output of a step that failed; at least one.
pub(super) fn repeat_lines(step: &SoakStep, command: &CargoCommand, output: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in output.lines().map(str::trim) {
        let repeat = if line.starts_with("cargo xtask ") {
            Some(line.to_owned())
        } else {
            failed_test(line, step).map(|test| test.line(step, command))
        };
        if let Some(repeat) = repeat.filter(|repeat| !found.contains(repeat)) {
            found.push(repeat);
        }
    }
    if found.is_empty() {
        found.push(format!("cargo xtask soak {}", step.part));
    }
    found.truncate(LINES_MAX);
    found
}

/// A test that failed, and where cargo finds it.
struct FailedTest<'a> {
    package: &'a str,
    /// The option that selects the binary: `--lib`, `--test NAME` or `--bin NAME`.
    target: String,
    name: &'a str,
}

impl FailedTest<'_> {
    /// The command that runs this test alone, with the environment that the step gave it and the engines that its part needs.
    fn line(&self, step: &SoakStep, command: &CargoCommand) -> String {
        let has_engines = super::list::PARTS.iter().any(|part| part.name == step.part && part.engines);
        let engines = match has_engines {
            true => {
                "cargo xtask engines up && cargo xtask engines up --quorum && eval \"$(cargo xtask engines env)\"; "
            }
            false => "",
        };
        let env: String = command.env.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
        let Self { package, target, name } = self;
        format!(
            "{engines}{env}cargo test --locked --package {package} {target} -- \
             --include-ignored --exact {name}"
        )
    }
}

/// Reads nextest's `FAIL [   0.1s] (1/9) package::binary name` and plain cargo's `test name ... FAILED`.
fn failed_test<'a>(line: &'a str, step: &'a SoakStep) -> Option<FailedTest<'a>> {
    if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
        let (package, binary) = step.tests?;
        return Some(FailedTest { package, target: target(binary), name });
    }
    let (word, rest) = line.split_once(' ')?;
    if !(matches!(word, "FAIL" | "TIMEOUT" | "ABORT" | "LEAK-FAIL") || word.starts_with("SIG")) {
        return None;
    }
    let rest = rest.split_once(']')?.1.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(count) => count.split_once(')')?.1.trim_start(),
        None => rest,
    };
    let (binary, name) = rest.split_once(' ')?;
    let (package, binary) = binary.split_once("::").unwrap_or((binary, ""));
    Some(FailedTest { package, target: target(binary), name: name.trim() })
}

fn target(binary: &str) -> String {
    match binary.split_once('/') {
        _ if binary.is_empty() => "--lib".to_owned(),
        Some(("bin", name)) => format!("--bin {name}"),
        Some((_, name)) => format!("--example {name}"),
        None => format!("--test {binary}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::{SoakStep, SoakWork};
    use super::*;

    fn lines(tests: Option<(&'static str, &'static str)>, output: &str) -> Vec<String> {
        let cargo = CargoCommand::cargo(&["nextest", "run"]).with("EVENKEEL_HISTORIES", "200");
        let work = SoakWork::Cargo(cargo.clone());
        let step = SoakStep { part: "engines", label: "l".to_owned(), work, tests };
        repeat_lines(&step, &cargo, output)
    }

    #[test]
    fn a_failed_test_is_repeated_alone() {
        let output = "        PASS [   0.010s] ( 1/ 3) evenkeel-registry::file a\n\
                      \x20       FAIL [   1.210s] ( 2/ 3) evenkeel-registry::sql_faults lost::answers\n\
                      \x20    TIMEOUT [ 300.002s] ( 3/ 3) evenkeel-core rules::b\n\
                      \x20       FAIL [   1.210s] ( 2/ 3) evenkeel-registry::sql_faults lost::answers\n";
        let found = lines(None, output);
        assert_eq!(found.len(), 2, "{found:?}");
        let end = "EVENKEEL_HISTORIES='200' cargo test --locked --package evenkeel-registry --test sql_faults -- \
                   --include-ignored --exact lost::answers";
        assert!(found[0].starts_with("cargo xtask engines up && ") && found[0].ends_with(end), "{found:?}");
        assert!(found[1].ends_with("--package evenkeel-core --lib -- --include-ignored --exact rules::b"));
    }

    #[test]
    fn plain_cargo_names_no_package_so_the_step_does() {
        let output = "test lost::answers ... FAILED\ntest other ... ok\n";
        let found = lines(Some(("evenkeel-registry", "sql_faults")), output);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("--test sql_faults -- --include-ignored --exact lost::answers"));
    }

    #[test]
    fn a_world_is_repeated_by_its_seed_and_all_else_by_its_command() {
        assert_eq!(lines(None, "cargo xtask sim 0x2a # I14 at 7\n"), ["cargo xtask sim 0x2a # I14 at 7"]);
        assert_eq!(lines(None, "error: no space\n"), ["cargo xtask soak engines"]);
    }

    #[test]
    fn a_program_and_an_example_are_targets_too() {
        assert_eq!(target("bin/evenkeel"), "--bin evenkeel");
        assert_eq!(target("example/embed"), "--example embed");
    }
}
