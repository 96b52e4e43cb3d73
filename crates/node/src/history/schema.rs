//! The history's file: creates its tables and opens it.

use std::path::Path;
use std::time::Duration;

use evenkeel_registry::file_integrity::{FileIntegrity, is_truncated, move_away_command};
use rusqlite::{Connection, OpenFlags};

use super::connection::explain;

/// Written into the file's header, so that another program's file is not taken for ours ("EvKh").
const APPLICATION: i64 = 0x4576_4b68;
/// How long to wait for a locked file before that is reported; after that it is tried again and again.
const PATIENCE: Duration = Duration::from_secs(2);
/// The layout that this program writes.
const LAYOUT: i64 = 10;

/// `attempt.seq` is the order in which history received attempts: lists are paged by it. Successes are by far the most
/// and nobody lists them alone, so they are not in the index of states.
const TABLES: &str = "
CREATE TABLE attempt (
    seq INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    job TEXT NOT NULL,
    shard INTEGER NOT NULL,
    due INTEGER NOT NULL,
    node TEXT NOT NULL,
    state INTEGER NOT NULL,
    reason TEXT NOT NULL,
    code INTEGER,
    token INTEGER,
    started INTEGER,
    ended INTEGER,
    since INTEGER NOT NULL,
    output INTEGER NOT NULL
);
CREATE UNIQUE INDEX attempt_of_run ON attempt (run, attempt);
CREATE INDEX attempt_of_job ON attempt (job);
CREATE INDEX attempt_in_state ON attempt (state) WHERE state <> 1;
CREATE TABLE late (
    run TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    node TEXT NOT NULL,
    state INTEGER NOT NULL,
    reason TEXT NOT NULL,
    heard INTEGER NOT NULL,
    PRIMARY KEY (run, attempt, node, state)
) WITHOUT ROWID;
CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
);
";

/// Layout 2 adds the load of nodes. Parts and scores are in hundredths.
const LOADS: &str = "
CREATE TABLE load (
    node TEXT NOT NULL,
    at INTEGER NOT NULL,
    cpu INTEGER,
    memory INTEGER,
    busy INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    score INTEGER NOT NULL,
    PRIMARY KEY (node, at)
) WITHOUT ROWID;
";

/// Layout 3 adds which node sent a run to its node, and why.
const SENT: &str = "ALTER TABLE attempt ADD COLUMN sent TEXT NOT NULL DEFAULT '';";

/// Layout 4 adds the notices, and which jobs fail at present.
const NOTICES: &str = "
CREATE TABLE notice (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    node TEXT NOT NULL,
    at INTEGER NOT NULL,
    told INTEGER NOT NULL DEFAULT 0,
    body TEXT NOT NULL
);
CREATE INDEX notice_untold ON notice (node, seq) WHERE told = 0;
CREATE TABLE failing (
    job TEXT NOT NULL,
    shard INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (job, shard)
) WITHOUT ROWID;
";

/// Layout 5 adds the last batch of each node, so that none is made twice; and indexes that find old rows and listed
/// rows without reading the others.
const BATCHES: &str = "
CREATE TABLE writer (
    name TEXT NOT NULL,
    life INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (name, life)
) WITHOUT ROWID;
CREATE INDEX writer_at ON writer (at);
CREATE INDEX late_heard ON late (heard);
CREATE INDEX event_at ON event (at);
CREATE INDEX event_of_kind ON event (kind);
CREATE INDEX event_of_node ON event (node);
CREATE INDEX load_at ON load (at);
CREATE INDEX notice_at ON notice (at);
";

/// Layout 6 adds the audit log.
const AUDIT: &str = "
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    node TEXT NOT NULL,
    proof TEXT NOT NULL,
    origin TEXT NOT NULL,
    claims TEXT NOT NULL,
    verb TEXT NOT NULL,
    object TEXT NOT NULL,
    job TEXT NOT NULL,
    about TEXT NOT NULL,
    outcome INTEGER NOT NULL,
    rev_before INTEGER,
    rev_after INTEGER,
    what TEXT NOT NULL,
    request TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_of_job ON audit (job);
