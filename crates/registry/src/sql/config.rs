//! A registry's place on a server, its limits, and how its server is found again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{DurabilityClass, EngineFacts, Revision, Txn};
use evenkeel_core::time::Millis;
use tokio::sync::watch;

use super::connection::{SqlConnection, SqlTarget, timeout_error};
use super::dialect::{RegistryDialect, SqlServerInfo, SqlSession, TableNames};
use super::errors;
use super::restart::pass_restart;
use crate::url::EngineUrl;
use crate::{RegistryError, fits};

/// How often to poll a server that cannot notify, and one that can, in case a notification was lost.
pub(super) const POLL: Millis = Millis(100);

pub(super) const NOTICE_PUSHED: Millis = Millis(1_000);
/// The least time between two looks for news. The first of several changes is seen at once, the others together.
pub(super) const NEWS_GAP: Millis = Millis(30);

/// How long a server may take to describe itself, and for a query or a transaction.
pub(super) const PATIENCE: Duration = Duration::from_secs(6);

/// The most bytes in one transaction of the server, for one request or several: it must be made in time.
pub(super) const BYTES_MAX: usize = 16 << 20;

/// The longest key that every server can index.
const KEY_MAX: usize = 700;

/// A registry's server, namespace and dialect.
pub(crate) struct SqlConfig {
    pub(super) dialect: &'static RegistryDialect,
    pub(super) target: SqlTarget,
    pub(super) tables: TableNames,
    /// What it is, and its URL without secrets.
    pub(super) label: String,
    session: SqlSession,
    /// Whether it has a second connection, on which the server notifies it.
    pub(super) listens: bool,
}

/// How far this process has seen the order come.
pub(super) struct OrderSeen {
    /// Carries each revision that can be read.
    pub(super) bell: watch::Sender<Revision>,
    /// The last revision of an ordered writer that was seen committed.
    ordered: AtomicU64,
}

impl OrderSeen {
    pub(super) fn new() -> Self {
        Self { bell: watch::Sender::new(Revision(0)), ordered: AtomicU64::new(0) }
    }

    /// Announces a revision that can be read, unless a later one was announced.
    pub(super) fn ring(&self, revision: Revision) {
        self.bell.send_if_modified(|rung| revision > std::mem::replace(rung, revision.max(*rung)));
    }

    pub(super) fn note_ordered(&self, revision: Revision) {
        self.ordered.fetch_max(revision.0, Ordering::Relaxed);
    }

    pub(super) fn ordered(&self) -> Revision {
        Revision(self.ordered.load(Ordering::Relaxed))
    }
}

/// The identity of the adopted server.
pub(super) struct SqlServerIdentity {
    pub(super) identity: String,
    pub(super) class: DurabilityClass,
}

/// The size limits of an engine.
#[derive(Clone, Copy)]
pub(super) struct SqlLimits {
    pub(super) facts: EngineFacts,
    pub(super) ttl_min: Millis,
}

impl SqlLimits {
    pub(super) fn accepts(&self, txn: &Txn) -> bool {
        fits(&self.facts, txn) && txn.keys().all(storable)
    }
}

/// Whether all servers can store such a key.
pub(super) fn storable(key: &Key) -> bool {
    key.as_str().len() <= KEY_MAX && !key.as_str().contains('\0')
}

impl SqlConfig {
    pub(crate) fn new(
        dialect: &'static RegistryDialect,
        target: SqlTarget,
        url: &EngineUrl,
        namespace: &str,
        session: SqlSession,
    ) -> Self {
        let tables = TableNames::new(dialect, namespace, session);
        let listens = session == SqlSession::Own && dialect.notify.is_some();
        Self { dialect, target, tables, label: url.label(), session, listens }
    }

    /// The same with the dialect of the server that has answered.
    pub(super) fn with_dialect(self, dialect: &'static RegistryDialect) -> Self {
        let tables = TableNames::new(dialect, &self.tables.namespace, self.session);
        Self { dialect, tables, ..self }
    }

    /// The first statements of a connection.
    pub(super) fn session_setup(&self) -> &'static str {
        match self.tables.order.prepare.is_empty() {
            true => self.dialect.session_setup,
            false => "",
        }
    }

    /// Asks a server whether it can be used.
    pub(super) async fn inspect(&self, link: &mut SqlConnection) -> Result<SqlServerInfo, RegistryError> {
        let server = with_timeout((self.dialect.inspect)(link, &self.tables)).await;
        let server = server.map_err(|error| errors::explain(&self.label, &error))?;
        if let Some(why) = &server.refusal {
            return Err(RegistryError::Refused(format!("{} {why}", self.label)));
        }
        if !server.writable {
            return Err(RegistryError::Unavailable(format!(
                "{} is read-only here: point the URL at the server that is written to",
                self.label
            )));
        }
        Ok(server)
    }

    /// A new connection to the adopted server, and to no other.
    pub(super) async fn reconnect(
        &self,
        adopted: &SqlServerIdentity,
    ) -> Result<SqlConnection, RegistryError> {
        let come = async {
            let opened = SqlConnection::open(&self.target, self.session_setup()).await;
            let mut link = opened.map_err(|error| errors::explain(&self.label, &error))?;
            let server = self.inspect(&mut link).await?;
            if server.identity.as_ref() != Some(&adopted.identity) {
                return Err(RegistryError::Fatal(format!(
                    "{} is kept by another server than before: start this node again",
                    self.label
                )));
            }
            if server.class < adopted.class {
                return Err(RegistryError::Fatal(format!(
                    "{} promises less than when this node started ({}): set it right, or start this node again",
                    self.label, server.weakness
                )));
            }
            let passed = pass_restart(&mut link, self.dialect, &self.tables).await;
            passed.map_err(|error| errors::explain(&self.label, &error))?;
            Ok(link)
        };
        let late = |_| Err(errors::explain(&self.label, &timeout_error("no connection", PATIENCE)));
        tokio::time::timeout(PATIENCE, come).await.unwrap_or_else(late)
    }
}

/// Waits for a server's answer, with a timeout.
pub(super) async fn with_timeout<T>(
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(timeout_error("no answer", PATIENCE)))
}
