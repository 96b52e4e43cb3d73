//! Leases: each is an ephemeral node of a session of its own.
//!
//! ZooKeeper deletes that node when the session was silent for its term. A process that learns of it deletes the
//! entries that the lease owned, in one transaction; until then those entries exist, so nothing is taken over from a
//! lease that is not yet over. The client keeps a session alive by itself, so a lease that its holder does not renew is
//! ended here.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use evenkeel_core::registry::{LeaseGrant, LeaseId};
use evenkeel_core::time::{Millis, Mono, Wall};
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError, Stat};

use super::paths::{data_to_keys, keys_to_data};
use super::plan::{ANY, MultiOp};
use super::session::{ANSWER, ZookeeperSession, to_duration};
use crate::clock::{Clock, HostClock};
use crate::{RegistryError, TTL_MAX};

/// A lease whose session is this process's.
pub(super) struct SessionLease {
    client: Client,
    ttl: Millis,
    /// When it ends without a renewal: its term after the last request to renew.
    until: AtomicI64,
}

/// How often to try to end a lease that others change meanwhile.
const TRIES: u32 = 30;

impl ZookeeperSession {
    pub(super) async fn open(&self, ttl: Millis, least: Millis) -> Result<LeaseGrant, RegistryError> {
        let asked = HostClock.now().mono;
        let client = self.client().await?;
        // A counter of ZooKeeper's own: each write of a node raises its version, for ever.
        let counted = self.with_timeout(client.set_data(&self.paths.leases(), b"", None)).await?;
        let lease = LeaseId(counted.version.unsigned_abs().into());
        let session = self.connect(ttl.clamp(least, TTL_MAX), true).await?;
        let ttl = granted_term(&session);
        let (node, note) = (self.paths.lease(lease), self.paths.owned(lease));
        let mut writer = session.new_multi_writer();
        let added = writer
            .add_create(&node, ttl.0.to_string().as_bytes(), &self.create_options(CreateMode::Ephemeral))
            .and_then(|()| writer.add_create(&note, b"", &self.create_options(CreateMode::Persistent)));
        added.map_err(|error| self.explain(&error))?;
        let made = writer.commit();
        self.with_timeout(async { made.await.map_err(Error::from) }).await?;
        self.track_lease(lease, session, ttl, asked);
        Ok(LeaseGrant { lease, ttl, clock: Some(Wall(counted.mtime)), next_end: None })
    }

    fn track_lease(&self, lease: LeaseId, client: Client, ttl: Millis, asked: Mono) {
        let held = SessionLease { client, ttl, until: AtomicI64::new((asked + ttl).0) };
        self.session_leases().insert(lease, Arc::new(held));
    }

    /// Extends a lease by a write on its own session, which only the quorum can answer.
    pub(super) async fn renew(&self, lease: LeaseId) -> Result<Option<LeaseGrant>, RegistryError> {
        self.check_running()?;
        let asked = HostClock.now().mono;
        let held = {
            let all = self.session_leases();
            let held = all.get(&lease).filter(|held| !held.client.state().is_terminated());
            // Even if no answer comes: the holder still asks, and a lease that could not be renewed ends by its
            // session. Stored before the lease can be found overdue.
            held.inspect(|held| _ = held.until.fetch_max((asked + held.ttl).0, Ordering::Relaxed)).cloned()
        };
        let Some(held) = held else { return self.move_lease(lease, asked).await };
        let text = held.ttl.0.to_string();
        let written = held.client.set_data(&self.paths.lease(lease), text.as_bytes(), None);
        match tokio::time::timeout(to_duration(ANSWER), written).await {
            Ok(Ok(stat)) if stat.ephemeral_owner == held.client.session_id().0 => {
                Ok(Some(granted(lease, held.ttl, &stat)))
            }
            // Another client renewed it meanwhile, so that it belongs to another session.
            Ok(Ok(_)) => self.move_lease(lease, asked).await,
            Ok(Err(Error::NoNode | Error::SessionExpired)) => {
                self.session_leases().remove(&lease);
                // The session may have ended after the lease had moved to another one.
                self.move_lease(lease, asked).await
            }
            Ok(Err(error)) => Err(self.explain(&error)),
            Err(_) => Err(self.explain(&Error::Timeout)),
        }
    }

