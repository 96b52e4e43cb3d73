//! What limits how many runs execute at once, in the whole cluster.

use core::fmt;

use crate::ids::{Namespace, PoolName};

/// The most runs of one limit that may execute at once: each has its permit in one entry.
pub(crate) const RUN_LIMIT_MAX: u32 = 500;

/// A limit that runs count in. A run that counts in several takes a permit of each, all in one transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunLimit {
    /// The pool that its job names.
    Pool(PoolName),
    /// Its namespace, where that has a `runs_max`.
    Namespace(Namespace),
}

impl fmt::Display for RunLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
        }
    }
}
