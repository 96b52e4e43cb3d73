//! What tests want to know of processes, read from the kernel.

use std::path::Path;
use std::time::Duration;

use evenkeel::clock;
use rustix::process::{Pid, Signal, kill_process};

use crate::still::wait_until_still;

/// How long a test waits for a fact.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is so.
pub(crate) fn until<T>(what: &str, mut fact: impl FnMut() -> Option<T>) -> T {
    let deadline = clock::now().mono.0 + PATIENCE.as_millis() as i64;
    loop {
        if let Some(value) = fact() {
            return value;
        }
        assert!(clock::now().mono.0 < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process lives; one that waits to be reaped does not.
pub(crate) fn lives(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// The numbers in a file, one a line; waits until there are `n`.
pub(crate) fn pids(path: &Path, n: usize) -> Vec<i32> {
    until(&format!("{n} processes in {}", path.display()), || {
        let text = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))?;
        let pids: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
        (pids.len() >= n).then_some(pids)
    })
}

/// Sends a signal. One that is stopped does nothing more when this returns.
pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    if signal == Signal::STOP {
        wait_until_still(pid.unsigned_abs());
    }
}
