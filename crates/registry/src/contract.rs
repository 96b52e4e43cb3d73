//! The contract of every engine as a trait.

use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, EngineFacts, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome,
};
use evenkeel_core::time::Millis;

use crate::error::RegistryError;
use crate::feed::Feed;
use crate::health::HealthReport;

/// A boxed future, so that [`Registry`] can be used as `dyn Registry`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The longest term that an engine grants: a day.
pub const TTL_MAX: Millis = Millis::secs(86_400);

/// The interface of every engine. The verbs carry no scheduling idea; the algorithms live in `evenkeel-core`.
///
/// Every future may be dropped at any point: its request may then be done or not, as with a lost answer.
pub trait Registry: Send + Sync + 'static {
    /// The engine's facts; constant while connected.
    fn facts(&self) -> EngineFacts;

    /// Grants a new lease of `ttl`, held between [`EngineFacts::ttl_min`] and [`TTL_MAX`].
    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>>;

    /// Extends a living lease by its term; `None` when it has ended, for good (I10).
    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>>;

    /// Ends a lease and deletes the entries that it owns. Ending a lease that has ended is no change.
    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>>;

    /// Makes each transaction completely or not at all, independently of the others, and answers each in its place
    /// (I46).
    ///
    /// Never fails as a whole: a transaction that could not be sent, or whose answer was lost, is
    /// [`TxnOutcome::Unknown`], and [`last_error`](Self::last_error) says why. A transaction beyond
    /// [`EngineFacts::value_max`], [`EngineFacts::operations_max`] or [`EngineFacts::bytes_max`] is refused, as if by a
    /// guard; so may be one that deletes a key and puts it again (etcd cannot). Transactions that name none of the
    /// entries that another one writes may be made in any order and at one revision; of others, the earlier goes first.
    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>>;

    /// Every cold entry at one revision.
    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>>;

    /// The entries of these keys, hot or cold, at one revision and in the same order, absent ones included.
    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>>;

    /// Changes of the cold entries after a revision (S1-10). A caller that lists at a revision and watches from it
    /// misses nothing. They come as soon as the engine has them.
    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>>;

    /// Checks the health of the engine and the server behind it. Writes nothing.
    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        Box::pin(async { Ok(HealthReport::default()) })
    }

    /// Why outcomes are unknown at the moment; `None` when the last transaction was answered.
    fn last_error(&self) -> Option<Arc<RegistryError>> {
        None
    }
}

/// Whether an engine with these facts can hold the transaction.
pub(crate) fn fits(facts: &EngineFacts, txn: &Txn) -> bool {
    use evenkeel_core::registry::Write;
    let small = |write: &Write| match write {
        Write::Put { value, .. } => value.len() <= facts.value_max,
        Write::Delete { .. } => true,
    };
    let few = txn.guards.len() + txn.writes.len() <= facts.operations_max;
    few && txn.writes.iter().all(small) && txn.bytes() <= facts.bytes_max
}
