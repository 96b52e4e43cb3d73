//! Waits until a process that was sent SIGSTOP stands still.
//!
//! The signal stops a process when one of its threads hears of it. Until that thread gets a processor, the others go on,
//! and one of them may still answer what is asked after the signal.

use std::io::ErrorKind;
use std::time::Duration;

/// What Linux says of a process that ended while it is read.
const ESRCH: i32 = 3;

/// Waits until each thread of the process is stopped, or the process gone.
///
/// # Panics
/// When it does not.
pub(crate) fn wait_until_still(pid: u32) {
    for _ in 0..120_000 {
        if stands_still(pid) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never: process {pid} stands still")
}

fn stands_still(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.filter_map(Result::ok).all(|thread| {
        let stat = match std::fs::read_to_string(thread.path().join("stat")) {
            Ok(stat) => stat,
            // It ended between two looks, or during this one.
            Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => {
                return true;
            }
            Err(error) => panic!("a thread of process {pid} cannot be looked at: {error}"),
        };
        // The name in parentheses may contain anything.
        let (_, state) = stat.rsplit_once(')').expect("a name in parentheses");
        state.trim_start().starts_with(['T', 'Z', 'X'])
    })
}
