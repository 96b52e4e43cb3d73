//! Registry data is copied completely, whichever answer is lost and wherever the copying process dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_core::backup::{EntryMap, GONE, is_copied};
use evenkeel_core::ids::{Fire, JobName, Member};
use evenkeel_core::job::{Job, JobFile, Spec, Work};
use evenkeel_core::keys::{self, Key};
use evenkeel_core::labels::Labels;
use evenkeel_core::record::{
    Assignment, Attempt, MemberInfo, RunState, ShardRunState, Sharding, SpecRecord, decode, encode,
};
use evenkeel_core::registry::{
    Change, DurabilityClass, EngineFacts, Guard, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome, Value, Write,
};
use evenkeel_core::time::{Millis, Wall};
use evenkeel_registry::clock::HostClock;
use evenkeel_registry::memory::Memory;
use evenkeel_registry::{BoxFuture, Feed, Registry, RegistryError};
use tokio::sync::Notify;

use super::migrate::migrate_between;
use super::restore::raised;
use super::*;

type TxnHook = Box<dyn Fn(&Txn) -> Option<Txn> + Send + Sync>;

/// A registry that answers no more after so many transactions, or loses the first answer to each.
struct FrailRegistry {
    inner: Arc<dyn Registry>,
    left: AtomicUsize,
    dead: Notify,
    loses: bool,
    /// What another process does right before a transaction.
    before: TxnHook,
    commits: std::sync::Mutex<Vec<Txn>>,
    generation: u16,
    value_max: usize,
}

impl FrailRegistry {
    fn on(inner: &Arc<dyn Registry>) -> Self {
        Self {
            inner: inner.clone(),
            left: AtomicUsize::new(usize::MAX),
            dead: Notify::new(),
            loses: false,
            before: Box::new(|_| None),
            commits: std::sync::Mutex::default(),
            generation: 0,
            value_max: 1 << 20,
        }
    }

    async fn one(&self, txn: Txn) -> TxnOutcome {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
        let first = {
            let mut asked = self.commits.lock().unwrap();
            let first = !asked.contains(&txn);
            asked.push(txn.clone());
            first
        };
        if let Some(other) = (self.before)(&txn) {
            self.inner.commit(vec![other]).await;
        }
        let outcome = self.inner.commit(vec![txn]).await.pop().unwrap();
        if self.loses && first { TxnOutcome::Unknown } else { outcome }
    }
}

impl Registry for FrailRegistry {
    fn facts(&self) -> EngineFacts {
        EngineFacts { generation: self.generation, value_max: self.value_max, ..self.inner.facts() }
    }
    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>> {
        self.inner.open(ttl)
    }
    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>> {
        self.inner.renew(lease)
    }
    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        self.inner.close(lease)
    }
    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        Box::pin(async move {
            let mut outcomes = Vec::new();
            for txn in txns {
                outcomes.push(self.one(txn).await);
            }
            outcomes
        })
    }
    fn list(&self) -> BoxFuture<'_, Result<evenkeel_core::registry::ChangeBatch, RegistryError>> {
        self.inner.list()
    }
    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        self.inner.read(keys)
    }
    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        self.inner.watch(after)
    }
}

fn empty() -> Arc<dyn Registry> {
    Arc::new(Memory::new(Arc::new(HostClock)))
}

fn job(name: &str) -> JobName {
    name.parse().unwrap()
}

fn member(text: &str) -> Member {
    text.parse().unwrap()
}

fn put(key: Key, value: Value, owner: Option<LeaseId>) -> Txn {
    Txn { guards: Vec::new(), writes: vec![Write::Put { key, value, owner }] }
}

fn cluster(shut: Option<JoinRefusal>) -> Value {
    encode(&ClusterRecord { generation: 2, shut, ..ClusterRecord::new("c".into()) })
}