CREATE INDEX audit_of_node ON audit (node);
CREATE INDEX audit_of_node_and_proof ON audit (node, proof);
CREATE INDEX audit_about ON audit (about);
CREATE INDEX audit_of_proof ON audit (proof);
CREATE INDEX audit_of_claims ON audit (claims);
CREATE INDEX audit_open ON audit (node) WHERE outcome = 0;
CREATE INDEX audit_of_request ON audit (request, outcome);
";

/// Layout 7 adds which job an event is about, for the events that are about one.
const EVENT_JOBS: &str = "
CREATE TABLE event_job (
    of_event INTEGER PRIMARY KEY,
    happened INTEGER NOT NULL,
    job TEXT NOT NULL
);
CREATE INDEX event_job_happened ON event_job (happened);
CREATE INDEX event_job_of_job ON event_job (job, of_event);
";

/// Layout 8 adds the parameters of manual runs.
const PARAMETERS: &str = "
CREATE TABLE run_parameters (
    fire TEXT NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX run_parameters_at ON run_parameters (at);
";

/// Layout 9 adds the versions of jobs.
const JOB_VERSIONS: &str = "
CREATE TABLE job_version (
    job TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    node TEXT NOT NULL,
    proof TEXT NOT NULL,
    origin TEXT NOT NULL,
    claims TEXT NOT NULL,
    kind TEXT NOT NULL,
    restored INTEGER,
    declared TEXT NOT NULL,
    replaced INTEGER,
    PRIMARY KEY (job, version)
);
CREATE INDEX job_version_replaced ON job_version (replaced) WHERE replaced IS NOT NULL;
";

/// Layout 10 adds the roll-ups, what each attempt counts as in them, and up to which attempt of an earlier layout they have
/// to go. The file's id tells files apart whose counts are added up.
const ROLLUPS: &str = "
ALTER TABLE attempt ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
CREATE TABLE rollup_hour (
    namespace TEXT NOT NULL,
    hour INTEGER NOT NULL,
    ran INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    killed INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    late INTEGER NOT NULL,
    manual INTEGER NOT NULL,
    run_millis INTEGER NOT NULL,
    PRIMARY KEY (namespace, hour)
) WITHOUT ROWID;
CREATE INDEX rollup_hour_hour ON rollup_hour (hour);
CREATE TABLE rollup_job (
    day INTEGER NOT NULL,
    job TEXT NOT NULL,
    hours BLOB NOT NULL,
    trouble INTEGER NOT NULL,
    PRIMARY KEY (day, job)
) WITHOUT ROWID;
CREATE INDEX rollup_job_of_job ON rollup_job (job, day);
CREATE INDEX rollup_job_trouble ON rollup_job (day, trouble) WHERE trouble > 0;
CREATE TABLE rollup_pending (
    seq INTEGER PRIMARY KEY,
    changes TEXT NOT NULL
);
CREATE TABLE rollup_state (
    one INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    next INTEGER NOT NULL,
    last INTEGER NOT NULL
);
INSERT INTO rollup_state SELECT 1, lower(hex(randomblob(16))), 0, coalesce(max(seq), 0) FROM attempt;
";

/// Opens the file for writing and creates what is missing.
pub(super) fn open(path: &Path) -> Result<(Connection, FileIntegrity), String> {
    let text = |e: rusqlite::Error| explain(&e);
    // SQLite would treat it as a new file, and delete the log.
    if is_truncated(path) {
        return Err(format!(
            "it was truncated: move it away with `{}`, and a new one is begun",
            move_away_command(path)
        ));
    }
    // What ran, and why it failed, is private; SQLite gives the files beside it the same mode.
    let witness = FileIntegrity::open_or_create(path).map_err(|e| e.to_string())?;
    let mut db = Connection::open(path).map_err(text)?;
    db.busy_timeout(PATIENCE).map_err(text)?;
    // A verdict is acknowledged when it is on the disk, hence FULL: WAL with NORMAL may lose commits at a power loss.
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864;",
    )
    .map_err(text)?;
    let new = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(text)?;
    let number = |pragma: &str| new.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0));
    match (number("application_id").map_err(text)?, number("user_version").map_err(text)?) {
        (0, 0) => {
            if new
                .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
                .map_err(text)?
                > 0
            {
                return Err("the file belongs to another program: name another path".to_string());
            }
            new.execute_batch(TABLES).map_err(text)?;
            bring_up(&new, 1)?;
            new.pragma_update(None, "application_id", APPLICATION).map_err(text)?;
        }
        (APPLICATION, LAYOUT) => {}
        (APPLICATION, older @ 1..LAYOUT) => bring_up(&new, older)?,
        (APPLICATION, newer) => {
            return Err(format!(
                "the file has layout {newer}, this program knows {LAYOUT}: use a newer program"
            ));
        }
        _ => return Err("the file belongs to another program: name another path".to_string()),
    }
    new.commit().map_err(text)?;
    Ok((db, witness))
}

