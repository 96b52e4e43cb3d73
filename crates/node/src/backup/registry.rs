//! A registry as backup, restore and migration use it: read completely, and written without a membership.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::backup::{EntryMap, is_copied, job_of, keys_of};
use evenkeel_core::ids::{JobName, Member};
use evenkeel_core::keys::{self, Key, ParsedKey, parse};
use evenkeel_core::record::{ClusterRecord, Layouts, decode};
use evenkeel_core::registry::{Change, ChangeBatch, EngineFacts, Revision, Txn, TxnOutcome};
use evenkeel_core::time::Wall;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::{BoxFuture, Registry, RegistryError};

use super::error::BackupError;
use crate::clock;

/// How many jobs' entries are read at once, at one revision.
const TOGETHER: usize = 64;
/// How long to wait for one answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to repeat one request.
const PERSISTENCE: Duration = Duration::from_secs(30);
/// The pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(200);

/// An opened registry, and its URL without the password.
pub(super) struct BackupRegistry {
    registry: Arc<dyn Registry>,
    url: String,
}

/// All copied entries, as they were read.
pub(super) struct BackupSnapshot {
    pub(super) entries: EntryMap,
    /// The members.
    pub(super) members: Vec<Member>,
    /// The first and last revision read; equal when there were no writes meanwhile.
    pub(super) first: Revision,
    pub(super) last: Revision,
}

/// The result of a transaction, once it is known.
pub(super) enum TxnResult {
    Applied(Revision),
    Refused(Vec<Change>),
}

impl BackupRegistry {
    /// Opens a registry; this may create it.
    pub(super) async fn open(url: &str) -> Result<Self, BackupError> {
        if url.starts_with("memory:") {
            return Err(BackupError::Invalid(format!(
                "the registry {url} ends with its process and has nothing to carry: give sqlite:PATH or an engine that is \
                 a server"
            )));
        }
        let registry = evenkeel_registry::open(url).await?;
        Ok(Self::of(registry, evenkeel_registry::redacted(url)))
    }

    /// Wraps a registry that is open.
    pub(super) fn of(registry: Arc<dyn Registry>, url: String) -> Self {
        Self { registry, url }
    }

    /// The current time by the registry's clock.
    pub(super) async fn time(&self) -> Result<Wall, BackupError> {
        Ok(self.persist(|| Box::pin(clock::of(&self.registry))).await?)
    }

