//! The engine on etcd, 3.4 or newer. Class A, with one member as with five.
//!
//! Guards are comparisons of an etcd transaction; revisions and leases are etcd's own. Many transactions travel at once
//! over one connection; etcd orders them, and puts the waiting ones into one write of its log.

mod baseline;
mod bundle;
mod client;
mod commit;
mod erase;
mod errors;
#[cfg(test)]
mod fake_server;
mod feed;
mod health;
mod keyspace;
mod leader;
mod lease;
mod login;
mod message;
mod meta;
mod read;
mod shared;

use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, DurabilityClass, EngineFacts, FeedKind, LeaseGrant, LeaseId, Revision, Txn,
    TxnOutcome,
};
use evenkeel_core::time::Millis;
use tokio::sync::{Semaphore, watch};

use crate::feed::Feed;
use crate::health::HealthReport;
use crate::{BoxFuture, EngineUrl, Registry, RegistryError};
pub(crate) use baseline::EtcdBaseline;
use client::EtcdClient;
use keyspace::EtcdKeyspace;
use shared::{EtcdShared, REQUEST_MAX};

/// The largest value; a transaction may have several as long as it stays below [`REQUEST_MAX`].
const VALUE_MAX: usize = 1 << 20;

/// The part of it for keys and values; the rest is for the overhead of each.
const BYTES_MAX: usize = REQUEST_MAX - (64 << 10);

/// How many requests of transactions are in flight at once; more wait here, where they cost least (I47).
const UNDER_WAY_MAX: usize = 256;

/// A registry in etcd.
pub struct Etcd {
    shared: Arc<EtcdShared>,
}

