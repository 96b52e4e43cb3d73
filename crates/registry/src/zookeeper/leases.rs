//! Leases: each an ephemeral node that lives by a session of its own.
//!
//! ZooKeeper deletes that node when nobody was heard on the session for its term. Whoever hears of it deletes what lived
//! by the lease, in one transaction; until then those entries are there, and nobody can take over from a lease that is
//! not yet over. The client keeps a session alive by itself, so a lease that its holder does not renew is ended here.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use evenkeel_core::registry::{Granted, LeaseId};
use evenkeel_core::time::{Millis, Mono, Wall};
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError, Stat};

use super::link::{ANSWER, Link, span};
use super::plan::{ANY, Op};
use super::tree::{data_to_keys, keys_to_data};
use crate::clock::{Clock, HostClock};
use crate::{RegistryError, TTL_MAX};

/// A lease whose session is ours.
pub(super) struct Held {
    client: Client,
    ttl: Millis,
    /// When it ends unless somebody asks to renew it: its term after that was last asked.
    until: AtomicI64,
}

/// How often the end of a lease is tried that others change meanwhile.
const TRIES: u32 = 30;

impl Link {
    pub(super) async fn open(&self, ttl: Millis, least: Millis) -> Result<Granted, RegistryError> {
        let asked = HostClock.now().mono;
        let client = self.client().await?;
        // A counter of ZooKeeper's own: each write of a node counts its version up, for ever.
        let counted = self.within(client.set_data(&self.tree.leases(), b"", None)).await?;
        let lease = LeaseId(counted.version.unsigned_abs().into());
        let session = self.connect(ttl.clamp(least, TTL_MAX), true).await?;
        let ttl = granted_term(&session);
        let (node, note) = (self.tree.lease(lease), self.tree.owned(lease));
        let mut writer = session.new_multi_writer();
        let added = writer
            .add_create(&node, ttl.0.to_string().as_bytes(), &self.made(CreateMode::Ephemeral))
            .and_then(|()| writer.add_create(&note, b"", &self.made(CreateMode::Persistent)));
        added.map_err(|error| self.explain(&error))?;
        let made = writer.commit();
        self.within(async { made.await.map_err(Error::from) }).await?;
        self.hold(lease, session, ttl, asked);
        Ok(Granted { lease, ttl, clock: Some(Wall(counted.mtime)), next_end: None })
    }

    fn hold(&self, lease: LeaseId, client: Client, ttl: Millis, asked: Mono) {
        let held = Held { client, ttl, until: AtomicI64::new((asked + ttl).0) };
        self.held().insert(lease, Arc::new(held));
    }

    /// Prolongs a lease by something written on its own session, which only the quorum can answer.
    pub(super) async fn renew(&self, lease: LeaseId) -> Result<Option<Granted>, RegistryError> {
        self.goes_on()?;
        let asked = HostClock.now().mono;
        let held = {
            let all = self.held();
            let held = all.get(&lease).filter(|held| !held.client.state().is_terminated());
            // Even when no answer comes: whoever still asks is there, and a lease that nobody could renew ends by its
            // session. Told while nobody can take it for overdue.
            held.inspect(|held| _ = held.until.fetch_max((asked + held.ttl).0, Ordering::Relaxed)).cloned()
        };
        let Some(held) = held else { return self.take(lease, asked).await };
        let text = held.ttl.0.to_string();
        let written = held.client.set_data(&self.tree.lease(lease), text.as_bytes(), None);
        match tokio::time::timeout(span(ANSWER), written).await {
            Ok(Ok(stat)) if stat.ephemeral_owner == held.client.session_id().0 => {
                Ok(Some(granted(lease, held.ttl, &stat)))
            }
            // Somebody else renewed it meanwhile, so that it lives by another session.
            Ok(Ok(_)) => self.take(lease, asked).await,
            Ok(Err(Error::NoNode | Error::SessionExpired)) => {
                self.held().remove(&lease);
                // The session may have ended after the lease had been taken to another one.
                self.take(lease, asked).await
            }
            Ok(Err(error)) => Err(self.explain(&error)),
            Err(_) => Err(self.explain(&Error::Timeout)),
        }
    }

