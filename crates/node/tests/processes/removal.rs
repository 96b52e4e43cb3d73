//! What a guard does about the member of its node: it removes the one of a process that died, and no other.

use evenkeel::AttemptState;
use evenkeel::core::ids::Member;
use evenkeel::core::job::Delivery;
use evenkeel::core::keys;
use evenkeel::core::registry::{Guard, Txn, TxnOutcome, Write};
use evenkeel::core::time::Millis;
use rustix::process::Signal;
use serde_json::json;

use crate::guard::{TestGuard, folder};
use crate::node::{
    LEASE, NodeProcess, apply, cluster, config, runtime, sleeper, stop_at_rest, wait_for_attempt,
};
use crate::process::{lives, pids, until};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "removal::the_guard_of_a_killed_node_removes_its_member_after_its_runs",
        the_guard_of_a_killed_node_removes_its_member_after_its_runs,
    ),
    ("removal::a_node_that_hangs_is_killed_by_its_guard", a_node_that_hangs_is_killed_by_its_guard),
    (
        "removal::the_member_of_a_process_that_lives_is_not_removed",
        the_member_of_a_process_that_lives_is_not_removed,
    ),
];

/// A term far longer than a test waits for anything.
const LONG_LEASE: u64 = 600_000;

/// A term with which a node hangs after 2.2 seconds.
const SHORT_LEASE: u64 = 10_000;

/// proves: S1-32, I2, I15, I21
fn the_guard_of_a_killed_node_removes_its_member_after_its_runs() {
    let (folder, file) = cluster();
    let node = NodeProcess::start(folder.path(), "a", LONG_LEASE);
    apply(folder.path(), sleeper(&file, Delivery::AtLeastOnce));
    let run = pids(&file, 1)[0];
    runtime().block_on(async {
        let other = evenkeel::open(config(folder.path(), "b", LEASE)).await.unwrap();
        drop(node);
        let record = wait_for_attempt(&other, AttemptState::Running, 2).await;
        assert_eq!((record.attempt, record.node.as_str()), (2, "b"));
        assert!(!lives(run), "the run ended before its successor began");
        until("the member is gone", || other.with_node(|node| (node.view().nodes() == 1).then_some(())));
        other.stop_now().await;
    });
}

/// proves: S1-32, I2, I4
fn a_node_that_hangs_is_killed_by_its_guard() {
    let (folder, file) = cluster();
    let mut node = NodeProcess::watched(folder.path(), "a", SHORT_LEASE);
    apply(folder.path(), sleeper(&file, Delivery::AtLeastOnce));
    let run = pids(&file, 1)[0];
    runtime().block_on(async {
        let other = evenkeel::open(config(folder.path(), "b", LEASE)).await.unwrap();
        stop_at_rest(node.pid(), folder.path());
        let record = wait_for_attempt(&other, AttemptState::Running, 2).await;
        assert_eq!((record.attempt, record.node.as_str()), (2, "b"));
        assert!(!lives(run), "the run ended before its successor began");
        assert_eq!(node.wait_for_signal(), Some(Signal::KILL.as_raw()));
        other.stop_now().await;
    });
}

/// A node may stop in a process that lives on, without a word to its guard.
///
/// proves: I4
fn the_member_of_a_process_that_lives_is_not_removed() {
    let data = folder();
    let url = format!("sqlite:{}", data.path().join("registry.db").display());
    runtime().block_on(async {
        let registry = evenkeel_registry::open(&url).await.unwrap();
        let lease = registry.open(Millis(600_000)).await.unwrap().lease;
        let member = Member { node: "a".parse().unwrap(), incarnation: lease.0 };
        let key = keys::node(&member);
        let put = Write::Put { key: key.clone(), value: b"{}"[..].into(), owner: Some(lease) };
        let txn = Txn { guards: vec![Guard::Absent(key.clone())], writes: vec![put] };
        let outcome = registry.commit(vec![txn]).await.pop();
        let Some(TxnOutcome::Applied(born)) = outcome else { panic!("{outcome:?}") };

        let mut guard = TestGuard::start(&data);
        guard.send(&json!({"member": {"entry": {"member": member, "born": born}, "registry": url}}));
        guard.end();
        let found = registry.read(vec![key]).await.unwrap();
        assert!(found[0].entry.is_some(), "{found:?}");
    });
}
