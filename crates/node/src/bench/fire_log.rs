//! Records each start of a function, and says of the fires how late they were, and which are missing or came twice.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::time::{Millis, Wall};
use tokio::time::sleep;

use super::jobs::{FUNCTION, job_number};
use crate::{Functions, RunContext, clock};

/// One start. A job's number and a due moment are one fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FireStart {
    due: i64,
    job: u32,
    /// In microseconds.
    late: i64,
}

/// The starts of a function, recorded where it is called.
#[derive(Default)]
pub struct FireLog {
    is_recording: AtomicBool,
    recorded: AtomicU64,
    starts: Mutex<Vec<FireStart>>,
}

/// What the starts of some fires show.
#[derive(Clone, Debug, PartialEq)]
pub struct FireTally {
    /// How many fires started.
    pub fires: u64,
    /// How many started more than once.
    pub doubled: u64,
    /// How late they started, in milliseconds.
    pub lateness: Percentiles,
}

/// The percentiles of some measured values, by nearest rank. All are 0 where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    /// How many values there are.
    pub count: u64,
    /// Half of them are no larger.
    pub p50: f64,
    /// Nine of ten are no larger.
    pub p90: f64,
    /// 99 of a hundred are no larger.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Percentiles {
    /// The percentiles of these values, in their unit.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let at = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            values.get(rank - 1).copied().unwrap_or_default()
        };
        Self { count: count as u64, p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

impl FireLog {
    /// The function that records its starts.
    #[must_use]
    pub fn functions(self: &Arc<Self>) -> Functions {
        let log = self.clone();
        Functions::new().add(FUNCTION, move |run: RunContext| {
            if log.is_recording.load(Ordering::Relaxed) {
                let now = clock::wall_micros();
                let due = run.run().due.0;
                let job = job_number(run.run().id.job.as_str()).unwrap_or(u32::MAX);
                log.starts().push(FireStart { due, job, late: now - due * 1_000 });
                log.recorded.fetch_add(1, Ordering::Relaxed);
            }
            async {}
        })
    }

    /// Forgets what was recorded, and records from now on. There is room for so many starts.
    pub fn record(&self, room: usize) {
        let mut starts = self.starts();
        starts.clear();
        starts.reserve(room);
        self.recorded.store(0, Ordering::Relaxed);
        self.is_recording.store(true, Ordering::Relaxed);
    }

    /// How many starts were recorded.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// How many recorded starts are of fires that were due in this span, its end excluded.
    #[must_use]
    pub fn started_of(&self, from: Wall, until: Wall) -> u64 {
        self.starts().iter().filter(|start| (from.0..until.0).contains(&start.due)).count() as u64
    }

    /// The fires that were due in this span, its end excluded.
    #[must_use]
    pub fn due_between(&self, from: Wall, until: Wall) -> FireTally {
        self.tally(|start| (from.0..until.0).contains(&start.due))
    }

    /// The fires that started in this span, its end excluded.
    #[must_use]
    pub fn started_between(&self, from: Wall, until: Wall) -> FireTally {
        self.tally(|start| (from.0 * 1_000..until.0 * 1_000).contains(&(start.due * 1_000 + start.late)))
    }

    /// What starts within these seconds, which begin in the middle between two whole ones.
    pub async fn watch(&self, seconds: u32) -> FireTally {
        self.record(0);
        let from = Wall((clock::now().wall.0 / 1_000 + 2) * 1_000 - 500);
        let end = from + Millis::secs(i64::from(seconds));
        sleep(until(end)).await;
        self.started_between(from, end)
    }

    fn tally(&self, is_counted: impl Fn(&FireStart) -> bool) -> FireTally {
        let mut starts: Vec<_> = self.starts().iter().copied().filter(is_counted).collect();
        starts.sort_unstable();
        let mut fires: Vec<(i64, u32, u32)> = Vec::with_capacity(starts.len());
        for start in &starts {
            match fires.last_mut() {
                Some((due, job, times)) if (*due, *job) == (start.due, start.job) => *times += 1,
                _ => fires.push((start.due, start.job, 1)),
            }
        }
        let doubled = fires.iter().filter(|(.., times)| *times > 1).count();
        let lateness = Percentiles::of(starts.iter().map(|start| start.late as f64 / 1e3).collect());
        FireTally { fires: fires.len() as u64, doubled: doubled as u64, lateness }
    }

    fn starts(&self) -> MutexGuard<'_, Vec<FireStart>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time until a moment; none if it is over.
#[must_use]
pub fn until(moment: Wall) -> Duration {
    Duration::from_millis(u64::try_from((moment - clock::now().wall).0).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let all = Percentiles::of((1..=200).rev().map(f64::from).collect());
        assert_eq!(all, Percentiles { count: 200, p50: 100.0, p90: 180.0, p99: 198.0, max: 200.0 });
        let one = Percentiles::of(vec![7.0]);
        assert_eq!((one.p50, one.p99, one.max), (7.0, 7.0, 7.0));
        assert_eq!(Percentiles::of(vec![]), Percentiles::default());
    }

    #[test]
    fn a_fire_that_starts_twice_is_one_fire_that_was_doubled() {
        let log = FireLog::default();
        let start = |due, job, late| FireStart { due, job, late };
        log.starts().extend([
            start(1_000, 1, 500),
            start(1_000, 2, 1_500),
            start(2_000, 1, 500),
            start(2_000, 1, 900_000),
            start(3_000, 1, 0),
        ]);
        let tally = log.due_between(Wall(1_000), Wall(3_000));
        assert_eq!((tally.fires, tally.doubled, tally.lateness.count), (3, 1, 4));
        assert_eq!((tally.lateness.p50, tally.lateness.max), (0.5, 900.0));
        assert_eq!(log.started_of(Wall(1_000), Wall(3_000)), 4);
        let tally = log.started_between(Wall(2_500), Wall(3_001));
        assert_eq!((tally.fires, tally.doubled), (2, 0), "one of them started late");
    }
}