    /// Takes a living lease to a session of ours; `None` when it has ended. At no moment is it not there.
    async fn take(&self, lease: LeaseId, asked: Mono) -> Result<Option<Granted>, RegistryError> {
        for _ in 0..TRIES {
            let client = self.client().await?;
            let (path, note) = (self.tree.lease(lease), self.tree.owned(lease));
            let synced = client.sync(self.tree.root());
            let (found, noted) = (client.get_data(&path), client.get_data(&note));
            self.within(synced).await?;
            let Some((data, stat)) = self.there(found).await? else { return Ok(None) };
            let Some((keys, noted)) = self.there(noted).await? else { return Ok(None) };
            let term = String::from_utf8_lossy(&data).parse().map_err(|_| self.gone())?;
            let session = self.connect(Millis(term), true).await?;
            let mut writer = session.new_multi_writer();
            let added = writer
                .add_delete(&path, Some(stat.version))
                .and_then(|()| writer.add_create(&path, &data, &self.made(CreateMode::Ephemeral)))
                // The versions of the node that was made anew are those of before; those of its note are not.
                .and_then(|()| writer.add_set_data(&note, &keys, Some(noted.version)));
            added.map_err(|error| self.explain(&error))?;
            let made = writer.commit();
            match tokio::time::timeout(span(ANSWER), made).await {
                Ok(Ok(_)) => {
                    let ttl = granted_term(&session);
                    self.hold(lease, session.clone(), ttl, asked);
                    // Writing tells the engine's clock.
                    let written = session.set_data(&path, &data, None);
                    return match tokio::time::timeout(span(ANSWER), written).await {
                        Ok(Ok(stat)) => Ok(Some(granted(lease, ttl, &stat))),
                        // Closed by somebody, right after it was taken.
                        Ok(Err(Error::NoNode)) => {
                            self.held().remove(&lease);
                            Ok(None)
                        }
                        Ok(Err(error)) => Err(self.explain(&error)),
                        Err(_) => Err(self.explain(&Error::Timeout)),
                    };
                }
                // Renewed, taken or ended meanwhile.
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

    /// What a node holds; `None` where there is none.
    pub(super) async fn there(
        &self,
        asked: impl Future<Output = Result<(Vec<u8>, Stat), Error>>,
    ) -> Result<Option<(Vec<u8>, Stat)>, RegistryError> {
        match tokio::time::timeout(span(ANSWER), asked).await {
            Ok(Ok(found)) => Ok(Some(found)),
            Ok(Err(Error::NoNode)) => Ok(None),
            Ok(Err(error)) => Err(self.explain(&error)),
            Err(_) => Err(self.explain(&Error::Timeout)),
        }
    }

    /// Ends a lease and deletes what lives by it, at one revision.
    pub(super) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        self.held().remove(&lease);
        self.end(lease, None).await
    }

    /// Ends a lease; with a session, only if it still lives by that one.
    async fn end(&self, lease: LeaseId, session: Option<&Client>) -> Result<(), RegistryError> {
        let (node, note) = (self.tree.lease(lease), self.tree.owned(lease));
        for _ in 0..TRIES {
            let client = self.client().await?;
            let synced = client.sync(self.tree.root());
            // The note first: it is deleted of this version, so nobody took the lease to another session since.
            let (noted, alive) = (client.get_data(&note), client.check_stat(&node));
            let deaths = client.check_stat(&self.tree.deaths());
            self.within(synced).await?;
            let noted = self.there(noted).await?;
            let (alive, deaths) = (self.within(alive).await?, self.within(deaths).await?);
            let deaths = deaths.ok_or_else(|| self.gone())?.version;
            // Without a note it has ended, and somebody has cleared up behind it.
            let Some((data, stat)) = noted else { return Ok(()) };
            let taken = |node: &Stat| session.is_some_and(|ours| node.ephemeral_owner != ours.session_id().0);
            if alive.as_ref().is_some_and(taken) {
                return Ok(());
            }
            let mut ops = vec![Op::Set(self.tree.order(), vec![], ANY)];
            ops.extend(alive.map(|_| Op::Delete(node.clone(), ANY)));
            // Of this version, for whatever is noted until then must go too.
            ops.push(Op::Delete(note.clone(), stat.version));
            let keys = data_to_keys(&data);
            let asked: Vec<_> = keys.iter().map(|key| client.get_data(&self.tree.entry(key))).collect();
            let mut gone = Vec::new();
            for (key, asked) in keys.iter().zip(asked) {
                let Some((data, stat)) = self.there(asked).await? else { continue };
                if super::tree::entry(&data, &stat).is_some_and(|entry| entry.owner == Some(lease)) {
                    ops.push(Op::Delete(self.tree.entry(key), stat.version));
                    gone.push(key);
                }
            }
            if !gone.is_empty() {
                ops.push(Op::Set(self.tree.deaths(), vec![], deaths));
            }
            gone.retain(|key| key.is_cold());
            if !gone.is_empty() {
                ops.push(Op::Record(format!("{}/n-", self.tree.news()), keys_to_data(gone)));
            }
            match tokio::time::timeout(span(ANSWER), self.send_ops(&client, &ops)).await {
                Ok(Ok(Some(_))) => {
                    self.nudge.notify_one();
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

    /// Deletes what lived by leases that have ended.
    pub(super) async fn sweep(&self) -> Result<(), RegistryError> {
        let client = self.client().await?;
        // Notes first: one that is made meanwhile is not taken for one without a lease.
        let noted = client.get_children(&self.tree.all_owned());
        let alive = client.get_children(&self.tree.leases());
        let ((noted, _), (alive, _)) = (self.within(noted).await?, self.within(alive).await?);
        for name in noted.into_iter().filter(|name| !alive.contains(name)) {
            if let Ok(lease) = name.parse() {
                self.close(LeaseId(lease)).await?;
            }
        }
        Ok(())
    }

    /// Ends the leases of ours that were not renewed in time.
    pub(super) async fn end_overdue(&self) {
        let leases: Vec<_> = self.held().keys().copied().collect();
        for lease in leases {
            // Its session is let go of even when this does not arrive, and then ends by itself.
            if let Some(held) = self.overdue(lease) {
                let _ = self.end(lease, Some(&held.client)).await;
            }
        }
    }

    /// Lets go of a lease if it is overdue at this moment: whoever asks to renew it from now on must take it anew.
    fn overdue(&self, lease: LeaseId) -> Option<Arc<Held>> {
        let mut held = self.held();
        let until = Mono(held.get(&lease)?.until.load(Ordering::Relaxed));
        if until > HostClock.now().mono {
            return None;
        }
        held.remove(&lease)
    }
}

fn granted(lease: LeaseId, ttl: Millis, stat: &Stat) -> Granted {
    Granted { lease, ttl, clock: Some(Wall(stat.mtime)), next_end: None }
}

/// What the server made of the term that was asked for.
fn granted_term(session: &Client) -> Millis {
    Millis(i64::try_from(session.session_timeout().as_millis()).unwrap_or(TTL_MAX.0))
}
