//! The one place of this crate where time is read. Engines take a [`Clock`], so that tests can control time.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::time::{Millis, Mono, Now, Wall};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Where an engine reads time.
pub trait Clock: Send + Sync + 'static {
    /// Both clocks, read together.
    fn now(&self) -> Now;

    /// The id of the boot that [`Now::mono`] counts from; moments of different boots cannot be compared.
    ///
    /// # Errors
    /// The host does not provide it.
    fn boot_id(&self) -> io::Result<String>;
}

/// The clocks of this host: `CLOCK_BOOTTIME`, which counts suspend and never steps, and the calendar.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Now {
        Now {
            mono: Mono(millis(clock_gettime(ClockId::Boottime))),
            wall: Wall(millis(clock_gettime(ClockId::Realtime))),
        }
    }

    fn boot_id(&self) -> io::Result<String> {
        Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().into())
    }
}

fn millis(time: Timespec) -> i64 {
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Measures how long something takes; for benchmarks.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Timespec);

impl Stopwatch {
    /// Starts the stopwatch.
    #[must_use]
    pub fn start() -> Self {
        Self(clock_gettime(ClockId::Monotonic))
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        (clock_gettime(ClockId::Monotonic) - self.0).try_into().unwrap_or_default()
    }
}

/// A clock that a test moves.
#[derive(Debug)]
pub struct ManualClock(Mutex<(Now, u32)>);

impl Default for ManualClock {
    fn default() -> Self {
        let start = Now { mono: Mono(1_000_000), wall: Wall(1_763_749_200_000) };
        Self(Mutex::new((start, 1)))
    }
}

impl ManualClock {
    /// Lets time pass on both clocks.
    pub fn advance(&self, span: Millis) {
        let mut state = self.state();
        state.0.mono = state.0.mono + span;
        state.0.wall = state.0.wall + span;
    }

    /// Simulates a reboot of the host: another boot id, and a clock that begins low.
    pub fn reboot(&self) {
        let mut state = self.state();
        state.0.mono = Mono(1_000);
        state.1 += 1;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, (Now, u32)> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        self.state().0
    }

    fn boot_id(&self) -> io::Result<String> {
        Ok(format!("boot-{}", self.state().1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_both_clocks_and_a_boot() {
        let (first, second) = (HostClock.now(), HostClock.now());
        assert!(first.mono <= second.mono && first.mono > Mono(0));
        assert!(first.wall > Wall(1_700_000_000_000));
        assert_eq!(HostClock.boot_id().unwrap(), HostClock.boot_id().unwrap());
        assert!(HostClock.boot_id().unwrap().len() > 7);
    }
}
