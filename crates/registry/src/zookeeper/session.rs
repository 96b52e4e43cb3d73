//! The session for all requests except leases, and the journal of the news.
//!
//! This session owns nothing, so when it expires another one replaces it unnoticed: changes in between are in
//! the news, which are kept by revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{LeaseId, Revision};
use evenkeel_core::time::Millis;
use tokio::sync::{Notify, watch};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, TlsOptions};

use super::entry_cache::EntryCache;
use super::leases::SessionLease;
use super::order_position::OrderPosition;
use super::paths::{ZnodePaths, data_to_keys, revision};
use super::plan::{ANY, MultiOp};
use super::{encryption, errors};
use crate::{EngineUrl, RegistryError};

/// How long an answer may take.
pub(super) const ANSWER: Millis = Millis::secs(4);

/// The term of this session. The client treats a connection as lost after two fifths of it.
pub(super) const SESSION: Millis = Millis::secs(6);

/// ZooKeeper's usual port.
pub(super) const PORT: u16 = 2181;

/// The layout of the tree, stored in its root before the generation.
pub(super) const LAYOUT: &str = "1";

/// How many transactions the news keep, and how many more there are before the oldest are trimmed.
pub(super) const REMEMBERED: usize = 2_000;
const SLICE: usize = 400;

/// The data of news about a change that no transaction made. It is no key.
const STRANGE: &[u8] = b"%strange";

/// The session and the state learned by it.
pub(super) struct ZookeeperSession {
    pub(super) url: EngineUrl,
    cluster: String,
    login: Option<Vec<u8>>,
    tls: Option<TlsOptions>,
    pub(super) paths: ZnodePaths,
    client: tokio::sync::Mutex<Option<Client>>,
    /// How long a lease's session tolerates a silent server, once the ensemble's tick is known.
    pub(super) silence: OnceLock<Millis>,
    journal: Mutex<NewsJournal>,
    entry_cache: Mutex<EntryCache>,
    /// One caller reads the news at a time; the others would read the same.
    reading: tokio::sync::Mutex<()>,
    bell: Mutex<Option<watch::Sender<Revision>>>,
    /// Wakes the listener after a write that is not announced yet.
    pub(super) wake: Notify,
    pub(super) leases: Mutex<BTreeMap<LeaseId, Arc<SessionLease>>>,
    last_error: Mutex<Option<Arc<RegistryError>>>,
    /// The known position of the order.
    pub(super) known_order: Mutex<Option<OrderPosition>>,
    /// The generation that was read when connecting.
    pub(super) generation: OnceLock<u16>,
    /// Why the session has ended.
    pub(super) failure: OnceLock<RegistryError>,
}

/// The news as far as they were read.
#[derive(Clone, Debug, Default)]
pub(super) struct NewsJournal {
    /// The changes, by the names of their nodes, which are in order.
    records: BTreeMap<String, (Revision, Vec<Key>)>,
    /// When news were last added or trimmed.
    last: i64,
    /// Everything up to here was read.
    pub(super) revision: Revision,
    /// The changes before this are not known.
    pub(super) floor: Revision,
    /// The last recorded change without news of its own.
    gap: Revision,
    /// When a cold entry was last created or deleted, according to the news; `None` before the first check.
    cold: Option<Revision>,
    /// Whether a cold entry was created or deleted without news.
    pub(super) foreign_change: bool,
}

impl NewsJournal {
    /// The keys that changed after a revision, each with its last change.
    pub(super) fn changed(&self, after: Revision) -> BTreeMap<Key, Revision> {
        self.changed_until(after, Revision(u64::MAX))
    }

    /// The keys that changed between two revisions.
    pub(super) fn changed_until(&self, after: Revision, until: Revision) -> BTreeMap<Key, Revision> {
        let after = self.records.values().filter(|(at, _)| *at > after && *at <= until);
        let mut changed = BTreeMap::new();
        for (at, keys) in after {
            changed.extend(keys.iter().map(|key| (key.clone(), *at)));
        }
        changed
    }

