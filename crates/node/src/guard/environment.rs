//! Selects which of the node's own variables a run gets: few, since any other may be a password.

use std::ffi::{OsStr, OsString};
use std::process::Command;

/// The variables that every command gets if the node has them.
const ALWAYS: &[&str] = &["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER"];

/// Whether a variable is Evenkeel's; those of a node contain its registry's URL and password.
fn is_own(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"EVENKEEL_")
}

/// Removes this process's own variables from a program's environment.
pub(crate) fn withhold_own(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_own(name)) {
        command.env_remove(name);
    }
}

/// This process's variables for a command that asks for these.
pub(super) fn inherited(asked: &[String]) -> impl Iterator<Item = (OsString, OsString)> {
    let names = ALWAYS.iter().copied().chain(asked.iter().map(String::as_str));
    let names = names.filter(|name| !is_own(OsStr::new(name)));
    names.filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
}
