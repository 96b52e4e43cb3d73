//! What the engines on SQL servers have in common, which is nearly all: PostgreSQL and MySQL differ in a few words.
//!
//! Four tables a namespace: a counter, entries, leases and changes. One task a process puts everything that waits into
//! one transaction; it locks the counter's row first, so transactions are made one after another in the order of their
//! revisions, and every moment is the server's own.
//!
//! [`Link`], [`Statement`] and [`Layout`] are for others too who keep tables of their own on such a server.

mod book;
mod ear;
mod fault;
mod layout;
mod ledger;
mod link;
mod reader;
mod sight;
mod statement;
mod writer;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Batch, Change, Class, Facts, FeedKind, Granted, LeaseId, Outcome, Revision, Txn,
};
use evenkeel_core::time::Millis;
use tokio::sync::watch;

use crate::examine::Examined;
use crate::feed::Feed;
use crate::queue::Asker;
use crate::url::EngineUrl;
use crate::{BoxFuture, Registry, RegistryError, fits};
pub use fault::explain;
pub use layout::Layout;
pub use link::{Answer, Link, Row, Target, late};
use reader::Readers;
use sight::Sight;
pub use statement::{Arg, ROWS_MAX, Statement, Tongue, pieces};
pub(crate) use statement::{Dialect, Tables};

/// How often a server that cannot send word is asked, and how often one that can, lest word was lost.
const POLL: Millis = Millis(100);
const NOTICE_PUSHED: Millis = Millis(1_000);

/// How long a server may take to say what it is, and a question or a transaction.
const PATIENCE: Duration = Duration::from_secs(6);

/// The largest value, and the least that a server must take in one statement.
const VALUE_MAX: usize = 4 << 20;

/// How much goes into one transaction of the server's, ours or several: it must be made in time.
const BYTES_MAX: usize = 16 << 20;

/// The longest key that every server can look up.
const KEY_MAX: usize = 700;

/// A registry on an SQL server. Made by [`Postgres`](crate::postgres::Postgres) and [`MySql`](crate::mysql::MySql).
pub(crate) struct Sql {
    facts: Facts,
    config: Arc<Config>,
    readers: Arc<Readers>,
    writer: Asker,
    bell: Arc<watch::Sender<Revision>>,
    ear: OnceLock<()>,
}

/// Where a registry is, and how it is spoken to.
pub(crate) struct Config {
    dialect: &'static Dialect,
    target: Target,
    tables: Tables,
    /// What it is, and its URL without what is secret.
    place: String,
}

/// What a server says of itself.
pub(crate) struct Server {
    /// Another server has another, another history of the same one, and a counter that was restored; `None` while there
    /// is no counter.
    pub(crate) identity: Option<String>,
    /// Whether it may be written to.
    pub(crate) writable: bool,
    /// What its promises are worth, and why no more.
    pub(crate) class: Class,
    pub(crate) lacks: &'static str,
    /// Why it cannot be used as it is.
    pub(crate) refused: Option<String>,
}

/// The server that was adopted.
struct Adopted {
    identity: String,
    class: Class,
}

/// What an engine can hold.
#[derive(Clone, Copy)]
struct Limits {
    facts: Facts,
    ttl_min: Millis,
}

impl Limits {
    fn fit(&self, txn: &Txn) -> bool {
        fits(&self.facts, txn) && txn.keys().all(storable)
    }
}

/// Whether servers take such a key at all.
fn storable(key: &Key) -> bool {
    key.as_str().len() <= KEY_MAX && !key.as_str().contains('\0')
}

impl Config {
    pub(crate) fn new(dialect: &'static Dialect, target: Target, url: &EngineUrl, namespace: &str) -> Self {
        Self { dialect, target, tables: Tables::new(dialect, namespace), place: url.place() }
    }

    /// Asks a server whether it can be used.
    async fn inspect(&self, link: &mut Link) -> Result<Server, RegistryError> {
        let server = in_time((self.dialect.inspect)(link, &self.tables)).await;
        let server = server.map_err(|error| fault::explain(&self.place, &error))?;
        if let Some(why) = &server.refused {
            return Err(RegistryError::Refused(format!("{} {why}", self.place)));
        }
        if !server.writable {
            return Err(RegistryError::Unavailable(format!(
                "{} is read-only here: point the URL at the server that is written to",
                self.place
            )));
        }
        Ok(server)
    }

