//! Registry keys are spelt in one file, so that the tree can be read, and changed, in one place.

use super::violation::TidyViolation;
use crate::rust::RustSource;
use crate::tree::SourceTree;

const SPELT_IN: &str = "crates/core/src/keys.rs";

/// The first parts of all keys that have more than one part.
const ROOTS: &[&str] = &["node/", "job/", "run/", "plan/", "intent/", "lock/", "beat/", "strike/"];

/// Keys of one part. Elsewhere these may be plain words, so only the crates that speak of entries are held to them.
const WHOLE: &[&str] = &["cluster"];

/// Complains about a literal that spells a key, or is made into one, outside of core's `keys.rs` and outside of tests.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let folders = ["crates/core/src/", "crates/node/src/", "crates/registry/src/", "crates/sim/src/"];
    let mut said = Vec::new();
    for (path, rust) in tree.rust_in(&folders) {
        // The conformance suite is a test that other crates may run.
        if path == SPELT_IN || path.contains("conformance") {
            continue;
        }
        for literal in rust.literals.iter().filter(|literal| !tree.in_test(path, literal.line)) {
            let whole = WHOLE.contains(&literal.value.as_str()) && !path.starts_with("crates/node/");
            if whole || spells_key(&literal.value) || made_into_key(rust, literal.at) {
                let value = &literal.value;
                said.push(TidyViolation::at(
                    path,
                    literal.line,
                    format!("the key \"{value}\" is spelt here: call a function of {SPELT_IN}"),
                ));
            }
        }
    }
    said
}

/// A key is a path: it begins with a root, has no blanks, and is more than a mention in a sentence.
fn spells_key(value: &str) -> bool {
    ROOTS.iter().any(|root| value.starts_with(root)) && !value.contains(char::is_whitespace)
}

/// Whether the literal at this place is the argument of `Key(…)`, `Key::new(…)` and the like.
fn made_into_key(rust: &RustSource, at: usize) -> bool {
    let Some(call) = rust.code[..at].trim_end().strip_suffix('(') else { return false };
    let callee =
        call.rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).next().unwrap_or_default();
    callee == "Key" || callee.starts_with("Key::")
}
