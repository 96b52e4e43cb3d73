//! The processes of a cgroup: lists, signals, kills, and removes the empty cgroup.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal};

/// The file that lists a cgroup's processes, and through which processes enter it.
pub(super) const PROCS: &str = "cgroup.procs";

/// The file through which a single thread enters a cgroup of the older kind. The kernel makes a thread that moves itself
/// wait for no other; a process that is moved as a whole waits about ten milliseconds, in either kind.
pub(super) const TASKS: &str = "tasks";

/// A process that is in a cgroup.
pub(super) struct CgroupMember {
    pub(super) pid: Pid,
    /// Refers to this process even if its number is reused.
    fd: OwnedFd,
}

impl CgroupMember {
    /// Sends a signal. A process that has ended is ignored.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.fd, signal);
    }
}

/// Writes a file that may be missing, such as that of swap where swap is not counted.
pub(super) fn write_if_there(path: &Path, value: &str) -> io::Result<()> {
    match path.exists() {
        true => fs::write(path, value),
        false => Ok(()),
    }
}

/// Kills all processes of this cgroup and below. `pids` is the folder that counts them, if that is another one.
pub(super) fn kill(dir: &Path, pids: Option<&Path>) {
    let all_at_once = dir.join("cgroup.kill");
    if all_at_once.exists() && fs::write(all_at_once, "1").is_ok() {
        return;
    }
    // Otherwise a process that forks faster than it is listed would never end.
    let _ = write_if_there(&pids.unwrap_or(dir).join("pids.max"), "0");
    members(dir).iter().for_each(|member| member.signal(Signal::KILL));
}

/// The processes in this cgroup and below. Between two listings a number may be reused, so only those count that are
/// in both.
pub(super) fn members(dir: &Path) -> Vec<CgroupMember> {
    let open = |pid: Pid| {
        Some(CgroupMember { pid, fd: rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()? })
    };
    let mut members: Vec<CgroupMember> = processes(dir).into_iter().filter_map(open).collect();
    let still = processes(dir);
    members.retain(|member| still.contains(&member.pid));
    members
}

/// The process numbers in this cgroup and below.
pub(super) fn processes(dir: &Path) -> Vec<Pid> {
    let mut found = in_dir(dir);
    found.extend(inside(dir).iter().flat_map(|below| processes(below)));
    found
}

/// Whether no process is in this cgroup or below. A cgroup that cannot be read does not count as empty.
pub(super) fn is_empty(dir: &Path) -> bool {
    let is_gone = |e: &io::Error| {
        e.kind() == ErrorKind::NotFound || e.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
    };
    // The unified tree has this for the whole subtree.
    if let Ok(events) = fs::read_to_string(dir.join("cgroup.events")) {
        return events.lines().any(|line| line == "populated 0");
    }
    match fs::read_to_string(dir.join(PROCS)) {
        Ok(processes) if processes.trim().is_empty() => match fs::read_dir(dir) {
            Ok(_) => inside(dir).iter().all(|below| is_empty(below)),
            Err(e) => is_gone(&e),
        },
        Ok(_) => false,
        Err(e) => is_gone(&e),
    }
}

/// The process numbers directly in this cgroup.
pub(super) fn in_dir(dir: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(dir.join(PROCS)).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// The cgroups directly below this one.
pub(super) fn inside(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter_map(Result::ok).filter(is_dir).map(|entry| entry.path()).collect()
}

/// Removes a cgroup with all below it.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    // Few runs make cgroups of their own.
    if remove_one(dir).is_ok() {
        return Ok(());
    }
    for below in inside(dir) {
        remove(&below)?;
    }
    remove_one(dir)
}

fn remove_one(dir: &Path) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
