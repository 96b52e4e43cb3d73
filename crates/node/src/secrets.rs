//! Secrets that jobs name: read when a run starts, on the node that starts it, and stored nowhere else.

mod folder;
mod given;
mod text;

use std::path::PathBuf;

use evenkeel_core::ids::JobName;

use folder::SecretFolder;
pub(crate) use given::{GivenSecret, give};
pub(crate) use text::SecretText;

/// All secrets that this node has.
#[derive(Clone, Debug)]
pub(crate) struct NodeSecrets {
    folder: SecretFolder,
}

impl NodeSecrets {
    /// The secrets in this folder; none without one.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder: SecretFolder(folder) }
    }

    /// The secrets that a job may name: those of its namespace.
    pub(crate) fn of(&self, job: &JobName) -> SecretReader {
        SecretReader { folder: self.folder.of(job.namespace()) }
    }
}

/// Reads the secrets of one namespace, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecretReader {
    folder: SecretFolder,
}

impl SecretReader {
    /// Reads the secret of this name.
    ///
    /// # Errors
    /// There is none, others may read it, or it is not valid; the text says the fix and contains nothing of it.
    pub(crate) fn read(&self, name: &str) -> Result<SecretText, String> {
        self.folder.read(name)
    }
}
