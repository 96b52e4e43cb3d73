//! Notes whether an engine gave up a question because this machine was too slow to answer it.
//!
//! Each engine gives up what is not answered within some seconds, and says that it is unavailable. No case makes it so: the file
//! or the server is there all the time. So a case that fails after that has shown nothing, and begins again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Batch, Change, Facts, Granted, LeaseId, Outcome, Revision, Txn};
use evenkeel_core::time::Millis;

use super::{Engine, Pace};
use crate::clock::Stopwatch;
use crate::{BoxFuture, Examined, Feed, Registry, RegistryError};

/// Less than any engine's limit. What is unavailable sooner was not given up, so it is a fault.
const LIMIT_MIN: Duration = Duration::from_secs(2);

/// What is noted of one attempt at a case.
#[derive(Clone)]
pub(super) struct Notes {
    begun: Stopwatch,
    gave_up: Arc<AtomicBool>,
    too_soon: Arc<AtomicBool>,
}

impl Notes {
    pub(super) fn start() -> Self {
        Self { begun: Stopwatch::start(), gave_up: Arc::default(), too_soon: Arc::default() }
    }

    /// Whether a question was given up.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    /// Whether the engine said that it is unavailable sooner than it gives up any question.
    pub(super) fn too_soon(&self) -> bool {
        self.too_soon.load(Ordering::Relaxed)
    }

    fn look_at(&self, error: Option<&RegistryError>) {
        if matches!(error, Some(RegistryError::Unavailable(_))) {
            let is_soon = self.begun.passed() < LIMIT_MIN;
            if is_soon { &self.too_soon } else { &self.gave_up }.store(true, Ordering::Relaxed);
        }
    }
}

/// An engine, or a connection to it, of which it is noted.
pub(super) struct Noted<T> {
    pub(super) inner: T,
    pub(super) notes: Notes,
}

impl<T> Noted<T> {
    fn answer<'a, A: Send + 'a>(
        &'a self,
        answer: BoxFuture<'a, Result<A, RegistryError>>,
    ) -> BoxFuture<'a, Result<A, RegistryError>>
    where
        T: Sync,
    {
        Box::pin(async move {
            let answer = answer.await;
            self.notes.look_at(answer.as_ref().err());
            answer
        })
    }
}

impl<E: Engine> Engine for Noted<E> {
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
        Box::pin(async {
            let inner = self.answer(self.inner.connect()).await?;
            Ok(Arc::new(Noted { inner, notes: self.notes.clone() }) as Arc<dyn Registry>)
        })
    }

    fn pace(&self) -> Pace {
        self.inner.pace()
    }

    fn is_there(&self) -> bool {
        self.inner.is_there()
    }
}

impl Registry for Noted<Arc<dyn Registry>> {
    fn facts(&self) -> Facts {
        self.inner.facts()
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<Granted, RegistryError>> {
        self.answer(self.inner.open(ttl))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<Granted>, RegistryError>> {
        self.answer(self.inner.renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        self.answer(self.inner.close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<Outcome>> {
        Box::pin(async {
            let outcomes = self.inner.commit(txns).await;
            if outcomes.contains(&Outcome::Unknown) {
                // Another one may have been answered since, and the trouble be over.
                let unavailable = || RegistryError::Unavailable("an outcome is unknown".into());
                let trouble = self.inner.trouble().map_or_else(unavailable, |trouble| (*trouble).clone());
                self.notes.look_at(Some(&trouble));
            }
            outcomes
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Batch, RegistryError>> {
        self.answer(self.inner.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        self.answer(self.inner.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        self.answer(self.inner.watch(after))
    }

    fn examine(&self) -> BoxFuture<'_, Result<Examined, RegistryError>> {
        self.answer(self.inner.examine())
    }

    fn trouble(&self) -> Option<Arc<RegistryError>> {
        self.inner.trouble()
    }
}