    /// Records when a cold entry was last created or deleted. All news up to then were read: if none of them is
    /// of that moment, another program did it.
    fn check_cold_change(&mut self, cold: Revision) {
        let told = self.cold.is_none_or(|known| cold <= known)
            || cold < self.oldest()
            || self.records.values().rev().any(|(at, _)| *at == cold);
        self.foreign_change = !told;
        if told {
            self.cold = self.cold.max(Some(cold));
        }
    }

    /// The moment of the oldest news; all before it are trimmed.
    fn oldest(&self) -> Revision {
        self.records.values().next().map_or(Revision(0), |(at, _)| *at)
    }
}

impl ZookeeperSession {
    pub(super) fn new(url: &EngineUrl, namespace: &str) -> Result<Self, RegistryError> {
        let hosts: Vec<_> = url.addresses().iter().map(|host| host.with_port(PORT)).collect();
        let login = match (url.user(), url.password()?) {
            (None, None) => None,
            (Some(user), Some(password)) => Some(format!("{user}:{password}").into_bytes()),
            _ => return Err(url.refusal("has one of user and password without the other: say both")),
        };
        Ok(Self {
            url: url.clone(),
            cluster: hosts.join(","),
            login,
            tls: encryption::options(url)?,
            paths: ZnodePaths::new(namespace),
            client: tokio::sync::Mutex::default(),
            silence: OnceLock::new(),
            journal: Mutex::default(),
            entry_cache: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            bell: Mutex::new(Some(watch::Sender::new(Revision(0)))),
            wake: Notify::new(),
            leases: Mutex::default(),
            last_error: Mutex::default(),
            known_order: Mutex::default(),
            generation: OnceLock::new(),
            failure: OnceLock::new(),
        })
    }

    /// Opens a session. A detached one, as of a lease, outlives its client.
    pub(super) async fn connect(&self, term: Millis, detached: bool) -> Result<Client, RegistryError> {
        let mut connector = Client::connector().with_session_timeout(to_duration(term)).with_fail_eagerly();
        if detached {
            connector = connector.with_detached();
            if let Some(silence) = self.silence.get() {
                connector = connector.with_connection_timeout(to_duration(*silence));
            }
        }
        if let Some(login) = &self.login {
            connector = connector.with_auth("digest", login);
        }
        match self.tls.clone() {
            None => self.with_timeout(connector.connect(&self.cluster)).await,
            Some(tls) => self.with_timeout(connector.with_tls(tls).secure_connect(&self.cluster)).await,
        }
    }

    /// The session; a new one when it has ended.
    pub(super) async fn client(&self) -> Result<Client, RegistryError> {
        let mut slot = self.client.lock().await;
        self.check_running()?;
        if let Some(client) = slot.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        let client = self.connect(SESSION, false).await?;
        // It may be with an ensemble that was restored meanwhile, and repeats versions.
        self.entry_cache().clear();
        self.verify_generation(&client).await?;
        *slot = Some(client.clone());
        Ok(client)
    }

    /// Fails once the session has ended for good.
    pub(super) fn check_running(&self) -> Result<(), RegistryError> {
        self.failure.get().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// Waits for an answer, with a timeout.
    pub(super) async fn with_timeout<T>(
        &self,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, RegistryError> {
        match tokio::time::timeout(to_duration(ANSWER), asked).await {
            Ok(answer) => answer.map_err(|error| self.explain(&error)),
            Err(_) => Err(self.explain(&Error::Timeout)),
        }
    }

    pub(super) fn explain(&self, error: &Error) -> RegistryError {
        errors::explain(&self.url, error)
    }

    /// The ACL and mode of new nodes: with a login no other user may access them.
    pub(super) fn create_options(&self, mode: CreateMode) -> CreateOptions<'static> {
        mode.with_acls(if self.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() })
    }

