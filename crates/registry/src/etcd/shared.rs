//! What the requests and listeners of one etcd share.

use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::registry::{EngineFacts, Revision};
use tokio::sync::{Semaphore, watch};

use super::client::EtcdClient;
use super::keyspace::EtcdKeyspace;
use crate::RegistryError;

/// The largest request: etcd's own limit of 1.5 MiB, minus its overhead.
pub(super) const REQUEST_MAX: usize = (3 << 19) - 1_024;

/// The state that requests and listeners share.
pub(super) struct EtcdShared {
    pub(super) facts: EngineFacts,
    pub(super) version: String,
    pub(super) keyspace: EtcdKeyspace,
    /// The revision at which this generation was written.
    pub(super) since: Revision,
    pub(super) client: Arc<EtcdClient>,
    pub(super) permits: Semaphore,
    pub(super) last_error: Mutex<Option<Arc<RegistryError>>>,
    /// The latest revision in an answer of this process.
    pub(super) announced: watch::Sender<Revision>,
    /// The revision of the last progress entry that this process wrote.
    pub(super) progress_written: tokio::sync::Mutex<Revision>,
}

impl EtcdShared {
    pub(super) fn set_last_error(&self, error: Option<RegistryError>) {
        let mut trouble = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_deref() != error.as_ref() {
            *trouble = error.map(Arc::new);
        }
    }

    /// Announces a revision that was in an answer, for every listener to reach.
    pub(super) fn announce(&self, revision: Revision) {
        self.announced.send_if_modified(|told| revision > std::mem::replace(told, revision.max(*told)));
    }
}
