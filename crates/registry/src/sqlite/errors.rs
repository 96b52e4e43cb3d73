//! Maps SQLite's errors to registry errors with a fix.

use std::ffi::OsString;
use std::path::Path;

use rusqlite::{Error, ErrorCode};

use crate::RegistryError;
use crate::file_integrity::{move_away_command, shell_quoted};

/// When an error occurred: what is a wrong setting at first is an outage later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorPhase {
    /// The file was not used yet.
    Opening,
    /// The file was in use.
    Use,
}

/// Describes an error and its fix.
pub(super) fn explain(path: &Path, during: ErrorPhase, error: &Error) -> RegistryError {
    use RegistryError::{Fatal, Refused, Unavailable};
    let say = |why: &str| format!("registry file {} {why} ({error})", path.display());
    let harmed = |why: &str| format!("{}: {}", say(why), restore_hint(path));
    let Some(code) = error.sqlite_error_code() else {
        return Fatal(harmed("holds what evenkeel did not write"));
    };
    match (code, during) {
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Unavailable(say(
            "has been locked for 5 s: end the transaction that another program holds open on it",
        )),
        (ErrorCode::DiskFull, _) => disk_full(path),
        (ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied, ErrorPhase::Opening) => {
            Refused(say("cannot be written: let this user write it and its folder"))
        }
        (ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied, ErrorPhase::Use) => {
            Unavailable(say(
                "can no longer be written: see whether its disk was remounted or its mode changed",
            ))
        }
        (ErrorCode::SystemIoFailure, _) => Unavailable(say("cannot be read or written: check its disk")),
        (ErrorCode::OutOfMemory, _) => Unavailable(say("needs more memory than there is: free some")),
        (ErrorCode::NotADatabase, ErrorPhase::Opening) => {
            Refused(format!("{}: name another path, or {}", say("is not a SQLite file"), restore_hint(path)))
        }
        (ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt, _) => Fatal(harmed("is damaged")),
        _ => Fatal(harmed("does not work as it should")),
    }
}

/// The fix for a file that is not what Evenkeel wrote. A restore needs an empty place.
pub(super) fn restore_hint(path: &Path) -> String {
    let mut url = OsString::from("sqlite:");
    url.push(std::path::absolute(path).unwrap_or_else(|_| path.into()));
    format!(
        "restore it from a backup: stop all its nodes, run `{}`, then, with the FILE that `evenkeel cluster backup` wrote, \
         `evenkeel cluster restore --registry {} --may-repeat-runs FILE`, and start the nodes again",
        move_away_command(path),
        shell_quoted(Path::new(&url)),
    )
}

/// An error: the path cannot be used as it is.
pub(super) fn refusal(path: &Path, why: &str) -> RegistryError {
    RegistryError::Refused(format!("registry file {} {why}", path.display()))
}

/// An error: the disk is full. Nothing was written, and work continues when there is space again.
pub(super) fn disk_full(path: &Path) -> RegistryError {
    RegistryError::Unavailable(format!(
        "the disk of registry file {} is full: free some space",
        path.display()
    ))
}
