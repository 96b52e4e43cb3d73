//! Jobs by the thousand, and how late each of their fires starts.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::core::job::Spec;
use evenkeel::core::keys;
use evenkeel::core::record::{Assignment, SpecRecord, encode};
use evenkeel::core::registry::{Guard, Txn, TxnOutcome, Write};
use evenkeel::core::time::Wall;
use evenkeel::{Functions, Handle, Job, JobFile, RunContext, Work, clock};
use tokio::time::sleep;

/// What the function `note` saw.
#[derive(Default)]
pub(crate) struct FireLog {
    pub(crate) fires: AtomicU64,
    /// Lateness in ms of each fire, while `from` has come.
    pub(crate) late: Mutex<Vec<i64>>,
    pub(crate) from: AtomicI64,
    pub(crate) until: AtomicI64,
}

impl FireLog {
    pub(crate) fn functions(self: &Arc<Self>) -> Functions {
        let seen = self.clone();
        Functions::new().add("note", move |run: RunContext| {
            let due = run.run().due.0;
            let now = clock::now().wall.0;
            if (seen.from.load(Ordering::Relaxed)..seen.until.load(Ordering::Relaxed)).contains(&now) {
                seen.fires.fetch_add(1, Ordering::Relaxed);
                seen.late.lock().unwrap().push(now - due);
            }
            async {}
        })
    }

    /// Counts what happens in these seconds of the wall clock, from the next whole second on.
    pub(crate) async fn watch(&self, seconds: i64) {
        let from = (clock::now().wall.0 / 1000 + 2) * 1000 - 500;
        self.until.store(from + seconds * 1000, Ordering::Relaxed);
        self.from.store(from, Ordering::Relaxed);
        sleep(until(Wall(from + seconds * 1000 + 200))).await;
    }

    /// The p50, p99 and most of the lateness, in ms.
    pub(crate) fn lateness(&self) -> [i64; 3] {
        let mut late = self.late.lock().unwrap();
        late.sort_unstable();
        let at = |share: f64| late.get(((late.len() as f64 * share) as usize).min(late.len().max(1) - 1));
        [at(0.5), at(0.99), late.last()].map(|found| found.copied().unwrap_or(-1))
    }
}

pub(crate) fn until(moment: Wall) -> Duration {
    Duration::from_millis(u64::try_from((moment - clock::now().wall).0).unwrap_or(0))
}

/// Declares `n` jobs behind the node's back, as if they had been there for long.
pub(crate) async fn fill(registry: &str, n: usize, schedule: &str) {
    fill_with(registry, n, schedule, |_| {}).await;
}

/// The same with something changed in each job.
pub(crate) async fn fill_with(registry: &str, n: usize, schedule: &str, change: impl Fn(&mut JobFile)) {
    let registry = evenkeel_registry::open(registry).await.unwrap();
    let since = clock::now().wall;
    for first in (0..n).step_by(2_000) {
        let txns = (first..n.min(first + 2_000)).map(|i| {
            let mut job =
                JobFile::new(format!("job-{i:07}").parse().unwrap(), schedule, Work::Function("note".into()));
            change(&mut job);
            let (spec, place) = (keys::spec(&job.name), keys::assignment(&job.name));
            let record = SpecRecord::Live(Box::new(Spec::new(Job::parse(job).unwrap(), 1, since)));
            let put = |key, value| Write::Put { key, value, owner: None };
            Txn {
                guards: vec![Guard::Absent(spec.clone())],
                writes: vec![
                    put(spec, encode(&record)),
                    put(place, encode(&Assignment { epoch: 1, version: 1, ..Assignment::default() })),
                ],
            }
        });
        let outcomes = registry.commit(txns.collect()).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, TxnOutcome::Applied(_))));
    }
}

pub(crate) async fn until_held(node: &Handle, n: usize) {
    let held = || node.with_node(|node| node.member().map_or(0, |member| node.view().count(&member)));
    while held() < n {
        sleep(Duration::from_millis(50)).await;
    }
}
