//! Whether the ensemble is still where this process knows it to have been, and what is done when it is not.
//!
//! Data that is put back in place of newer data looks like any other, but for who was there: the node of the order was
//! written more often than it tells. A server that is only behind is not taken for that: before it is said, something is
//! written, which takes a majority, and what is read behind that is as new.

use std::sync::PoisonError;

use zookeeper_client::{Client, Error, Stat};

use super::session::{ANSWER, LAYOUT, ZookeeperSession, to_duration};
use crate::RegistryError;

/// How often the generation is raised anew that others raise meanwhile.
const TRIES: u32 = 30;

/// How far the order has gone: each write counts up both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderPosition {
    zxid: i64,
    writes: i32,
}

impl OrderPosition {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { zxid: stat.mzxid, writes: stat.version }
    }

    /// Whether one history has first that, then this. An ensemble that went back may count higher numbers at once, for each
    /// election begins new ones; then it has made fewer writes.
    fn follows(self, seen: Option<Self>) -> bool {
        seen.is_none_or(|seen| {
            let more = self.zxid > seen.zxid && self.writes.wrapping_sub(seen.writes) > 0;
            more || self == seen
        })
    }
}

impl ZookeeperSession {
    /// What is known of the order. Asked for before a question is sent: its answer must follow that.
    pub(super) fn known_order(&self) -> Option<OrderPosition> {
        *self.known_order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes down how far the order has gone; `false` when that does not follow what was seen before it was asked.
    pub(super) fn record_order(&self, order: OrderPosition, seen: Option<OrderPosition>) -> bool {
        if !order.follows(seen) {
            return false;
        }
        let mut seen = self.known_order.lock().unwrap_or_else(PoisonError::into_inner);
        if order.follows(*seen) {
            *seen = Some(order);
        }
        true
    }

    /// The same, and the end of all where the ensemble went back in time.
    pub(super) async fn check_order(
        &self,
        client: &Client,
        order: OrderPosition,
        seen: Option<OrderPosition>,
    ) -> Result<(), RegistryError> {
        if self.record_order(order, seen) {
            return Ok(());
        }
        // A lease's number that nobody gets.
        self.with_timeout(client.set_data(&self.paths.leases(), b"", None)).await?;
        let order = self
            .with_timeout(client.check_stat(&self.paths.order()))
            .await?
            .ok_or_else(|| self.deleted_error())?;
        if self.record_order(OrderPosition::of(&order), seen) {
            return Ok(());
        }
        self.raise_generation(client).await?;
        Err(self.stop("has gone back in time, as after a restore: start this node again, it then begins a new generation"))
    }

    /// Looks whether a connection that was made anew is to the ensemble as it was, or a later one.
    pub(super) async fn verify_generation(&self, client: &Client) -> Result<(), RegistryError> {
        let Some(began) = self.generation.get().copied() else { return Ok(()) };
        let seen = self.known_order();
        let synced = client.sync(self.paths.root());
        let (root, order) = (client.get_data(self.paths.root()), client.check_stat(&self.paths.order()));
        self.with_timeout(synced).await?;
        let (data, _) = self.require_node(root).await?;
        let order = self.with_timeout(order).await?.ok_or_else(|| self.deleted_error())?;
        if self.generation_of(&data)? > began {
            return Err(self.stop("was given a new generation, as after a restore: start this node again"));
        }
        self.check_order(client, OrderPosition::of(&order), seen).await
    }

    /// Raises the generation to above ours, whatever the data that was put back says. Before anybody is told, so that
    /// whoever connects next has it.
    async fn raise_generation(&self, client: &Client) -> Result<(), RegistryError> {
        let above = self.generation.get().map_or(0, |began| began.saturating_add(1));
        for _ in 0..TRIES {
            let (data, stat) = self.require_node(client.get_data(self.paths.root())).await?;
            if self.generation_of(&data)? >= above {
                return Ok(());
            }
            let data = format!("{LAYOUT} {above}");
            let written = client.set_data(self.paths.root(), data.as_bytes(), Some(stat.version));
            match tokio::time::timeout(to_duration(ANSWER), written).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(Error::BadVersion)) => {}
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        Err(RegistryError::Unavailable("others raise the generation all the time: try again".into()))
    }

    /// What a node holds without which nothing goes on.
    async fn require_node(
        &self,
        asked: impl Future<Output = Result<(Vec<u8>, Stat), Error>>,
    ) -> Result<(Vec<u8>, Stat), RegistryError> {
        self.read_node(asked).await?.ok_or_else(|| self.deleted_error())
    }

    /// The generation that the root tells.
    pub(super) fn generation_of(&self, root: &[u8]) -> Result<u16, RegistryError> {
        let text = String::from_utf8_lossy(root);
        match text.split_once(' ').map(|(layout, generation)| (layout, generation.trim().parse())) {
            Some((LAYOUT, Ok(generation))) => Ok(generation),
            _ => Err(self.url.refusal(&format!(
                "has {text:?} in its namespace, this program knows layout {LAYOUT}: use a newer evenkeel, or another namespace"
            ))),
        }
    }

    /// Nothing goes on any more. Feeds end, and whoever asks is told why.
    fn stop(&self, what: &str) -> RegistryError {
        let why = RegistryError::Fatal(format!("registry {} {what}", self.url));
        let why = self.failure.get_or_init(|| why).clone();
        self.close_feeds();
        self.set_last_error(Some(&why));
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_another_history_is_told_apart() {
        let order = |zxid, writes| OrderPosition { zxid, writes };
        let seen = Some(order(0x1_0000_0009, 5));
        for later in [order(0x1_0000_0009, 5), order(0x1_0000_000a, 6), order(0x2_0000_0001, 700)] {
            assert!(later.follows(seen), "{later:?}");
        }
        for other in [
            order(0x1_0000_0003, 4),
            // After an election, and some writes.
            order(0x2_0000_0004, 4),
            order(0x2_0000_0004, 5),
            order(0x1_0000_0009, 6),
            order(0x1_0000_0008, 6),
        ] {
            assert!(!other.follows(seen), "{other:?}");
        }
        assert!(order(1, 0).follows(None));
        assert!(order(9, i32::MIN).follows(Some(order(8, i32::MAX))), "ZooKeeper counts on from there");
    }
}
