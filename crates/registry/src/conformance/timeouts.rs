//! Records whether an engine timed out a request because this machine was too slow.
//!
//! Each engine times out a request after some seconds, and reports that it is unavailable. No case causes that: the
//! file or the server is there all the time. So a case that fails after a timeout has shown nothing, and starts again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, EngineFacts, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome,
};
use evenkeel_core::time::Millis;

use super::{Engine, TimeSource};
use crate::clock::Stopwatch;
use crate::{BoxFuture, Feed, HealthReport, Registry, RegistryError};

/// Less than any engine's timeout. An earlier report is no timeout, so it is a fault.
const LIMIT_MIN: Duration = Duration::from_secs(2);

/// The record of one attempt at a case.
#[derive(Clone)]
pub(super) struct TimeoutLog {
    begun: Stopwatch,
    gave_up: Arc<AtomicBool>,
    too_soon: Arc<AtomicBool>,
}

impl TimeoutLog {
    pub(super) fn start() -> Self {
        Self { begun: Stopwatch::start(), gave_up: Arc::default(), too_soon: Arc::default() }
    }

    /// Whether a request timed out.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    /// Whether the engine reported that it is unavailable sooner than any timeout.
    pub(super) fn too_soon(&self) -> bool {
        self.too_soon.load(Ordering::Relaxed)
    }

    fn note_error(&self, error: Option<&RegistryError>) {
        if matches!(error, Some(RegistryError::Unavailable(_))) {
            let is_soon = self.begun.elapsed() < LIMIT_MIN;
            if is_soon { &self.too_soon } else { &self.gave_up }.store(true, Ordering::Relaxed);
        }
    }
}

/// An engine, or a connection to it, whose timeouts are recorded.
pub(super) struct TimeoutMonitor<T> {
    pub(super) inner: T,
    pub(super) log: TimeoutLog,
}

impl<T> TimeoutMonitor<T> {
    fn watch_answer<'a, A: Send + 'a>(
        &'a self,
        answer: BoxFuture<'a, Result<A, RegistryError>>,
    ) -> BoxFuture<'a, Result<A, RegistryError>>
    where
        T: Sync,
    {
        Box::pin(async move {
            let answer = answer.await;
            self.log.note_error(answer.as_ref().err());
            answer
        })
    }
}

impl<E: Engine> Engine for TimeoutMonitor<E> {
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
        Box::pin(async {
            let inner = self.watch_answer(self.inner.connect()).await?;
            Ok(Arc::new(TimeoutMonitor { inner, log: self.log.clone() }) as Arc<dyn Registry>)
        })
    }

    fn url(&self) -> String {
        self.inner.url()
    }

    fn time_source(&self) -> TimeSource {
        self.inner.time_source()
    }

    fn is_available(&self) -> bool {
        self.inner.is_available()
    }
}

impl Registry for TimeoutMonitor<Arc<dyn Registry>> {
    fn facts(&self) -> EngineFacts {
        self.inner.facts()
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>> {
        self.watch_answer(self.inner.open(ttl))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>> {
        self.watch_answer(self.inner.renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        self.watch_answer(self.inner.close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        Box::pin(async {
            let outcomes = self.inner.commit(txns).await;
            if outcomes.contains(&TxnOutcome::Unknown) {
                // Another transaction may have been answered since, and the error be over.
                let unavailable = || RegistryError::Unavailable("an outcome is unknown".into());
                let trouble = self.inner.last_error().map_or_else(unavailable, |trouble| (*trouble).clone());
                self.log.note_error(Some(&trouble));
            }
            outcomes
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>> {
        self.watch_answer(self.inner.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        self.watch_answer(self.inner.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        self.watch_answer(self.inner.watch(after))
    }

    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        self.watch_answer(self.inner.check_health())
    }

    fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.inner.last_error()
    }
}
