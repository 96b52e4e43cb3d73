//! Time is read in one file, so that everything else can be given any time by a test.

use super::Complaint;
use crate::rust::Rust;
use crate::tree::Tree;

const READS: &[&str] = &["Instant::now", "SystemTime::now", "clock_gettime", "Timestamp::now", "Zoned::now"];

/// The one file that reads a node's clocks.
const CLOCK: &str = "crates/node/src/clock.rs";

/// The one that reads the clock of the engines that live in our own process: expiry is theirs to decide, not a node's.
const ENGINE_CLOCK: &str = "crates/registry/src/clock.rs";

/// Complains about each clock read outside of those files; tests, benches, xtask and the
/// simulator's program may, where they say why.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut said = Vec::new();
    for (path, rust) in tree.rust_in(&["crates/"]).filter(|(path, _)| ![CLOCK, ENGINE_CLOCK].contains(path)) {
        for read in READS {
            for line in rust.mentions(read) {
                let text = tree.text(path).unwrap_or_default();
                if !may(path, rust, line) {
                    said.push(Complaint::at(
                        path,
                        line,
                        format!("`{read}` belongs in {CLOCK}: take the time as a value"),
                    ));
                } else if !excused(text, rust, line) {
                    let fix = "#[expect(clippy::disallowed_methods, reason = \"…\")]";
                    said.push(Complaint::at(path, line, format!("`{read}` needs {fix} above it")));
                }
            }
        }
    }
    said
}

fn may(path: &str, rust: &Rust, line: usize) -> bool {
    let apart = ["/tests/", "/benches/", "/examples/", "crates/xtask/", "crates/sim/src/bin/"];
    rust.in_test(line) || apart.iter().any(|part| path.contains(part))
}

/// Whether the read, the function around it or the file has the lint's exception with a reason.
fn excused(text: &str, rust: &Rust, line: usize) -> bool {
    let is_excuse = |text: &str| {
        text.contains("expect(") && text.contains("disallowed_methods") && text.contains("reason")
    };
    let lines: Vec<&str> = text.lines().collect();
    let around = rust.functions.iter().filter(|function| function.lines.contains(&line));
    let mut first = around.map(|function| function.lines.start).min().unwrap_or(line);
    while first > 0 && lines[first - 1].trim_start().starts_with(['#', '/', ')', 'c', 'r']) {
        first -= 1;
    }
    let whole_file = lines.iter().take_while(|line| line.is_empty() || line.starts_with(['/', '#']));
    is_excuse(&lines[first..=line].join("\n"))
        || whole_file.clone().any(|line| line.starts_with("#![") && is_excuse(line))
}
