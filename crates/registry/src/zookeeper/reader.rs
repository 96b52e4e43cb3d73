//! Reads lists, entries and changes: each as of one moment, though ZooKeeper reads node by node.
//!
//! Cold entries: the news show what changed during the read, and those are read again until there are no more.
//! Hot ones are not in the news; they are checked again, and if none of them changed meanwhile, all are of one moment.

use std::collections::BTreeMap;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, ChangeBatch, Entry, Revision};
use zookeeper_client::{Client, Error, Stat};

use super::paths::{entry, key, revision};
use super::plan::ZnodeVersion;
use super::session::ZookeeperSession;
use crate::feed::ChangeLog;
use crate::{BoxFuture, RegistryError};

/// How many nodes are read at once.
const PAGE: usize = 500;

/// How often to repeat a read of entries that change meanwhile.
const TRIES: u32 = 1_000;

/// Entries as read; absent ones are `None`.
type ReadEntries = BTreeMap<Key, Option<Entry>>;

impl ZookeeperSession {
    pub(super) async fn list(&self) -> Result<ChangeBatch, RegistryError> {
        for _ in 0..TRIES {
            let began = self.refresh(true).await?;
            let client = self.client().await?;
            let synced = client.sync(self.paths.root());
            let names = client.get_children(&self.paths.cold());
            self.with_timeout(synced).await?;
            let (names, _) = self.with_timeout(names).await?;
            let keys: Vec<_> = names.iter().filter_map(|name| key(name)).collect();
            let mut entries = ReadEntries::new();
            self.read_entries(&client, &keys, &mut entries).await?;
            if let Some(revision) = self.read_until_stable(began, &mut entries, |_| true).await? {
                let there = entries.into_iter().filter_map(|(key, entry)| Some((key, entry?)));
                let changes = there.map(|(key, entry)| Change { key, entry: Some(entry), revision });
                return Ok(ChangeBatch { changes: changes.collect(), revision });
            }
        }
        Err(too_fast())
    }

    pub(super) async fn read(&self, keys: Vec<Key>) -> Result<Vec<Change>, RegistryError> {
        if keys.iter().any(|key| !key.is_cold()) {
            return self.read_twice(keys).await;
        }
        for _ in 0..TRIES {
            let began = self.refresh(true).await?;
            let client = self.client().await?;
            let mut entries = ReadEntries::new();
            self.read_entries(&client, &keys, &mut entries).await?;
            let asked: ReadEntries = keys.iter().map(|key| (key.clone(), None)).collect();
            if let Some(revision) =
                self.read_until_stable(began, &mut entries, |key| asked.contains_key(key)).await?
            {
                return Ok(to_changes(keys, &entries, revision));
            }
        }
        Err(too_fast())
    }

    /// Reads entries again that changed during the read, of those that are `wanted`, until none did. Returns the
    /// moment at which they are true; `None` when the changes are not known any more.
    async fn read_until_stable(
        &self,
        began: Revision,
        entries: &mut ReadEntries,
        wanted: impl Fn(&Key) -> bool,
    ) -> Result<Option<Revision>, RegistryError> {
        let mut read = began;
        for _ in 0..TRIES {
            let now = self.refresh(true).await?;
            let changed: Vec<Key> = {
                let journal = self.journal();
                // From the beginning on: news that were trimmed before they were read are missing in the journal.
                if began < journal.floor {
                    return Ok(None);
                }
                journal.changed(read).into_keys().filter(&wanted).collect()
            };
            if changed.is_empty() {
                return Ok(Some(now));
            }
            read = now;
            let client = self.client().await?;
            self.read_entries(&client, &changed, entries).await?;
        }
        Err(too_fast())
    }

    /// Reads entries one after the other.
    async fn read_entries(
        &self,
        client: &Client,
        keys: &[Key],
        entries: &mut ReadEntries,
    ) -> Result<(), RegistryError> {
        // A session that replaced another one may be with a server that lags behind the earlier one's.
        let synced = client.sync(self.paths.root());
        self.with_timeout(synced).await?;
        for page in keys.chunks(PAGE) {
            let asked: Vec<_> = page.iter().map(|key| client.get_data(&self.paths.entry(key))).collect();
            for (key, asked) in page.iter().zip(asked) {
                let found = self.read_node(asked).await?;
                entries.insert(key.clone(), found.and_then(|(data, stat)| entry(&data, &stat)));
            }
        }
        Ok(())
    }