/// What a stopped cluster leaves: five claimed jobs and a sharded one.
async fn stopped() -> Arc<dyn Registry> {
    let registry = empty();
    let mut all = vec![put(keys::cluster(), cluster(None), None)];
    for n in 0..5 {
        let job = job(&format!("j{n}"));
        let place = Assignment { owner: Some(member("a@1")), epoch: 3, ..Assignment::default() };
        let run_state = RunState { watermark: Wall(n), seq: 7, ..RunState::default() };
        all.push(put(keys::assignment(&job), encode(&place), None));
        all.push(put(keys::run_state(&job), encode(&run_state), None));
    }
    let sharding = Sharding { run_states: vec![member("a@1")], ..Sharding::default() };
    let place = Assignment { sharding: Some(sharding.into()), ..Assignment::default() };
    all.push(put(keys::assignment(&job("dealt")), encode(&place), None));
    let run_state = ShardRunState { seq: 9, ..ShardRunState::default() };
    all.push(put(keys::shard_run_state(&job("dealt"), &member("a@1")), encode(&run_state), None));
    all.push(put(Key::from_stored("strange"), (*b"\xff\xfe").to_vec().into(), None));
    for outcome in registry.commit(all).await {
        assert!(matches!(outcome, TxnOutcome::Applied(_)));
    }
    registry
}

fn backup_registry(registry: &Arc<dyn Registry>, url: &str) -> BackupRegistry {
    BackupRegistry::of(registry.clone(), url.into())
}

fn frail(registry: FrailRegistry, url: &str) -> (BackupRegistry, Arc<FrailRegistry>) {
    let registry = Arc::new(registry);
    (BackupRegistry::of(registry.clone(), url.into()), registry)
}

async fn everything(registry: &Arc<dyn Registry>) -> EntryMap {
    backup_registry(registry, "x").read_all().await.unwrap().entries
}

async fn record(registry: &Arc<dyn Registry>) -> Option<ClusterRecord> {
    backup_registry(registry, "x").cluster().await.unwrap().map(|(record, _)| record)
}

/// Whether a node could join.
async fn is_open(registry: &Arc<dyn Registry>) -> bool {
    record(registry).await.is_some_and(|record| record.shut.is_none())
}

async fn run(run_state: RunState, registry: &Arc<dyn Registry>) {
    registry.commit(vec![put(keys::run_state(&job("j0")), encode(&run_state), None)]).await;
}

fn going_on() -> RunState {
    let (due, by) = (Wall(7), member("a@1"));
    let first = Attempt::first(Fire::Due(due), due, by);
    let open = Attempt { from: Some(due), seq: 8, back: Wall(0), ..first };
    RunState { watermark: due, seq: 8, open: vec![open], ..RunState::default() }
}

/// proves: I1
#[tokio::test]
async fn what_is_backed_up_is_restored_with_hot_entries_and_a_larger_generation() {
    let old = stopped().await;
    run(going_on(), &old).await;
    let lease = old.open(Millis::secs(60)).await.unwrap().lease;
    let info = MemberInfo {
        address: String::new(),
        home: String::new(),
        slots: 1,
        tolerance: 1,
        alarm: 1,
        version: String::new(),
        labels: Labels::default(),
        lacking: String::new(),
        knows: 1,
    };
    old.commit(vec![put(keys::node(&member("a@1")), encode(&info), Some(lease))]).await;
    let (source, _) = frail(FrailRegistry { generation: 4, ..FrailRegistry::on(&old) }, "old");
    let backup = copy(&source).await.unwrap();
    assert_eq!(backup.header.generation, 6, "the engine's and the cluster's own");
    assert_eq!((backup.header.members.len(), backup.open_runs().len()), (1, 1), "nodes may be at work");
    assert_eq!(backup.entries, everything(&old).await);
    assert_eq!(backup.entries.len(), 13, "six jobs of two entries, and a strange one");

    let backup = Backup::from_text(backup.to_text().as_bytes()).unwrap();
    let new = empty();
    let restored = put_back(&backup_registry(&new, "new"), &backup).await.unwrap();
    assert_eq!((restored.generation, restored.already), (7, false));
    let found = record(&new).await.unwrap();
    let lost = found.lost.filter(|lost| *lost >= backup.header.taken);
    assert!(lost.is_some(), "what was done since is nowhere: {found:?}");
    let filled = Some(format!("the backup of {} ({})", backup.header.taken, backup.checksum()));
    let kept =
        ClusterRecord { generation: 7, engine: Some(0), lost, filled, ..ClusterRecord::new("c".into()) };
    assert_eq!(found, kept);
    assert_eq!(everything(&new).await, retire_members(&backup.entries));
    let gone = Member { incarnation: GONE, ..member("a@1") };
    let run_state: RunState = decode(&everything(&new).await[&keys::run_state(&job("j0"))]).unwrap();
    assert_eq!(run_state.open[0].by, gone);

    let again = put_back(&backup_registry(&new, "new"), &backup).await.unwrap();
    assert!(again.already, "and nothing is changed");
    // The presence of one backup does not count for another backup of the same cluster.
    let other = Backup { header: BackupHeader { taken: Wall(1), ..backup.header.clone() }, ..backup.clone() };
    let refused = put_back(&backup_registry(&new, "new"), &other).await.unwrap_err().to_string();
    assert!(refused.contains("is not empty"), "{refused}");
}