    /// Moves a living lease to a session of this process; `None` when it has ended. It exists at every moment.
    async fn move_lease(&self, lease: LeaseId, asked: Mono) -> Result<Option<LeaseGrant>, RegistryError> {
        for _ in 0..TRIES {
            let client = self.client().await?;
            let (path, note) = (self.paths.lease(lease), self.paths.owned(lease));
            let synced = client.sync(self.paths.root());
            let (found, noted) = (client.get_data(&path), client.get_data(&note));
            self.with_timeout(synced).await?;
            let Some((data, stat)) = self.read_node(found).await? else { return Ok(None) };
            let Some((keys, noted)) = self.read_node(noted).await? else { return Ok(None) };
            let term = String::from_utf8_lossy(&data).parse().map_err(|_| self.deleted_error())?;
            let session = self.connect(Millis(term), true).await?;
            let mut writer = session.new_multi_writer();
            let added = writer
                .add_delete(&path, Some(stat.version))
                .and_then(|()| writer.add_create(&path, &data, &self.create_options(CreateMode::Ephemeral)))
                // The recreated node has its versions from before; its note does not.
                .and_then(|()| writer.add_set_data(&note, &keys, Some(noted.version)));
            added.map_err(|error| self.explain(&error))?;
            let made = writer.commit();
            match tokio::time::timeout(to_duration(ANSWER), made).await {
                Ok(Ok(_)) => {
                    let ttl = granted_term(&session);
                    self.track_lease(lease, session.clone(), ttl, asked);
                    // The write's stat has the engine's clock.
                    let written = session.set_data(&path, &data, None);
                    return match tokio::time::timeout(to_duration(ANSWER), written).await {
                        Ok(Ok(stat)) => Ok(Some(granted(lease, ttl, &stat))),
                        // It was closed right after the move.
                        Ok(Err(Error::NoNode)) => {
                            self.session_leases().remove(&lease);
                            Ok(None)
                        }
                        Ok(Err(error)) => Err(self.explain(&error)),
                        Err(_) => Err(self.explain(&Error::Timeout)),
                    };
                }
                // It was renewed, moved or ended meanwhile.
                Ok(Err(MultiWriteError::OperationFailed {
                    source: Error::NoNode | Error::BadVersion | Error::NodeExists,
                    ..
                })) => {}
                Ok(Err(error)) => return Err(self.explain(&error.into())),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        Err(RegistryError::Unavailable(format!("lease {lease} is renewed by several at once: use one each")))
    }

    /// Reads a node's data; `None` if it does not exist.
    pub(super) async fn read_node(
        &self,
        asked: impl Future<Output = Result<(Vec<u8>, Stat), Error>>,
    ) -> Result<Option<(Vec<u8>, Stat)>, RegistryError> {
        match tokio::time::timeout(to_duration(ANSWER), asked).await {
            Ok(Ok(found)) => Ok(Some(found)),
            Ok(Err(Error::NoNode)) => Ok(None),
            Ok(Err(error)) => Err(self.explain(&error)),
            Err(_) => Err(self.explain(&Error::Timeout)),
        }
    }

    /// Ends a lease and deletes the entries that it owns, at one revision.
    pub(super) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        self.session_leases().remove(&lease);
        self.end_lease(lease, None).await
    }

    /// Ends a lease; with a session, only if the lease still belongs to it.
    async fn end_lease(&self, lease: LeaseId, session: Option<&Client>) -> Result<(), RegistryError> {
        let (node, note) = (self.paths.lease(lease), self.paths.owned(lease));
        for _ in 0..TRIES {
            let client = self.client().await?;
            let synced = client.sync(self.paths.root());
            // The note first: it is deleted at this version, so the lease was not moved to another session since.
            let (noted, alive) = (client.get_data(&note), client.check_stat(&node));
            let deaths = client.check_stat(&self.paths.deaths());
            self.with_timeout(synced).await?;
            let noted = self.read_node(noted).await?;
            let (alive, deaths) = (self.with_timeout(alive).await?, self.with_timeout(deaths).await?);
            let deaths = deaths.ok_or_else(|| self.deleted_error())?.version;
            // Without a note it has ended, and another process has cleaned up.
            let Some((data, stat)) = noted else { return Ok(()) };
            let taken = |node: &Stat| session.is_some_and(|ours| node.ephemeral_owner != ours.session_id().0);
            if alive.as_ref().is_some_and(taken) {
                return Ok(());
            }
            let mut ops = vec![MultiOp::Set(self.paths.order(), vec![], ANY)];
            ops.extend(alive.map(|_| MultiOp::Delete(node.clone(), ANY)));
            // At this version, for every entry noted until then must be deleted too.
            ops.push(MultiOp::Delete(note.clone(), stat.version));
            let keys = data_to_keys(&data);
            let asked: Vec<_> = keys.iter().map(|key| client.get_data(&self.paths.entry(key))).collect();
            let mut gone = Vec::new();
            for (key, asked) in keys.iter().zip(asked) {
                let Some((data, stat)) = self.read_node(asked).await? else { continue };
                if super::paths::entry(&data, &stat).is_some_and(|entry| entry.owner == Some(lease)) {
                    ops.push(MultiOp::Delete(self.paths.entry(key), stat.version));
                    gone.push(key);
                }
            }
            if !gone.is_empty() {
                ops.push(MultiOp::Set(self.paths.deaths(), vec![], deaths));
            }
            gone.retain(|key| key.is_cold());
            if !gone.is_empty() {
                ops.push(MultiOp::Record(format!("{}/n-", self.paths.news()), keys_to_data(gone)));
            }
            match tokio::time::timeout(to_duration(ANSWER), self.send_ops(&client, &ops)).await {
                Ok(Ok(Some(_))) => {
                    self.wake.notify_one();
                    return Ok(());
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        Err(RegistryError::Unavailable(format!(
            "what lives by lease {lease} changes all the time: try again"
        )))
    }

    /// Deletes the entries of leases that have ended.
    pub(super) async fn end_expired(&self) -> Result<(), RegistryError> {
        let client = self.client().await?;
        // Notes first: a note made meanwhile must not look like one without a lease.
        let noted = client.get_children(&self.paths.all_owned());
        let alive = client.get_children(&self.paths.leases());
        let ((noted, _), (alive, _)) = (self.with_timeout(noted).await?, self.with_timeout(alive).await?);
        for name in noted.into_iter().filter(|name| !alive.contains(name)) {
            if let Ok(lease) = name.parse() {
                self.close(LeaseId(lease)).await?;
            }
        }
        Ok(())
    }

    /// Ends this process's leases that were not renewed in time.
    pub(super) async fn end_overdue(&self) {
        let leases: Vec<_> = self.session_leases().keys().copied().collect();
        for lease in leases {
            // Its session is released even if the request does not arrive, and then ends by itself.
            if let Some(held) = self.take_overdue(lease) {
                let _ = self.end_lease(lease, Some(&held.client)).await;
            }
        }
    }

    /// Releases a lease if it is overdue at this moment: a later renewal must take it anew.
    fn take_overdue(&self, lease: LeaseId) -> Option<Arc<SessionLease>> {
        let mut held = self.session_leases();
        let until = Mono(held.get(&lease)?.until.load(Ordering::Relaxed));
        if until > HostClock.now().mono {
            return None;
        }
        held.remove(&lease)
    }
}

fn granted(lease: LeaseId, ttl: Millis, stat: &Stat) -> LeaseGrant {
    LeaseGrant { lease, ttl, clock: Some(Wall(stat.mtime)), next_end: None }
}

/// The term that the server granted.
fn granted_term(session: &Client) -> Millis {
    Millis(i64::try_from(session.session_timeout().as_millis()).unwrap_or(TTL_MAX.0))
}
