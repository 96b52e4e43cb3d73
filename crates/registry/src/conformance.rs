//! The suite that every engine passes: one `#[test]` a case, about twenty lines an engine.
//!
//! ```text
//! conformance!(|clock| MyEngine::new(clock));
//! conformance!(server: |_| ServerEngine::find("ENGINE", REAL));
//! ```
//! With a [`ManualClock`] no case sleeps through a lease, and every bound is met to the millisecond. A server has its
//! own time, so there a case waits until a lease is seen to be over, and never fails because the machine is slow: if a
//! lease ended rightly while the machine stalled, the case starts again with a longer term, and so does one that fails
//! after the engine timed out a request. How soon a lease must be over is measured by a case of its own, which only the
//! soak runs. Cases compare revisions only with each other.

#[doc(hidden)]
pub mod differential;
#[doc(hidden)]
pub mod feeds;
#[doc(hidden)]
pub mod guards;
#[doc(hidden)]
pub mod leases;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod linear;
mod linearizability;
mod list;
#[doc(hidden)]
pub mod races;
mod random;
#[doc(hidden)]
pub mod reads;
mod server;
mod stage;
#[doc(hidden)]
pub mod temporary;
mod timeouts;
mod timing;
#[doc(hidden)]
pub mod transactions;
#[doc(hidden)]
pub mod writes;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::clock::ManualClock;
use random::Xorshift;
pub use stage::{Engine, Stage};
use stage::{
    TTL, WAIT, absent, at, born, changes_until, delete, key, next_batch, next_changes, present, put, put_by,
    txn,
};
use timeouts::{TimeoutLog, TimeoutMonitor};
use timing::{ATTEMPTS, StageTime};

pub use server::{ServerEngine, server_url, with_fresh_namespace};
pub use timing::{CaseResult, MachineStall, ServerTiming, TimeSource, TimedLease};

/// Runs one case. Called by [`conformance!`](crate::conformance!).
///
/// # Panics
/// When the engine fails the case.
pub fn run<E: Engine, F: Future<Output: CaseResult>>(
    engine: impl Fn(Arc<ManualClock>) -> E,
    case: impl Fn(Stage) -> F,
) {
    for attempt in 0..ATTEMPTS {
        let notes = TimeoutLog::start();
        let played = AssertUnwindSafe(|| run_attempt(attempt, &notes, &engine, &case));
        let played = catch_unwind(played);
        assert!(!notes.too_soon(), "the engine is unavailable, and it cannot have waited for long");
        match played {
            Ok(stalled) if !stalled => return,
            Err(why) if !notes.gave_up() => resume_unwind(why),
            _ => eprintln!("this machine stood still for too long: the case begins again"),
        }
    }
    panic!(
        "this machine stood still for too long in each of {ATTEMPTS} attempts, the last one with a term 16 times as long"
    );
}