    /// Creates a missing namespace, and returns its generation.
    pub(super) async fn create_namespace(&self) -> Result<u16, RegistryError> {
        let client = self.client().await?;
        for path in self.paths.folders() {
            let data = if path == self.paths.root() { format!("{LAYOUT} 0") } else { String::new() };
            let options = self.create_options(CreateMode::Persistent);
            match self.with_timeout(client.create(&path, data.as_bytes(), &options)).await {
                Ok(_) => {}
                // An "exists" error needs no case of its own: the check below decides.
                Err(error) => match self.with_timeout(client.check_stat(&path)).await? {
                    Some(_) => {}
                    None => return Err(error),
                },
            }
        }
        let (data, _) = self.with_timeout(client.get_data(self.paths.root())).await?;
        let generation = self.generation_of(&data)?;
        Ok(*self.generation.get_or_init(|| generation))
    }

    /// Reads what is new, and announces it. With `sync` it is as new as the leader of the ensemble.
    pub(super) async fn refresh(&self, sync: bool) -> Result<Revision, RegistryError> {
        let _one = self.reading.lock().await;
        let client = self.client().await?;
        let (order, news) = (self.paths.order(), self.paths.news());
        let seen = self.known_order();
        let synced = sync.then(|| client.sync(&order));
        // The folder of the cold entries first: its changes are then in the news that are read after it.
        let cold = client.check_stat(&self.paths.cold());
        let (order, stat) = (client.check_stat(&order), client.check_stat(&news));
        if let Some(synced) = synced {
            self.with_timeout(synced).await?;
        }
        let cold = self.with_timeout(cold).await?;
        let (order, stat) = (self.with_timeout(order).await?, self.with_timeout(stat).await?);
        let (Some(cold), Some(order), Some(stat)) = (cold, order, stat) else {
            return Err(self.deleted_error());
        };
        self.check_order(&client, OrderPosition::of(&order), seen).await?;
        let mut now = revision(order.mzxid);
        if self.journal().last != stat.pzxid {
            // Listed after the order was read: so everything up to that revision is in the list.
            now = now.max(self.read_news(&client).await?);
        }
        let mut journal = self.journal();
        journal.check_cold_change(revision(cold.pzxid));
        journal.revision = journal.revision.max(now);
        let now = journal.revision;
        drop(journal);
        self.notify_feeds(now);
        Ok(now)
    }