    /// A new connection to the server that was adopted, and to no other.
    async fn come_back(&self, adopted: &Adopted) -> Result<Link, RegistryError> {
        let come = async {
            let opened = Link::open(&self.target, self.dialect.greeting).await;
            let mut link = opened.map_err(|error| fault::explain(&self.place, &error))?;
            let server = self.inspect(&mut link).await?;
            if server.identity.as_ref() != Some(&adopted.identity) {
                return Err(RegistryError::Fatal(format!(
                    "{} is kept by another server than before: start this node again",
                    self.place
                )));
            }
            if server.class < adopted.class {
                return Err(RegistryError::Fatal(format!(
                    "{} promises less than when this node started ({}): set it right, or start this node again",
                    self.place, server.lacks
                )));
            }
            Ok(link)
        };
        let late = |_| Err(fault::explain(&self.place, &late("no connection", PATIENCE)));
        tokio::time::timeout(PATIENCE, come).await.unwrap_or_else(late)
    }
}

impl Sql {
    /// Connects, and looks whether the tables are there.
    pub(crate) async fn exists(config: &Config) -> Result<bool, RegistryError> {
        let explain = |error| fault::explain(&config.place, &error);
        let mut link = Link::open(&config.target, config.dialect.greeting).await.map_err(explain)?;
        layout::of(config).is_there(&mut link).await
    }

    /// Connects, makes or updates the tables, and starts to write.
    pub(crate) async fn connect(config: Config) -> Result<Self, RegistryError> {
        let explain = |error| fault::explain(&config.place, &error);
        let mut link = Link::open(&config.target, config.dialect.greeting).await.map_err(explain)?;
        config.inspect(&mut link).await?;
        layout::of(&config).prepare(&mut link).await?;
        let server = config.inspect(&mut link).await?;
        let identity = server.identity.ok_or_else(|| {
            RegistryError::Unavailable(format!(
                "{} lost the table that it had just made: see who else works in this database",
                config.place
            ))
        })?;
        let generation = in_time(layout::adopt(&mut link, &config, &identity)).await.map_err(explain)?;
        let facts = Facts {
            engine: config.dialect.name,
            class: server.class,
            feed: if config.dialect.notify.is_some() { FeedKind::Pushed } else { FeedKind::Polled(POLL) },
            notice: if config.dialect.notify.is_some() { NOTICE_PUSHED } else { POLL },
            early: sight::MISSED,
            ttl_min: Millis::secs(2),
            value_max: VALUE_MAX,
            operations_max: 4_096,
            bytes_max: BYTES_MAX,
            generation,
        };
        let config = Arc::new(config);
        let adopted = Arc::new(Adopted { identity, class: server.class });
        let bell = Arc::new(watch::Sender::new(Revision(0)));
        let readers = Arc::new(Readers::new(config.clone(), adopted.clone(), bell.clone()));
        bell.send_replace(readers.revision().await?);
        let limits = Limits { facts, ttl_min: facts.ttl_min };
        let sight = Sight::first(&mut link, &config).await;
        let sight = sight.map_err(|error| fault::explain(&config.place, &error))?;
        let writer = writer::start((link, sight), config.clone(), limits, adopted, bell.clone());
        Ok(Self { facts, config, readers, writer, bell, ear: OnceLock::new() })
    }
}

