//! The common part of the engines on SQL servers: PostgreSQL and MySQL differ only in their dialects.
//!
//! Four tables per namespace: a counter, entries, leases and changes. One task per process puts all waiting requests
//! into one transaction; it locks the counter's row first, so transactions are made one after another in the order of
//! their revisions, and every moment is the server's own. Those that only write run states go beside each other where the
//! server has sequences ([`hot`]).
//!
//! [`SqlConnection`], [`SqlStatement`] and [`TableLayout`] also serve other users of tables on such a server.

mod clock_step;
mod commit;
mod config;
mod connection;
mod dialect;
mod erase;
mod errors;
mod group;
mod hot;
mod late;
mod layout;
mod listener;
mod reader;
mod restart;
mod snapshot;
mod state;
mod statement;
mod target;
mod writer;

use std::sync::{Arc, OnceLock};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, EngineFacts, FeedKind, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome,
};
use evenkeel_core::time::Millis;

use crate::feed::Feed;
use crate::health::HealthReport;
use crate::queue::WriterHandle;
use crate::{BoxFuture, Registry, RegistryError};
use clock_step::ClockObservation;
pub(crate) use config::SqlConfig;
use config::{BYTES_MAX, NOTICE_PUSHED, OrderSeen, POLL, SqlLimits, SqlServerIdentity, with_timeout};
pub use connection::{SqlConnection, SqlResult, SqlRow, SqlTarget, timeout_error};
pub(crate) use dialect::{
    HotForm, OrderStatements, RegistryDialect, RevisionSequence, SqlServerInfo, SqlSession, TableNames,
};
pub use errors::explain;
pub use layout::TableLayout;
use reader::{SqlLine, SqlReaders};
#[cfg(feature = "postgres")]
pub(crate) use statement::BASE_SETTING;
#[cfg(feature = "mysql")]
pub(crate) use statement::BASE_VARIABLE;
pub use statement::{ROWS_MAX, SqlArg, SqlDialect, SqlStatement, pieces};

/// The largest value, and the least that a server must accept in one statement.
const VALUE_MAX: usize = 4 << 20;

/// A registry on an SQL server. Made by [`Postgres`](crate::postgres::Postgres) and [`MySql`](crate::mysql::MySql).
pub(crate) struct Sql {
    facts: EngineFacts,
    config: Arc<SqlConfig>,
    readers: Arc<SqlReaders>,
    writer: WriterHandle,
    seen: Arc<OrderSeen>,
    listener_started: OnceLock<()>,
}

impl Sql {
    /// Connects, and checks whether the tables exist.
    pub(crate) async fn exists(config: &SqlConfig) -> Result<bool, RegistryError> {
        let explain = |error| errors::explain(&config.label, &error);
        let mut link = SqlConnection::open(&config.target, config.session_setup()).await.map_err(explain)?;
        layout::registry_layout(config).exists(&mut link).await
    }

    /// Deletes the tables and all that is in them.
    pub(crate) async fn erase(config: SqlConfig) -> Result<(), RegistryError> {
        let label = config.label.clone();
        erase::erase(config).await.map_err(|error| errors::explain(&label, &error))
    }

    /// Connects, creates or updates the tables, and starts the writer.
    pub(crate) async fn connect(config: SqlConfig) -> Result<Self, RegistryError> {
        let explain = |error| errors::explain(&config.label, &error);
        let mut link = SqlConnection::open(&config.target, config.session_setup()).await.map_err(explain)?;
        let dialect = with_timeout((config.dialect.of_server)(&mut link)).await.map_err(explain)?;
        let config = config.with_dialect(dialect);
        let explain = |error| errors::explain(&config.label, &error);
        config.inspect(&mut link).await?;
        layout::registry_layout(&config).prepare(&mut link).await?;
        let server = config.inspect(&mut link).await?;
        let identity = server.identity.ok_or_else(|| {
            RegistryError::Unavailable(format!(
                "{} lost the table that it had just made: see who else works in this database",
                config.label
            ))
        })?;
        with_timeout(restart::pass_restart(&mut link, config.dialect, &config.tables))
            .await
            .map_err(explain)?;
        let generation =
            with_timeout(layout::record_server(&mut link, &config, &identity)).await.map_err(explain)?;
        let facts = EngineFacts {
            engine: config.dialect.name,
            class: server.class,
            feed: if config.listens { FeedKind::Pushed } else { FeedKind::Polled(POLL) },
            notice: if config.listens { NOTICE_PUSHED } else { POLL },
            early: clock_step::MISSED,
            ttl_min: Millis::secs(2),
            value_max: VALUE_MAX,
            operations_max: 4_096,
            bytes_max: BYTES_MAX,
            generation,
        };
        let config = Arc::new(config);
        let adopted = Arc::new(SqlServerIdentity { identity, class: server.class });
        let seen = Arc::new(OrderSeen::new());
        let limits = SqlLimits { facts, ttl_min: facts.ttl_min };
        let observation = ClockObservation::observe_first(&mut link, &config).await;
        let observation = observation.map_err(|error| errors::explain(&config.label, &error))?;
        let line = Arc::new(SqlLine::new(Some(link)));
        let readers = Arc::new(SqlReaders::new(config.clone(), adopted.clone(), seen.clone(), line.clone()));
        seen.ring(readers.revision().await?);
        let writer = writer::start((line, observation), config.clone(), limits, adopted, seen.clone());
        Ok(Self { facts, config, readers, writer, seen, listener_started: OnceLock::new() })
    }
}