    /// Reads entries, then the order, then checks the entries again. If none changed, all were true when the order was
    /// read. An absent one could have been created and deleted in between; then the order has advanced meanwhile.
    async fn read_twice(&self, keys: Vec<Key>) -> Result<Vec<Change>, RegistryError> {
        for _ in 0..TRIES {
            let client = self.client().await?;
            let order = self.paths.order();
            let synced = client.sync(&order);
            let (deaths, before) = (client.check_stat(&self.paths.deaths()), client.check_stat(&order));
            let first: Vec<_> = keys.iter().map(|key| client.get_data(&self.paths.entry(key))).collect();
            let between = client.check_stat(&order);
            let second: Vec<_> = keys.iter().map(|key| client.check_stat(&self.paths.entry(key))).collect();
            let after = client.check_stat(&order);
            self.with_timeout(synced).await?;
            let deaths = self.with_timeout(deaths).await?.ok_or_else(|| self.deleted_error())?.version;
            let mut moments = [Revision(0); 3];
            moments[0] = self.order_revision(before).await?;
            let mut entries = ReadEntries::new();
            let mut seen = Vec::new();
            for (key, asked) in keys.iter().zip(first) {
                let found = self.read_node(asked).await?;
                seen.extend(found.as_ref().map(|(_, stat)| (self.paths.entry(key), ZnodeVersion::of(stat))));
                entries.insert(key.clone(), found.and_then(|(data, stat)| entry(&data, &stat)));
            }
            // A caller that reads hot entries is about to write them.
            self.entry_cache().insert(deaths, seen.into_iter());
            moments[1] = self.order_revision(between).await?;
            let mut same = true;
            for (key, asked) in keys.iter().zip(second) {
                let again = self.with_timeout(asked).await?.map(|stat| revision(stat.mzxid));
                same &= again == entries[key].as_ref().map(|entry| entry.revision);
            }
            moments[2] = self.order_revision(after).await?;
            let all_there = entries.values().all(Option::is_some);
            if same && (all_there || moments[0] == moments[2]) {
                return Ok(to_changes(keys, &entries, moments[1]));
            }
        }
        Err(too_fast())
    }

    async fn order_revision(
        &self,
        asked: impl Future<Output = Result<Option<Stat>, Error>>,
    ) -> Result<Revision, RegistryError> {
        let stat = self.with_timeout(asked).await?.ok_or_else(|| self.deleted_error())?;
        Ok(revision(stat.mzxid))
    }

    async fn changes_since(&self, after: Revision) -> Result<Option<ChangeBatch>, RegistryError> {
        let (changed, began) = {
            let journal = self.journal();
            if after < journal.floor {
                return Ok(None);
            }
            (journal.changed(after), journal.revision)
        };
        if changed.is_empty() {
            return Ok(Some(ChangeBatch { changes: Vec::new(), revision: began }));
        }
        let client = self.client().await?;
        let mut entries = ReadEntries::new();
        let keys: Vec<_> = changed.into_keys().collect();
        self.read_entries(&client, &keys, &mut entries).await?;
        let Some(revision) = self.read_until_stable(began, &mut entries, |_| true).await? else {
            return Ok(None);
        };
        let journal = self.journal();
        if after < journal.floor {
            return Ok(None);
        }
        // Another caller may have read further meanwhile.
        let last = journal.changed_until(after, revision);
        let mut changes: Vec<_> = entries
            .into_iter()
            .filter_map(|(key, entry)| Some(Change { revision: *last.get(&key)?, key, entry }))
            .collect();
        changes.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
        Ok(Some(ChangeBatch { changes, revision }))
    }
}

impl ChangeLog for ZookeeperSession {
    fn changes_after(
        self: std::sync::Arc<Self>,
        after: Revision,
    ) -> BoxFuture<'static, Result<Option<ChangeBatch>, RegistryError>> {
        Box::pin(async move { self.changes_since(after).await })
    }
}

fn to_changes(keys: Vec<Key>, entries: &ReadEntries, revision: Revision) -> Vec<Change> {
    let tell = |key: Key| {
        let entry = entries.get(&key).cloned().flatten();
        Change { key, entry, revision }
    };
    keys.into_iter().map(tell).collect()
}

fn too_fast() -> RegistryError {
    RegistryError::Unavailable("the registry changes faster than it can be read: try again".into())
}
