//! Nodes as processes of their own: killed, paused, and told to leave.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel::core::job::{Delivery, Program};
use evenkeel::core::keys;
use evenkeel::core::registry::{Txn, TxnOutcome, Write as Put};
use evenkeel::{AttemptState, Config, Handle, JobFile, LeaveOutcome, RunFilter, RunRecord, Work};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::{PATIENCE, lives, pids, signal, until};

/// Set in processes that are to live as a node: the folder of its cluster, its name, its lease's term in ms, and whether its
/// guard kills it when it hangs.
pub(crate) const ROLE: &str = "TEST_NODE";

/// The term of a lease, in ms, in tests that wait for no lease to end.
pub(crate) const LEASE: u64 = 30_000;

/// What every node of these tests has in its environment.
const PASSWORD: &str = "a-password-of-the-node";

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "node::a_killed_node_leaves_no_run_and_its_next_life_is_quick",
        a_killed_node_leaves_no_run_and_its_next_life_is_quick,
    ),
    ("node::a_paused_nodes_runs_end_before_its_lease", a_paused_nodes_runs_end_before_its_lease),
    ("node::a_node_whose_entry_is_deleted_ends_its_runs", a_node_whose_entry_is_deleted_ends_its_runs),
    ("node::a_node_whose_guard_dies_gets_another", a_node_whose_guard_dies_gets_another),
    ("node::leaving_lets_the_run_finish", leaving_lets_the_run_finish),
    ("node::output_is_read_through_the_handle", output_is_read_through_the_handle),
    ("node::a_run_sees_no_password_of_its_node", a_run_sees_no_password_of_its_node),
    (
        "node::a_directory_that_is_missing_stands_in_the_history",
        a_directory_that_is_missing_stands_in_the_history,
    ),
];

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

pub(crate) fn config(cluster: &Path, name: &str, ttl: u64) -> Config {
    let registry = format!("sqlite:{}", cluster.join("books").display());
    let mut config = Config::new(name.parse().unwrap(), registry, cluster.join(name));
    config.ttl = Duration::from_millis(ttl);
    config
}

/// Lives as a node until standard input ends; then leaves.
pub(crate) fn live() {
    let role = std::env::var(ROLE).unwrap();
    let [cluster, name, ttl, watchdog] = role.split('\t').collect::<Vec<_>>().try_into().unwrap();
    let mut config = config(Path::new(cluster), name, ttl.parse().unwrap());
    config.watchdog = watchdog.parse().unwrap();
    let runtime = runtime();
    let node = runtime.block_on(evenkeel::open(config)).unwrap();
    println!("joined");
    let mut rest = String::new();
    let _ = std::io::stdin().read_line(&mut rest);
    let left = runtime.block_on(node.leave(PATIENCE));
    println!("{left:?}");
}

