//! The errors of opening a node.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_registry::RegistryError;

/// Why a node could not be opened. Each text says the fix.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the data folder.
    #[error("the data folder {} is in use by another process: stop that one or choose another --data", .0.display())]
    InUse(PathBuf),
    /// The data folder cannot be used.
    #[error("the data folder {} cannot be used ({error}): make it writable or choose another --data", .path.display())]
    Data {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The guard process did not come up.
    #[error("the guard process did not come up: {0}")]
    Guard(String),
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The registry cannot be used.
    #[error("{0}")]
    Registry(#[from] RegistryError),
    /// The history cannot be used.
    #[error("the history {url} cannot be used ({error}): mend that, or choose another --history")]
    History {
        /// The history's URL.
        url: String,
        /// The error.
        error: String,
    },
    /// A living node has the same name.
    #[error(
        "a living node is already named {name}, and still was after {:.0} s: stop it or choose another --name; if it is an \
         earlier life of this node, whose data folder is gone, its lease has a longer term: wait for its end with \
         --wait-for-name 2m",
        .term.as_secs_f64()
    )]
    NameTaken {
        /// The name.
        name: String,
        /// How long the node waited for the name.
        term: Duration,
    },
}
