//! Reads, each of one revision: every cold entry, page by page, or some entries.

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, ChangeBatch};

use super::errors::EtcdError;
use super::message::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use super::{EtcdShared, commit, keyspace};
use crate::RegistryError;

/// How many entries a page of a list has.
const PAGE: i64 = 512;

/// How often a read starts anew when etcd has compacted its revision.
const TRIES: usize = 5;

impl EtcdShared {
    pub(super) async fn list(&self) -> Result<ChangeBatch, RegistryError> {
        let mut listed = self.try_list().await;
        for _ in 1..TRIES {
            let Err(EtcdError::Compacted) = listed else { break };
            listed = self.try_list().await;
        }
        let batch = listed.map_err(EtcdError::into_registry_error)?;
        self.announce(batch.revision);
        Ok(batch)
    }

    async fn try_list(&self) -> Result<ChangeBatch, EtcdError> {
        let (mut first, behind) = self.keyspace.cold_range();
        let (mut revision, mut changes) = (0, Vec::new());
        loop {
            let page = RangeRequest {
                key: first,
                range_end: behind.clone(),
                limit: PAGE,
                revision,
                keys_only: false,
            };
            let page: RangeResponse = self.client.call_any("/etcdserverpb.KV/Range", page).await?;
            if revision == 0 {
                revision = page.header.as_ref().map_or(0, |header| header.revision);
            }
            // The next page begins right after the last key.
            first = page.kvs.last().map_or_else(Vec::new, |kv| [kv.key.as_slice(), &[0]].concat());
            let at = keyspace::revision(revision);
            changes.extend(page.kvs.into_iter().filter_map(|kv| {
                let key = self.keyspace.parse_key(&kv.key)?;
                Some(Change { key, entry: Some(keyspace::entry(kv)), revision: at })
            }));
            if !page.more {
                return Ok(ChangeBatch { changes, revision: at });
            }
        }
    }

    pub(super) async fn read(&self, keys: Vec<Key>) -> Result<Vec<Change>, RegistryError> {
        let mut found = self.try_read(&keys).await;
        for _ in 1..TRIES {
            let Err(EtcdError::Compacted) = found else { break };
            found = self.try_read(&keys).await;
        }
        let found = found.map_err(EtcdError::into_registry_error)?;
        if let Some(change) = found.first() {
            self.announce(change.revision);
        }
        Ok(found)
    }

    async fn try_read(&self, keys: &[Key]) -> Result<Vec<Change>, EtcdError> {
        let (mut revision, mut changes) = (0, Vec::with_capacity(keys.len()));
        for part in keys.chunks(self.facts.operations_max.max(1)) {
            let success =
                part.iter().map(|key| keyspace::read_op(self.keyspace.entry(key), revision)).collect();
            let question = TxnRequest { success, ..TxnRequest::default() };
            let answer: TxnResponse = self.client.call_any(commit::PATH, question).await?;
            if revision == 0 {
                revision = answer.header.as_ref().map_or(0, |header| header.revision);
            }
            let found = answer.responses.into_iter();
            let found = found.map(|op| op.range.and_then(|range| range.kvs.into_iter().next()));
            changes.extend(keyspace::changes(part.iter(), found, revision));
        }
        Ok(changes)
    }
}
