//! A whole node in this process: jobs are functions, the registry is in memory.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel::core::effect::StopReason;
use evenkeel::core::ids::RunId;
use evenkeel::core::input::{ApplyResult, Refusal, RunOptions};
use evenkeel::core::job::{JobParameter, ParameterType, RunParameters};
use evenkeel::{
    Answer, AttemptState, Command, Config, Functions, Handle, JobFile, LeaveOutcome, OpenError, RunContext,
    RunFilter, RunRecord, Work,
};
use tempfile::TempDir;

mod dataflow;

/// How long a test waits for a fact.
const PATIENCE: Duration = Duration::from_secs(120);

fn config(name: &str, registry: &str, data: &TempDir) -> Config {
    let mut config = Config::new(name.parse().unwrap(), registry, data.path().join(name));
    config.ttl = Duration::from_secs(30);
    config
}

async fn node(functions: Functions) -> (Handle, TempDir) {
    let data = tempfile::tempdir().unwrap();
    (evenkeel::open(config("a", "memory:", &data).with(functions)).await.unwrap(), data)
}

fn job(name: &str, schedule: &str, function: &str) -> JobFile {
    JobFile::new(name.parse().unwrap(), schedule, Work::Function(function.into()))
}

/// Runs a job by hand and waits for its end.
async fn run(node: &Handle, job: &str, request: &str) -> RunRecord {
    let run = ask_to_run(node, job, request).await;
    within(node.wait(&run)).await.unwrap()
}

