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
    /// When it ends unless it is renewed: its term after the renewal was asked for.
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
        let asked = HostClock.now().mono;
        let held = self.held().get(&lease).cloned();
        let held = held.filter(|held| !held.client.state().is_terminated());
        let Some(held) = held else { return self.take(lease, asked).await };
        let text = held.ttl.0.to_string();
        let written = held.client.set_data(&self.tree.lease(lease), text.as_bytes(), None);
        match tokio::time::timeout(span(ANSWER), written).await {
            Ok(Ok(stat)) if stat.ephemeral_owner == held.client.session_id().0 => {
                held.until.fetch_max((asked + held.ttl).0, Ordering::Relaxed);
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
            let path = self.tree.lease(lease);
            let synced = client.sync(self.tree.root());
            let found = client.get_data(&path);
            self.within(synced).await?;
            let (data, stat) = match tokio::time::timeout(span(ANSWER), found).await {
                Ok(Ok(found)) => found,
                Ok(Err(Error::NoNode)) => return Ok(None),
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            };
            let term = String::from_utf8_lossy(&data).parse().map_err(|_| self.gone())?;
            let session = self.connect(Millis(term), true).await?;
            let mut writer = session.new_multi_writer();
            let added = writer
                .add_delete(&path, Some(stat.version))
                .and_then(|()| writer.add_create(&path, &data, &self.made(CreateMode::Ephemeral)));
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

    /// Ends a lease and deletes what lives by it, at one revision.
    pub(super) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        self.held().remove(&lease);
        let (node, note) = (self.tree.lease(lease), self.tree.owned(lease));
        for _ in 0..TRIES {
            let client = self.client().await?;
            let synced = client.sync(self.tree.root());
            let (alive, noted) = (client.check_stat(&node), client.get_data(&note));
            let deaths = client.check_stat(&self.tree.deaths());
            self.within(synced).await?;
            let (alive, deaths) = (self.within(alive).await?, self.within(deaths).await?);
            let deaths = deaths.ok_or_else(|| self.gone())?.version;
            let (data, stat) = match tokio::time::timeout(span(ANSWER), noted).await {
                Ok(Ok(found)) => found,
                // It has ended, and somebody has cleared up behind it.
                Ok(Err(Error::NoNode)) => return Ok(()),
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            };
            let mut ops = vec![Op::Set(self.tree.order(), vec![], ANY)];
            ops.extend(alive.map(|_| Op::Delete(node.clone(), ANY)));
            // Of this version, for whatever is noted until then must go too.
            ops.push(Op::Delete(note.clone(), stat.version));
            let keys = data_to_keys(&data);
            let asked: Vec<_> = keys.iter().map(|key| client.get_data(&self.tree.entry(key))).collect();
            let mut gone = Vec::new();
            for (key, asked) in keys.iter().zip(asked) {
                match tokio::time::timeout(span(ANSWER), asked).await {
                    Ok(Ok((data, stat))) => {
                        let entry = super::tree::entry(&data, &stat);
                        if entry.is_some_and(|entry| entry.owner == Some(lease)) {
                            ops.push(Op::Delete(self.tree.entry(key), stat.version));
                            gone.push(key);
                        }
                    }
                    Ok(Err(Error::NoNode)) => {}
                    Ok(Err(error)) => return Err(self.explain(&error)),
                    Err(_) => return Err(self.explain(&Error::Timeout)),
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
        let now = HostClock.now().mono;
        let over = |held: &Held| Mono(held.until.load(Ordering::Relaxed)) <= now;
        let overdue: Vec<_> =
            self.held().iter().filter(|(_, held)| over(held)).map(|(lease, _)| *lease).collect();
        for lease in overdue {
            // Its session is let go of even when this does not arrive, and then ends by itself.
            let _ = self.close(lease).await;
        }
    }
}

fn granted(lease: LeaseId, ttl: Millis, stat: &Stat) -> Granted {
    Granted { lease, ttl, clock: Some(Wall(stat.mtime)), next_end: None }
}

/// What the server made of the term that was asked for.
fn granted_term(session: &Client) -> Millis {
    Millis(i64::try_from(session.session_timeout().as_millis()).unwrap_or(TTL_MAX.0))
}
