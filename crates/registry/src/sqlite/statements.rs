//! The writer's SQL statements, prepared once per connection.

use rusqlite::{Connection, Row, Statement};

/// One prepared statement a field. `Statement` borrows its connection, so both live on the writer's stack.
pub(super) struct PreparedStatements<'c> {
    pub(super) begin: Statement<'c>,
    pub(super) commit: Statement<'c>,
    pub(super) meta: Statement<'c>,
    pub(super) save: Statement<'c>,
    pub(super) head: Statement<'c>,
    pub(super) entry: Statement<'c>,
    pub(super) insert: Statement<'c>,
    pub(super) update: Statement<'c>,
    pub(super) swap: Statement<'c>,
    pub(super) hand_over: Statement<'c>,
    pub(super) delete: Statement<'c>,
    pub(super) note: Statement<'c>,
    pub(super) oldest: Statement<'c>,
    pub(super) forget: Statement<'c>,
    pub(super) grant: Statement<'c>,
    pub(super) prolong: Statement<'c>,
    pub(super) prolong_all: Statement<'c>,
    pub(super) term: Statement<'c>,
    pub(super) over: Statement<'c>,
    pub(super) end: Statement<'c>,
    pub(super) owned: Statement<'c>,
    pub(super) next_end: Statement<'c>,
}

impl<'c> PreparedStatements<'c> {
    pub(super) fn prepare(on: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            begin: on.prepare("BEGIN IMMEDIATE")?,
            commit: on.prepare("COMMIT")?,
            meta: on.prepare("SELECT revision, generation, boot, clock, inode, changes, forgotten FROM meta")?,
            save: on.prepare(
                "UPDATE meta SET revision = ?1, generation = ?2, boot = ?3, clock = ?4, inode = ?5, changes = ?6,
                 forgotten = ?7",
            )?,
            head: on.prepare("SELECT revision, born, owner FROM entry WHERE key = ?1")?,
            entry: on.prepare("SELECT value, revision, born, owner FROM entry WHERE key = ?1")?,
            insert: on.prepare("INSERT INTO entry (key, value, revision, born, owner) VALUES (?1, ?2, ?3, ?3, ?4)")?,
            update: on.prepare("UPDATE entry SET value = ?2, revision = ?3 WHERE key = ?1")?,
            swap: on.prepare(
                "UPDATE entry SET value = ?2, revision = ?3 WHERE key = ?1 AND revision = ?4 AND owner IS NULL",
            )?,
            hand_over: on.prepare("UPDATE entry SET value = ?2, revision = ?3, owner = ?4 WHERE key = ?1")?,
            delete: on.prepare("DELETE FROM entry WHERE key = ?1")?,
            // A key may change twice in one transaction.
            note: on.prepare("INSERT OR IGNORE INTO change (revision, key) VALUES (?1, ?2)")?,
            oldest: on.prepare("SELECT revision FROM change ORDER BY revision LIMIT 1 OFFSET ?1")?,
            forget: on.prepare("DELETE FROM change WHERE revision <= ?1")?,
            grant: on.prepare("INSERT INTO lease (ttl, ends) VALUES (?1, ?2)")?,
            prolong: on.prepare("UPDATE lease SET ends = ?2 + ttl WHERE id = ?1 RETURNING ttl")?,
            prolong_all: on.prepare("UPDATE lease SET ends = ends + ttl WHERE ttl / 2 < ?1")?,
            term: on.prepare("SELECT ttl FROM lease WHERE id = ?1")?,
            over: on.prepare("SELECT id FROM lease WHERE ends <= ?1 ORDER BY id")?,
            end: on.prepare("DELETE FROM lease WHERE id = ?1")?,
            owned: on.prepare("SELECT key FROM entry WHERE owner = ?1 ORDER BY key")?,
            next_end: on.prepare("SELECT min(ends), min(ttl) FROM lease")?,
        })
    }
}

/// Maps an unsigned number to SQLite's signed ones; the mapping keeps every bit.
pub(super) fn number(ours: u64) -> i64 {
    ours.cast_signed()
}

/// Reads an unsigned number.
pub(super) fn number_at(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}