    async fn read_news(&self, client: &Client) -> Result<Revision, RegistryError> {
        let news = self.paths.news();
        let (names, stat) = self.with_timeout(client.get_children(&news)).await?;
        let names: BTreeSet<_> = names.into_iter().collect();
        let new: Vec<_> = names.iter().filter(|name| !self.journal().records.contains_key(*name)).collect();
        let asked: Vec<_> = new.iter().map(|name| client.get_data(&format!("{news}/{name}"))).collect();
        let (mut read, mut torn) = (Vec::with_capacity(new.len()), Revision(0));
        for (name, asked) in new.into_iter().zip(asked) {
            match tokio::time::timeout(to_duration(ANSWER), asked).await {
                Ok(Ok((data, stat))) => {
                    let at = revision(stat.czxid);
                    torn = torn.max(if data == STRANGE { at } else { Revision(0) });
                    read.push((name.clone(), (at, data_to_keys(&data))));
                }
                // Trimmed meanwhile.
                Ok(Err(Error::NoNode)) => {}
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        let mut journal = self.journal();
        journal.records.retain(|name, _| names.contains(name));
        journal.records.extend(read);
        journal.last = stat.pzxid;
        // The very first record is number 0. If it is gone, the changes before the oldest record are unknown.
        let floor =
            journal.records.first_key_value().map(|(name, (at, _))| match name.ends_with("-0000000000") {
                true => Revision(0),
                false => *at,
            });
        journal.gap = journal.gap.max(torn);
        journal.floor = floor.unwrap_or(journal.floor).max(journal.gap);
        Ok(journal.records.last_key_value().map_or(Revision(0), |(_, (at, _))| *at))
    }

    /// Adds news that another program created or deleted a cold entry: feeds then have a gap, and listeners list
    /// again. One node's record is enough for all.
    pub(super) async fn report_foreign_change(&self) -> Result<(), RegistryError> {
        let client = self.client().await?;
        let deaths = self
            .with_timeout(client.check_stat(&self.paths.deaths()))
            .await?
            .ok_or_else(|| self.deleted_error())?;
        let probe = self.paths.probe();
        let ops = [
            MultiOp::Set(self.paths.order(), vec![], ANY),
            // So that these news are of the moment at which the folder changed last.
            MultiOp::Create(probe.clone(), vec![]),
            MultiOp::Delete(probe, ANY),
            // A deleted entry may be created again, and its versions then restart. Another node may have been faster.
            MultiOp::Set(self.paths.deaths(), vec![], deaths.version),
            MultiOp::Record(format!("{}/n-", self.paths.news()), STRANGE.to_vec()),
        ];
        match tokio::time::timeout(to_duration(ANSWER), self.send_ops(&client, &ops)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.explain(&error)),
            Err(_) => Err(self.explain(&Error::Timeout)),
        }
    }

    /// Trims the oldest news if there are too many.
    pub(super) async fn trim_news(&self) -> Result<(), RegistryError> {
        let old: Vec<_> = {
            let journal = self.journal();
            let many = journal.records.len();
            let surplus = if many > REMEMBERED + SLICE { many - REMEMBERED } else { 0 };
            journal.records.keys().take(surplus).map(|name| format!("{}/{name}", self.paths.news())).collect()
        };
        if old.is_empty() {
            return Ok(());
        }
        let client = self.client().await?;
        let asked: Vec<_> = old.iter().map(|path| client.delete(path, None)).collect();
        for asked in asked {
            // Another node may have been faster.
            match tokio::time::timeout(to_duration(ANSWER), asked).await {
                Ok(Ok(()) | Err(Error::NoNode)) => {}
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        Ok(())
    }

    pub(super) fn deleted_error(&self) -> RegistryError {
        RegistryError::Fatal(format!(
            "registry {} was deleted while it was in use: start this node again",
            self.url
        ))
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, NewsJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn entry_cache(&self) -> MutexGuard<'_, EntryCache> {
        self.entry_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives each revision that can be read.
    pub(super) fn subscribe(&self) -> Result<watch::Receiver<Revision>, RegistryError> {
        self.check_running()?;
        let bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        bell.as_ref()
            .map(watch::Sender::subscribe)
            .ok_or_else(|| RegistryError::Fatal("the registry was left".into()))
    }

    fn notify_feeds(&self, revision: Revision) {
        if let Some(bell) = &*self.bell.lock().unwrap_or_else(PoisonError::into_inner) {
            bell.send_if_modified(|rung| revision > std::mem::replace(rung, revision.max(*rung)));
        }
    }

    /// Ends all feeds.
    pub(super) fn close_feeds(&self) {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Ends all feeds, and releases the leases without ending them.
    pub(super) fn detach(&self) {
        self.close_feeds();
        self.session_leases().clear();
    }

    pub(super) fn session_leases(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Arc<SessionLease>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_last_error(&self, error: Option<&RegistryError>) {
        let mut trouble = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_deref() != error {
            *trouble = error.cloned().map(Arc::new);
        }
    }
}

/// A duration of the client's type.
pub(super) fn to_duration(millis: Millis) -> Duration {
    Duration::from_millis(millis.0.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_in_no_news_is_told_apart() {
        let mut journal = NewsJournal::default();
        journal.check_cold_change(Revision(7));
        assert!(!journal.foreign_change, "what was before is listed");
        for (nth, at) in [(3, 20), (4, 30), (5, 40)] {
            journal.records.insert(format!("n-{nth:010}"), (Revision(at), vec![]));
        }
        for (cold, strange) in [(7, false), (40, false), (30, false), (41, true), (40, false), (35, false)] {
            journal.check_cold_change(Revision(cold));
            assert_eq!(journal.foreign_change, strange, "{cold}");
        }
        journal.cold = Some(Revision(7));
        journal.check_cold_change(Revision(9));
        assert!(!journal.foreign_change, "its news are forgotten");
        journal.check_cold_change(Revision(25));
        assert!(journal.foreign_change);
        assert_eq!(journal.cold, Some(Revision(9)), "it stays so until it is told");
    }
}
