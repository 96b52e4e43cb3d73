//! The one file that reads time.

use std::sync::Arc;

use evenkeel_core::time::{Mono, Now, Wall};
use evenkeel_registry::{Registry, RegistryError};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Both clocks of this host, read together.
///
/// The monotonic one is `CLOCK_BOOTTIME`: it counts suspend, never steps, and is one for all processes of the host, so
/// a deadline may be sent to another process as a number. (`std::time::Instant` stops during suspend.)
#[must_use]
pub fn now() -> Now {
    Now {
        mono: Mono(millis(clock_gettime(ClockId::Boottime))),
        wall: Wall(millis(clock_gettime(ClockId::Realtime))),
    }
}

/// This host's time of day in microseconds, for measurements: nodes know milliseconds.
#[must_use]
pub fn wall_micros() -> i64 {
    micros(clock_gettime(ClockId::Realtime))
}

fn micros(t: Timespec) -> i64 {
    t.tv_sec.saturating_mul(1_000_000).saturating_add(t.tv_nsec / 1_000)
}

/// The monotonic clock in microseconds, for measurements.
pub(crate) fn mono_micros() -> i64 {
    micros(clock_gettime(ClockId::Boottime))
}

/// The time of day by the registry engine's clock, which all nodes are held to; this host's clock may be off.
pub(crate) async fn of(registry: &Arc<dyn Registry>) -> Result<Wall, RegistryError> {
    let granted = registry.open(registry.facts().ttl_min).await?;
    // A lease that is not closed ends by itself, and nothing depends on it.
    let _ = registry.close(granted.lease).await;
    Ok(granted.clock.unwrap_or_else(|| now().wall))
}

/// A moment of the runtime's own clock, this long from now: for waits within this process, on which no other process
/// and no lease depends.
#[must_use]
pub(crate) fn deadline_after(span: std::time::Duration) -> tokio::time::Instant {
    tokio::time::Instant::now() + span
}

fn millis(t: Timespec) -> i64 {
    t.tv_sec.saturating_mul(1000).saturating_add(t.tv_nsec / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_of_this_century_and_boot_time_grows() {
        let first = now();
        assert!(first.wall > Wall(1_700_000_000_000));
        assert!(first.mono.0 > 0 && now().mono >= first.mono);
    }
}
