//! The latest measurements of a time, of which percentiles are shown to people. Monitoring systems get histograms.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// How many measurements are kept.
const KEPT: usize = 1_000;

/// The latest measurements, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct RecentTimes(Mutex<VecDeque<u64>>);

/// What the latest measurements of a time are like; up to 1,000 are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimePercentiles {
    /// How many measurements there are.
    pub samples: u32,
    /// The median, in microseconds.
    pub p50_us: u64,
    /// The time that 99 of 100 do not exceed, in microseconds.
    pub p99_us: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
}

impl RecentTimes {
    /// Adds a measurement in microseconds; the oldest one makes room for it.
    pub(crate) fn observe(&self, micros: i64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(micros.max(0).cast_unsigned());
    }

    /// The percentiles; `None` before the first measurement.
    pub(crate) fn percentiles(&self) -> Option<TimePercentiles> {
        let mut times: Vec<u64> =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        times.sort_unstable();
        // The nearest rank: the least time that so many of a hundred do not exceed.
        let rank =
            |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(TimePercentiles {
            samples: u32::try_from(times.len()).unwrap_or(u32::MAX),
            p50_us: rank(50)?,
            p99_us: rank(99)?,
            max_us: rank(100)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_latest_measurements() {
        let times = RecentTimes::default();
        assert_eq!(times.percentiles(), None);
        times.observe(7);
        let one = TimePercentiles { samples: 1, p50_us: 7, p99_us: 7, max_us: 7 };
        assert_eq!(times.percentiles(), Some(one));
        // The first ones make room.
        (0..500).for_each(|_| times.observe(1_000_000));
        (1..=1_000).for_each(|n| times.observe(n));
        let all = TimePercentiles { samples: 1_000, p50_us: 500, p99_us: 990, max_us: 1_000 };
        assert_eq!(times.percentiles(), Some(all));
        times.observe(-5);
        assert_eq!(times.percentiles().map(|it| it.max_us), Some(1_000), "a step of the clock is no time");
    }
}
