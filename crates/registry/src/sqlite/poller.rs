//! Detects the commits of other processes: SQLite notifies nobody, so a thread polls, cheaply and often.

use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_core::registry::Revision;
use evenkeel_core::time::Millis;
use rusqlite::Connection;
use tokio::sync::watch;

use super::file::SqliteFile;
use super::reader;

/// How often it polls.
pub(super) const PERIOD: Millis = Millis(5);

/// Polls for as long as `bell` exists, and announces each new revision.
pub(super) fn start(file: Arc<SqliteFile>, bell: Weak<watch::Sender<Revision>>) {
    let thread = std::thread::Builder::new().name("registry-poller".into());
    // Without the thread, changes of other processes would not be seen until a node rescans.
    let _ = thread.spawn(move || run(&file, &bell));
}

fn run(file: &SqliteFile, bell: &Weak<watch::Sender<Revision>>) {
    let mut connection = None;
    let mut seen = None;
    while let Some(bell) = bell.upgrade() {
        if bell.receiver_count() > 0 {
            if connection.is_none() {
                connection = file.connect().ok();
            }
            // A failure is retried in a moment; callers that list or renew meanwhile get the error.
            if let Some(db) = &connection
                && let Ok(version) = data_version(db)
                && seen != Some(version)
                && let Ok(revision) = reader::revision(db)
            {
                seen = Some(version);
                bell.send_if_modified(|rung| revision > std::mem::replace(rung, revision.max(*rung)));
            }
        }
        drop(bell);
        std::thread::sleep(Duration::from_millis(PERIOD.0.unsigned_abs()));
    }
    if let Some(connection) = connection {
        file.close(connection);
    }
}

/// A number that changes when another connection commits. Reading it takes a word of shared memory.
fn data_version(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("PRAGMA data_version")?.query_row((), |row| row.get(0))
}