/// proves: I46
#[tokio::test]
async fn a_restore_that_dies_anywhere_is_finished_by_the_next_one_and_nobody_joins_before() {
    let backup = copy(&backup_registry(&stopped().await, "old")).await.unwrap();
    for steps in 0.. {
        let new = empty();
        let (target, registry) =
            frail(FrailRegistry { left: steps.into(), ..FrailRegistry::on(&new) }, "new");
        let died = tokio::select! {
            done = put_back(&target, &backup) => done.map(|_| ()).is_err(),
            () = registry.dead.notified() => true,
        };
        if !died {
            assert_eq!(steps, backup.entries.len() + 2, "one step an entry, and two for the cluster's own");
            break;
        }
        assert!(!is_open(&new).await, "after {steps} steps");
        let other = Backup { entries: EntryMap::new(), ..backup.clone() };
        let refused = put_back(&backup_registry(&new, "new"), &other).await;
        assert_eq!(refused.is_err(), steps > 0, "another backup does not mix with this one: {refused:?}");
        if steps == 0 {
            continue;
        }
        put_back(&backup_registry(&new, "new"), &backup).await.unwrap();
        assert!(is_open(&new).await);
        assert_eq!(everything(&new).await, retire_members(&backup.entries), "after {steps} steps");
    }
}

/// proves: I46
#[tokio::test]
async fn lost_answers_change_nothing() {
    let (old, new) = (stopped().await, empty());
    let (source, _) = frail(FrailRegistry { loses: true, ..FrailRegistry::on(&old) }, "old");
    let (target, registry) = frail(FrailRegistry { loses: true, ..FrailRegistry::on(&new) }, "new");
    let moved = migrate_between(&source, &target).await.unwrap();
    assert_eq!((moved.generation, moved.already), (3, false));
    assert_eq!(everything(&new).await, retire_members(&everything(&old).await));
    // A repeated, late write finds a running cluster.
    let run_state = keys::run_state(&job("j0"));
    new.commit(vec![Txn { guards: Vec::new(), writes: vec![Write::Delete { key: run_state }] }]).await;
    let late = registry.commits.lock().unwrap().clone();
    for outcome in new.commit(late).await {
        assert!(matches!(outcome, TxnOutcome::Refused(_)), "{outcome:?}");
    }
}

