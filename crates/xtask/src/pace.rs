//! How slow this machine is just now, against an ordinary one. Machines that build are shared, and differ by half: how long a
//! part took says something only beside how long the same work took at the same time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the work takes, optimised as this package is, on an ordinary machine: one that plays the 2,000 seeds of CI in
/// five minutes.
const ORDINARY: Duration = Duration::from_micros(9_350);
/// How much a limit is stretched at most, so that all of them together stay below what CI gives.
const SLOWEST: f64 = 1.75;
/// As many as the cores that CI has.
const THREADS: usize = 2;
/// So many that they do not leave a core's own memory: what is beyond is shared with strangers, and tells more of them.
const KEYS: u64 = 60_000;
const READINGS: usize = 15;

/// How many times as long as on an ordinary machine things take now, from 1 to [`SLOWEST`]. Takes about a second.
#[must_use]
pub fn slowness() -> f64 {
    let mut took = [(); READINGS].map(|()| time(work));
    took.sort_unstable();
    relative(took[READINGS / 2])
}

fn relative(took: Duration) -> f64 {
    (took.as_secs_f64() / ORDINARY.as_secs_f64()).clamp(1.0, SLOWEST)
}

#[expect(clippy::disallowed_methods, reason = "how fast a machine is only a clock can tell")]
fn time(work: impl Fn() -> u64 + Sync) -> Duration {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| std::hint::black_box(work()));
        }
    });
    began.elapsed()
}

/// Trees in memory, as compilers and simulators have them.
fn work() -> u64 {
    let mut tree = BTreeMap::new();
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    for nth in 0..KEYS {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        tree.insert(number, nth);
    }
    tree.into_iter().fold(0, |sum, (key, nth)| (sum ^ key).rotate_left(5).wrapping_add(nth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_machine_is_ordinary_and_a_very_slow_one_is_not_waited_for() {
        assert!((relative(ORDINARY / 2) - 1.0).abs() < f64::EPSILON);
        assert!((relative(ORDINARY * 3 / 2) - 1.5).abs() < 0.01);
        assert!((relative(ORDINARY * 9) - SLOWEST).abs() < f64::EPSILON);
    }

    #[test]
    fn the_work_is_the_same_each_time() {
        assert_eq!(work(), work());
    }
}
