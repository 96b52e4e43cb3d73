//! The end of a node that hangs: its process lives and does nothing any more, so its guard ends it.
//!
//! The node sends a heartbeat before each moment that the one before has named. When one is missing, the guard looks at
//! the thread that sends them, and a while later once more. It counts as hanging if it waited or was stopped both times
//! and used no processor time in between. A thread that computes, waits for a disk, or is being debugged does not: its
//! lease decides. So does the lease of a node that the guard cannot look at.

use std::fs;

use evenkeel_core::time::{Millis, Mono};
use rustix::process::Pid;

/// The heartbeats of a node.
#[derive(Debug, Default)]
pub(super) struct Watchdog(Option<Heartbeat>);

/// What the last heartbeat said.
#[derive(Debug)]
struct Heartbeat {
    /// The thread that sends them.
    thread: i32,
    /// Within what time the next one was to come.
    within: Millis,
    /// When to look at the thread.
    look_at: Mono,
    /// What was seen of it when the next one was missing.
    seen: Option<ThreadActivity>,
}

/// What the kernel says of a thread.
#[derive(Debug, PartialEq, Eq)]
struct ThreadActivity {
    /// Its state, as `ps` shows it.
    state: char,
    /// The processor time that it has used, in the kernel's ticks.
    used: u64,
}

impl Watchdog {
    /// Notes a heartbeat of this thread. The next one comes within that time; with none, no more come.
    pub(super) fn heartbeat(&mut self, thread: i32, within: Option<Millis>, now: Mono) {
        self.0 = within.map(|within| Heartbeat { thread, within, look_at: now + within, seen: None });
    }

    /// When to look next.
    pub(super) fn next(&self) -> Option<Mono> {
        self.0.as_ref().map(|last| last.look_at)
    }

    /// Whether the process hangs. Every heartbeat that was sent must have been noted before.
    pub(super) fn is_hung(&mut self, process: Pid, now: Mono) -> bool {
        let Some(last) = self.0.as_mut().filter(|last| last.look_at <= now) else { return false };
        let seen = ThreadActivity::read(process, last.thread);
        if seen.as_ref().is_some_and(ThreadActivity::is_idle) && seen == last.seen {
            self.0 = None;
            return true;
        }
        // From this look on, so that a guard that was stopped itself does not find the time to be over already.
        last.look_at = now + Millis(last.within.0 / 2);
        last.seen = seen;
        false
    }
}

impl ThreadActivity {
    /// What there is to see now; `None` if the kernel does not show it.
    fn read(process: Pid, thread: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?)
    }

    /// Parses a thread's line. The second field, its name, may hold spaces and brackets.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.get(line.rfind(')')? + 1..)?.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut times = fields.skip(10).map(|field| field.parse::<u64>().ok());
        Some(Self { state, used: times.next()?? + times.next()?? })
    }

    /// Whether it waits for something other than a disk, or is stopped.
    fn is_idle(&self) -> bool {
        matches!(self.state, 'S' | 'T')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_thread() -> (Pid, i32) {
        (rustix::process::getpid(), rustix::thread::gettid().as_raw_nonzero().get())
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name() {
        let line = "7 (a b) (c) S 1 7 7 0 -1 4194304 101 0 0 0 31 11 0 0 20 0 1 0 5 1 1";
        assert_eq!(ThreadActivity::parse(line), Some(ThreadActivity { state: 'S', used: 42 }));
        assert_eq!(ThreadActivity::parse("7 (a"), None);
        assert_eq!(ThreadActivity::parse("7 (a) S 1"), None);
    }

    #[test]
    fn only_a_thread_that_waits_or_is_stopped_is_idle() {
        let idle: String =
            "RSDTtZX".chars().filter(|state| ThreadActivity { state: *state, used: 0 }.is_idle()).collect();
        assert_eq!(idle, "ST");
    }

    #[test]
    fn a_thread_that_computes_does_not_hang() {
        let (process, thread) = own_thread();
        let mut watchdog = Watchdog::default();
        watchdog.heartbeat(thread, Some(Millis(100)), Mono(0));
        assert_eq!(watchdog.next(), Some(Mono(100)));
        for now in [99, 100, 150, 200, 1_000] {
            // The reader of the file is the thread that is looked at, so it runs.
            assert!(!watchdog.is_hung(process, Mono(now)), "at {now}");
        }
    }

    #[test]
    fn a_thread_that_waits_hangs_unless_a_heartbeat_comes() {
        let (started_by, started) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            started_by.send(own_thread()).expect("it is awaited");
            assert!(released.recv().is_err(), "it waits until the sender is dropped");
        });
        let (process, thread) = started.recv().expect("it says so");
        while !ThreadActivity::read(process, thread).is_some_and(|seen| seen.is_idle()) {
            std::thread::yield_now();
        }
        let mut watchdog = Watchdog::default();
        assert!(!watchdog.is_hung(process, Mono(0)), "without a heartbeat nothing is expected");
        watchdog.heartbeat(thread, Some(Millis(100)), Mono(0));
        assert!(!watchdog.is_hung(process, Mono(100)), "it is looked at twice");
        assert_eq!(watchdog.next(), Some(Mono(150)));
        watchdog.heartbeat(thread, Some(Millis(100)), Mono(120));
        assert!(!watchdog.is_hung(process, Mono(150)) && !watchdog.is_hung(process, Mono(220)));
        watchdog.heartbeat(thread, None, Mono(230));
        assert!(!watchdog.is_hung(process, Mono(1_000)) && watchdog.next().is_none(), "no more were to come");
        watchdog.heartbeat(thread, Some(Millis(100)), Mono(1_000));
        // The guard was stopped until then.
        assert!(!watchdog.is_hung(process, Mono(9_000)) && !watchdog.is_hung(process, Mono(9_049)));
        assert!(watchdog.is_hung(process, Mono(9_050)));
        drop(release);
        waiting.join().expect("it ends");
    }
}
