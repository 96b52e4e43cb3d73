//! A registry whose declarations, users and tokens have seals: they are added to what is written, and checked and taken
//! off what is read.

use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::record::{SEAL_BYTES, split_seal};
use evenkeel_core::registry::{
    Change, ChangeBatch, EngineFacts, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome, Write,
};
use evenkeel_core::time::Millis;
use evenkeel_registry::{BoxFuture, Feed, HealthReport, Registry, RegistryError};

use crate::SealKeys;
use crate::seal_key::OpenedEntry;

/// A registry with seals. Without a key nothing is sealed, and seals of other nodes are taken off unchecked.
pub(super) struct SealedRegistry {
    registry: Arc<dyn Registry>,
    seals: Arc<Seals>,
}

/// The keys by which seals are made and checked, if there are any.
struct Seals(Option<SealKeys>);

type SealedResult<T> = Result<T, RegistryError>;

impl SealedRegistry {
    pub(super) fn new(registry: Arc<dyn Registry>, keys: Option<SealKeys>) -> Self {
        Self { registry, seals: Arc::new(Seals(keys)) }
    }
}

impl Seals {
    /// Adds seals to what is written.
    fn seal(&self, txns: &mut [Txn]) {
        let Some(keys) = &self.0 else { return };
        for write in txns.iter_mut().flat_map(|txn| &mut txn.writes) {
            if let Write::Put { key, value, .. } = write
                && key.has_seal()
            {
                *value = keys.seal(key, value);
            }
        }
    }

    /// Takes the seals off what was read; an entry without a valid one is marked.
    fn open(&self, changes: &mut [Change]) {
        for Change { key, entry, .. } in changes {
            let Some(entry) = entry.as_mut().filter(|_| key.has_seal()) else { continue };
            entry.value = match self.0.as_ref().map(|keys| keys.open(key, &entry.value)) {
                Some(
                    OpenedEntry::Sealed(record)
                    | OpenedEntry::SealedByAnother(record)
                    | OpenedEntry::Foreign(record),
                ) => record,
                None => split_seal(&entry.value).0.into(),
            };
        }
    }
}

impl Registry for SealedRegistry {
    fn facts(&self) -> EngineFacts {
        let facts = self.registry.facts();
        let seal = if self.seals.0.is_some() { SEAL_BYTES } else { 0 };
        EngineFacts { value_max: facts.value_max.saturating_sub(seal), ..facts }
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, SealedResult<LeaseGrant>> {
        self.registry.open(ttl)
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, SealedResult<Option<LeaseGrant>>> {
        self.registry.renew(lease)
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, SealedResult<()>> {
        self.registry.close(lease)
    }

    fn commit(&self, mut txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        self.seals.seal(&mut txns);
        Box::pin(async move {
            let mut outcomes = self.registry.commit(txns).await;
            for outcome in &mut outcomes {
                if let TxnOutcome::Refused(found) = outcome {
                    self.seals.open(found);
                }
            }
            outcomes
        })
    }

    fn list(&self) -> BoxFuture<'_, SealedResult<ChangeBatch>> {
        Box::pin(async move {
            let mut batch = self.registry.list().await?;
            self.seals.open(&mut batch.changes);
            Ok(batch)
        })
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, SealedResult<Vec<Change>>> {
        Box::pin(async move {
            let mut found = self.registry.read(keys).await?;
            self.seals.open(&mut found);
            Ok(found)
        })
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, SealedResult<Feed>> {
        Box::pin(async move {
            let seals = self.seals.clone();
            Ok(self.registry.watch(after).await?.map(move |batch| seals.open(&mut batch.changes)))
        })
    }

    fn check_health(&self) -> BoxFuture<'_, SealedResult<HealthReport>> {
        self.registry.check_health()
    }

    fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.registry.last_error()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::job::{Job, JobFile, Spec, Work};
    use evenkeel_core::keys;
    use evenkeel_core::record::{SpecRecord, decode, encode, with_seal};
    use evenkeel_core::registry::{Guard, Value};
    use evenkeel_core::time::Wall;

    use super::*;
    use crate::SealKey;

    fn spec(version: u64) -> Value {
        let job = JobFile::new("j".parse().unwrap(), "@daily", Work::Function("f".into()));
        let spec = Spec::new(Job::parse(job).unwrap(), version, Wall(0));
        encode(&SpecRecord::Live(spec.into()))
    }

    fn key() -> Key {
        keys::spec(&"j".parse().unwrap())
    }

    fn put(value: Value, guard: Guard) -> Vec<Txn> {
        vec![Txn { guards: vec![guard], writes: vec![Write::Put { key: key(), value, owner: None }] }]
    }

    /// The record that the entry has in each way of reading it: listed, read, refused.
    async fn found(registry: &dyn Registry) -> SpecRecord {
        let refused = registry.commit(put(spec(99), Guard::Absent(key()))).await.remove(0);
        let TxnOutcome::Refused(refused) = refused else { panic!("{refused:?}") };
        let listed = registry.list().await.unwrap().changes;
        let read = registry.read(vec![key()]).await.unwrap();
        let values = [listed, read, refused].map(|changes| {
            let found = changes.into_iter().find(|change| change.key == key()).unwrap();
            found.entry.unwrap().value
        });
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        decode(&values[0]).unwrap()
    }

    #[tokio::test]
    async fn what_nodes_write_is_theirs_and_what_others_write_is_not() {
        let plain = evenkeel_registry::open("memory:seals").await.unwrap();
        let sealed =
            |secret| SealedRegistry::new(plain.clone(), Some(SealKeys::new(SealKey::new([secret; 32]), [])));
        let (own, other) = (sealed(1), sealed(2));
        let mut feed = own.watch(Revision(0)).await.unwrap();
        own.commit(put(spec(1), Guard::Absent(key()))).await;
        let live = |version| decode::<SpecRecord>(&spec(version)).unwrap();
        assert_eq!(found(&own).await, live(1));
        assert_eq!(found(&other).await, live(1).unsealed(), "another cluster's seal is none");
        assert_eq!(found(&SealedRegistry::new(plain.clone(), None)).await, live(1), "unchecked");
        let raw = plain.read(vec![key()]).await.unwrap().remove(0).entry.unwrap().value;
        assert!(raw.starts_with(&spec(1)) && raw.len() > spec(1).len() + 64, "{raw:?}");
        plain.commit(put(spec(2), Guard::Present(key()))).await;
        assert_eq!(found(&own).await, live(2).unsealed());
        // An old seal beside another text.
        let stolen = with_seal(&spec(3), std::str::from_utf8(split_seal(&raw).1).unwrap());
        plain.commit(put(stolen, Guard::Present(key()))).await;
        assert_eq!(found(&own).await, live(3).unsealed());
        own.commit(put(spec(4), Guard::Present(key()))).await;
        assert_eq!(found(&own).await, live(4));
        let mut last = None;
        while last.as_ref() != Some(&live(4)) {
            let received = feed.next().await.unwrap().changes.pop().unwrap();
            let record: SpecRecord = decode(&received.entry.unwrap().value).unwrap();
            assert!(
                [live(1), live(2).unsealed(), live(3).unsealed(), live(4)].contains(&record),
                "{record:?}"
            );
            last = Some(record);
        }
    }
}
