//! Listing, reading, and what changed since: each as of one moment, though ZooKeeper reads node by node.
//!
//! Cold entries: whatever changed while they were read is in the news, so those are read again until nothing more is.
//! Hot ones are not in the news; they are looked at again, and if none of them changed meanwhile, all were so in between.

use std::collections::BTreeMap;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Batch, Change, Entry, Revision};
use zookeeper_client::{Client, Error, Stat};

use super::link::Link;
use super::plan::Seen;
use super::tree::{entry, key, revision};
use crate::feed::Log;
use crate::{BoxFuture, RegistryError};

/// How many nodes are asked for at once.
const PAGE: usize = 500;

/// How often something is read anew that changes while it is read.
const TRIES: u32 = 1_000;

/// Entries as they stand; absent ones are none.
type Standing = BTreeMap<Key, Option<Entry>>;

impl Link {
    pub(super) async fn list(&self) -> Result<Batch, RegistryError> {
        for _ in 0..TRIES {
            let began = self.refresh(true).await?;
            let client = self.client().await?;
            let synced = client.sync(self.tree.root());
            let names = client.get_children(&self.tree.cold());
            self.within(synced).await?;
            let (names, _) = self.within(names).await?;
            let keys: Vec<_> = names.iter().filter_map(|name| key(name)).collect();
            let mut standing = Standing::new();
            self.stand(&client, &keys, &mut standing).await?;
            if let Some(revision) = self.settle(began, &mut standing, |_| true).await? {
                let there = standing.into_iter().filter_map(|(key, entry)| Some((key, entry?)));
                let changes = there.map(|(key, entry)| Change { key, entry: Some(entry), revision });
                return Ok(Batch { changes: changes.collect(), revision });
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
            let mut standing = Standing::new();
            self.stand(&client, &keys, &mut standing).await?;
            let asked: Standing = keys.iter().map(|key| (key.clone(), None)).collect();
            if let Some(revision) = self.settle(began, &mut standing, |key| asked.contains_key(key)).await? {
                return Ok(told(keys, &standing, revision));
            }
        }
        Err(too_fast())
    }

    /// Reads again what changed while entries were read, of those that are `wanted`, until nothing did. Returns the
    /// moment as of which they stand; `None` when what changed is not known any more.
    async fn settle(
        &self,
        began: Revision,
        standing: &mut Standing,
        wanted: impl Fn(&Key) -> bool,
    ) -> Result<Option<Revision>, RegistryError> {
        let mut read = began;
        for _ in 0..TRIES {
            let now = self.refresh(true).await?;
            let changed: Vec<Key> = {
                let journal = self.journal();
                // From the beginning on: what was forgotten before it was read is in no journal of ours.
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
            self.stand(&client, &changed, standing).await?;
        }
        Err(too_fast())
    }

    /// Reads entries one after the other.
    async fn stand(
        &self,
        client: &Client,
        keys: &[Key],
        standing: &mut Standing,
    ) -> Result<(), RegistryError> {
        // A session that took the place of another may be with a server that knows less than that one did.
        let synced = client.sync(self.tree.root());
        self.within(synced).await?;
        for page in keys.chunks(PAGE) {
            let asked: Vec<_> = page.iter().map(|key| client.get_data(&self.tree.entry(key))).collect();
            for (key, asked) in page.iter().zip(asked) {
                let found = self.there(asked).await?;
                standing.insert(key.clone(), found.and_then(|(data, stat)| entry(&data, &stat)));
            }
        }
        Ok(())
    }

    /// Reads entries, then the order, then looks at the entries again. Where none changed, all stood so when the order was
    /// read. An absent one could have come and gone in between; then the order moved on meanwhile.
    async fn read_twice(&self, keys: Vec<Key>) -> Result<Vec<Change>, RegistryError> {
        for _ in 0..TRIES {
            let client = self.client().await?;
            let order = self.tree.order();
            let synced = client.sync(&order);
            let (deaths, before) = (client.check_stat(&self.tree.deaths()), client.check_stat(&order));
            let first: Vec<_> = keys.iter().map(|key| client.get_data(&self.tree.entry(key))).collect();
            let between = client.check_stat(&order);
            let second: Vec<_> = keys.iter().map(|key| client.check_stat(&self.tree.entry(key))).collect();
            let after = client.check_stat(&order);
            self.within(synced).await?;
            let deaths = self.within(deaths).await?.ok_or_else(|| self.gone())?.version;
            let mut moments = [Revision(0); 3];
            moments[0] = self.moment(before).await?;
            let mut standing = Standing::new();
            let mut seen = Vec::new();
            for (key, asked) in keys.iter().zip(first) {
                let found = self.there(asked).await?;
                seen.extend(found.as_ref().map(|(_, stat)| (self.tree.entry(key), Seen::of(stat))));
                standing.insert(key.clone(), found.and_then(|(data, stat)| entry(&data, &stat)));
            }
            // Whoever reads hot entries is about to write them.
            self.memory().keep(deaths, seen.into_iter());
            moments[1] = self.moment(between).await?;
            let mut same = true;
            for (key, asked) in keys.iter().zip(second) {
                let again = self.within(asked).await?.map(|stat| revision(stat.mzxid));
                same &= again == standing[key].as_ref().map(|entry| entry.revision);
            }
            moments[2] = self.moment(after).await?;
            let all_there = standing.values().all(Option::is_some);
            if same && (all_there || moments[0] == moments[2]) {
                return Ok(told(keys, &standing, moments[1]));
            }
        }
        Err(too_fast())
    }

    async fn moment(
        &self,
        asked: impl Future<Output = Result<Option<Stat>, Error>>,
    ) -> Result<Revision, RegistryError> {
        let stat = self.within(asked).await?.ok_or_else(|| self.gone())?;
        Ok(revision(stat.mzxid))
    }

    async fn changes_since(&self, after: Revision) -> Result<Option<Batch>, RegistryError> {
        let (changed, began) = {
            let journal = self.journal();
            if after < journal.floor {
                return Ok(None);
            }
            (journal.changed(after), journal.revision)
        };
        if changed.is_empty() {
            return Ok(Some(Batch { changes: Vec::new(), revision: began }));
        }
        let client = self.client().await?;
        let mut standing = Standing::new();
        let keys: Vec<_> = changed.into_keys().collect();
        self.stand(&client, &keys, &mut standing).await?;
        let Some(revision) = self.settle(began, &mut standing, |_| true).await? else { return Ok(None) };
        let journal = self.journal();
        if after < journal.floor {
            return Ok(None);
        }
        // Others may have read on meanwhile.
        let last = journal.changed_until(after, revision);
        let mut changes: Vec<_> = standing
            .into_iter()
            .filter_map(|(key, entry)| Some(Change { revision: *last.get(&key)?, key, entry }))
            .collect();
        changes.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
        Ok(Some(Batch { changes, revision }))
    }
}

impl Log for Link {
    fn changes_after(
        self: std::sync::Arc<Self>,
        after: Revision,
    ) -> BoxFuture<'static, Result<Option<Batch>, RegistryError>> {
        Box::pin(async move { self.changes_since(after).await })
    }
}

fn told(keys: Vec<Key>, standing: &Standing, revision: Revision) -> Vec<Change> {
    let tell = |key: Key| {
        let entry = standing.get(&key).cloned().flatten();
        Change { key, entry, revision }
    };
    keys.into_iter().map(tell).collect()
}

fn too_fast() -> RegistryError {
    RegistryError::Unavailable("the registry changes faster than it can be read: try again".into())
}
