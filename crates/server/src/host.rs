//! The users of this host, and its name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The name of the user this process runs as, or its number where it has no name.
#[must_use]
pub(crate) fn user() -> String {
    let Ok(uid) = fs::metadata("/proc/self").map(|meta| meta.uid()) else { return String::new() };
    let own = passwd().into_iter().find(|user| user.id == Some(uid));
    own.map_or_else(|| uid.to_string(), |user| user.name)
}

/// The home folder of the user this process runs as, where the user database of this host has one.
pub(crate) fn home() -> Option<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let own = passwd().into_iter().find(|user| user.id == Some(uid))?;
    Some(PathBuf::from(own.home)).filter(|home| home.is_absolute())
}

/// The user of this process and the name of this host, which a client claims as its identity.
#[must_use]
pub(crate) fn whoami() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: &char| c.is_ascii_graphic();
    format!("{}@{}", user(), host.trim()).chars().filter(plain).collect()
}

/// The names of all local users.
#[must_use]
pub(crate) fn users() -> Vec<String> {
    passwd().into_iter().map(|user| user.name).collect()
}

/// Whether the host has a user of this name, in any of its user databases.
#[must_use]
pub(crate) fn is_user(name: &str) -> bool {
    let asked = std::process::Command::new("getent").args(["passwd", "--", name]).output();
    asked.is_ok_and(|answer| answer.status.success())
}

/// A line of the user database.
struct LocalUser {
    name: String,
    id: Option<u32>,
    home: String,
}

fn passwd() -> Vec<LocalUser> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let users = text.lines().filter_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next()?.to_owned();
        let id = parts.nth(1).and_then(|id| id.parse().ok());
        Some(LocalUser { name, id, home: parts.nth(2).unwrap_or_default().to_owned() })
    });
    users.filter(|user| !user.name.is_empty()).collect()
}
