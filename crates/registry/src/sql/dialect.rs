//! The differences between SQL servers that matter to registries, and the names of a registry's tables.

use evenkeel_core::registry::DurabilityClass;

use super::connection::SqlConnection;
use super::statement::{SqlDialect, SqlStatement};
use crate::BoxFuture;

/// The further differences between SQL servers, for registries.
pub(crate) struct RegistryDialect {
    /// The engine's name, as in its URL.
    pub(crate) name: &'static str,
    pub(crate) sql: &'static SqlDialect,
    /// The first statements of every connection.
    pub(crate) session_setup: &'static str,
    /// Begins a writing transaction.
    pub(crate) begin: &'static str,
    /// Shows, in its second column, the isolation level of such a transaction.
    pub(crate) isolation: &'static str,
    /// Around several readings of one snapshot, where the gate is not enough.
    pub(crate) snapshot: Option<(&'static str, &'static str)>,
    /// Finds the dialect of the server that answers, where several kinds of server have one scheme.
    pub(crate) of_server:
        for<'l> fn(&'l mut SqlConnection) -> BoxFuture<'l, Result<&'static RegistryDialect, sqlx::Error>>,
    /// The type of a short text, and the options after the counter's table.
    pub(crate) identity: &'static str,
    pub(crate) table: &'static str,
    /// The text after `VALUES …` that replaces an existing entry.
    pub(crate) replace_entry: &'static str,
    /// The same for a lease.
    pub(crate) replace_lease: &'static str,
    /// Notifies listeners of a revision, if the server can.
    pub(crate) notify: Option<&'static str>,
    /// Whether a commit becomes visible only once a crash of the server cannot undo it.
    pub(crate) durable_before_visible: bool,
    /// The statements from each layout of the tables to the next, from layout 0 on, where only the counter's table is
    /// there. May be repeated.
    pub(crate) layouts: fn(&TableNames) -> Vec<Vec<String>>,
    /// How writers keep one order.
    pub(crate) order: fn(&TableNames) -> OrderStatements,
    /// Asks the server for its facts and the durability class of its commits.
    pub(crate) inspect: for<'l> fn(
        &'l mut SqlConnection,
        &'l TableNames,
    ) -> BoxFuture<'l, Result<SqlServerInfo, sqlx::Error>>,
}

/// The facts that a server reports about itself.
pub(crate) struct SqlServerInfo {
    /// The server's identity: it differs for another server, another history of the same one, and a restored counter;
    /// `None` while there is no counter.
    pub(crate) identity: Option<String>,
    /// Whether it accepts writes.
    pub(crate) writable: bool,
    /// The durability class of its commits, and why it is no higher.
    pub(crate) class: DurabilityClass,
    pub(crate) weakness: &'static str,
    /// Why it cannot be used as it is.
    pub(crate) refusal: Option<String>,
}

/// How the writers of a registry keep one order ([`hot`](super::hot) says why). Each statement ends with a semicolon, or
/// is empty where locking the counter's row is enough; what it locks is locked until the end of its transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrderStatements {
    /// Sets for one transaction what a connection of its own has set once.
    pub(crate) prepare: String,
    /// Waits for the turn of this ordered writer.
    pub(crate) queue: String,
    /// Waits until no hot transaction goes on, and lets none begin.
    pub(crate) close_gate: String,
    /// Waits until no ordered writer changes entries, and lets none begin.
    pub(crate) pass_gate: String,
    /// Around a reading behind the gate, where a request of several statements is not one transaction by itself.
    pub(crate) reading: (&'static str, &'static str),
    /// The last revision that was given, where the counter's table is `m`. Behind the open gate others may not have
    /// written theirs yet.
    pub(crate) position: String,
    /// The sequence that gives the revisions, if the counter's row does not.
    pub(crate) sequence: Option<RevisionSequence>,
    /// Statements that remove what keeping the order needs beside the registry's tables.
    pub(crate) remove: Vec<String>,
    /// A table that is empty when the server has started, where a crash may take back revisions that it has shown.
    pub(crate) running: Option<String>,
}

/// The sequence of a registry's revisions. It is not rolled back, and the server logs it ahead of what used it.
#[derive(Clone, Debug)]
pub(crate) struct RevisionSequence {
    /// An expression for the next revision.
    pub(crate) draw: String,
    /// A statement that moves it on to a revision, before and behind an expression for that.
    pub(crate) move_on: (String, String),
    /// A statement that keeps the last revision that was given as the transaction's base, and returns it.
    pub(crate) keep_base: String,
    /// The form of a request of hot transactions.
    pub(crate) hot: HotForm,
}

impl RevisionSequence {
    /// Moves it on, never back.
    pub(super) fn move_on(&self, revision: &str) -> String {
        let (before, behind) = &self.move_on;
        format!("{before}{revision}{behind}")
    }
}

/// The forms of a request of hot transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "mysql", feature = "postgres")),
    expect(dead_code, reason = "each is of one server")
)]
pub(crate) enum HotForm {
    /// One statement checks and writes all of them, and says which were made.
    Together,
    /// One statement checks, and one writes each.
    Each,
}

/// Whether a registry's connection is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlSession {
    /// What is set in it stays, and another one listens if the server can notify.
    Own,
    /// A pooler may pass on each transaction by another connection of the server, so nothing may stay.
    Pooled,
}

/// The names of one registry's tables, quoted.
#[derive(Clone, Debug)]
pub(crate) struct TableNames {
    pub(crate) meta: String,
    pub(crate) entry: String,
    pub(crate) lease: String,
    pub(crate) change: String,
    /// The index of entries by their owner.
    pub(crate) owned: String,
    /// The counter's table without quotes.
    pub(crate) counter: String,
    /// The namespace.
    pub(crate) namespace: String,
    /// The notification channel.
    pub(crate) channel: String,
    /// How its writers keep one order.
    pub(crate) order: OrderStatements,
}

impl TableNames {
    /// The names for a namespace, whose letters are safe, and the statements for such a session.
    pub(super) fn new(dialect: &RegistryDialect, namespace: &str, session: SqlSession) -> Self {
        let name = |what: &str| format!("{0}{namespace}_{what}{0}", dialect.sql.quote);
        let names = Self {
            meta: name("meta"),
            entry: name("entry"),
            lease: name("lease"),
            change: name("change"),
            owned: name("owned"),
            counter: format!("{namespace}_meta"),
            namespace: namespace.to_owned(),
            channel: format!("{namespace}_revision"),
            order: OrderStatements::default(),
        };
        let mut order = (dialect.order)(&names);
        if session == SqlSession::Own {
            order.prepare.clear();
        }
        Self { order, ..names }
    }
}

impl SqlStatement<'_> {
    /// Begins with text, for a registry's server.
    pub(crate) fn new(dialect: &RegistryDialect, text: impl Into<String>) -> Self {
        Self::of(dialect.sql.numbered, text)
    }
}