impl Registry for Sql {
    fn facts(&self) -> EngineFacts {
        self.facts
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Result<LeaseGrant, RegistryError>> {
        Box::pin(self.writer.open(ttl))
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Result<Option<LeaseGrant>, RegistryError>> {
        Box::pin(self.writer.renew(lease))
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(self.writer.close(lease))
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        Box::pin(self.writer.commit(txns))
    }

    fn list(&self) -> BoxFuture<'_, Result<ChangeBatch, RegistryError>> {
        Box::pin(self.readers.list())
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Change>, RegistryError>> {
        Box::pin(self.readers.read(keys))
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Feed, RegistryError>> {
        Box::pin(async move {
            self.listener_started
                .get_or_init(|| listener::start(self.config.clone(), &self.readers, &self.seen));
            Ok(Feed::new(self.readers.clone(), self.seen.bell.subscribe(), after))
        })
    }

    fn check_health(&self) -> BoxFuture<'_, Result<HealthReport, RegistryError>> {
        Box::pin(async move {
            let SqlConfig { target, dialect, tables, .. } = self.config.as_ref();
            let setup = self.config.session_setup();
            let told = async {
                let mut link = SqlConnection::open(target, setup).await?;
                let version = link.ask_one(SqlStatement::new(dialect, "SELECT VERSION()")).await?.text(0)?;
                let server = (dialect.inspect)(&mut link, tables).await?;
                link.execute_text(dialect.begin).await?;
                let isolation = link.ask_one(SqlStatement::new(dialect, dialect.isolation)).await?.text(1)?;
                link.execute_text("ROLLBACK").await?;
                Ok((version, server, isolation))
            };
            let told =
                with_timeout(told).await.map_err(|error| errors::explain(&self.config.label, &error))?;
            Ok(health_report(&told.0, &told.1, &told.2))
        })
    }

    fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.writer.last_error()
    }
}

/// Builds the health report.
fn health_report(version: &str, server: &SqlServerInfo, isolation: &str) -> HealthReport {
    // PostgreSQL's version text starts with its name, and ends with its platform and compiler.
    let version = version.trim_start_matches("PostgreSQL ").split(' ').next().map(str::to_owned);
    let mut found = HealthReport { version, ..HealthReport::default() };
    match server.weakness {
        "" => found.add_check("durability", "an answer is given after a sync"),
        lacks => found.add_problem(
            "durability",
            lacks,
            "set it right where that can be, and start the nodes again",
        ),
    }
    let isolation = isolation.to_lowercase().replace('-', " ");
    match isolation.as_str() {
        "read committed" => {
            found.add_check("isolation", "read committed, behind a row that every writer locks")
        }
        _ => found.add_problem(
            "isolation",
            isolation,
            "let nothing between the nodes and the server change what they ask for",
        ),
    }
    found
}

/// Defines a type for a registry on an SQL server.
macro_rules! engine {
    ($name:ident) => {
        impl $crate::Registry for $name {
            fn facts(&self) -> evenkeel_core::registry::EngineFacts {
                self.0.facts()
            }

            fn open(
                &self,
                ttl: evenkeel_core::time::Millis,
            ) -> $crate::BoxFuture<'_, Result<evenkeel_core::registry::LeaseGrant, $crate::RegistryError>>
            {
                self.0.open(ttl)
            }

            fn renew(
                &self,
                lease: evenkeel_core::registry::LeaseId,
            ) -> $crate::BoxFuture<
                '_,
                Result<Option<evenkeel_core::registry::LeaseGrant>, $crate::RegistryError>,
            > {
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
            ) -> $crate::BoxFuture<'_, Vec<evenkeel_core::registry::TxnOutcome>> {
                self.0.commit(txns)
            }

            fn list(
                &self,
            ) -> $crate::BoxFuture<'_, Result<evenkeel_core::registry::ChangeBatch, $crate::RegistryError>>
            {
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

            fn check_health(
                &self,
            ) -> $crate::BoxFuture<'_, Result<$crate::HealthReport, $crate::RegistryError>> {
                self.0.check_health()
            }

            fn last_error(&self) -> Option<std::sync::Arc<$crate::RegistryError>> {
                self.0.last_error()
            }
        }
    };
}
pub(crate) use engine;
