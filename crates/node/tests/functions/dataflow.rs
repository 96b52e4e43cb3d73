//! Functions that fetch data and process it: how much at once, for how long, what is counted, and how it ends.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;

use evenkeel::core::effect::StopReason;
use evenkeel::core::job::{Dataflow, Placement};
use evenkeel::core::record::ProcessedItems;
use evenkeel::core::time::Wall;
use evenkeel::{Answer, AttemptState, Command, Functions, Handle, JobFile, RunContext, RunRecord, clock};
use tokio::sync::{Barrier, mpsc};

use super::*;

/// A queue of numbers, and how many each fetch asked for.
#[derive(Default)]
struct NumberSource {
    numbers: Mutex<VecDeque<u32>>,
    requested: Mutex<Vec<usize>>,
}

impl NumberSource {
    fn of(numbers: u32) -> Arc<Self> {
        Arc::new(Self { numbers: Mutex::new((0..numbers).collect()), requested: Mutex::default() })
    }

    fn fetch(&self, many: usize) -> Vec<u32> {
        self.requested.lock().unwrap().push(many);
        let mut numbers = self.numbers.lock().unwrap();
        let many = many.min(numbers.len());
        numbers.drain(..many).collect()
    }

    fn requested(&self) -> Vec<usize> {
        self.requested.lock().unwrap().clone()
    }
}

fn flow(name: &str, dataflow: Dataflow) -> JobFile {
    let mut job = job(name, "", name);
    job.dataflow = Some(dataflow);
    job
}

fn streaming(fetch: u32, threads: u32) -> Dataflow {
    Dataflow { interval: 300, threads: Some(threads), fetch, streaming: true }
}

/// A node with one dataflow over a source.
async fn flowing<P, B>(source: &Arc<NumberSource>, dataflow: Dataflow, process: P) -> (Handle, TempDir)
where
    P: Fn(RunContext, u32) -> B + Send + Sync + 'static,
    B: Future<Output = Result<(), String>> + Send + 'static,
{
    let source = source.clone();
    let fetch = move |_: RunContext, many| {
        let source = source.clone();
        async move { source.fetch(many) }
    };
    let (node, data) = node(Functions::new().add_dataflow("f", fetch, process)).await;
    node.apply(vec![flow("f", dataflow)]).await.unwrap();
    (node, data)
}

fn end(record: &RunRecord) -> (AttemptState, &str) {
    (record.state, record.reason.as_str())
}

