//! Which of the node's own variables a run gets: few, since one of the others may be a password.

use std::ffi::{OsStr, OsString};
use std::process::Command;

/// What every command gets where the node has it.
const ALWAYS: &[&str] = &["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER"];

/// Whether a variable is ours; those of a node say where its registry is, and its password.
fn is_own(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"EVENKEEL_")
}

/// Keeps this process's own variables from a program.
pub(crate) fn withhold_own(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_own(name)) {
        command.env_remove(name);
    }
}

/// This process's variables that a command gets which asks for these.
pub(super) fn inherited(asked: &[String]) -> impl Iterator<Item = (OsString, OsString)> {
    let names = ALWAYS.iter().copied().chain(asked.iter().map(String::as_str));
    let names = names.filter(|name| !is_own(OsStr::new(name)));
    names.filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
}
