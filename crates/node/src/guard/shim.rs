//! The last step before a run: the same program, for a moment, in the run's own process.
//!
//! It checks `not_after` with nothing left to wait for and then becomes the run's program, which keeps its process,
//! its group, its environment and its output. Without it the check would come before the fork, and a host that stalls
//! in between would start a run that already belongs to another node (law 2).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

use super::ROLE;
use crate::clock;

/// What the shim writes when it was too late.
pub(super) const LATE: &str = "late";

/// Arguments: `not_after`, the guard's process id, then the run's own. Returns the exit code when nothing was started.
pub(super) fn main(mut arguments: impl Iterator<Item = OsString>) -> i32 {
    // Standard input is a pipe to the guard: what is written there is why nothing started, and its end without a word
    // means that the program took over. The copy closes with the exec; the run itself gets an empty input.
    let Ok(status) = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3) else { return 1 };
    if let Err(why) = become_the_run(&mut arguments) {
        let _ = File::from(status).write_all(why.as_bytes());
    }
    1
}

fn become_the_run(arguments: &mut impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut number = || arguments.next()?.to_str()?.parse::<i64>().ok();
    let (Some(not_after), Some(guard)) = (number(), number()) else {
        return Err("the guard gave no deadline".to_string());
    };
    let Some(program) = arguments.next() else { return Err("the run has no program".to_string()) };
    // Should the guard be killed, the kernel ends the run with it.
    let bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let parent = rustix::process::getppid().map(Pid::as_raw_nonzero);
    if bound.is_err() || parent.map(|pid| i64::from(pid.get())) != Some(guard) {
        return Err(LATE.to_string());
    }
    if clock::now().mono.0 >= not_after {
        return Err(LATE.to_string());
    }
    let mut run = Command::new(&program);
    let error = run.args(arguments).env_remove(ROLE).stdin(Stdio::null()).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => format!("no such program: {}", program.display()),
        io::ErrorKind::PermissionDenied => format!("not allowed to run {}", program.display()),
        _ => format!("cannot run {}: {error}", program.display()),
    })
}
