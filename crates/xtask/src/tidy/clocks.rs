//! Time is read in one file, so that everything else can be given any time by a test.

use super::violation::TidyViolation;
use crate::rust::RustSource;
use crate::tree::SourceTree;

const READS: &[&str] = &["Instant::now", "SystemTime::now", "clock_gettime", "Timestamp::now", "Zoned::now"];

/// The one file that reads a node's clocks.
const CLOCK: &str = "crates/node/src/clock.rs";

/// The one that reads the clock of the engines that live in our own process: expiry is theirs to decide, not a node's.
const ENGINE_CLOCK: &str = "crates/registry/src/clock.rs";

/// Complains about each clock read outside of those files; tests, benches, xtask and the
/// simulator's program may, where they say why.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for (path, rust) in tree.rust_in(&["crates/"]).filter(|(path, _)| ![CLOCK, ENGINE_CLOCK].contains(path)) {
        for read in READS {
            for line in rust.mentions(read) {
                let text = tree.text(path).unwrap_or_default();
                let apart = ["crates/xtask/", "crates/sim/src/bin/"].iter().any(|it| path.starts_with(it));
                if !apart && !tree.in_test(path, line) {
                    said.push(TidyViolation::at(
                        path,
                        line,
                        format!("`{read}` belongs in {CLOCK}: take the time as a value"),
                    ));
                } else if !excused(text, rust, line) {
                    let fix = "#[expect(clippy::disallowed_methods, reason = \"…\")]";
                    said.push(TidyViolation::at(path, line, format!("`{read}` needs {fix} above it")));
                }
            }
        }
    }
    said
}

/// Whether the read, the function around it or the file has the lint's exception with a reason.
fn excused(text: &str, rust: &RustSource, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let function = rust
        .functions
        .iter()
        .filter(|function| function.lines.contains(&line))
        .map(|it| it.lines.start)
        .min();
    let start = function.unwrap_or(line);
    // Attributes and comments stand above, up to what came before.
    let ended = |before: &&str| before.trim().is_empty() || before.ends_with(['{', '}', ';']);
    let head = lines[..start].iter().rev().take_while(|before| !ended(before)).count();
    let top = lines.iter().take_while(|line| line.is_empty() || line.starts_with(['/', '#'])).count();
    let inner =
        lines[..top].iter().filter(|line| line.starts_with("#![")).copied().collect::<Vec<_>>().join("\n");
    is_excuse(&lines[start - head..=line].join("\n")) || is_excuse(&inner)
}

fn is_excuse(text: &str) -> bool {
    text.contains("expect(") && text.contains("disallowed_methods") && text.contains("reason")
}
