//! The keys in etcd: everything of one cluster is below its namespace, cold entries are in a range of their own.
//!
//! ```text
//! NS/meta           the layout's version, etcd's cluster, the generation
//! NS/entry/KEY      a cold entry
//! NS/entry.mark     the progress entry, written to show listeners how far the order has advanced
//! NS/run/… NS/load/…  a hot entry, whose key begins like that
//! NS/lease/ID       exists as long as the lease lives, for guards to compare
//! NS/lease.last     written to get the number of a lease
//! ```

use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Entry, LeaseId, Revision};

use super::message::{EtcdOp, KeyValue, RangeRequest, RequestOp};

/// The names below one namespace.
pub(super) struct EtcdKeyspace {
    namespace: String,
}

impl EtcdKeyspace {
    pub(super) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.into() }
    }

    pub(super) fn meta(&self) -> Vec<u8> {
        self.name("/meta")
    }

    pub(super) fn progress_key(&self) -> Vec<u8> {
        self.name("/entry.mark")
    }

    pub(super) fn last_lease(&self) -> Vec<u8> {
        self.name("/lease.last")
    }

    pub(super) fn lease(&self, lease: LeaseId) -> Vec<u8> {
        self.name(&format!("/lease/{lease}"))
    }

    pub(super) fn entry(&self, key: &Key) -> Vec<u8> {
        match key.is_cold() {
            true => self.name(&format!("/entry/{key}")),
            false => self.name(&format!("/{key}")),
        }
    }

    /// The range of everything in the namespace.
    pub(super) fn whole_range(&self) -> (Vec<u8>, Vec<u8>) {
        (self.name("/"), self.name("0"))
    }

    /// The range of cold entries: the first name, and the one after the last.
    pub(super) fn cold_range(&self) -> (Vec<u8>, Vec<u8>) {
        (self.name("/entry/"), self.name("/entry0"))
    }

    /// The range of the cold entries and the progress entry.
    pub(super) fn watch_range(&self) -> (Vec<u8>, Vec<u8>) {
        (self.progress_key(), self.name("/entry0"))
    }

    /// The key of a cold entry's name.
    pub(super) fn parse_key(&self, name: &[u8]) -> Option<Key> {
        let (first, _) = self.cold_range();
        let text = str::from_utf8(name.strip_prefix(first.as_slice())?).ok()?;
        Some(Key::from_stored(text))
    }

    fn name(&self, rest: &str) -> Vec<u8> {
        [self.namespace.as_bytes(), rest.as_bytes()].concat()
    }
}

/// An operation that reads one key.
pub(super) fn read_op(name: Vec<u8>, revision: i64) -> RequestOp {
    RequestOp { step: Some(EtcdOp::Range(RangeRequest { key: name, revision, ..RangeRequest::default() })) }
}

/// An operation that reads one key without its value.
pub(super) fn exists_op(name: Vec<u8>) -> RequestOp {
    let range = RangeRequest { key: name, keys_only: true, ..RangeRequest::default() };
    RequestOp { step: Some(EtcdOp::Range(range)) }
}

pub(super) fn revision(number: i64) -> Revision {
    Revision(number.try_into().unwrap_or(0))
}

/// The entry of a stored etcd key.
pub(super) fn entry(kv: KeyValue) -> Entry {
    Entry {
        value: Arc::from(kv.value),
        revision: revision(kv.mod_revision),
        born: revision(kv.create_revision),
        owner: u64::try_from(kv.lease).ok().filter(|id| *id > 0).map(LeaseId),
    }
}

/// The changes of the keys that were read; each answer belongs to the key at its position.
pub(super) fn changes<'a>(
    keys: impl Iterator<Item = &'a Key>,
    found: impl Iterator<Item = Option<KeyValue>>,
    at: i64,
) -> Vec<Change> {
    let at = revision(at);
    let change =
        |(key, kv): (&Key, Option<KeyValue>)| Change { key: key.clone(), entry: kv.map(entry), revision: at };
    keys.zip(found).map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cold range must contain every cold entry, and nothing else but the progress entry.
    #[test]
    fn the_cold_range_holds_cold_entries_only() {
        let tree = EtcdKeyspace::new("ns");
        let (first, behind) = tree.cold_range();
        for key in ["a", "", "/", "run", "run0", "runs/x", "\u{1}", "~", "日本", "node/a@1"] {
            let key = Key::from_stored(key);
            let name = tree.entry(&key);
            assert!(first <= name && name < behind, "{key}");
            assert_eq!(tree.parse_key(&name), Some(key));
        }
        let hot = tree.entry(&Key::from_stored("run/j/claim"));
        for name in [hot, tree.meta(), tree.lease(LeaseId(7)), tree.last_lease(), tree.progress_key()] {
            assert!(!(first <= name && name < behind));
            assert_eq!(tree.parse_key(&name), None);
        }
        let (first, behind) = tree.whole_range();
        for name in [tree.meta(), tree.lease(LeaseId(7)), tree.last_lease(), tree.progress_key()] {
            assert!(first <= name && name < behind);
        }
        let other = EtcdKeyspace::new("ns-2").meta();
        assert!(!(first <= other && other < behind), "another namespace is outside of it");
        let (first, behind) = tree.watch_range();
        assert!(first <= tree.progress_key() && tree.progress_key() < behind);
    }
}