    /// Opens a registry that must exist: a mistyped path must not create an empty file.
    pub(super) async fn existing(url: &str) -> Result<Self, BackupError> {
        if !evenkeel_registry::exists(url).await? {
            let shown = evenkeel_registry::redacted(url);
            return Err(BackupError::Conflict(format!(
                "there is no registry at {shown}: name the URL that the nodes use"
            )));
        }
        Self::open(url).await
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn facts(&self) -> EngineFacts {
        self.registry.facts()
    }

    /// An error: the state of this registry does not allow it.
    pub(super) fn conflict(&self, what: &str) -> BackupError {
        BackupError::Conflict(format!("the registry {} {what}", self.url))
    }

    /// The cluster's own entry, if there is one.
    pub(super) async fn cluster(&self) -> Result<Option<(ClusterRecord, Revision)>, BackupError> {
        let key = keys::cluster();
        let found = self.persist(|| self.registry.read(vec![key.clone()])).await?.pop();
        let Some(entry) = found.and_then(|change| change.entry) else { return Ok(None) };
        let record: ClusterRecord = decode(&entry.value).ok_or_else(|| {
            self.conflict("has an entry \"cluster\" that is not ours: is this another program's registry?")
        })?;
        if let Some(unknown) = Layouts::OWN.lacks(record.layout) {
            return Err(self.conflict(&format!("cannot be read: {unknown}")));
        }
        Ok(Some((record, entry.revision)))
    }

    /// The cluster's own entry; an error if there is none.
    pub(super) async fn owned(&self) -> Result<(ClusterRecord, Revision), BackupError> {
        self.cluster().await?.ok_or_else(|| {
            self.conflict("keeps no cluster's books: give the registry that the nodes are started with")
        })
    }

    /// Ends the expired leases. Without a node that renews leases, nothing else ends them.
    pub(super) async fn sweep(&self) -> Result<(), BackupError> {
        let ttl = self.registry.facts().ttl_min;
        let lease = self.persist(|| self.registry.open(ttl)).await?.lease;
        let swept = self.persist(|| self.registry.renew(lease)).await;
        self.persist(|| self.registry.close(lease)).await?;
        swept?;
        Ok(())
    }

    /// Whether a node lives.
    pub(super) async fn has_members(&self) -> Result<bool, BackupError> {
        let listed = self.list().await?;
        Ok(listed
            .changes
            .iter()
            .any(|it| it.entry.is_some() && matches!(parse(&it.key), Some(ParsedKey::Node(_)))))
    }

    /// Lists every cold entry.
    pub(super) async fn list(&self) -> Result<ChangeBatch, BackupError> {
        Ok(self.persist(|| self.registry.list()).await?)
    }

    /// Reads all entries to be copied: those of no job from the list, then the others job by job.
    pub(super) async fn read_all(&self) -> Result<BackupSnapshot, BackupError> {
        let listed = self.list().await?;
        let mut reading = BackupSnapshot {
            entries: EntryMap::new(),
            members: Vec::new(),
            first: listed.revision,
            last: listed.revision,
        };
        let mut jobs = Vec::new();
        let mut listing = EntryMap::new();
        for change in listed.changes {
            let Some(entry) = change.entry else { continue };
            if let Some(ParsedKey::Node(member)) = parse(&change.key) {
                reading.members.push(member);
            }
            match job_of(&change.key) {
                _ if !is_copied(&change.key, entry.owner) => {}
                None => drop(reading.entries.insert(change.key, entry.value)),
                Some(job) => {
                    jobs.push(job);
                    listing.insert(change.key, entry.value);
                }
            }
        }
        jobs.sort_unstable();
        jobs.dedup();
        for some in jobs.chunks(TOGETHER) {
            self.read_jobs(some, &listing, &mut reading).await?;
        }
        Ok(reading)
    }

    /// Reads all entries of some jobs at one revision. Repeats if an assignment names further run states.
    async fn read_jobs(
        &self,
        jobs: &[JobName],
        listing: &EntryMap,
        reading: &mut BackupSnapshot,
    ) -> Result<(), BackupError> {
        let mut wanted: BTreeSet<Key> = BTreeSet::new();
        wanted.extend(jobs.iter().flat_map(|job| keys_of(job, listing.get(&keys::assignment(job)))));
        let watch = Stopwatch::start();
        loop {
            let keys: Vec<Key> = wanted.iter().cloned().collect();
            let found = self.persist(|| self.registry.read(keys.clone())).await?;
            let at = found.first().map_or(reading.last, |change| change.revision);
            let mut entries = EntryMap::new();
            for change in found {
                let Some(entry) = change.entry else { continue };
                if is_copied(&change.key, entry.owner) {
                    entries.insert(change.key, entry.value);
                }
            }
            let asked = wanted.len();
            wanted.extend(jobs.iter().flat_map(|job| keys_of(job, entries.get(&keys::assignment(job)))));
            if wanted.len() == asked {
                reading.last = reading.last.max(at);
                reading.entries.append(&mut entries);
                return Ok(());
            }
            if watch.elapsed() > PERSISTENCE {
                return Err(self.unavailable("changes faster than it can be read: try again").into());
            }
        }
    }

    /// Makes independent transactions, and repeats each until its result is known.
    pub(super) async fn settle(&self, txns: Vec<Txn>) -> Result<Vec<TxnResult>, BackupError> {
        let mut settled: Vec<Option<TxnResult>> = Vec::new();
        settled.resize_with(txns.len(), || None);
        let watch = Stopwatch::start();
        loop {
            let open: Vec<usize> = (0..txns.len()).filter(|n| settled[*n].is_none()).collect();
            let again = open.iter().map(|n| txns[*n].clone()).collect();
            let outcomes = tokio::time::timeout(PATIENCE, self.registry.commit(again)).await;
            for (n, outcome) in open.iter().zip(outcomes.unwrap_or_default()) {
                settled[*n] = match outcome {
                    TxnOutcome::Applied(revision) => Some(TxnResult::Applied(revision)),
                    TxnOutcome::Refused(found) => Some(TxnResult::Refused(found)),
                    TxnOutcome::Unknown => None,
                };
            }
            if settled.iter().all(Option::is_some) {
                return Ok(settled.into_iter().flatten().collect());
            }
            if watch.elapsed() > PERSISTENCE {
                let why =
                    self.registry.last_error().map_or_else(|| "no answer".to_owned(), |why| why.to_string());
                return Err(self
                    .unavailable(&format!(
                        "does not take what is written ({why}): see to it, then do the same again"
                    ))
                    .into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Repeats a request until there is an answer or the time for it is over.
    async fn persist<'a, T>(
        &'a self,
        ask: impl Fn() -> BoxFuture<'a, Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        let watch = Stopwatch::start();
        loop {
            let answered = tokio::time::timeout(PATIENCE, ask()).await;
            match answered.unwrap_or_else(|_| Err(self.unavailable("does not answer: try again"))) {
                Err(RegistryError::Unavailable(_)) if watch.elapsed() < PERSISTENCE => {}
                answered => return answered,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn unavailable(&self, what: &str) -> RegistryError {
        RegistryError::Unavailable(format!("the registry {} {what}", self.url))
    }
}
