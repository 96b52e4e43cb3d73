//! Nodes, and a tree that is to have another layout or has one that they do not know.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;
use std::time::Duration;

use evenkeel::core::ids::Member;
use evenkeel::core::input::{ApplyResult, Refusal};
use evenkeel::core::keys;
use evenkeel::core::record::{ClusterRecord, Layouts, MemberInfo, decode, encode};
use evenkeel::core::registry::{Guard, LeaseId, Txn, TxnOutcome, Write};
use evenkeel::core::time::Millis;
use evenkeel::{Answer, Command, Config, Handle, OpenError};
use evenkeel_registry::Registry;
use tempfile::TempDir;
use tokio::time::timeout;

/// Whatever takes longer than this will not happen.
const PATIENCE: Duration = Duration::from_secs(120);

fn url(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("registry").display())
}

async fn node(name: &str, folder: &TempDir) -> Result<Handle, OpenError> {
    let mut config = Config::new(name.parse().unwrap(), url(folder), folder.path().join(name));
    config.ttl = Duration::from_secs(30);
    evenkeel::open(config).await
}

/// Waits until the node's view is so.
async fn until(node: &Handle, so: impl Fn(&evenkeel::core::view::View) -> bool) {
    let mut changes = node.changes();
    let seen = async {
        while !node.with_node(|node| so(node.view())) {
            changes.changed().await.unwrap();
        }
    };
    timeout(PATIENCE, seen).await.unwrap();
}

async fn commit(registry: &Arc<dyn Registry>, txn: Txn) {
    let outcome = registry.commit(vec![txn]).await.pop().unwrap();
    assert!(matches!(outcome, TxnOutcome::Applied(_)), "{outcome:?}");
}

async fn cluster(registry: &Arc<dyn Registry>) -> ClusterRecord {
    let found = registry.read(vec![keys::cluster()]).await.unwrap().pop().unwrap();
    decode(&found.entry.unwrap().value).unwrap()
}

/// Writes the cluster's entry by hand.
async fn set(registry: &Arc<dyn Registry>, record: &ClusterRecord) {
    let put = Write::Put { key: keys::cluster(), value: encode(record), owner: None };
    commit(registry, Txn { guards: vec![Guard::Present(keys::cluster())], writes: vec![put] }).await;
}

/// proves: I49
#[tokio::test(flavor = "multi_thread")]
async fn a_layout_that_a_member_does_not_know_is_not_raised() {
    let folder = tempfile::tempdir().unwrap();
    let first = node("a", &folder).await.unwrap();
    assert_eq!(first.ask(Command::FinalizeUpgrade).await, Answer::Layout(2, ApplyResult::Unchanged));
    // A member of the next version.
    let registry = evenkeel_registry::open(&url(&folder)).await.unwrap();
    let LeaseId(incarnation) = registry.open(Millis::secs(60)).await.unwrap().lease;
    let later = Member { node: "z".parse().unwrap(), incarnation };
    let mine = first.with_node(|node| node.view().member(&node.member().unwrap()).unwrap().info.clone());
    let value = encode(&MemberInfo { knows: 3, ..mine });
    let put = Write::Put { key: keys::node(&later), value, owner: Some(LeaseId(incarnation)) };
    commit(&registry, Txn { guards: vec![Guard::Absent(keys::node(&later))], writes: vec![put] }).await;
    until(&first, |view| view.member(&later).is_some()).await;
    let before = cluster(&registry).await;
    let refused = first.ask(Command::FinalizeUpgrade).await;
    let Answer::Refused(Refusal::Conflict, why) = refused else { panic!("{refused:?}") };
    assert_eq!(
        why,
        "the tree has layout 2, and not all nodes know layout 3: upgrade a (up to 2), then try again"
    );
    assert_eq!(cluster(&registry).await, before);
    // Somebody of that version wished for it all the same, and died: a node of this one takes that back when it joins.
    set(&registry, &before.wanting(Some(3))).await;
    let second = node("b", &folder).await.unwrap();
    let taken_back = cluster(&registry).await;
    assert_eq!((taken_back.layout, taken_back.wanted), (2, None));
    registry.close(LeaseId(incarnation)).await.unwrap();
    until(&first, |view| view.member(&later).is_none()).await;
    assert_eq!(first.ask(Command::FinalizeUpgrade).await, Answer::Layout(2, ApplyResult::Unchanged));
    first.stop_now().await;
    second.stop_now().await;
}

/// proves: I49
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_know_the_layout_ends_or_does_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let first = node("a", &folder).await.unwrap();
    let registry = evenkeel_registry::open(&url(&folder)).await.unwrap();
    let known = cluster(&registry).await;
    set(&registry, &known.raised(Layouts::OWN.newest + 1)).await;
    let ended = timeout(PATIENCE, first.stopped()).await.unwrap();
    let says = "it has layout 3, this program knows 2: use a newer program";
    assert!(ended.as_ref().is_err_and(|why| why.ends_with(says)), "{ended:?}");
    let refused = node("b", &folder).await.err().unwrap().to_string();
    assert!(refused.starts_with("no node can join") && refused.ends_with(says), "{refused}");
    set(&registry, &known.raised(0)).await;
    let refused = node("b", &folder).await.err().unwrap().to_string();
    assert!(refused.contains("it has layout 0, this program knows 2: start the program before"), "{refused}");
    set(&registry, &known.wanting(None)).await;
    node("a", &folder).await.unwrap().stop_now().await;
}
