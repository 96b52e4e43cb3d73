//! The SQLite file: opened or created, verified to be Evenkeel's before any write, and recognized later.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::errors::{self, ErrorPhase};
use crate::RegistryError;
use crate::file_integrity::{FileDamage, FileIntegrity, is_truncated, move_log_command};

/// The layout of the tables below, kept as `user_version`.
const LAYOUT: i64 = 1;

/// Marks the file as Evenkeel's, stored as `application_id`: "EVKL".
const PRODUCT: i64 = 0x4556_4b4c;

/// How often to try a locked file, 1 ms apart.
const PATIENCE: i32 = 5_000;

/// `meta` has one row. `change` says which cold key changed at which revision, not how: the entry itself has that.
const TABLES: &str = "
CREATE TABLE meta (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    revision   INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    clock      INTEGER NOT NULL,
    inode      INTEGER NOT NULL,
    changes    INTEGER NOT NULL,
    forgotten  INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, '', 0, 0, 0, 0);
CREATE TABLE entry (
    key      TEXT    PRIMARY KEY,
    value    BLOB    NOT NULL,
    revision INTEGER NOT NULL,
    born     INTEGER NOT NULL,
    owner    INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_owner ON entry (owner) WHERE owner IS NOT NULL;
CREATE TABLE change (
    revision INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    PRIMARY KEY (revision, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE lease (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    ttl  INTEGER NOT NULL,
    ends INTEGER NOT NULL
) STRICT;
CREATE INDEX lease_ends ON lease (ends);
";

/// An opened file and its identity.
#[derive(Debug)]
pub(super) struct SqliteFile {
    /// The path.
    pub(super) path: PathBuf,
    /// The inode, which stays when the file is moved.
    pub(super) inode: u64,
    /// The fingerprint: differs for a later file with the same inode, if the file system has creation times.
    pub(super) fingerprint: u64,
    integrity: FileIntegrity,
}

impl SqliteFile {
    /// Opens or creates the file, checks that it is Evenkeel's, and updates its layout.
    pub(super) fn open(path: &Path) -> Result<(Self, Connection), RegistryError> {
        let found =
            FileIntegrity::open_or_create(path).and_then(|witness| Ok((witness.identity()?, witness)));
        let ((inode, mark), witness) = found.map_err(|error| open_error(path, &error))?;
        // SQLite would treat it as a new file, and delete the log.
        if is_truncated(path) {
            let why = format!("is empty, and its log is not: {}", errors::restore_hint(path));
            return Err(errors::refusal(path, &why));
        }
        let file = Self { path: path.into(), inode, fingerprint: mark, integrity: witness };
        let fault = |error| errors::explain(&file.path, ErrorPhase::Opening, &error);
        let mut connection = file.connect()?;
        // Checked before the switch to WAL, which would already change another program's file; and in a transaction,
        // for a file that another process is just creating would look like another program's.
        let fresh = file.check(&connection.transaction().map_err(fault)?)?;
        let journal = retry_while_locked(|| {
            connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get::<_, String>(0))
        });
        if !journal.map_err(fault)?.eq_ignore_ascii_case("wal") {
            return Err(errors::refusal(
                path,
                "is on a file system without shared memory: put it on a local disk",
            ));
        }
        if fresh {
            let txn = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
            // Another process may have been faster.
            if file.check(&txn)? {
                txn.execute_batch(TABLES).map_err(fault)?;
                txn.pragma_update(None, "application_id", PRODUCT).map_err(fault)?;
                txn.pragma_update(None, "user_version", LAYOUT).map_err(fault)?;
            }
            txn.commit().map_err(fault)?;
        }
        // The log of a damaged file can look intact.
        if let Err(harm) = file.verify() {
            file.close(connection);
            return Err(harm);
        }
        Ok((file, connection))
    }

    /// Opens another connection to the same file.
    pub(super) fn connect(&self) -> Result<Connection, RegistryError> {
        connect(&self.path).map_err(|error| errors::explain(&self.path, ErrorPhase::Opening, &error))
    }

    /// Checks whether the path still leads to the file, and it is intact. Writes to a replaced file are seen by no
    /// other process, and writes to a damaged one are lost.
    pub(super) fn verify(&self) -> Result<(), RegistryError> {
        self.integrity.verify().map_err(|harm| {
            let fix = match harm {
                FileDamage::Replaced if self.integrity.has_stale_log() => format!(
                    "the log beside it is of the file before: stop all its nodes, run `{}`, and start them again",
                    move_log_command(&self.path)
                ),
                FileDamage::Replaced => "start this node again".to_owned(),
                FileDamage::Damaged => errors::restore_hint(&self.path),
            };
            RegistryError::Fatal(format!("registry file {} {harm}: {fix}", self.path.display()))
        })
    }

    /// Closes a connection, unless the file is damaged: SQLite would write to a damaged file when it closes it, and
    /// delete the log of the file that replaced it.
    pub(super) fn close(&self, connection: Connection) {
        match self.integrity.verify() {
            Ok(()) => drop(connection),
            Err(_) => std::mem::forget(connection),
        }
    }

    /// Whether the file is empty (`true`) or Evenkeel's; any other file is refused.
    fn check(&self, connection: &Transaction<'_>) -> Result<bool, RegistryError> {
        let fault = |error| errors::explain(&self.path, ErrorPhase::Opening, &error);
        let number = |sql: &str| connection.query_row(sql, (), |row| row.get::<_, i64>(0)).map_err(fault);
        let product = number("PRAGMA application_id")?;
        let layout = number("PRAGMA user_version")?;
        if product == 0 && layout == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 {
            return Ok(true);
        }
        let path = &self.path;
        match (product, layout) {
            (PRODUCT, LAYOUT) => Ok(false),
            (PRODUCT, layout) if layout > LAYOUT => {
                let why =
                    format!("has layout {layout}, this program knows up to {LAYOUT}: use a newer evenkeel");
                Err(errors::refusal(path, &why))
            }
            (PRODUCT, layout) => {
                let why = format!("has layout {layout}, which never was: {}", errors::restore_hint(path));
                Err(errors::refusal(path, &why))
            }
            _ => Err(errors::refusal(path, "is the database of another program: name another path")),
        }
    }
}

/// Why a file cannot be opened or created.
fn open_error(path: &Path, error: &std::io::Error) -> RegistryError {
    use std::io::ErrorKind::{IsADirectory, NotFound, StorageFull};
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match error.kind() {
        NotFound => errors::refusal(path, &format!("has no folder: mkdir -p {}", folder.display())),
        IsADirectory => errors::refusal(path, "is a folder: name a file in it"),
        StorageFull => errors::disk_full(path),
        _ => errors::refusal(
            path,
            &format!("cannot be written ({error}): let this user write it and its folder"),
        ),
    }
}

/// Opens a connection with Evenkeel's settings: patient, durable at each commit.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait_for_lock))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;
         PRAGMA wal_autocheckpoint = 4000;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    Ok(connection)
}

/// Waits for a lock. SQLite's own timeout sleeps up to 100 ms between tries, which is long for an unlucky process.
fn wait_for_lock(tried: i32) -> bool {
    std::thread::sleep(Duration::from_millis(1));
    tried < PATIENCE
}

/// Retries the few statements that return `BUSY` without calling the busy handler.
fn retry_while_locked<T>(mut act: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let mut tried = 0;
    loop {
        match act() {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && wait_for_lock(tried) =>
            {
                tried += 1;
            }
            answer => return answer,
        }
    }
}
