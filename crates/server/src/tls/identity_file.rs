//! The file of the cluster's identity, read again when its authorities change.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::file_version::{FileVersion, version};
use crate::identity::ClusterIdentity;

/// The file, and its version that was read last.
pub(super) struct IdentityFile {
    path: PathBuf,
    seen: Mutex<FileVersion>,
}

impl IdentityFile {
    /// The file at this path, which was just read.
    pub(super) fn new(path: PathBuf) -> Self {
        let seen = Mutex::new(version(&path));
        Self { path, seen }
    }

    /// The identity in it, if it has changed. One that cannot be used, or is of another cluster, is left alone.
    pub(super) fn changed(&self, present: &ClusterIdentity) -> Option<Arc<ClusterIdentity>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = version(&self.path);
        if std::mem::replace(&mut *seen, now) == now {
            return None;
        }
        match ClusterIdentity::read(&self.path) {
            Ok(read) if read.id() == present.id() => Some(Arc::new(read)),
            Ok(_) => {
                let path = self.path.display();
                tracing::error!("{path} has another cluster's identity now: the one of before stays in use");
                None
            }
            Err(why) => {
                tracing::error!("the cluster's identity of before stays in use: {why}");
                None
            }
        }
    }
}