impl Etcd {
    /// Connects to `etcd://HOST[,HOST…][/NAMESPACE]`.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when this URL, user or etcd cannot be used, [`RegistryError::Unavailable`] while no
    /// member that has a leader can be reached.
    pub async fn connect(url: &EngineUrl) -> Result<Self, RegistryError> {
        url.allow_options(&[])?;
        let ([], namespace) = url.path_segments([])?;
        let tree = EtcdKeyspace::new(namespace);
        let wire = EtcdClient::new(url, &tree)?;
        let version = meta::version(&wire).await?;
        let meta::EtcdGeneration { generation, since } = meta::adopt_generation(&wire, &tree, None).await?;
        let facts = EngineFacts {
            engine: "etcd",
            class: DurabilityClass::A,
            feed: FeedKind::Pushed,
            notice: Millis(i64::try_from(client::UNNOTICED.as_millis()).unwrap_or(i64::MAX)),
            early: Millis::ZERO,
            ttl_min: Millis::secs(meta::least_term(&wire).await?),
            value_max: VALUE_MAX,
            operations_max: meta::operations_max(&wire, &tree).await?,
            bytes_max: BYTES_MAX,
            generation,
        };
        raise_generation_on_loss(url.clone(), namespace.to_owned(), &wire, generation);
        let shared = EtcdShared {
            facts,
            version,
            keyspace: tree,
            since,
            client: wire,
            permits: Semaphore::new(UNDER_WAY_MAX),
            last_error: Mutex::new(None),
            announced: watch::Sender::new(Revision(0)),
            progress_written: tokio::sync::Mutex::new(Revision(0)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Etcd {
    /// Whether there is a registry at this URL. Creates nothing.
    pub(crate) async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
        erase::exists(url).await
    }

    /// Deletes all keys of the namespace.
    pub(crate) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
        erase::erase(url).await
    }
}

/// Raises the generation if etcd was rolled back during this session, so that the next connection gets a new one. The
/// end is reported only after the new generation is written: until then callers only see that etcd does not answer, and
/// retry.
fn raise_generation_on_loss(url: EngineUrl, namespace: String, wire: &Arc<EtcdClient>, generation: u16) {
    let (mut losses, wire) = (wire.subscribe_lost(), Arc::downgrade(wire));
    tokio::spawn(async move {
        let Ok(Some(why)) = losses.wait_for(Option::is_some).await.map(|why| why.clone()) else { return };
        let tree = EtcdKeyspace::new(&namespace);
        while let Ok(fresh) = EtcdClient::new(&url, &tree) {
            match meta::adopt_generation(&fresh, &tree, Some(generation)).await {
                Err(RegistryError::Unavailable(_)) => tokio::time::sleep(client::PATIENCE).await,
                _ => break,
            }
        }
        wire.upgrade().iter().for_each(|wire| wire.fail_permanently(why.clone()));
    });
}

impl Registry for Etcd {
    fn facts(&self) -> EngineFacts {
        self.shared.facts
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>> {
        Box::pin(self.shared.open(ttl))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>> {
        Box::pin(self.shared.renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(self.shared.close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        Box::pin(commit::commit(&self.shared, txns))
    }

    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>> {
        Box::pin(self.shared.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        Box::pin(self.shared.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        Box::pin(feed::listen(&self.shared, after))
    }

    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        Box::pin(self.shared.check_health())
    }

    fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.shared.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
    use std::time::Duration;

    use super::message::{KeyValue, PutResponse, RangeResponse, ResponseHeader, ResponseOp, TxnResponse};
    use super::*;

    #[tokio::test]
    async fn who_saw_etcd_go_back_is_told_when_the_new_generation_is_written_and_not_before() {
        let (revision, full, tries) =
            (AtomicI64::new(9), Arc::new(AtomicBool::new(true)), Arc::<AtomicU32>::default());
        let (is_full, tried) = (full.clone(), tries.clone());
        let shared = fake_server::start("", move |path| {
            // Each answer is from before the last one.
            let revision = revision.fetch_sub(1, Ordering::Relaxed).max(1);
            let header = Some(ResponseHeader { cluster_id: 1, revision, raft_term: 1 });
            match path {
                "/etcdserverpb.KV/Range" => {
                    vec![fake_server::bytes(&RangeResponse { header, ..RangeResponse::default() })]
                }
                "/etcdserverpb.KV/Put" => vec![fake_server::bytes(&PutResponse { header })],
                _ if tried.fetch_add(1, Ordering::Relaxed) < 1 || is_full.load(Ordering::Relaxed) => vec![],
                _ => {
                    vec![fake_server::bytes(&TxnResponse {
                        header,
                        succeeded: true,
                        ..TxnResponse::default()
                    })]
                }
            }
        })
        .await;
        assert!(shared.list().await.is_ok());
        let mut heard = shared.list().await;
        while tries.load(Ordering::Relaxed) < 1 {
            assert!(matches!(heard, Err(RegistryError::Unavailable(_))), "{heard:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
            heard = shared.list().await;
        }
        assert!(matches!(heard, Err(RegistryError::Unavailable(_))), "{heard:?}");
        full.store(false, Ordering::Relaxed);
        let told = async {
            while !matches!(shared.list().await, Err(RegistryError::Fatal(_))) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), told).await.expect("the end is told");
        assert_eq!(tries.load(Ordering::Relaxed), 2, "it was tried again");
    }

    /// A member that was paused does so; a write still comes after all earlier answers.
    #[tokio::test]
    async fn a_member_that_answers_with_what_was_is_no_etcd_that_went_back() {
        // The second member does not even report its revision, which does not mean that it was rolled back.
        let header = Some(ResponseHeader { cluster_id: 1, revision: 10, raft_term: 1 });
        for (header, says) in [(header, "a while ago"), (None, "how far it is")] {
            check_outdated_answer(PutResponse { header }, says).await;
        }
    }

    async fn check_outdated_answer(written: PutResponse, says: &str) {
        let (asked, raised) = (AtomicI64::new(0), Arc::<AtomicU32>::default());
        let raises = raised.clone();
        let shared = fake_server::start("", move |path| {
            let header = |revision| Some(ResponseHeader { cluster_id: 1, revision, raft_term: 1 });
            match path {
                "/etcdserverpb.KV/Range" => {
                    let revision = if asked.fetch_add(1, Ordering::Relaxed) == 1 { 3 } else { 9 };
                    vec![fake_server::bytes(&RangeResponse {
                        header: header(revision),
                        ..RangeResponse::default()
                    })]
                }
                "/etcdserverpb.KV/Put" => vec![fake_server::bytes(&written)],
                _ => {
                    raises.fetch_add(1, Ordering::Relaxed);
                    vec![]
                }
            }
        })
        .await;
        assert!(shared.list().await.is_ok());
        let told = shared.list().await;
        assert!(matches!(&told, Err(RegistryError::Unavailable(why)) if why.contains(says)), "{told:?}");
        assert!(shared.list().await.is_ok(), "it is asked again");
        assert_eq!(raised.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn nothing_is_made_under_a_generation_that_is_over() {
        let of = |mod_revision| {
            let kv = KeyValue { mod_revision, ..KeyValue::default() };
            ResponseOp { range: Some(RangeResponse { kvs: vec![kv], ..RangeResponse::default() }) }
        };
        let entry = ResponseOp { range: Some(RangeResponse::default()) };
        let ours = i64::try_from(fake_server::SINCE.0).unwrap();
        for (responses, goes_on) in [
            (vec![entry.clone(), of(ours)], true),
            (vec![entry.clone(), of(ours + 1)], false),
            (vec![entry.clone(), entry], false),
        ] {
            let shared = fake_server::start("", move |path| match path {
                "/etcdserverpb.KV/Range" => vec![],
                _ => vec![fake_server::bytes(&TxnResponse {
                    header: Some(ResponseHeader { cluster_id: 1, revision: 9, raft_term: 1 }),
                    succeeded: false,
                    responses: responses.clone(),
                })],
            })
            .await;
            let txn = Txn {
                guards: vec![],
                writes: vec![evenkeel_core::registry::Write::Delete { key: Key::from_stored("a") }],
            };
            let outcome = shared.commit_one(txn).await;
            let over = matches!(&*shared.last_error.lock().unwrap(), Some(why) if why.to_string().contains("new generation"));
            assert_eq!((matches!(outcome, TxnOutcome::Refused(_)), over), (goes_on, !goes_on), "{outcome:?}");
        }
    }
}
