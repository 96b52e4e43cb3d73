//! The registry contract of Evenkeel, the engines that keep it, and the suite that every engine passes.
//!
//! A registry is a tree of small entries in one total order. It knows nothing of jobs: the writer names the
//! [guards](evenkeel_core::registry::Guard) under which its writes may be made, and the engine accepts or refuses.
//! `docs/concepts/registry.md` explains the whole on one page.
//!
//! - [`Registry`] is the contract as a trait; [`open`] creates the engine for a URL.
//! - [`memory`] keeps everything in this process; [`sqlite`] shares one file between the processes of one host.
//! - `postgres` and `mysql` share a server between hosts; `sql` is their common part, also for other users of tables
//!   on such a server.
//! - [`file_integrity`] checks whether a SQLite file is still intact while it is in use.
//! - [`feed`] delivers changes of the cold entries; [`clock`] is where engines read time.
//! - [`TemporaryRegistry`] is one for a measurement, which is removed again.
//! - [`mod@conformance`] is the suite, [`mod@bench`] the engine's own ceiling for comparison.

pub mod bench;
pub mod clock;
pub mod conformance;
mod contract;

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
mod temporary;

pub mod file_integrity;
mod url;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub(crate) use contract::fits;
pub use contract::{BoxFuture, Registry, TTL_MAX};
pub use error::RegistryError;
pub use feed::Feed;
pub use health::HealthReport;
pub use temporary::TemporaryRegistry;
pub use url::{
    EngineAddress, EngineUrl, Exposure, PASSWORD, TlsFiles, UrlPurpose, exists, exposure, open, redacted,
};