/// proves: S2-22, S2-23, S2-24
#[tokio::test]
async fn a_stream_goes_on_until_a_fetch_is_empty_with_as_many_at_once_as_is_set() {
    let (source, together) = (NumberSource::of(9), Arc::new(Barrier::new(3)));
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (counted, seen) = (now.clone(), most.clone());
    let (node, _data) = flowing(&source, streaming(6, 3), move |_, _| {
        let (now, most, together) = (counted.clone(), seen.clone(), together.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // None gets past here unless three are here.
            together.wait().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    })
    .await;
    let record = run(&node, "f", "r1").await;
    assert_eq!(end(&record), (AttemptState::Succeeded, "9 items processed"));
    assert_eq!(source.requested(), [6, 6, 6], "six, three, none");
    assert_eq!((most.load(Ordering::SeqCst), now.load(Ordering::SeqCst)), (3, 0));
    let record = run(&node, "f", "r2").await;
    assert_eq!(end(&record), (AttemptState::Succeeded, "0 items processed"));
}

/// proves: S2-24
#[tokio::test]
async fn what_does_not_stream_ends_after_one_round() {
    let source = NumberSource::of(5);
    let once = Dataflow { streaming: false, ..streaming(3, 2) };
    let (node, _data) = flowing(&source, once, |_, _| async { Ok(()) }).await;
    let record = run(&node, "f", "r1").await;
    assert_eq!((end(&record), source.requested()), ((AttemptState::Succeeded, "3 items processed"), vec![3]));
    let record = run(&node, "f", "r2").await;
    assert_eq!(
        (end(&record), source.requested()),
        ((AttemptState::Succeeded, "2 items processed"), vec![3, 3])
    );
}

/// proves: S2-21, S2-36, S2-37
#[tokio::test]
async fn items_that_fail_or_panic_are_counted_and_the_counts_are_told_and_begin_anew() {
    let source = NumberSource::of(6);
    let each_second = Dataflow { interval: 1, ..streaming(6, 1) };
    let (node, _data) = flowing(&source, each_second, |_, n| async move {
        assert_ne!(n, 3, "three");
        if n < 5 { Ok(()) } else { Err("five is odd".to_string()) }
    })
    .await;
    let mut last = Wall::MIN;
    // If the machine stalls, the counts of an interval can be replaced before the test reads them; then the run is repeated.
    for request in 1..20 {
        let record = run(&node, "f", &format!("r{request}")).await;
        let words = "4 items processed, 2 failed, the last one with: five is odd";
        assert_eq!(end(&record), (AttemptState::Succeeded, words));
        let (whole, until) = counted(&node, last, record.ended.unwrap()).await;
        if whole {
            return;
        }
        last = until;
        source.numbers.lock().unwrap().extend(0..6);
    }
    panic!("the counts of no run were seen whole");
}

/// Adds up the counts of the intervals from `last` on, until an interval that began after the run had ended; whether the sum is
/// all six items, and the end of that interval.
async fn counted(node: &Handle, mut last: Wall, ended: Wall) -> (bool, Wall) {
    let latest = || -> Option<ProcessedItems> {
        node.with_node(|node| node.view().counts(&"f".parse().unwrap()).next().map(|(_, count)| *count))
    };
    let mut changes = node.changes();
    let (mut succeeded, mut failed) = (0, 0);
    loop {
        if let Some(count) = latest().filter(|count| count.from >= last) {
            // A run may end in the very millisecond in which an interval begins.
            if count.from > ended {
                // The next interval has nothing, and says so.
                assert_eq!((count.succeeded, count.failed), (0, 0));
                let whole = (succeeded, failed) == (4, 2);
                assert!(!whole || count.from == last, "no interval is left out");
                return (whole, count.until);
            }
            last = count.until;
            (succeeded, failed) = (succeeded + count.succeeded, failed + count.failed);
        }
        within(changes.changed()).await.unwrap();
    }
}

#[tokio::test]
async fn a_fetch_that_fails_fails_the_run_and_so_does_a_stream_without_any_success() {
    let broken = |_: RunContext, _| async { Err::<Vec<u32>, _>("the database is away") };
    let endless = |_: RunContext, _| async { vec![7_u32] };
    let functions = Functions::new()
        .add_dataflow("broken", broken, |_, _| async {})
        .add_dataflow("hopeless", endless, |_, _| async { Err::<(), _>("not again") })
        .add("plain", |_| async {});
    let (node, _data) = node(functions).await;
    let jobs = ["broken", "hopeless", "plain"].map(|name| flow(name, streaming(1, 1)));
    node.apply(jobs.into()).await.unwrap();
    for (job, words) in [
        ("broken", "fetch failed: the database is away; 0 items processed"),
        (
            "hopeless",
            "given up after 100 rounds without a success: 0 items processed, 100 failed, the last one with: not again",
        ),
        (
            "plain",
            "the function \"plain\" fetches no data: add it with add_dataflow, or leave dataflow out of the job",
        ),
    ] {
        assert_eq!(end(&run(&node, job, "r1").await), (AttemptState::Failed, words));
    }
}

#[tokio::test]
async fn a_kill_ends_a_run_between_two_items() {
    let source = NumberSource::of(3);
    let (begun, mut heard) = mpsc::unbounded_channel();
    let (node, _data) = flowing(&source, streaming(3, 1), move |run: RunContext, n| {
        let begun = begun.clone();
        async move {
            begun.send(n).unwrap();
            assert_eq!(run.stopped().await, StopReason::Killed);
            Ok(())
        }
    })
    .await;
    let run = ask_to_run(&node, "f", "r1").await;
    assert_eq!(within(heard.recv()).await, Some(0));
    assert_eq!(within(node.ask(Command::Kill(run.clone()))).await, Answer::Done);
    let record = within(node.wait(&run)).await.unwrap();
    assert_eq!(end(&record), (AttemptState::Killed, "1 items processed"));
    assert_eq!(
        (heard.try_recv().ok(), source.requested()),
        (None, vec![3]),
        "no second item and no second fetch"
    );
}

/// A stream that never ends must not hold a drain up for ever.
#[tokio::test]
async fn a_drain_ends_a_stream_between_two_fetches() {
    let (begun, mut heard) = mpsc::unbounded_channel();
    let process = move |_, n: u32| {
        let begun = begun.clone();
        async move { begun.send(n).map_err(|_| "nobody listens") }
    };
    let functions = Functions::new().add_dataflow("f", |_, _| async { vec![1_u32] }, process);
    let (node, _data) = node(functions).await;
    node.apply(vec![flow("f", streaming(1, 1))]).await.unwrap();
    let run = ask_to_run(&node, "f", "r1").await;
    within(heard.recv()).await.unwrap();
    assert_eq!(within(node.ask(Command::Drain("a".parse().unwrap()))).await, Answer::Done);
    let record = within(node.wait(&run)).await.unwrap();
    assert_eq!(record.state, AttemptState::Succeeded);
    assert!(record.reason.ends_with("; it ended because the node is drained"), "{}", record.reason);
}

struct DropReporter(mpsc::UnboundedSender<u32>);

impl Drop for DropReporter {
    fn drop(&mut self) {
        let _ = self.0.send(0);
    }
}

/// proves: I15
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_not_over_while_an_item_of_it_blocks_a_thread() {
    let source = NumberSource::of(2);
    let (told, mut heard) = mpsc::unbounded_channel();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let (node, _data) = flowing(&source, streaming(2, 2), move |_, n| {
        let (told, blocked) = (told.clone(), blocked.clone());
        async move {
            told.send(n + 1).unwrap();
            if n == 0 {
                let _ = blocked.lock().unwrap().recv();
            } else {
                let _dropped = DropReporter(told);
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    })
    .await;
    let run = ask_to_run(&node, "f", "r1").await;
    let begun = BTreeSet::from([within(heard.recv()).await, within(heard.recv()).await]);
    assert_eq!(begun, BTreeSet::from([Some(1), Some(2)]));
    within(node.ask(Command::Kill(run.clone()))).await;
    assert_eq!(within(heard.recv()).await, Some(0), "the item that awaits is dropped");
    assert_eq!(within(node.run(&run)).await.unwrap()[0].state, AttemptState::Running);
    let released = clock::now().wall;
    release.send(()).unwrap();
    let record = within(node.wait(&run)).await.unwrap();
    assert!(record.state == AttemptState::Killed && record.ended >= Some(released), "{record:?}");
}

/// proves: S2-61
#[tokio::test]
async fn each_shard_fetches_its_own_data_after_the_cut_until_there_is_none() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let sources = Arc::new([NumberSource::of(2), NumberSource::of(1)]);
    let telling = told.clone();
    let fetch = move |run: RunContext, many| {
        let (sources, told) = (sources.clone(), telling.clone());
        async move {
            let shard = run.run().id.shard.0;
            let items = sources[shard as usize].fetch(many);
            told.send((shard, format!("fetched {}", items.len()))).unwrap();
            items
        }
    };
    let process = move |run: RunContext, item: u32| {
        let told = told.clone();
        async move { told.send((run.run().id.shard.0, format!("processed {item}"))).map_err(|_| "nobody listens") }
    };
    let (node, _data) = node(Functions::new().add_dataflow("f", fetch, process)).await;
    let mut job = flow("f", streaming(1, 1));
    (job.placement, job.shards) = (Placement::Sharded, 2);
    node.apply(vec![job]).await.unwrap();
    let first = ask_to_run(&node, "f", "r1").await;
    let mut seen = [Vec::new(), Vec::new()];
    while seen.iter().any(|events| events.last().is_none_or(|last| last != "fetched 0")) {
        let (shard, what) = within(heard.recv()).await.unwrap();
        seen[shard as usize].push(what);
    }
    assert_eq!(seen[0], ["fetched 1", "processed 0", "fetched 1", "processed 1", "fetched 0"]);
    assert_eq!(seen[1], ["fetched 1", "processed 0", "fetched 0"]);
    let record = within(node.wait(&first)).await.unwrap();
    assert_eq!(end(&record), (AttemptState::Succeeded, "2 items processed"));
    let cut = node
        .with_node(|node| node.view().find(&"f".parse().unwrap()).and_then(|job| job.sharding().cloned()));
    assert!(
        cut.is_some_and(|sharding| sharding.shard_map.total == 2 && sharding.reshard_pending.is_none()),
        "cut before the run"
    );
}