async fn ask_to_run(node: &Handle, job: &str, request: &str) -> RunId {
    match within(node.ask(Command::RunNow(job.parse().unwrap(), request.parse().unwrap()))).await {
        Answer::Accepted(run, _) => run,
        other => panic!("{other:?}"),
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens")
}

#[tokio::test]
async fn a_task_of_any_thread_may_open_a_node() {
    let data = tempfile::tempdir().unwrap();
    let opened = tokio::spawn(evenkeel::open(config("a", "memory:", &data)));
    let node = within(opened).await.unwrap().unwrap();
    within(tokio::spawn(async move { node.stop_now().await })).await.unwrap();
}

#[test]
fn a_run_whose_runtime_has_ended_is_told_to_have_failed() {
    let data = tempfile::tempdir().unwrap();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (theirs, ours) = (runtime(), runtime());
    let functions = Functions::new().add("idle", |_| async {});
    let opened = theirs.block_on(evenkeel::open(config("a", "memory:", &data).with(functions)));
    let node = opened.unwrap();
    drop(theirs);
    ours.block_on(async {
        node.apply(vec![job("j", "@yearly", "idle")]).await.unwrap();
        let record = run(&node, "j", "r").await;
        assert_eq!(record.state, AttemptState::Failed);
        assert!(record.reason.contains("never began"), "{record:?}");
        node.stop_now().await;
    });
}

/// proves: S1-87, I14
#[tokio::test]
async fn a_function_runs_on_each_second_and_history_tells() {
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let functions = Functions::new().add("tell", move |run: RunContext| {
        let told = told.clone();
        let context = run.trace().traceparent();
        assert_eq!(run.environment().get("TRACEPARENT"), Some(&context));
        assert!(context.starts_with("00-") && context.ends_with("-01"), "{context}");
        async move { told.send(run.run().clone()).map_err(|_| "nobody listens") }
    });
    let (node, _data) = node(functions).await;
    let mut changes = node.changes();
    let declared = || vec![job("j", "* * * * * *", "tell")];
    assert_eq!(node.apply(declared()).await.unwrap(), [("j".parse().unwrap(), ApplyResult::Created)]);
    assert_eq!(node.apply(declared()).await.unwrap(), [("j".parse().unwrap(), ApplyResult::Unchanged)]);
    let (first, second) = (within(heard.recv()).await.unwrap(), within(heard.recv()).await.unwrap());
    assert_eq!((second.due - first.due).0, 1000);
    assert!(first.token < second.token && first.attempt == 1);
    within(changes.changed()).await.unwrap();
    let record = within(node.wait(&first.id)).await.unwrap();
    assert_eq!(
        (record.state, record.token, record.node.as_str()),
        (AttemptState::Succeeded, Some(first.token), "a")
    );
    assert_eq!((record.due, record.from), (first.due, first.due));
    let listed = node.runs(RunFilter::default()).await.unwrap();
    assert!(listed.iter().any(|r| r.run == first.id));
    assert!(node.events(evenkeel::EventFilter::default()).await.unwrap().iter().any(|e| e.kind == "joined"));
}

#[tokio::test]
async fn failures_are_told_with_their_reason() {
    // Too late: this test is a thread beside others.
    evenkeel::guard::run_if_asked();
    let functions = Functions::new()
        .add("fail", |_| async { Err::<(), _>("the disk is on fire") })
        .add("panic", |run: RunContext| async move { assert_eq!(run.run().shards, 7) });
    let (node, _data) = node(functions).await;
    let command = JobFile::new("command".parse().unwrap(), "", Work::Command(vec!["true".into()]));
    let jobs = vec![job("fail", "", "fail"), job("panic", "", "panic"), job("none", "", "nowhere"), command];
    node.apply(jobs).await.unwrap();
    for (job, reason) in [
        ("fail", "the disk is on fire"),
        ("panic", "the function panicked"),
        ("none", "no function \"nowhere\""),
        ("command", "call evenkeel::guard::run_if_asked() first in main"),
    ] {
        let record = run(&node, job, "r1").await;
        assert_eq!(record.state, AttemptState::Failed, "{job}");
        assert!(record.reason.contains(reason), "{job}: {}", record.reason);
    }
}

#[tokio::test]
async fn a_function_has_the_parameters_of_its_run() {
    let functions = Functions::new().add("tell", |run: RunContext| async move {
        let day = run.parameter("day").map(str::to_owned);
        (day.as_deref() == Some("2026-01-31") && run.parameter("other").is_none())
            .then_some(())
            .ok_or("another day")
    });
    let (node, _data) = node(functions).await;
    let mut declared = job("j", "", "tell");
    declared
        .parameters
        .insert("day".into(), JobParameter { kind: ParameterType::Date, ..JobParameter::default() });
    node.apply(vec![declared]).await.unwrap();
    let given: RunParameters = [("day".to_owned(), "2026-01-31".to_owned())].into_iter().collect();
    let options = RunOptions { parameters: given.clone(), ..RunOptions::default() };
    let command = Command::RunWith("j".parse().unwrap(), "r".parse().unwrap(), options.into());
    let Answer::Accepted(run, _) = within(node.ask(command)).await else { panic!("it is accepted") };
    let record = within(node.wait(&run)).await.unwrap();
    assert_eq!((record.state, record.reason.as_str()), (AttemptState::Succeeded, ""));
    assert_eq!(record.parameters, given);
}

/// proves: I24
#[tokio::test]
async fn a_function_is_told_to_stop_and_dropped_if_it_does_not() {
    let stopped = Arc::new(AtomicU32::new(0));
    let seen = stopped.clone();
    let functions = Functions::new()
        .add("obey", move |run: RunContext| {
            let seen = seen.clone();
            async move {
                assert_eq!(run.stop_reason(), None);
                assert_eq!(run.stopped().await, StopReason::Killed);
                assert_eq!(run.stop_reason(), Some(StopReason::Killed));
                seen.fetch_add(1, Ordering::SeqCst);
            }
        })
        .add("sleep", |_| std::future::pending::<()>());
    let (node, _data) = node(functions).await;
    let mut slow = job("slow", "", "sleep");
    slow.timeout = Some(1);
    node.apply(vec![job("obey", "", "obey"), slow]).await.unwrap();
    let obeying = ask_to_run(&node, "obey", "r1").await;
    assert_eq!(ask_to_run(&node, "obey", "r1").await, obeying, "the same request is the same run");
    let mut changes = node.changes();
    while node.run(&obeying).await.unwrap().is_empty() {
        within(changes.changed()).await.unwrap();
    }
    assert_eq!(node.ask(Command::Kill(obeying.clone())).await, Answer::Done);
    assert_eq!(within(node.wait(&obeying)).await.unwrap().state, AttemptState::Killed);
    assert_eq!(stopped.load(Ordering::SeqCst), 1);
    let slow = run(&node, "slow", "r1").await;
    assert_eq!(slow.state, AttemptState::TimedOut);
    assert!(slow.reason.contains("did not stop when asked to"));
    assert!(matches!(node.ask(Command::Kill(obeying)).await, Answer::Refused(Refusal::NotFound, _)));
}

/// proves: S1-09, I1
#[tokio::test]
async fn a_lock_is_one_nodes_and_its_token_rises() {
    let data = tempfile::tempdir().unwrap();
    let a = evenkeel::open(config("a", "memory:locks", &data)).await.unwrap();
    let b = evenkeel::open(config("b", "memory:locks", &data)).await.unwrap();
    let name = || "l".parse().unwrap();
    let first = within(a.lock(name())).await.unwrap();
    let again = within(a.lock(name())).await.unwrap();
    assert_eq!((first.depth(), again.depth()), (1, 2));
    assert_eq!(first.token(), again.token());
    let b_waits = tokio::spawn(async move { b.lock("l".parse().unwrap()).await.map(|lock| lock.token()) });
    drop(again);
    let unlocked = within(a.lock(name())).await.unwrap();
    assert_eq!((unlocked.depth(), b_waits.is_finished()), (2, false), "once taken, once given back");
    let token = first.token();
    drop((first, unlocked));
    assert!(within(b_waits).await.unwrap().unwrap() > token);
}

/// proves: I38
#[tokio::test]
async fn a_node_that_leaves_ends_its_run_and_another_goes_on() {
    let data = tempfile::tempdir().unwrap();
    let done = Arc::new(AtomicU32::new(0));
    let functions = |done: &Arc<AtomicU32>| {
        let done = done.clone();
        Functions::new().add("work", move |_| {
            let done = done.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(700)).await;
                done.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let mut of_a = config("a", "memory:leave", &data);
    of_a.history = Some(format!("sqlite:{}", data.path().join("h").display()));
    let mut of_b = config("b", "memory:leave", &data);
    of_b.history = of_a.history.clone();
    let a = evenkeel::open(of_a.with(functions(&done))).await.unwrap();
    a.apply(vec![job("j", "* * * * * *", "work")]).await.unwrap();
    let mut changes = a.changes();
    while a.runs(RunFilter::default()).await.unwrap().is_empty() {
        within(changes.changed()).await.unwrap();
    }
    let b = evenkeel::open(of_b.with(functions(&done))).await.unwrap();
    assert_eq!(within(a.leave(PATIENCE)).await, LeaveOutcome::Cleanly);
    a.stopped().await.unwrap();
    assert!(matches!(a.ask(Command::Claim).await, Answer::Refused(Refusal::Unavailable, _)));
    let by_b =
        |runs: Vec<RunRecord>| runs.into_iter().find(|r| r.node == "b" && r.state == AttemptState::Succeeded);
    let mut changes = b.changes();
    while by_b(b.runs(RunFilter::default()).await.unwrap()).is_none() {
        within(changes.changed()).await.unwrap();
    }
    let runs = b.runs(RunFilter::default()).await.unwrap();
    let dues: std::collections::BTreeSet<i64> = runs.iter().map(|r| r.due.0).collect();
    assert_eq!(dues.len(), runs.len(), "no fire ran twice");
    let (first, last) = (dues.first().unwrap(), dues.last().unwrap());
    assert_eq!((last - first) / 1000 + 1, dues.len() as i64, "no fire was left out: {dues:?}");
    assert!(done.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn what_cannot_be_opened_says_the_fix() {
    let data = tempfile::tempdir().unwrap();
    let _a = evenkeel::open(config("a", "memory:taken", &data)).await.unwrap();
    let same_folder = evenkeel::open(config("a", "memory:taken", &data)).await.err().unwrap();
    assert!(matches!(same_folder, OpenError::InUse(_)), "{same_folder}");
    let mut same_name = config("a", "memory:taken", &data);
    same_name.data = data.path().join("other");
    let same_name = within(evenkeel::open(same_name)).await.err().unwrap();
    assert!(same_name.to_string().contains("choose another --name"), "{same_name}");
    let refused = evenkeel::open(config("b", "carrier-pigeon:", &data)).await.err().unwrap();
    assert!(refused.to_string().contains("use sqlite:PATH"), "{refused}");
    let mut short = config("b", "memory:", &data);
    short.ttl = Duration::from_millis(500);
    assert!(evenkeel::open(short).await.err().unwrap().to_string().contains("at least 2s"));
}

#[tokio::test]
async fn a_data_folder_of_another_cluster_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let registry = |file: &str| format!("sqlite:{}", data.path().join(file).display());
    let first = evenkeel::open(config("a", &registry("one"), &data)).await.unwrap();
    first.leave(PATIENCE).await;
    let other = tempfile::tempdir().unwrap();
    let second = evenkeel::open(config("a", &registry("two"), &other)).await.unwrap();
    second.leave(PATIENCE).await;
    let Err(refused) = evenkeel::open(config("a", &registry("two"), &data)).await else {
        panic!("it opened")
    };
    let text = refused.to_string();
    assert!(text.contains("belongs to another cluster") && text.contains("remove"), "{text}");
    let again = evenkeel::open(config("a", &registry("one"), &data)).await.unwrap();
    again.leave(PATIENCE).await;
}

/// As after a loss of all data: whoever wrote an id there would shut out the other nodes, and the backup.
#[tokio::test]
async fn an_emptied_registry_is_refused_and_left_empty() {
    let data = tempfile::tempdir().unwrap();
    let registry = |file: &str| format!("sqlite:{}", data.path().join(file).display());
    let node = evenkeel::open(config("a", &registry("full"), &data)).await.unwrap();
    node.leave(PATIENCE).await;
    let Err(refused) = evenkeel::open(config("a", &registry("empty"), &data)).await else {
        panic!("it opened")
    };
    let text = refused.to_string();
    assert!(text.contains("is empty") && text.contains("cluster restore"), "{text}");
    let empty = evenkeel_registry::open(&registry("empty")).await.unwrap();
    assert_eq!(empty.list().await.unwrap().changes, []);
}
