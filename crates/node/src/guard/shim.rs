//! The last step before a run: the same program, for a moment, in the run's own process.
//!
//! It checks `not_after` with nothing left to wait for and then becomes the run's program, which keeps its process,
//! its group, its environment and its output. Without it the check would come before the fork, and a host that stalls
//! in between would start a run that already belongs to another node (law 2).

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use evenkeel_core::job::Setting;
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::ROLE;
use super::cgroup::Cgroup;
use super::environment::LOADER;
use super::limits;
use super::user::Runner;
use super::wire::Launch;
use crate::clock;

/// What the shim writes when it was too late.
pub(super) const LATE: &str = "late";

/// What a shim reads from its standard input.
#[derive(Serialize, Deserialize)]
struct Plan<T> {
    /// The process that started it.
    guard: u32,
    /// The files by which it enters its cgroups.
    doors: Vec<PathBuf>,
    /// Whether it may not start outside of them.
    bounded: bool,
    launch: T,
}

/// Everything a shim must know, as its standard input. It goes by memory, since arguments and variables are bounded and
/// seen by others.
pub(super) fn plan(launch: &Launch, cgroup: Option<&Cgroup>) -> io::Result<OwnedFd> {
    let (doors, bounded) = cgroup.map(|cgroup| (cgroup.doors(), cgroup.is_bounded())).unwrap_or_default();
    let plan = Plan { guard: std::process::id(), doors, bounded, launch };
    Ok(in_memory("evenkeel-plan", &serde_json::to_vec(&plan)?)?.into())
}

/// A nameless file that holds this, to be read from its beginning.
fn in_memory(name: &str, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Returns the exit code when nothing was started.
pub(super) fn main() -> i32 {
    // Standard output is a pipe to the guard: what is written there is why nothing started, and its end without a word
    // means that the program took over. The copy closes with the exec; the run itself gets standard error's pipe twice.
    let Ok(status) = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 3) else { return 1 };
    if let Err(why) = become_the_run() {
        let _ = File::from(status).write_all(why.as_bytes());
    }
    1
}

fn become_the_run() -> Result<(), String> {
    let mut plan = Vec::new();
    let read = io::stdin().read_to_end(&mut plan).map_err(|e| e.to_string());
    let Plan { guard, doors, bounded, launch } = read
        .and_then(|_| serde_json::from_slice::<Plan<Launch>>(&plan).map_err(|e| e.to_string()))
        .map_err(|e| format!("the guard's plan cannot be read: {e}"))?;
    for door in &doors {
        // Nought is whoever writes. From here on all it starts is in there too.
        // Without limits it is as well off outside, where its strays are looked for in another way.
        if let Err(e) = std::fs::write(door, "0")
            && bounded
        {
            return Err(format!("its cgroup cannot be entered: {}: {e}", door.display()));
        }
    }
    let Some((program, arguments)) = launch.argv.split_first() else {
        return Err("the run has no program".to_string());
    };
    let pipes = pipes(&launch.setting).map_err(|e| format!("its pipes cannot be made: {e}"))?;
    let mut run = Command::new(program);
    if !launch.setting.inherit.iter().any(|name| name == LOADER) {
        run.env_remove(LOADER);
    }
    let ceilings = launch.setting.limits.read()?;
    let runner = Runner::find(&launch.setting.user)?;
    run.envs(runner.iter().flat_map(Runner::variables));
    run.args(arguments).env_remove(ROLE).envs(&launch.setting.environment).envs(&launch.environment);
    run.stdin(pipes.0).stdout(pipes.1);
    limits::set(ceilings)?;
    if let Some(runner) = &runner {
        runner.become_it()?;
    }
    enter(&launch.setting.directory)?;
    // Should the guard be killed, the kernel ends the run with it. A change of user would have undone this.
    let bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let parent = rustix::process::getppid().map(Pid::as_raw_nonzero);
    if bound.is_err() || parent.and_then(|pid| u32::try_from(pid.get()).ok()) != Some(guard) {
        return Err(LATE.to_string());
    }
    if clock::now().mono.0 >= launch.not_after {
        return Err(LATE.to_string());
    }
    let error = run.exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => format!("no such program: {program}"),
        io::ErrorKind::PermissionDenied => format!("not allowed to run {program}"),
        io::ErrorKind::WouldBlock => {
            format!("cannot run {program}: its user has as many processes as it may: raise limits.processes")
        }
        _ => format!("cannot run {program}: {error}"),
    })
}

/// The run's standard input and output.
fn pipes(setting: &Setting) -> io::Result<(Stdio, Stdio)> {
    // A file in memory, which nobody has to feed to a run that reads slowly or not at all.
    let stdin = match setting.stdin.as_str() {
        "" => Stdio::null(),
        text => in_memory("evenkeel-stdin", text.as_bytes())?.into(),
    };
    Ok((stdin, io::stderr().as_fd().try_clone_to_owned()?.into()))
}

/// Goes where the run is to start.
fn enter(directory: &str) -> Result<(), String> {
    if directory.is_empty() {
        return Ok(());
    }
    std::env::set_current_dir(directory).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            format!("no such directory: {directory}: create it on this node, or change the job's directory")
        }
        io::ErrorKind::PermissionDenied => format!("not allowed to enter the directory {directory}"),
        _ => format!("cannot enter the directory {directory}: {e}"),
    })
}
