//! Detects an ensemble that was rolled back, and raises the generation then.
//!
//! Restored older data looks like any other, except to a process that knew the newer: the node of the order was
//! written more often than it says. A server that only lags is not mistaken for that: first something is
//! written, which takes a majority, and a read after that is up to date.

use std::sync::PoisonError;

use zookeeper_client::{Client, Error, Stat};

use super::order_position::OrderPosition;
use super::session::{ANSWER, LAYOUT, ZookeeperSession, to_duration};
use crate::RegistryError;

/// How often to raise a generation that others raise meanwhile.
const TRIES: u32 = 30;

impl ZookeeperSession {
    /// The known position of the order. Read it before a request is sent: the answer's position must follow it.
    pub(super) fn known_order(&self) -> Option<OrderPosition> {
        *self.known_order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the position of the order; `false` when it does not follow the one known before the request.
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

    /// Records it likewise, and ends the session if the ensemble was rolled back.
    pub(super) async fn check_order(
        &self,
        client: &Client,
        order: OrderPosition,
        seen: Option<OrderPosition>,
    ) -> Result<(), RegistryError> {
        if self.record_order(order, seen) {
            return Ok(());
        }
        // Takes a lease number that is not used.
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

    /// Checks that a new connection is to the same ensemble in the same state, or a later one.
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

    /// Raises the generation above this session's, whatever the restored data says. This is done before any caller gets
    /// the error, so that the next connection has it.
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

    /// Reads a node that must exist.
    async fn require_node(
        &self,
        asked: impl Future<Output = Result<(Vec<u8>, Stat), Error>>,
    ) -> Result<(Vec<u8>, Stat), RegistryError> {
        self.read_node(asked).await?.ok_or_else(|| self.deleted_error())
    }

    /// The generation in the root node's data.
    pub(super) fn generation_of(&self, root: &[u8]) -> Result<u16, RegistryError> {
        let text = String::from_utf8_lossy(root);
        match text.split_once(' ').map(|(layout, generation)| (layout, generation.trim().parse())) {
            Some((LAYOUT, Ok(generation))) => Ok(generation),
            _ => Err(self.url.refusal(&format!(
                "has {text:?} in its namespace, this program knows layout {LAYOUT}: use a newer evenkeel, or another namespace"
            ))),
        }
    }

    /// Ends the session for good. Feeds end, and callers get the reason.
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