/// proves: I1, I46
#[tokio::test]
async fn a_move_that_dies_anywhere_is_finished_by_the_next_one_and_never_are_two_open() {
    for (old_dies, most) in [(true, 1), (false, 15)] {
        for steps in 0..=most {
            let (old, new) = (stopped().await, empty());
            let before = everything(&old).await;
            let frail_old = if old_dies { steps } else { usize::MAX };
            let frail_new = if old_dies { usize::MAX } else { steps };
            let (source, one) =
                frail(FrailRegistry { left: frail_old.into(), ..FrailRegistry::on(&old) }, "old");
            let (target, other) =
                frail(FrailRegistry { left: frail_new.into(), ..FrailRegistry::on(&new) }, "new");
            let died = tokio::select! {
                done = migrate_between(&source, &target) => done.is_err(),
                () = one.dead.notified() => true,
                () = other.dead.notified() => true,
            };
            assert_eq!(died, steps < most, "{old_dies} after {steps} steps");
            assert!(!(is_open(&old).await && is_open(&new).await), "{old_dies} after {steps} steps");
            assert_eq!(everything(&old).await, before, "the old books stay as they are");
            let again =
                migrate_between(&backup_registry(&old, "old"), &backup_registry(&new, "new")).await.unwrap();
            assert_eq!((again.already, again.generation), (!died, 3));
            assert!(is_open(&new).await && !is_open(&old).await);
            assert_eq!(everything(&new).await, retire_members(&before));
        }
    }
}

/// proves: I1
#[tokio::test]
async fn a_member_that_was_killed_is_waited_for_as_long_as_its_lease_and_no_longer() {
    // If the machine stalls, the lease can end before the first attempt to move the cluster; the next lease is longer.
    for term in [400, 4_000, 40_000] {
        let (old, new) = (stopped().await, empty());
        let lease = old.open(Millis(term)).await.unwrap().lease;
        old.commit(vec![put(keys::node(&member("a@1")), b"{}".to_vec().into(), Some(lease))]).await;
        if let Err(why) = migrate_between(&backup_registry(&old, "old"), &backup_registry(&new, "new")).await
        {
            return wait_for_the_lease(&why.to_string(), &old, &new).await;
        }
    }
    panic!("no cluster was asked to move before the lease had ended");
}

async fn wait_for_the_lease(why: &str, old: &Arc<dyn Registry>, new: &Arc<dyn Registry>) {
    assert!(why.contains("living nodes: a"), "{why}");
    // No node renews there, so nothing would ever end the lease.
    let begun = crate::clock::now().mono;
    while let Err(why) = migrate_between(&backup_registry(old, "old"), &backup_registry(new, "new")).await {
        assert!(crate::clock::now().mono - begun < Millis::secs(120), "{why}");
    }
    assert!(is_open(new).await);
}

/// proves: I1
#[tokio::test]
async fn who_joins_at_the_last_moment_keeps_the_cluster_where_it_is() {
    let (old, new) = (stopped().await, empty());
    let lease = old.open(Millis::secs(60)).await.unwrap().lease;
    let before: TxnHook = Box::new(move |txn| {
        let closing = txn.guards.iter().any(|guard| matches!(guard, Guard::At(..)));
        closing.then(|| put(keys::node(&member("late@2")), b"{}".to_vec().into(), Some(lease)))
    });
    let (source, _) = frail(FrailRegistry { before, ..FrailRegistry::on(&old) }, "old");
    let why = migrate_between(&source, &backup_registry(&new, "new")).await.unwrap_err().to_string();
    assert!(why.contains("living nodes: late"), "{why}");
    assert!(is_open(&old).await && !is_open(&new).await, "all is as it was");
    old.close(lease).await.unwrap();
    migrate_between(&backup_registry(&old, "old"), &backup_registry(&new, "new")).await.unwrap();
}

