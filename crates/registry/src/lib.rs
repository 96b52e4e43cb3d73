//! The registry contract of Evenkeel, the engines that keep it, and the suite that every engine passes.
//!
//! A registry is a tree of small entries in one total order. It knows nothing of jobs: whoever writes says under
//! which [guards](evenkeel_core::registry::Guard) the writes may be made, and the engine accepts or refuses.
//! `docs/concepts/registry.md` tells the whole idea on one page.
//!
//! - [`Registry`] is the contract as a trait; [`open`] is the door: an engine for a URL.
//! - [`memory`] keeps everything in this process; [`sqlite`] shares one file between the processes of one host.
//! - `postgres` and `mysql` share a server between hosts; `sql` is how they are spoken to, for whoever keeps tables of
//!   their own there.
//! - [`file_integrity`] says whether a SQLite file is still whole while it is in use.
//! - [`feed`] carries news of the cold entries; [`clock`] is where engines read time.
//! - [`mod@conformance`] is the suite, [`mod@bench`] the engine's own ceiling to compare with.

pub mod bench;
pub mod clock;
pub mod conformance;

#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
mod encryption;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod feed;
pub mod health;
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
mod queue;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod sql;
pub mod sqlite;

pub mod file_integrity;
mod url;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, EngineFacts, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome,
};
use evenkeel_core::time::Millis;

pub use error::RegistryError;
pub use feed::Feed;
pub use health::HealthReport;
pub use url::{
    EngineAddress, EngineUrl, Exposure, PASSWORD, TlsFiles, UrlPurpose, exists, exposure, open, redacted,
};

/// A future behind a pointer, so that [`Registry`] can be used as `dyn Registry`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The longest term that an engine grants: a day.
pub const TTL_MAX: Millis = Millis::secs(86_400);

/// What every engine does. The verbs carry no scheduling idea; the algorithms live in `evenkeel-core`.
///
/// Every future may be dropped at any point: what it asked for may then be done or not, as with a lost answer.
pub trait Registry: Send + Sync + 'static {
    /// What the engine says of itself; constant while connected.
    fn facts(&self) -> EngineFacts;

    /// Grants a new lease of `ttl`, held between [`Facts::ttl_min`] and [`TTL_MAX`].
    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>>;

    /// Prolongs a living lease by its term; `None` when it has ended, for good (I10).
    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>>;

    /// Ends a lease and deletes what lives by it. Ending one that has ended is no change.
    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>>;

    /// Makes each transaction whole or not at all, apart from the others, and answers each in its place (I46).
    ///
    /// Never fails as a whole: what could not be sent, or whose answer was lost, is [`Outcome::Unknown`], and
    /// [`trouble`](Self::trouble) says why. A transaction beyond [`Facts::value_max`], [`Facts::operations_max`] or
    /// [`Facts::bytes_max`] is refused, as if it had guarded on that; so may be one that deletes a key and puts it again
    /// (etcd cannot). Those
    /// that name none of the entries that another one writes may be made in any order and at one revision; of others, the earlier
    /// goes first.
    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>>;

    /// Every cold entry at one revision.
    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>>;

    /// The entries asked for, hot or cold, at one revision and in the order asked, absent ones included.
    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>>;

    /// News of the cold entries after a revision (S1-10). Whoever lists at a revision and watches from it misses
    /// nothing.
    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>>;

    /// What the engine finds when it looks at itself and at the server behind it. Writes nothing.
    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        Box::pin(async { Ok(HealthReport::default()) })
    }

    /// Why outcomes are unknown at the moment; `None` when the last transaction was answered.
    fn last_error(&self) -> Option<Arc<RegistryError>> {
        None
    }
}

/// Whether an engine with these facts can hold the transaction at all.
pub(crate) fn fits(facts: &EngineFacts, txn: &Txn) -> bool {
    use evenkeel_core::registry::Write;
    let small = |write: &Write| match write {
        Write::Put { value, .. } => value.len() <= facts.value_max,
        Write::Delete { .. } => true,
    };
    let few = txn.guards.len() + txn.writes.len() <= facts.operations_max;
    few && txn.writes.iter().all(small) && txn.bytes() <= facts.bytes_max
}
