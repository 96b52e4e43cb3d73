//! The engine on ZooKeeper: a node per entry, a `multi` per transaction, a session per lease.
//!
//! ZooKeeper reads node by node, restarts versions with each node that is created again, and its watches say only that
//! something changed. How the engine copes is described in `plan.rs`, `reader.rs` and `listener.rs`.

mod commit;
mod encryption;
mod entry_cache;
mod erase;
mod errors;
mod four_letter;
mod health;
mod history;
mod leases;
mod listener;
mod order_position;
mod paths;
mod plan;
mod reader;
mod session;

use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, DurabilityClass, EngineFacts, FeedKind, LeaseGrant, LeaseId, Revision, Txn,
    TxnOutcome, Write,
};
use evenkeel_core::time::Millis;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::feed::Feed;
use crate::health::HealthReport;
use crate::{BoxFuture, EngineUrl, Registry, RegistryError};
use listener::TICK;
use session::{ANSWER, ZookeeperSession};

/// The facts that are the same for every ensemble.
const FACTS: EngineFacts = EngineFacts {
    engine: "zookeeper",
    class: DurabilityClass::A,
    feed: FeedKind::Pushed,
    notice: Millis(TICK.0 + ANSWER.0),
    early: Millis::ZERO,
    ttl_min: Millis::secs(2),
    value_max: PACKET - (24 << 10),
    // This many fit into a packet with the longest keys, two names of 128 bytes each, and leave room for values.
    operations_max: 256,
    // The keys of some operations appear in the packet more than once.
    bytes_max: PACKET - (20 << 10),
    generation: 0,
};

/// ZooKeeper's default limit of a packet (`jute.maxbuffer`), minus a little.
const PACKET: usize = (1 << 20) - 4_096;

/// The size of an operation besides its key and value: a header and the node's ACL.
const OPERATION: usize = 200;

/// How many commits may wait; more wait at their callers (I47).
const WAITING_MAX: usize = 64;

/// A lease's session tolerates a silent server for a tick, but for this at least: a busy one may be silent for a while.
const SILENCE_MIN: Millis = Millis::secs(1);

/// The term that is requested to learn the ensemble's tick.
const PROBE: Millis = Millis::secs(1);

/// The most bytes of a packet that a transaction takes. ZooKeeper would cut the connection over a larger one.
fn packet_bytes(txn: &Txn) -> usize {
    // A key may be written three times: in its node, in the news, and in the note of its lease; and each byte as three.
    let keys: usize = txn.keys().map(|key| 9 * key.as_str().len() + 2 * OPERATION).sum();
    let values = txn.writes.iter().map(|write| match write {
        Write::Put { value, .. } => value.len(),
        Write::Delete { .. } => 0,
    });
    keys + values.sum::<usize>()
}

/// A registry below one node of a ZooKeeper ensemble. Dropping it releases its leases without ending them.
pub struct Zookeeper {
    facts: EngineFacts,
    session: Arc<ZookeeperSession>,
    room: Semaphore,
    listener: AbortHandle,
}

impl Zookeeper {
    /// Connects to `zookeeper://[USER:PASSWORD@]HOST[:PORT][,HOST…][/NAMESPACE]`.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] says what to change in the URL or on the server; [`RegistryError::Unavailable`] while
    /// no majority of the ensemble can be reached.
    pub async fn connect(url: &EngineUrl) -> Result<Self, RegistryError> {
        url.allow_options(&[])?;
        let ([], namespace) = url.path_segments([])?;
        let link = Arc::new(ZookeeperSession::new(url, namespace)?);
        let generation = link.create_namespace().await?;
        let least = link.connect(PROBE, false).await?.session_timeout().as_millis();
        // The least term is two ticks, unless `minSessionTimeout` is lower, which only a server that reports it shows.
        let least = Millis(i64::try_from(least).unwrap_or(i64::MAX) / 2);
        let tick = link.longest_tick().await.map_or(least, |told| least.max(told));
        let silence = *link.silence.get_or_init(|| tick.max(SILENCE_MIN));
        // A follower reports live sessions to the leader twice a tick, and may die with an unsent report. Then the
        // earlier report counts, so the client pings early: when half of the time to a session's timeout has passed.
        let early = Millis(i64::midpoint(silence.0, tick.0));
        let ttl_min = FACTS.ttl_min.max(Millis(tick.0.saturating_mul(3)));
        let facts = EngineFacts { early, ttl_min, generation, ..FACTS };
        link.refresh(true).await?;
        let listener = tokio::spawn(listener::run(link.clone())).abort_handle();
        Ok(Self { facts, session: link, room: Semaphore::new(WAITING_MAX), listener })
    }
}

impl Zookeeper {
    /// Whether there is a registry at this URL. Creates nothing.
    pub(crate) async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
        erase::exists(url).await
    }

    /// Deletes the namespace's node and all below it.
    pub(crate) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
        erase::erase(url).await
    }
}

impl Drop for Zookeeper {
    fn drop(&mut self) {
        self.listener.abort();
        self.session.detach();
    }
}

impl Registry for Zookeeper {
    fn facts(&self) -> EngineFacts {
        self.facts
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>> {
        Box::pin(self.session.open(ttl, self.facts.ttl_min))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>> {
        Box::pin(self.session.renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(self.session.close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        Box::pin(async move {
            let _room = self.room.acquire().await;
            self.session.commit(&txns).await
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>> {
        Box::pin(self.session.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        Box::pin(self.session.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        Box::pin(async move { Ok(Feed::new(self.session.clone(), self.session.subscribe()?, after)) })
    }

    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        Box::pin(self.session.check_health())
    }

    fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.session.last_error()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ids::NAME_MAX;

    use super::*;

    #[test]
    fn as_many_writes_as_the_facts_allow_fit_into_a_packet_with_the_longest_names() {
        let name = "n".repeat(NAME_MAX);
        let write = |nth| Write::Put {
            key: Key::from_stored(format!("share/{name}/{nth}/{name}")),
            value: vec![0; 600].into(),
            owner: None,
        };
        let txn = Txn { guards: vec![], writes: (0..FACTS.operations_max).map(write).collect() };
        assert!(crate::fits(&FACTS, &txn) && packet_bytes(&txn) <= PACKET, "{}", packet_bytes(&txn));
    }
}