impl Registry for Sql {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<Granted, RegistryError>> {
        Box::pin(self.writer.open(ttl))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<Granted>, RegistryError>> {
        Box::pin(self.writer.renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(self.writer.close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<Outcome>> {
        Box::pin(self.writer.commit(txns))
    }

    fn list(&self) -> BoxFuture<'_, Result<Batch, RegistryError>> {
        Box::pin(self.readers.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        Box::pin(self.readers.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        Box::pin(async move {
            self.ear.get_or_init(|| ear::start(self.config.clone(), &self.readers, &self.bell));
            Ok(Feed::new(self.readers.clone(), self.bell.subscribe(), after))
        })
    }

    fn examine(&self) -> BoxFuture<'_, Result<Examined, RegistryError>> {
        Box::pin(async move {
            let Config { target, dialect, tables, .. } = self.config.as_ref();
            let told = async {
                let mut link = Link::open(target, dialect.greeting).await?;
                let version = link.row(Statement::new(dialect, "SELECT VERSION()")).await?.text(0)?;
                let server = (dialect.inspect)(&mut link, tables).await?;
                link.say(dialect.begin).await?;
                let isolation = link.row(Statement::new(dialect, dialect.isolation)).await?.text(1)?;
                link.say("ROLLBACK").await?;
                Ok((version, server, isolation))
            };
            let told = in_time(told).await.map_err(|error| fault::explain(&self.config.place, &error))?;
            Ok(examined(&told.0, &told.1, &told.2))
        })
    }

    fn trouble(&self) -> Option<Arc<RegistryError>> {
        self.writer.trouble()
    }
}

/// Waits for a server's answer, not for ever.
async fn in_time<T>(answer: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(late("no answer", PATIENCE)))
}

/// What an examination comes to.
fn examined(version: &str, server: &Server, isolation: &str) -> Examined {
    // PostgreSQL says its name first, and then on what and by what it was built.
    let version = version.trim_start_matches("PostgreSQL ").split(' ').next().map(str::to_owned);
    let mut found = Examined { version, ..Examined::default() };
    match server.lacks {
        "" => found.tell("durability", "an answer is given after a sync"),
        lacks => {
            found.fault("durability", lacks, "set it right where that can be, and start the nodes again")
        }
    }
    let isolation = isolation.to_lowercase().replace('-', " ");
    match isolation.as_str() {
        "read committed" => found.tell("isolation", "read committed, behind a row that every writer locks"),
        _ => found.fault(
            "isolation",
            isolation,
            "let nothing between the nodes and the server change what they ask for",
        ),
    }
    found
}

/// Makes a type of its own of a registry on an SQL server.
macro_rules! engine {
    ($name:ident) => {
        impl $crate::Registry for $name {
            fn facts(&self) -> evenkeel_core::registry::Facts {
                self.0.facts()
            }

            fn open(
                &self,
                ttl: evenkeel_core::time::Millis,
            ) -> $crate::BoxFuture<'_, Result<evenkeel_core::registry::Granted, $crate::RegistryError>> {
                self.0.open(ttl)
            }

            fn renew(
                &self,
                lease: evenkeel_core::registry::LeaseId,
            ) -> $crate::BoxFuture<'_, Result<Option<evenkeel_core::registry::Granted>, $crate::RegistryError>>
            {
                self.0.renew(lease)
            }

            fn close(
                &self,
                lease: evenkeel_core::registry::LeaseId,
            ) -> $crate::BoxFuture<'_, Result<(), $crate::RegistryError>> {
                self.0.close(lease)
            }

            fn commit(
                &self,
                txns: Vec<evenkeel_core::registry::Txn>,
            ) -> $crate::BoxFuture<'_, Vec<evenkeel_core::registry::Outcome>> {
                self.0.commit(txns)
            }

            fn list(
                &self,
            ) -> $crate::BoxFuture<'_, Result<evenkeel_core::registry::Batch, $crate::RegistryError>> {
                self.0.list()
            }

            fn read(
                &self,
                keys: Vec<evenkeel_core::keys::Key>,
            ) -> $crate::BoxFuture<'_, Result<Vec<evenkeel_core::registry::Change>, $crate::RegistryError>>
            {
                self.0.read(keys)
            }

            fn watch(
                &self,
                after: evenkeel_core::registry::Revision,
            ) -> $crate::BoxFuture<'_, Result<$crate::Feed, $crate::RegistryError>> {
                self.0.watch(after)
            }

            fn examine(&self) -> $crate::BoxFuture<'_, Result<$crate::Examined, $crate::RegistryError>> {
                self.0.examine()
            }

            fn trouble(&self) -> Option<std::sync::Arc<$crate::RegistryError>> {
                self.0.trouble()
            }
        }
    };
}
pub(crate) use engine;
