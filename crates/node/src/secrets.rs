//! Secrets that jobs name: read when a run starts, on the node that starts it, and kept nowhere as they are.

mod folder;
mod given;
mod sealed;
mod text;

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_core::ids::JobName;

use folder::SecretFolder;
pub(crate) use given::{GivenSecret, give};
pub use sealed::SecretOpener;
use sealed::{SealedSecrets, SharedNode};
pub(crate) use text::SecretText;

/// All secrets that this node has.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeSecrets {
    folder: SecretFolder,
    sealed: SealedSecrets,
}

impl NodeSecrets {
    /// The secrets in this folder, and those that the registry keeps, as far as the node knows it and this opens them.
    pub(crate) fn new(
        folder: Option<PathBuf>,
        opener: Option<Arc<dyn SecretOpener>>,
        node: &SharedNode,
    ) -> Self {
        Self { folder: SecretFolder(folder), sealed: SealedSecrets::new(opener, node) }
    }

    /// The secrets that a job may name: those of its namespace.
    pub(crate) fn of(&self, job: &JobName) -> SecretReader {
        SecretReader {
            folder: self.folder.of(job.namespace()),
            sealed: self.sealed.clone(),
            namespace: job.namespace().to_owned(),
        }
    }
}

/// Reads the secrets of one namespace, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecretReader {
    folder: SecretFolder,
    sealed: SealedSecrets,
    namespace: String,
}

impl SecretReader {
    /// Reads the secret of this name. A file of the node's goes before what the registry keeps.
    ///
    /// # Errors
    /// There is none, others may read it, or it is not valid; the text says the fix and contains nothing of it.
    pub(crate) fn read(&self, name: &str) -> Result<SecretText, String> {
        if let Some(text) = self.folder.read(name)? {
            return Ok(text);
        }
        match self.sealed.read(&self.namespace, name)? {
            Some(text) => Ok(text),
            None => Err(format!(
                "the secret {name}: {}{}",
                self.folder.missing(name),
                self.sealed.hint(&self.namespace, name)
            )),
        }
    }
}
