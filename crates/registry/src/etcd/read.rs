//! Readings, each of one revision: every cold entry, page by page, or some entries.

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Batch, Change};

use super::fault::Fault;
use super::message::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use super::{Shared, commit, tree};
use crate::RegistryError;

/// How many entries a page of the listing has.
const PAGE: i64 = 512;

/// How often a reading begins anew when etcd forgot the revision it was of.
const TRIES: usize = 5;

impl Shared {
    pub(super) async fn list(&self) -> Result<Batch, RegistryError> {
        let mut listed = self.list_once().await;
        for _ in 1..TRIES {
            let Err(Fault::Compacted) = listed else { break };
            listed = self.list_once().await;
        }
        let batch = listed.map_err(Fault::explain)?;
        self.tell_of(batch.revision);
        Ok(batch)
    }

    async fn list_once(&self) -> Result<Batch, Fault> {
        let (mut first, behind) = self.tree.cold();
        let (mut revision, mut changes) = (0, Vec::new());
        loop {
            let page = RangeRequest {
                key: first,
                range_end: behind.clone(),
                limit: PAGE,
                revision,
                keys_only: false,
            };
            let page: RangeResponse = self.wire.ask("/etcdserverpb.KV/Range", page).await?;
            if revision == 0 {
                revision = page.header.as_ref().map_or(0, |header| header.revision);
            }
            // The next page begins right behind the last key.
            first = page.kvs.last().map_or_else(Vec::new, |kv| [kv.key.as_slice(), &[0]].concat());
            let at = tree::revision(revision);
            changes.extend(page.kvs.into_iter().filter_map(|kv| {
                let key = self.tree.key(&kv.key)?;
                Some(Change { key, entry: Some(tree::entry(kv)), revision: at })
            }));
            if !page.more {
                return Ok(Batch { changes, revision: at });
            }
        }
    }

    pub(super) async fn read(&self, keys: Vec<Key>) -> Result<Vec<Change>, RegistryError> {
        let mut found = self.read_once(&keys).await;
        for _ in 1..TRIES {
            let Err(Fault::Compacted) = found else { break };
            found = self.read_once(&keys).await;
        }
        let found = found.map_err(Fault::explain)?;
        if let Some(change) = found.first() {
            self.tell_of(change.revision);
        }
        Ok(found)
    }

    async fn read_once(&self, keys: &[Key]) -> Result<Vec<Change>, Fault> {
        let (mut revision, mut changes) = (0, Vec::with_capacity(keys.len()));
        for part in keys.chunks(self.facts.operations_max.max(1)) {
            let success = part.iter().map(|key| tree::look(self.tree.entry(key), revision)).collect();
            let question = TxnRequest { success, ..TxnRequest::default() };
            let answer: TxnResponse = self.wire.ask(commit::PATH, question).await?;
            if revision == 0 {
                revision = answer.header.as_ref().map_or(0, |header| header.revision);
            }
            let found = answer.responses.into_iter();
            let found = found.map(|op| op.range.and_then(|range| range.kvs.into_iter().next()));
            changes.extend(tree::changes(part.iter(), found, revision));
        }
        Ok(changes)
    }
}
