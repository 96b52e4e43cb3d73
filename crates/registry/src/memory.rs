//! The in-memory engine: [`Store`] behind a lock. For trials, tests and embedders.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, DurabilityClass, EngineFacts, FeedKind, LeaseGrant, LeaseId, Revision, Txn,
    TxnOutcome,
};
use evenkeel_core::store::Store;
use evenkeel_core::time::Millis;
use tokio::sync::watch;

use crate::clock::{Clock, HostClock};
use crate::feed::{ChangeLog, Feed};
use crate::health::HealthReport;
use crate::{BoxFuture, Registry, RegistryError, TTL_MAX, fits};

const FACTS: EngineFacts = EngineFacts {
    engine: "memory",
    class: DurabilityClass::C,
    feed: FeedKind::Pushed,
    notice: Millis::ZERO,
    early: Millis::ZERO,
    ttl_min: Millis(100),
    value_max: 16 << 20,
    operations_max: 4096,
    bytes_max: 32 << 20,
    generation: 0,
};

/// A registry in this process. Its data is lost when the process ends, hence class C.
pub struct Memory {
    shared: Arc<SharedStore>,
    bell: watch::Sender<Revision>,
    clock: Arc<dyn Clock>,
}

struct SharedStore(Mutex<Store>);

static NAMED: Mutex<BTreeMap<String, Weak<Memory>>> = Mutex::new(BTreeMap::new());

impl Memory {
    /// A new, empty registry with this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(SharedStore(Mutex::new(Store::default())));
        Self { shared, bell: watch::Sender::new(Revision(0)), clock }
    }

    /// The registry of this name, shared within the process for as long as it is in use.
    #[must_use]
    pub fn named(name: &str) -> Arc<Self> {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = named.get(name).and_then(Weak::upgrade) {
            return memory;
        }
        let memory = Arc::new(Self::new(Arc::new(HostClock)));
        named.retain(|_, memory| memory.strong_count() > 0);
        named.insert(name.into(), Arc::downgrade(&memory));
        memory
    }

    /// A new registry of this name; `None` if there is one.
    pub(crate) fn new_named(name: &str) -> Option<Arc<Self>> {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if named.get(name).is_some_and(|memory| memory.strong_count() > 0) {
            return None;
        }
        let memory = Arc::new(Self::new(Arc::new(HostClock)));
        named.insert(name.into(), Arc::downgrade(&memory));
        Some(memory)
    }

    /// Takes the name from a registry. What has it open keeps it; the next one to open the name gets another registry.
    pub(crate) fn forget_name(name: &str) {
        NAMED.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Applies an act to the store and notifies listeners of a new revision.
    fn update<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.shared.store();
        let answer = act(&mut store);
        let revision = store.revision();
        // Under the lock, so that the announced revisions never go backwards.
        self.bell.send_if_modified(|rung| std::mem::replace(rung, revision) != revision);
        answer
    }

    fn granted(&self, store: &Store, lease: LeaseId, ttl: Millis) -> LeaseGrant {
        let now = self.clock.now();
        let next_end = store.next_end().map(|end| end - now.mono);
        LeaseGrant { lease, ttl, clock: Some(now.wall), next_end }
    }
}

impl SharedStore {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeLog for SharedStore {
    fn changes_after(
        self: Arc<Self>,
        after: Revision,
    ) -> BoxFuture<'static, Result<Option<ChangeBatch>, RegistryError>> {
        Box::pin(async move { Ok(self.store().changes_after(after)) })
    }
}

impl Registry for Memory {
    fn facts(&self) -> EngineFacts {
        FACTS
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>> {
        Box::pin(async move {
            let ttl = ttl.clamp(FACTS.ttl_min, TTL_MAX);
            Ok(self.update(|store| {
                let lease = store.open(self.clock.now().mono, ttl);
                self.granted(store, lease, ttl)
            }))
        })
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>> {
        Box::pin(async move {
            Ok(self.update(|store| {
                let alive = store.renew(self.clock.now().mono, lease);
                let ttl = store.term(lease).filter(|_| alive)?;
                Some(self.granted(store, lease, ttl))
            }))
        })
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(async move {
            self.update(|store| store.close(lease));
            Ok(())
        })
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        let answer = |store: &mut Store, txn: &Txn| match fits(&FACTS, txn) {
            true => store.commit(self.clock.now().mono, txn),
            false => TxnOutcome::Refused(store.found(txn)),
        };
        Box::pin(async move { self.update(|store| txns.iter().map(|txn| answer(store, txn)).collect()) })
    }

    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>> {
        Box::pin(async { Ok(self.shared.store().list()) })
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        Box::pin(async move { Ok(self.shared.store().read(&keys)) })
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        Box::pin(async move { Ok(Feed::new(self.shared.clone(), self.bell.subscribe(), after)) })
    }

    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        Box::pin(async { Ok(HealthReport { version, ..HealthReport::default() }) })
    }
}