/// Migrates the tables from an older layout to this program's.
fn bring_up(db: &Connection, from: i64) -> Result<(), String> {
    let text = |e: rusqlite::Error| explain(&e);
    let steps = [LOADS, SENT, NOTICES, BATCHES, AUDIT, EVENT_JOBS, PARAMETERS, JOB_VERSIONS, ROLLUPS];
    for (layout, step) in (2..).zip(steps) {
        if from < layout {
            db.execute_batch(step).map_err(text)?;
        }
    }
    db.pragma_update(None, "user_version", LAYOUT).map_err(text)
}

/// Opens the file for reading.
pub(super) fn open_to_read(path: &Path) -> Result<(Connection, FileIntegrity), String> {
    let text = |e: rusqlite::Error| explain(&e);
    let witness = FileIntegrity::open_existing(path).map_err(|e| e.to_string())?;
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(text)?;
    db.busy_timeout(PATIENCE).map_err(text)?;
    Ok((db, witness))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_created_once_and_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h");
        open(&path).unwrap().0.execute("INSERT INTO event VALUES (1, 2, 'n', 'k', 't')", []).unwrap();
        let count: i64 =
            open(&path).unwrap().0.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn a_file_of_the_layout_before_is_rolled_up_to_its_last_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old");
        let old = Connection::open(&path).unwrap();
        for step in [TABLES, LOADS, SENT, NOTICES, BATCHES, AUDIT, EVENT_JOBS] {
            old.execute_batch(step).unwrap();
        }
        for (run, seq) in [("j:1:0", 3), ("j:2:0", 8)] {
            let row =
                "INSERT INTO attempt VALUES (?1, ?2, 1, 'j', 0, 1, 'n', 1, '', NULL, NULL, 1, 2, 1, 0, '')";
            old.execute(row, rusqlite::params![seq, run]).unwrap();
        }
        old.pragma_update(None, "application_id", APPLICATION).unwrap();
        old.pragma_update(None, "user_version", 7).unwrap();
        drop(old);
        let (file, _) = open(&path).unwrap();
        let state = "SELECT next, last, (SELECT sum(counted) FROM attempt), length(id) FROM rollup_state";
        let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at);
        let numbers =
            file.query_row(state, [], |row| (0..4).map(|at| number(row, at)).collect::<Result<Vec<_>, _>>());
        assert_eq!(numbers.unwrap(), [0, 8, 0, 32]);
        drop(file);
        open(&path).unwrap();
    }

    #[test]
    fn foreign_and_newer_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("foreign");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
        assert!(open(&foreign).unwrap_err().contains("another program"));
        let newer = folder.path().join("newer");
        open(&newer).unwrap().0.pragma_update(None, "user_version", LAYOUT + 1).unwrap();
        let mode = std::fs::metadata(&newer).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(open(&newer).unwrap_err().contains("use a newer program"));
    }
}
