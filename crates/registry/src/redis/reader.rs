//! Reads lists, entries, and changes.

use std::collections::BTreeMap;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, ChangeBatch, Entry, Revision};
use redis::Value;

use super::session::{RedisSession, ScriptKind, SharedSession, unexpected_reply};
use super::wire::{entry, number, text};
use super::writer::REMEMBERED;
use crate::feed::ChangeLog;
use crate::{BoxFuture, RegistryError};

/// How many entries one call lists, so that a large list delays no renewal.
const PAGE: usize = 1_000;

/// How often a list starts anew because more changed meanwhile than is remembered.
const TRIES: u32 = 5;

impl RedisSession {
    pub(super) async fn read(&self, keys: Vec<Key>) -> Result<Vec<Change>, RegistryError> {
        let asked = self.call_script(ScriptKind::Look, |cmd| {
            cmd.arg("read");
            for key in &keys {
                cmd.arg(key.as_str());
            }
        });
        let (revision, mut told) = asked.await?;
        let mut told = told.next().and_then(super::wire::list).ok_or_else(unexpected_reply)?;
        let found = keys.into_iter().map(|key| {
            let entry = entry(&told.next()?, told.next()?)?;
            Some(Change { key, entry, revision })
        });
        found.collect::<Option<_>>().ok_or_else(unexpected_reply)
    }

    /// Pages are of different moments; the changes from the first to the last page are applied to them. Unchanged
    /// entries are the same at each moment.
    pub(super) async fn list(&self) -> Result<ChangeBatch, RegistryError> {
        for _ in 0..TRIES {
            let (mut entries, mut cursor, mut began) = (BTreeMap::new(), "0".to_owned(), None);
            loop {
                let (revision, page) = self.read_page(&cursor).await?;
                cursor = page.next;
                entries.extend(page.entries);
                let whole = cursor == "0" && began.is_none();
                if whole {
                    return Ok(batch(entries, revision));
                }
                began.get_or_insert(revision);
                if cursor == "0" {
                    break;
                }
            }
            if let Some(changed) = self.changes_since(began.unwrap_or_default()).await? {
                for change in changed.changes {
                    match change.entry {
                        Some(entry) => drop(entries.insert(change.key, entry)),
                        None => drop(entries.remove(&change.key)),
                    }
                }
                return Ok(batch(entries, changed.revision));
            }
        }
        Err(RegistryError::Unavailable("the registry changes faster than it can be listed: try again".into()))
    }

    async fn read_page(&self, cursor: &str) -> Result<(Revision, ListingPage), RegistryError> {
        let (revision, mut told) =
            self.call_script(ScriptKind::Look, |cmd| _ = cmd.arg("page").arg(cursor).arg(PAGE)).await?;
        let page = told.next().and_then(ListingPage::parse).ok_or_else(unexpected_reply)?;
        Ok((revision, page))
    }

    async fn changes_since(&self, after: Revision) -> Result<Option<ChangeBatch>, RegistryError> {
        let first = after.0.saturating_add(1);
        let asked = self.call_script(ScriptKind::Look, |cmd| {
            cmd.arg("changes").arg(after.0).arg(REMEMBERED).arg(format!("{first}-0"));
        });
        let (revision, mut told) = asked.await?;
        let Some(told) = told.next().and_then(super::wire::list) else { return Ok(None) };
        let changes = changes(told).ok_or_else(unexpected_reply)?;
        Ok(Some(ChangeBatch { changes, revision }))
    }
}

impl ChangeLog for RedisSession {
    fn changes_after(
        self: SharedSession,
        after: Revision,
    ) -> BoxFuture<'static, Result<Option<ChangeBatch>, RegistryError>> {
        Box::pin(async move {
            let known = self.state().clone();
            if known.cold <= after && known.revision >= after {
                // The server has said so in another answer: another trip would return the same.
                return Ok(Some(ChangeBatch { changes: Vec::new(), revision: known.revision }));
            }
            self.changes_since(after).await
        })
    }
}

fn batch(entries: BTreeMap<Key, Entry>, revision: Revision) -> ChangeBatch {
    let changes = entries.into_iter().map(|(key, entry)| Change { key, entry: Some(entry), revision });
    ChangeBatch { changes: changes.collect(), revision }
}

fn changes(mut told: std::vec::IntoIter<Value>) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while let Some(revision) = told.next() {
        let (revision, key) = (Revision(number(&revision)?), Key::from_stored(text(told.next()?)?));
        changes.push(Change { key, entry: entry(&told.next()?, told.next()?)?, revision });
    }
    Some(changes)
}

struct ListingPage {
    next: String,
    entries: Vec<(Key, Entry)>,
}

impl ListingPage {
    fn parse(told: Value) -> Option<Self> {
        let mut told = super::wire::list(told)?;
        let next = text(told.next()?)?;
        let mut entries = Vec::new();
        while let Some(key) = told.next() {
            entries.push((Key::from_stored(text(key)?), entry(&told.next()?, told.next()?)??));
        }
        Some(Self { next, entries })
    }
}
