//! The few differences between the three databases, as history uses them.

use std::fmt::Write as _;

use evenkeel_registry::sql::SqlTarget;

/// The dialect of one database.
#[derive(Debug)]
pub(super) struct HistoryDialect {
    /// Whether placeholders are `$1, $2` and not `?, ?`.
    pub(super) numbered: bool,
    /// The quotation mark of names.
    pub(super) quote: char,
    /// The first statements of a connection to a server.
    pub(super) session_setup: &'static str,
    /// The statement that begins a writing transaction.
    pub(super) begin: &'static str,
    /// Whether a transaction has to lock out other writers after it began.
    pub(super) locks: bool,
    /// Inserted between `INSERT` and `INTO`, and at the end, to leave an existing row as it is.
    pub(super) ignore: (&'static str, &'static str),
    /// Whether an existing row is updated by the standard's syntax or by MySQL's.
    conflict: bool,
}

pub(super) static SQLITE: HistoryDialect = HistoryDialect {
    numbered: false,
    quote: '"',
    session_setup: "",
    begin: "BEGIN IMMEDIATE",
    locks: false,
    ignore: ("", " ON CONFLICT DO NOTHING"),
    conflict: true,
};

/// A client that is frozen inside a transaction must not block the others for long; a client that only waits for its
/// turn may take a little longer, for several may be ahead of it. Every query is answered by an index, in its order,
/// whatever the planner estimates for a young table.
static POSTGRES: HistoryDialect = HistoryDialect {
    numbered: true,
    quote: '"',
    session_setup: "SET lock_timeout = '10s'; SET statement_timeout = '15s'; \
               SET idle_in_transaction_session_timeout = '5s'; SET client_min_messages = 'warning'; \
               SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off; \
               SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off; \
               SELECT set_config('synchronous_commit', 'on', false) \
               WHERE current_setting('synchronous_commit') = 'off'",
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED",
    locks: true,
    ignore: ("", " ON CONFLICT DO NOTHING"),
    conflict: true,
};

/// MySQL cannot distinguish a transaction that waits for its client from an idle connection; MariaDB can.
static MYSQL: HistoryDialect = HistoryDialect {
    numbered: false,
    quote: '`',
    session_setup: "SET SESSION innodb_lock_wait_timeout = 10, SESSION wait_timeout = 5 \
               /*M!100300 , SESSION wait_timeout = 600, SESSION idle_transaction_timeout = 5 */; \
               SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    begin: "START TRANSACTION READ WRITE",
    locks: true,
    ignore: ("IGNORE ", ""),
    conflict: false,
};

/// The dialect of a server.
pub(super) fn of(target: &SqlTarget) -> &'static HistoryDialect {
    match target {
        SqlTarget::Postgres(_) => &POSTGRES,
        SqlTarget::MySql(_) => &MYSQL,
    }
}

impl HistoryDialect {
    /// The text after `VALUES …` that updates these columns of an existing row with the same keys.
    pub(super) fn update(&self, keys: &str, columns: &[&str]) -> String {
        let mut text = match self.conflict {
            true => format!(" ON CONFLICT ({keys}) DO UPDATE SET "),
            false => " ON DUPLICATE KEY UPDATE ".to_owned(),
        };
        for (i, column) in columns.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            // Writing to a text cannot fail.
            let _ = match self.conflict {
                true => write!(text, "{comma}{column} = excluded.{column}"),
                false => write!(text, "{comma}{column} = VALUES({column})"),
            };
        }
        text
    }

    /// The text after `VALUES …` that adds to these columns of an existing row with the same keys.
    pub(super) fn increase(&self, table: &str, keys: &str, columns: &[&str]) -> String {
        let begin = match self.conflict {
            true => format!(" ON CONFLICT ({keys}) DO UPDATE SET "),
            false => " ON DUPLICATE KEY UPDATE ".to_owned(),
        };
        let sum = |column: &&str| match self.conflict {
            true => format!("{column} = {table}.{column} + excluded.{column}"),
            false => format!("{column} = {column} + VALUES({column})"),
        };
        begin + &columns.iter().map(sum).collect::<Vec<_>>().join(", ")
    }
}
