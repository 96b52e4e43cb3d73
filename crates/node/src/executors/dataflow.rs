//! Dataflow functions: they fetch data and process it, item by item, several at once.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::thread;

use evenkeel_core::effect::{Run, StopReason};
use evenkeel_core::job::Dataflow;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use super::counts::ItemCounter;
use super::function::{FunctionOutput, FunctionResult, RunContext};

/// After this many rounds in a row without a success a stream is given up: the same items come again and again.
const HOPELESS: u32 = 100;

/// The return value of a fetch: items, or a `Result` whose error says why there are none.
pub trait FetchOutput {
    /// One piece of data.
    type Item;

    /// The items; none when there is nothing more to do.
    ///
    /// # Errors
    /// Why the items could not be fetched, in words.
    fn items(self) -> Result<Vec<Self::Item>, String>;
}

impl<T> FetchOutput for Vec<T> {
    type Item = T;
    fn items(self) -> Result<Vec<T>, String> {
        Ok(self)
    }
}

impl<T, E: fmt::Display> FetchOutput for Result<Vec<T>, E> {
    type Item = T;
    fn items(self) -> Result<Vec<T>, String> {
        self.map_err(|error| error.to_string())
    }
}

/// Checks whether a stream should end before its next fetch, and why.
pub(crate) type StreamEndCheck = Arc<dyn Fn(&Run) -> Option<&'static str> + Send + Sync>;

/// The context of a dataflow run.
pub(super) struct DataflowTask {
    pub(super) settings: Dataflow,
    pub(super) counter: Arc<ItemCounter>,
    pub(super) ends: StreamEndCheck,
    /// A clone is held by every task of the run: the run is over only when the last one is dropped.
    pub(super) alive: mpsc::Sender<()>,
}

/// The counts of a run's items by outcome.
#[derive(Default)]
struct ItemTally {
    succeeded: u64,
    failed: u64,
    /// Why the latest failed item failed.
    last: String,
    /// How many rounds in a row had failures and no success.
    hopeless: u32,
}

impl ItemTally {
    fn summary(&self) -> String {
        match self.failed {
            0 => format!("{} items processed", self.succeeded),
            n => format!("{} items processed, {n} failed, the last one with: {}", self.succeeded, self.last),
        }
    }
}

impl DataflowTask {
    fn threads(&self) -> usize {
        let twice = || thread::available_parallelism().map_or(2, |n| n.get().saturating_mul(2));
        self.settings.threads.map_or_else(twice, |n| usize::try_from(n).unwrap_or(usize::MAX)).max(1)
    }

    /// Fetches and processes: once, or until there is nothing more (S2-24, S2-61).
    pub(super) async fn run<F, G, P, B>(
        self,
        context: RunContext,
        fetch: Arc<F>,
        process: Arc<P>,
    ) -> FunctionResult
    where
        F: Fn(RunContext, usize) -> G + Send + Sync + 'static,
        G: Future + Send + 'static,
        G::Output: FetchOutput,
        <G::Output as FetchOutput>::Item: Send + 'static,
        P: Fn(RunContext, <G::Output as FetchOutput>::Item) -> B + Send + Sync + 'static,
        B: Future + Send + 'static,
        B::Output: FunctionOutput,
    {
        let mut tally = ItemTally::default();
        let many = usize::try_from(self.settings.fetch).unwrap_or(usize::MAX);
        loop {
            if let Some(reason) = context.stop_reason() {
                return FunctionResult::Stopped(reason, tally.summary());
            }
            let items = match fetch(context.clone(), many).await.items() {
                Ok(items) => items,
                Err(why) => {
                    return FunctionResult::Failed(format!("fetch failed: {why}; {}", tally.summary()));
                }
            };
            if items.is_empty() {
                return FunctionResult::Succeeded(tally.summary());
            }
            if let Some(reason) = self.round(&context, &process, items, &mut tally).await {
                return FunctionResult::Stopped(reason, tally.summary());
            }
            if !self.settings.streaming {
                return FunctionResult::Succeeded(tally.summary());
            }
            if tally.hopeless == HOPELESS {
                let words = tally.summary();
                return FunctionResult::Failed(format!(
                    "given up after {HOPELESS} rounds without a success: {words}"
                ));
            }
            if let Some(why) = (self.ends)(context.run()) {
                return FunctionResult::Succeeded(format!("{}; it ended because {why}", tally.summary()));
            }
        }
    }

    /// Processes the items of one fetch and returns when all tasks have ended; says why if some items were left out.
    async fn round<T, P, B>(
        &self,
        context: &RunContext,
        process: &Arc<P>,
        items: Vec<T>,
        tally: &mut ItemTally,
    ) -> Option<StopReason>
    where
        T: Send + 'static,
        P: Fn(RunContext, T) -> B + Send + Sync + 'static,
        B: Future + Send + 'static,
        B::Output: FunctionOutput,
    {
        let (threads, before, mut stopped) = (self.threads(), tally.succeeded, None);
        let mut under_way: JoinSet<Option<String>> = JoinSet::new();
        for item in items {
            if under_way.len() >= threads
                && let Some(end) = under_way.join_next().await
            {
                self.count(end, tally);
            }
            // Checked last before each item: items that were not begun are left to the next node that fetches (law 4).
            stopped = context.stop_reason();
            if stopped.is_some() {
                break;
            }
            let (context, process, alive) = (context.clone(), process.clone(), self.alive.clone());
            under_way.spawn(async move {
                let failure = process(context, item).await.failure();
                drop(alive);
                failure
            });
        }
        while let Some(end) = under_way.join_next().await {
            self.count(end, tally);
        }
        tally.hopeless = if tally.succeeded > before { 0 } else { tally.hopeless + 1 };
        stopped
    }

    fn count(&self, end: Result<Option<String>, JoinError>, tally: &mut ItemTally) {
        let failure = match end {
            Ok(failure) => failure,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Some(format!("it panicked{}", panic_message(&*panic))),
                // The runtime is shut down: the outcome of the item is unknown.
                Err(_) => return,
            },
        };
        self.counter.add(failure.is_none());
        match failure {
            None => tally.succeeded += 1,
            Some(why) => (tally.failed, tally.last) = (tally.failed + 1, why),
        }
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(String::new, |text| format!(": {text}"))
}