/// Runs a case for the `nth` time, counted from 0. Returns whether it has to begin again.
fn run_attempt<E: Engine, F: Future<Output: CaseResult>>(
    nth: u32,
    notes: &TimeoutLog,
    engine: impl Fn(Arc<ManualClock>) -> E,
    case: impl Fn(Stage) -> F,
) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a test may start threads").block_on(async {
        let clock = Arc::new(ManualClock::default());
        let engine = Box::new(TimeoutMonitor { inner: engine(clock.clone()), log: notes.clone() });
        if !engine.is_available() {
            return false;
        }
        let time = match engine.time_source() {
            TimeSource::Manual => StageTime::Manual(clock),
            TimeSource::Server(real) => StageTime::Server(real.for_attempt(nth)),
        };
        let registry = engine.connect().await.expect("the engine connects");
        let longest = WAIT * 4 * linear::time_factor();
        let verdict = tokio::time::timeout(longest, case(Stage { registry, time, engine })).await;
        verdict.expect("the case ends").is_stalled()
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{Engine, MachineStall, Stage, run};
    use crate::memory::Memory;
    use crate::{BoxFuture, Registry, RegistryError};

    struct InProcessEngine(Arc<Memory>);

    impl Engine for InProcessEngine {
        fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
            Box::pin(async { Ok(self.0.clone() as Arc<dyn Registry>) })
        }

        fn url(&self) -> String {
            "memory:".into()
        }
    }

    #[test]
    fn a_case_begins_again_where_the_machine_stood_still_and_not_where_it_fails() {
        let memory = |clock: Arc<crate::clock::ManualClock>| InProcessEngine(Arc::new(Memory::new(clock)));
        let attempts = AtomicU32::new(0);
        let begun = || attempts.fetch_add(1, Ordering::Relaxed);
        run(memory, async |_: Stage| if begun() < 2 { Err(MachineStall) } else { Ok(()) });
        assert_eq!(attempts.swap(0, Ordering::Relaxed), 3);
        let fails = || run(memory, async |_: Stage| assert_eq!(begun(), 7, "it fails"));
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
        assert_eq!(attempts.swap(0, Ordering::Relaxed), 1);
        let stalls = || run(memory, async |_: Stage| if begun() < 100 { Err(MachineStall) } else { Ok(()) });
        assert!(catch_unwind(AssertUnwindSafe(stalls)).is_err());
        assert_eq!(attempts.load(Ordering::Relaxed), super::ATTEMPTS);
    }

    /// A case that is not on the list proves nothing.
    #[test]
    fn every_case_is_on_the_list() {
        let list = include_str!("conformance/list.rs");
        for subject in [
            include_str!("conformance/differential.rs"),
            include_str!("conformance/feeds.rs"),
            include_str!("conformance/guards.rs"),
            include_str!("conformance/leases.rs"),
            include_str!("conformance/limits.rs"),
            include_str!("conformance/linear.rs"),
            include_str!("conformance/races.rs"),
            include_str!("conformance/reads.rs"),
            include_str!("conformance/temporary.rs"),
            include_str!("conformance/transactions.rs"),
            include_str!("conformance/writes.rs"),
        ] {
            let cases =
                subject.split("\npub async fn ").skip(1).filter_map(|text| text.split_once("(stage: Stage)"));
            for (case, _) in cases.filter(|(case, _)| !case.contains('(')) {
                let is_listed = list.lines().any(|line| {
                    let entry = line.strip_prefix("                ").and_then(|line| line.strip_suffix(','));
                    entry.is_some_and(|entry| entry.split(": ").next() == Some(case))
                });
                assert!(is_listed, "{case} is not in conformance!");
            }
        }
    }

    /// The page about engines has the number of cases of each subject, and how many of these only the soak runs.
    #[test]
    fn the_cases_are_counted_in_the_docs() {
        let (list, page) = (include_str!("conformance/list.rs"), include_str!("../../../docs/engines.md"));
        let (mut all, mut in_gate) = (0, 0);
        for block in list.split("            ]\n").filter(|block| block.contains(": [\n")) {
            let (head, cases) = block.rsplit_once(": [\n").unwrap();
            let (subject, count) = (head.rsplit(' ').next().unwrap(), cases.lines().count());
            let marked =
                |mark: &str| cases.lines().filter(|line| line.ends_with(&format!(": {mark},"))).count();
            let soak = marked("waits") + marked("server_only");
            let row = format!("\n| {subject} | {count} | {soak} | ");
            assert!(page.contains(&row), "{subject} has {count} cases, {soak} of them in the soak");
            let marks: usize =
                ["waits_in_gate", "waits", "clock_only", "server_only"].into_iter().map(marked).sum();
            assert_eq!(marks, cases.matches(": ").count(), "{subject} has a mark of no known kind");
            all += count;
            in_gate += marked("waits_in_gate");
        }
        assert!(all >= 120, "{all} cases");
        assert_eq!(in_gate, 6, "the gate waits for time on a server in so many cases");
    }
}
