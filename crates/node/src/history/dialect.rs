//! The little in which the three databases differ, where history speaks to them.

use std::fmt::Write as _;

use evenkeel_registry::sql::SqlTarget;

/// How one of them is spoken to.
#[derive(Debug)]
pub(super) struct HistoryDialect {
    /// Whether placeholders are `$1, $2` and not `?, ?`.
    pub(super) numbered: bool,
    /// What names are put in.
    pub(super) quote: char,
    /// What a connection to a server says first.
    pub(super) session_setup: &'static str,
    /// Begins a transaction that writes.
    pub(super) begin: &'static str,
    /// Whether a transaction that has begun still has to lock others out.
    pub(super) locks: bool,
    /// Between `INSERT` and `INTO`, and at the end, where a row that is there already is left as it is.
    pub(super) ignore: (&'static str, &'static str),
    /// Whether a row that is there already is updated by the words of the standard or by MySQL's.
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

/// Whoever is frozen inside a transaction must not hold up the others for long; whoever only waits for its turn may take a
/// little longer than that, for the turns of several may come before it. All that is asked is found by an index, in its
/// order, whatever a planner thinks of a young table.
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

/// MySQL cannot tell a transaction that waits for its client from a connection that does; MariaDB can.
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

/// How the server is spoken to.
pub(super) fn of(target: &SqlTarget) -> &'static HistoryDialect {
    match target {
        SqlTarget::Postgres(_) => &POSTGRES,
        SqlTarget::MySql(_) => &MYSQL,
    }
}

impl HistoryDialect {
    /// What stands behind `VALUES …` where a row that has these keys already gets the new values of these columns.
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
}