#[tokio::test]
async fn a_move_is_refused_while_anything_goes_on_or_does_not_fit() {
    let old = stopped().await;
    let refused = async |target: &BackupRegistry, says: &str| {
        let why = migrate_between(&backup_registry(&old, "old"), target).await.unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
        assert!(is_open(&old).await, "nothing has changed");
    };
    let new = empty();
    refused(&backup_registry(&old, "old"), "onto itself").await;
    refused(&backup_registry(&old, "another name for it"), "is not empty").await;
    refused(
        &frail(FrailRegistry { value_max: 20, ..FrailRegistry::on(&new) }, "new").0,
        "takes 20 bytes a value",
    )
    .await;
    assert_eq!(record(&new).await, None, "and nothing has begun");
    run(going_on(), &old).await;
    refused(&backup_registry(&new, "new"), "runs that have not ended").await;
    let full = empty();
    full.commit(vec![put(Key::from_stored("theirs"), Value::from(*b"x"), None)]).await;
    run(RunState { open: Vec::new(), ..going_on() }, &old).await;
    refused(&backup_registry(&full, "full"), "is not empty, there is theirs").await;

    migrate_between(&backup_registry(&old, "old"), &backup_registry(&new, "new")).await.unwrap();
    let why = migrate_between(&backup_registry(&old, "old"), &backup_registry(&empty(), "third"))
        .await
        .unwrap_err()
        .to_string();
    assert!(why.contains("was moved to new"), "{why}");
    let backup = copy(&backup_registry(&old, "old")).await.unwrap();
    assert_eq!(backup.header.moved.as_deref(), Some("new"), "the old books can still be copied, and say so");
    assert!(!is_copied(&keys::cluster(), None));
}

#[tokio::test]
async fn nothing_goes_where_a_job_would_get_less_than_it_asks_for() {
    let (old, pay) = (stopped().await, job("pay"));
    let declare = async |guarantee| {
        let job = JobFile::new(pay.clone(), "", Work::Command(vec!["true".into()]));
        let job = Job::parse(JobFile { min_durability: guarantee, ..job }).unwrap();
        let spec = Spec::new(job, 1, Wall(0));
        let spec = SpecRecord::Live(Box::new(spec));
        old.commit(vec![put(keys::spec(&pay), encode(&spec), None)]).await;
    };
    declare(Some(DurabilityClass::B)).await;
    // Data in memory is lost with its process: class C.
    let new = empty();
    let why = migrate_between(&backup_registry(&old, "old"), &backup_registry(&new, "new"))
        .await
        .unwrap_err()
        .to_string();
    assert!(why.contains("gives class C, and job pay asks for more: see"), "{why}");
    let backup = copy(&backup_registry(&old, "old")).await.unwrap();
    let why = put_back(&backup_registry(&new, "new"), &backup).await.unwrap_err().to_string();
    assert!(why.contains("gives class C, and job pay asks for more: see"), "{why}");
    assert!(record(&new).await.is_none() && is_open(&old).await, "nothing has begun");
    declare(None).await;
    migrate_between(&backup_registry(&old, "old"), &backup_registry(&new, "new")).await.unwrap();
}

#[tokio::test]
async fn what_is_no_registry_of_a_cluster_is_told_so() {
    let why = backup("memory:").await.unwrap_err();
    assert!(matches!(&why, BackupError::Invalid(why) if why.contains("ends with its process")), "{why}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typo.db");
    let why = backup(&format!("sqlite:{}", path.display())).await.unwrap_err();
    assert!(why.to_string().contains("there is no registry at"), "{why}");
    assert!(!path.exists(), "a mistyped path makes no file");
    let why = copy(&backup_registry(&empty(), "empty")).await.unwrap_err();
    assert!(why.to_string().contains("keeps no cluster's books"), "{why}");
}

#[test]
fn a_generation_is_above_the_one_before_and_the_engines_own_and_no_larger_than_need_be() {
    let on = |engine: u16| frail(FrailRegistry { generation: engine, ..FrailRegistry::on(&empty()) }, "x").0;
    for (before, engine, after) in
        [(0, 0, 1), (6, 0, 7), (2, 1_952, 1_953), (1_953, 0, 1_954), (1_954, 1_952, 1_955)]
    {
        let added = raised(before, &on(engine)).unwrap();
        assert_eq!(engine + added, after, "{before} {engine}");
    }
    assert!(raised(u16::MAX, &on(0)).is_err() && raised(0, &on(u16::MAX)).is_err());
    assert_eq!(raised(u16::MAX - 1, &on(3)).unwrap() + 3, u16::MAX);
}
