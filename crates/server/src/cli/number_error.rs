//! What is said of a number that a flag does not take.

use std::error::Error;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The largest limit that is named: beyond it there is none that people meet.
const NAMED_MAX: u64 = u32::MAX as u64 - 1;
/// How the standard library begins its complaints about numbers.
const NO_NUMBER: [&str; 3] = ["invalid digit", "number too", "cannot parse integer"];

/// The error with the numbers that are allowed, in words: clap writes them as ranges of Rust.
pub(super) fn explained(error: clap::Error, root: &Command) -> clap::Error {
    let Some(allowed) = error.source().and_then(|source| allowed(&source.to_string())) else { return error };
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let (value, flag) = (text(ContextKind::InvalidValue), text(ContextKind::InvalidArg));
    let text = format!("invalid value '{value}' for '{flag}': write {allowed}");
    root.clone().error(ErrorKind::ValueValidation, text)
}

/// The numbers that are allowed, if this is a complaint about one.
fn allowed(complaint: &str) -> Option<String> {
    if NO_NUMBER.iter().any(|begin| complaint.starts_with(begin)) {
        return Some("a whole number".to_owned());
    }
    let (_, range) = complaint.split_once(" is not in ")?;
    let (first, last) = range.split_once("..")?;
    let first: i64 = first.parse().ok()?;
    let last: u64 = last.trim_start_matches('=').parse().unwrap_or(u64::MAX);
    Some(if last > NAMED_MAX {
        format!("a whole number of {first} or more")
    } else {
        format!("a whole number from {first} to {last}")
    })
}

#[cfg(test)]
mod tests {
    use clap::{Arg, value_parser};

    use super::*;

    #[test]
    fn the_allowed_numbers_are_said_in_words() {
        let limit = Arg::new("limit").long("limit").value_parser(value_parser!(u32).range(1..=1000));
        let least = Arg::new("least").long("least").value_parser(value_parser!(u32).range(1..));
        let name = Arg::new("name").long("name").value_parser(["a", "b"]);
        let root = Command::new("evenkeel").args([limit, least, name]);
        for (flag, says) in [
            ("--limit=0", "invalid value '0' for '--limit <limit>': write a whole number from 1 to 1000"),
            ("--limit=many", "write a whole number"),
            ("--limit=99999999999", "write a whole number"),
            ("--least=0", "write a whole number of 1 or more"),
            ("--name=c", "[possible values: a, b]"),
        ] {
            let error = root.clone().try_get_matches_from(["evenkeel", flag]).expect_err("it is wrong");
            let said = explained(error, &root).to_string();
            assert!(said.contains(says) && !said.contains("..="), "{flag}: {said}");
        }
    }
}
