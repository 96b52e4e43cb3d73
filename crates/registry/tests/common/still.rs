//! Waits until a process that was sent SIGSTOP stands still.
//!
//! The signal stops a process when one of its threads hears of it. Until that thread gets a processor, the others go on,
//! and one of them may still answer what is asked after the signal.

use std::time::Duration;

/// Waits until each thread of the process is stopped, or the process gone.
///
/// # Panics
/// When it does not.
pub(crate) fn wait_until_still(pid: u32) {
    for _ in 0..20_000 {
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
        // A thread that cannot be read has ended.
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name in parentheses may contain anything.
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['T', 'Z', 'X']))
    })
}
