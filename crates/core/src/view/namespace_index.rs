//! The namespaces that a view knows, and how many jobs each holds.

use alloc::collections::BTreeMap;

use super::known_entry::KnownEntry;
use crate::ids::{DEFAULT_NAMESPACE, JobName, Namespace};
use crate::keys::{self, Key};
use crate::record::NamespaceRecord;

/// All namespaces that have an entry, and the number of jobs of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NamespaceIndex {
    pub(super) entries: BTreeMap<Namespace, KnownEntry<NamespaceRecord>>,
    /// The living jobs of namespaces that have any; those in `default`, which are most, are counted apart.
    pub(super) jobs: BTreeMap<Namespace, usize>,
    pub(super) in_default: usize,
}

impl NamespaceIndex {
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.entries.keys().map(keys::namespace)
    }

    /// Notes that a job came to life, or ended.
    pub(super) fn recount(&mut self, job: &JobName, was_live: bool, is_live: bool) {
        if was_live == is_live {
            return;
        }
        let Some(namespace) = named(job) else {
            self.in_default = self.in_default + usize::from(is_live) - usize::from(was_live);
            return;
        };
        let jobs = self.jobs.entry(namespace.clone()).or_default();
        *jobs = *jobs + usize::from(is_live) - usize::from(was_live);
        if *jobs == 0 {
            self.jobs.remove(&namespace);
        }
    }
}

/// The namespace in a name; `None` for `default`.
fn named(job: &JobName) -> Option<Namespace> {
    match job.namespace() {
        DEFAULT_NAMESPACE => None,
        namespace => namespace.parse().ok(),
    }
}
