//! Counts the items that this node's dataflows process, and reports the counts once per interval (S2-21).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::ids::JobName;
use evenkeel_core::input::{Answer, Command, Refusal};
use evenkeel_core::record::ProcessedItems;
use evenkeel_core::time::{Millis, Mono, Now, Wall};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock;
use crate::request::HandleRequest;

/// How many items of a job were processed since the last report.
#[derive(Debug, Default)]
pub(super) struct ItemCounter {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl ItemCounter {
    pub(super) fn add(&self, succeeded: bool) {
        let which = if succeeded { &self.succeeded } else { &self.failed };
        which.fetch_add(1, Ordering::Relaxed);
    }
}

/// A job whose items are counted.
struct CountedJob {
    counter: Arc<ItemCounter>,
    interval: Millis,
    from: Wall,
    due: Mono,
    /// Whether the last reported numbers were not zero, so that zeros still have to be reported.
    reported: bool,
}

/// The counters of all jobs.
#[derive(Default)]
pub(crate) struct ItemCounts {
    jobs: Mutex<BTreeMap<JobName, CountedJob>>,
    changed: Notify,
}

impl ItemCounts {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobName, CountedJob>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counter for a run of a job whose counts are reported every `interval` seconds.
    pub(super) fn of(&self, job: &JobName, interval: u64, now: Now) -> Arc<ItemCounter> {
        let interval = Millis::secs(i64::try_from(interval).unwrap_or(i64::MAX / 1000));
        let mut jobs = self.jobs();
        let counting = jobs.entry(job.clone()).or_insert_with(|| CountedJob {
            counter: Arc::default(),
            interval,
            from: now.wall,
            due: now.mono + interval,
            reported: false,
        });
        counting.interval = interval;
        counting.due = counting.due.min(now.mono + interval);
        self.changed.notify_one();
        counting.counter.clone()
    }

    /// When the next report is due.
    fn next(&self) -> Option<Mono> {
        self.jobs().values().map(|counting| counting.due).min()
    }

    /// Takes the counts whose intervals are over, and resets them. Reports an idle job with zeros once and forgets it.
    fn take(&self, now: Now) -> Vec<(JobName, ProcessedItems)> {
        let mut taken = Vec::new();
        self.jobs().retain(|job, counting| {
            if counting.due > now.mono {
                return true;
            }
            // No run has it, and none can get it while the lock is held.
            let idle = Arc::strong_count(&counting.counter) == 1;
            let count = ProcessedItems {
                from: counting.from,
                until: now.wall,
                succeeded: counting.counter.succeeded.swap(0, Ordering::Relaxed),
                failed: counting.counter.failed.swap(0, Ordering::Relaxed),
            };
            let any = count.succeeded > 0 || count.failed > 0;
            if any || counting.reported {
                taken.push((job.clone(), count));
            }
            (counting.from, counting.due) = (now.wall, now.mono + counting.interval);
            std::mem::replace(&mut counting.reported, any) || any || !idle
        });
        taken
    }

    /// Adds numbers that could not be reported to the following interval.
    fn put_back(&self, job: &JobName, count: ProcessedItems) {
        if let Some(counting) = self.jobs().get_mut(job) {
            counting.counter.succeeded.fetch_add(count.succeeded, Ordering::Relaxed);
            counting.counter.failed.fetch_add(count.failed, Ordering::Relaxed);
            counting.from = counting.from.min(count.from);
            counting.reported = true;
        }
    }

    /// Reports counts for as long as the node accepts requests, without keeping the node alive.
    pub(crate) async fn report(self: Arc<Self>, orders: mpsc::WeakSender<HandleRequest>) {
        loop {
            let now = clock::now();
            for (job, count) in self.take(now) {
                let (answer, answered) = oneshot::channel();
                let Some(orders) = orders.upgrade() else { return };
                let order = HandleRequest::Ask(Command::Count(job.clone(), count), answer);
                let sent = orders.send(order).await;
                drop(orders);
                let Ok(answer) = answered.await else { return };
                // A job that is gone has no numbers; every other refusal may be over at the next try.
                let gone = matches!(answer, Answer::Refused(Refusal::NotFound, _));
                if sent.is_ok() && answer != Answer::Done && !gone {
                    self.put_back(&job, count);
                }
            }
            let wait = self.next().map(|due| Duration::from_millis((due - now.mono).0.max(0).unsigned_abs()));
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep(wait) => {}
            }
        }
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Now {
        Now { mono: Mono(secs * 1000), wall: Wall(secs * 1000) }
    }

    fn taken(counts: &ItemCounts, secs: i64) -> Vec<(String, i64, u64, u64)> {
        let row = |(job, count): (JobName, ProcessedItems)| {
            (job.to_string(), count.from.0 / 1000, count.succeeded, count.failed)
        };
        counts.take(at(secs)).into_iter().map(row).collect()
    }

    /// proves: S2-21, S2-36, S2-37
    #[test]
    fn numbers_are_told_each_interval_and_begin_anew() {
        let counts = ItemCounts::default();
        let (j, k) = ("j".parse().unwrap(), "k".parse().unwrap());
        let (one, other) = (counts.of(&j, 300, at(0)), counts.of(&k, 60, at(0)));
        [true, true, false].into_iter().for_each(|succeeded| one.add(succeeded));
        other.add(true);
        assert_eq!(taken(&counts, 59), []);
        assert_eq!(taken(&counts, 60), [("k".into(), 0, 1, 0)]);
        assert_eq!(taken(&counts, 120), [("k".into(), 60, 0, 0)], "zeros are told once");
        assert_eq!(taken(&counts, 180), [], "and not again");
        other.add(false);
        assert_eq!(taken(&counts, 299), [("k".into(), 180, 0, 1)]);
        assert_eq!(taken(&counts, 300), [("j".into(), 0, 2, 1)]);
        one.add(true);
        assert_eq!(taken(&counts, 600).first(), Some(&("j".into(), 300, 1, 0)), "only the recent interval");
    }

    #[test]
    fn a_job_that_is_idle_is_forgotten_after_its_zeros_and_one_that_runs_is_not() {
        let counts = ItemCounts::default();
        let j = "j".parse().unwrap();
        let counter = counts.of(&j, 10, at(0));
        counter.add(true);
        drop(counter);
        assert_eq!(taken(&counts, 10).len(), 1);
        assert_eq!(taken(&counts, 20), [("j".into(), 10, 0, 0)]);
        taken(&counts, 30);
        assert_eq!(counts.next(), None);
        let _runs = counts.of(&j, 10, at(40));
        taken(&counts, 50);
        assert_eq!(counts.next(), Some(Mono(60_000)));
    }

    #[test]
    fn what_could_not_be_told_is_told_with_the_next_interval() {
        let counts = ItemCounts::default();
        let j = "j".parse().unwrap();
        let counter = counts.of(&j, 10, at(0));
        counter.add(false);
        let batch = counts.take(at(10));
        counter.add(true);
        counts.put_back(&batch[0].0, batch[0].1);
        assert_eq!(taken(&counts, 20), [("j".into(), 0, 1, 1)]);
        // A shorter interval counts from the run that has it.
        counts.of(&j, 1, at(21)).add(true);
        assert_eq!(taken(&counts, 22), [("j".into(), 20, 1, 0)]);
    }
}