/// A node in a process of its own.
pub(crate) struct NodeProcess {
    process: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl NodeProcess {
    pub(crate) fn start(cluster: &Path, name: &str, ttl: u64) -> Self {
        Self::start_as(cluster, &format!("{name}\t{ttl}\tfalse"))
    }

    /// A node whose guard kills it when it hangs.
    pub(crate) fn watched(cluster: &Path, name: &str, ttl: u64) -> Self {
        Self::start_as(cluster, &format!("{name}\t{ttl}\ttrue"))
    }

    fn start_as(cluster: &Path, role: &str) -> Self {
        let mut process = Command::new("/proc/self/exe")
            .env(ROLE, format!("{}\t{role}", cluster.display()))
            .env("EVENKEEL_REGISTRY_PASSWORD", PASSWORD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let words = BufReader::new(process.stdout.take().unwrap());
        let mut node = Self { process, stdout: words };
        assert_eq!(node.read_line(), "joined");
        node
    }

    fn read_line(&mut self) -> String {
        let mut word = String::new();
        self.stdout.read_line(&mut word).unwrap();
        word.trim().to_string()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// Waits until the process has ended; returns the signal that ended it.
    pub(crate) fn wait_for_signal(&mut self) -> Option<i32> {
        until("the process ends", || self.process.try_wait().unwrap()).signal()
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A cluster's folder, and a job that says who it is and then sleeps.
pub(crate) fn cluster() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    (folder, pids)
}

pub(crate) fn sleeper(pids: &Path, delivery: Delivery) -> JobFile {
    let script = format!("echo $$ >> {}; sleep 600", pids.display());
    let command = Work::Command(["sh", "-c", &script].map(String::from).to_vec());
    let mut job = JobFile::new("sleeper".parse().unwrap(), "* * * * * *", command);
    job.delivery = delivery;
    job
}

/// Applies a job through a node that lives in this process for a moment.
pub(crate) fn apply(cluster: &Path, job: JobFile) {
    runtime().block_on(async {
        let node = evenkeel::open(config(cluster, "operator", LEASE)).await.unwrap();
        node.apply(vec![job]).await.unwrap();
        node.leave(PATIENCE).await;
    });
}

async fn runs(node: &Handle, state: AttemptState) -> Vec<RunRecord> {
    node.runs(RunFilter { states: vec![state], ..RunFilter::default() }).await.unwrap()
}

pub(crate) async fn wait_for(node: &Handle, state: AttemptState) -> RunRecord {
    wait_for_attempt(node, state, 1).await
}

/// The same of this attempt or a later one.
pub(crate) async fn wait_for_attempt(node: &Handle, state: AttemptState, attempt: u32) -> RunRecord {
    let mut changes = node.changes();
    loop {
        if let Some(record) = runs(node, state).await.into_iter().rfind(|record| record.attempt >= attempt) {
            return record;
        }
        tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    }
}

/// proves: I2, I3, I15, I37
fn a_killed_node_leaves_no_run_and_its_next_life_is_quick() {
    let (folder, file) = cluster();
    let node = NodeProcess::start(folder.path(), "a", 600_000);
    apply(folder.path(), sleeper(&file, Delivery::AtMostOnce));
    let run = pids(&file, 1)[0];
    drop(node);
    // Far sooner than its lease of ten minutes: the folder's lock proves the old life over, the guard's lock its runs.
    runtime().block_on(async {
        let again = evenkeel::open(config(folder.path(), "a", LEASE)).await.unwrap();
        assert!(!lives(run), "the next life begins after the runs of the last one");
        let lost = wait_for(&again, AttemptState::Lost).await;
        assert!(lost.reason.len() > 3, "{lost:?}");
        assert!(pids(&file, 2)[1] != run, "later fires run");
    });
}

/// proves: I2, I4
fn a_paused_nodes_runs_end_before_its_lease() {
    let (folder, file) = cluster();
    let node = NodeProcess::start(folder.path(), "a", 10_000);
    apply(folder.path(), sleeper(&file, Delivery::AtLeastOnce));
    let run = pids(&file, 1)[0];
    stop_at_rest(node.pid(), folder.path());
    runtime().block_on(async {
        // Its own lease is not what this is about.
        let mut other = config(folder.path(), "b", 30_000);
        other.slots = 1;
        let other = evenkeel::open(other).await.unwrap();
        let second = until("the run is attempted again", || pids(&file, 1).get(1).copied());
        assert!(!lives(run), "the paused node's run ended before its successor's began");
        let record = wait_for_attempt(&other, AttemptState::Running, 2).await;
        assert_eq!((record.attempt, record.node.as_str()), (2, "b"));
        assert!(lives(second));
        signal(node.pid(), Signal::CONT);
        // The node that was paused comes back as another life and leaves the job alone.
        until("the paused node has joined again", || {
            other.with_node(|node| (node.view().nodes() == 2).then_some(()))
        });
        assert_eq!(pids(&file, 2).len(), 2);
        assert!(lives(second));
    });
}

/// proves: S3-28, S3-30, I15
fn a_node_whose_entry_is_deleted_ends_its_runs() {
    let (folder, file) = cluster();
    runtime().block_on(async {
        // It could trust its lease for two minutes.
        let config = config(folder.path(), "a", 180_000);
        let registry = evenkeel_registry::open(&config.registry).await.unwrap();
        let node = evenkeel::open(config).await.unwrap();
        node.apply(vec![sleeper(&file, Delivery::AtLeastOnce)]).await.unwrap();
        let run = pids(&file, 1)[0];
        let member = node.with_node(|node| node.member().unwrap());
        let delete = Txn { guards: vec![], writes: vec![Put::Delete { key: keys::node(&member) }] };
        assert!(matches!(registry.commit(vec![delete]).await[..], [TxnOutcome::Applied(_)]));
        until("whoever takes its jobs over need not wait for its runs", || (!lives(run)).then_some(()));
        let record = wait_for(&node, AttemptState::Fenced).await;
        assert_eq!(record.attempt, 1, "{record:?}");
        until("the node stays closed", || {
            node.with_node(|node| node.local().membership().is_closed().then_some(()))
        });
        assert!(node.with_node(|node| node.member().is_none()), "it joins under no other lease");
        node.stop_now().await;
    });
}

/// Stops a node between two of its transactions. SQLite's lock is the process's: one that is stopped inside a write
/// transaction keeps everybody waiting until it goes on, which is another story (docs/concepts/registry.md).
pub(crate) fn stop_at_rest(pid: i32, folder: &Path) {
    until("the node is stopped while it writes nothing", || {
        signal(pid, Signal::STOP);
        let is_free = |file: &str| {
            let db = rusqlite::Connection::open(folder.join(file)).unwrap();
            db.busy_timeout(Duration::from_millis(300)).unwrap();
            db.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
        };
        if ["books", "books-history"].into_iter().all(is_free) {
            return Some(());
        }
        signal(pid, Signal::CONT);
        None
    });
}

/// proves: I2
fn a_node_whose_guard_dies_gets_another() {
    let (folder, file) = cluster();
    runtime().block_on(async {
        let node = evenkeel::open(config(folder.path(), "a", 15_000)).await.unwrap();
        node.apply(vec![sleeper(&file, Delivery::AtLeastOnce)]).await.unwrap();
        let run = pids(&file, 1)[0];
        let guard = parent(run);
        assert_ne!(guard, std::process::id() as i32);
        signal(guard, Signal::KILL);
        assert_eq!(wait_for(&node, AttemptState::Fenced).await.reason, "the guard process was gone");
        assert!(!lives(run));
        let second = pids(&file, 2)[1];
        assert_ne!(parent(second), guard);
        // One that does not answer is as good as dead.
        let guard = parent(second);
        signal(guard, Signal::STOP);
        until("the paused guard is replaced", || (!lives(guard)).then_some(()));
        assert_ne!(parent(pids(&file, 3)[2]), guard);
        assert!(!lives(second));
        node.stop_now().await;
    });
    assert!(pids(&file, 3).into_iter().all(|pid| !lives(pid)), "a node that stops leaves no run");
}

pub(crate) fn parent(pid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}

/// proves: I38
fn leaving_lets_the_run_finish() {
    let (folder, file) = cluster();
    let mut node = NodeProcess::start(folder.path(), "a", LEASE);
    let script = format!("echo $$ >> {}; sleep 1; echo done > {0}.done", file.display());
    let command = Work::Command(["sh", "-c", &script].map(String::from).to_vec());
    apply(folder.path(), JobFile::new("j".parse().unwrap(), "* * * * * *", command));
    let run = pids(&file, 1)[0];
    node.process.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(node.read_line(), format!("{:?}", LeaveOutcome::Cleanly));
    assert!(!lives(run));
    assert!(folder.path().join("pids.done").exists());
    assert!(node.process.wait().unwrap().success());
}

/// proves: S2-18, S2-19, S2-29
fn output_is_read_through_the_handle() {
    let (folder, _) = cluster();
    runtime().block_on(async {
        let node = evenkeel::open(config(folder.path(), "a", LEASE)).await.unwrap();
        let script = "echo $EVENKEEL_JOB $EVENKEEL_RUN $EVENKEEL_DUE $EVENKEEL_SHARD/$EVENKEEL_SHARDS \
                      $EVENKEEL_PARAMETER $EVENKEEL_JOB_PARAMETER $EVENKEEL_ATTEMPT $EVENKEEL_FENCE $EVENKEEL_IDEMPOTENCY_KEY $EVENKEEL_NODE";
        let command = Work::Command(["sh", "-c", script].map(String::from).to_vec());
        let mut job = JobFile::new("j".parse().unwrap(), "* * * * * *", command);
        job.shard_parameters = vec!["p".into()];
        job.parameter = "all".into();
        node.apply(vec![job]).await.unwrap();
        let record = wait_for(&node, AttemptState::Succeeded).await;
        let run = &record.run;
        let (due, token) = (record.due, record.token.unwrap());
        let said = format!("j {run} {due} 0/1 p all 1 {token} {run} a\n");
        assert_eq!((record.code, record.output), (Some(0), said.len() as u64));
        let whole = node.log(run, 1, 0, 1000).await.unwrap();
        assert_eq!(String::from_utf8(whole.data).unwrap(), said);
        let piece = node.log(run, 1, 2, 4).await.unwrap();
        assert_eq!((piece.data.as_slice(), piece.next), (&said.as_bytes()[2..6], 6));
        node.stop_now().await;
    });
}

fn a_run_sees_no_password_of_its_node() {
    let (folder, file) = cluster();
    let node = NodeProcess::start(folder.path(), "a", LEASE);
    let seen = folder.path().join("seen");
    let mut job = sleeper(&file, Delivery::AtMostOnce);
    let script = format!(
        "cat /proc/$PPID/environ /proc/$$/environ > {}; echo $$ >> {}",
        seen.display(),
        file.display()
    );
    job.command = Program::Line(script);
    job.shell = true;
    apply(folder.path(), job);
    pids(&file, 1);
    let seen = String::from_utf8(std::fs::read(&seen).unwrap()).unwrap();
    assert!(seen.contains("EVENKEEL_ROLE=guard") && seen.contains("EVENKEEL_RUN=sleeper:"), "{seen}");
    assert!(!seen.contains(PASSWORD) && !seen.contains("EVENKEEL_REGISTRY"), "{seen}");
    drop(node);
}

fn a_directory_that_is_missing_stands_in_the_history() {
    let (folder, file) = cluster();
    runtime().block_on(async {
        let node = evenkeel::open(config(folder.path(), "a", LEASE)).await.unwrap();
        let mut job = sleeper(&file, Delivery::AtMostOnce);
        job.directory = "/nowhere/at/all".into();
        node.apply(vec![job]).await.unwrap();
        let record = wait_for(&node, AttemptState::Failed).await;
        assert_eq!(record.code, None);
        assert!(
            record.reason.starts_with("no such directory: /nowhere/at/all: create it"),
            "{}",
            record.reason
        );
        assert!(!file.exists());
        node.stop_now().await;
    });
}
