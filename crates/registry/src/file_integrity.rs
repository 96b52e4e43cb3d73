//! Checks whether an open SQLite file is still the one that was opened, and intact.
//!
//! SQLite checks neither: a process continues with a deleted file, shared with no other, and with a truncated one,
//! whose pages it still has in memory or in the log beside it, until all is lost at its end. So this module reads the
//! header itself.
//!
//! A handle is kept for each file until the process ends: the system releases all of a process's locks on a file,
//! SQLite's too, whenever the process closes any handle of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// The first bytes of each SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The length of the header.
const HEADER: usize = 100;
/// How often a suspicious header is read again, a millisecond apart: it may be in the middle of being written.
const LOOKS: u32 = 5;

/// The kept handles, by device and inode. While a handle is open no other file gets its inode.
static HANDLES: Mutex<BTreeMap<(u64, u64), Arc<File>>> = Mutex::new(BTreeMap::new());

/// Damage to a file in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDamage {
    /// The path of the file, or of one of the two beside it, leads to another file now.
    Replaced,
    /// The file was truncated or overwritten by another program.
    Damaged,
}

impl fmt::Display for FileDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replaced => "was replaced or deleted while in use",
            Self::Damaged => "was truncated or overwritten while in use",
        })
    }
}

/// A file and its state when it was opened.
#[derive(Debug)]
pub struct FileIntegrity {
    path: PathBuf,
    file: Arc<File>,
    fingerprint: u64,
    baseline: Mutex<FileBaseline>,
}

/// The furthest known state of the file.
#[derive(Debug, Default)]
struct FileBaseline {
    /// Grows with each change of the tables, and when SQLite rewrites the file to shorten it (`VACUUM`).
    cookie: u32,
    /// The application id; 0 until it is written.
    product: u32,
    bytes: u64,
    /// The file was found damaged once, and stays so.
    damaged: bool,
    /// The inodes of the log and of the index beside it, once they exist. They stay as long as the file is in use.
    sibling_inodes: [Option<u64>; 2],
}

/// The parsed header.
#[derive(Clone, Copy)]
struct SqliteHeader {
    cookie: u32,
    product: u32,
    /// The size of the file without its log.
    bytes: u64,
}

impl FileIntegrity {
    /// Opens the file, or creates it (mode 0600).
    ///
    /// # Errors
    /// The file cannot be opened for writing.
    pub fn open_or_create(path: &Path) -> io::Result<Self> {
        Self::open_with(path, OpenOptions::new().read(true).append(true).create(true).mode(0o600))
    }

    /// Opens an existing file, to which this process may not write.
    ///
    /// # Errors
    /// It does not exist, or it cannot be read.
    pub fn open_existing(path: &Path) -> io::Result<Self> {
        Self::open_with(path, OpenOptions::new().read(true))
    }

    fn open_with(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let file = shared_handle(path, options)?;
        let mark = fingerprint(&file.metadata()?);
        Ok(Self { path: path.into(), file, fingerprint: mark, baseline: Mutex::default() })
    }

    /// The file's inode, and a number that distinguishes it from a later file with the same inode, if the file system
    /// knows when a file was created.
    ///
    /// # Errors
    /// The file system does not answer.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        Ok((self.file.metadata()?.ino(), self.fingerprint))
    }

    /// Checks the file, in some microseconds. Call this once SQLite has created the file.
    ///
    /// # Errors
    /// The damage.
    pub fn verify(&self) -> Result<(), FileDamage> {
        let mut seen = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        match std::fs::metadata(&self.path) {
            Ok(found) if fingerprint(&found) == self.fingerprint => {}
            _ => return Err(FileDamage::Replaced),
        }
        if seen.damaged {
            return Err(FileDamage::Damaged);
        }
        for (name, known) in ["-wal", "-shm"].into_iter().zip(&mut seen.sibling_inodes) {
            let found = std::fs::metadata(sibling(&self.path, name)).ok().map(|found| found.ino());
            if known.is_some() && *known != found {
                return Err(FileDamage::Replaced);
            }
            *known = found;
        }
        for looked in 0..=LOOKS {
            if looked > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            if self.is_intact(&mut seen) {
                return Ok(());
            }
        }
        seen.damaged = true;
        Err(FileDamage::Damaged)
    }

    /// Whether the file was replaced beside its old log: SQLite would write the old file's pages into the new one.
    #[must_use]
    pub fn has_stale_log(&self) -> bool {
        let seen = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        let another = |found: Metadata| fingerprint(&found) != self.fingerprint && found.len() > 0;
        let log = std::fs::metadata(sibling(&self.path, "-wal")).ok().filter(|found| found.len() > 0);
        std::fs::metadata(&self.path).is_ok_and(another)
            && log.is_some_and(|found| seen.sibling_inodes[0] == Some(found.ino()))
    }

    fn is_intact(&self, seen: &mut FileBaseline) -> bool {
        let Ok(bytes) = self.file.metadata().map(|found| found.len()) else { return false };
        let Some(header) = self.read_header() else { return false };
        // SQLite grows a file after it has written its header, and shortens it only after it has raised the counter.
        let is_cut = bytes < seen.bytes && (bytes < header.bytes || header.cookie == seen.cookie);
        let is_older = header.cookie < seen.cookie;
        let is_anothers = seen.product != 0 && header.product != seen.product;
        if is_cut || is_older || is_anothers {
            return false;
        }
        let (cookie, product) = (header.cookie, header.product);
        // A file that is about to be shortened counts as short.
        *seen = FileBaseline { cookie, product, bytes: bytes.min(header.bytes), ..std::mem::take(seen) };
        true
    }

    fn read_header(&self) -> Option<SqliteHeader> {
        let mut bytes = [0; HEADER];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        if bytes.first_chunk::<16>() != Some(MAGIC) {
            return None;
        }
        let word = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        let page = match bytes.get(16..)?.first_chunk().copied().map(u16::from_be_bytes)? {
            1 => 65_536,
            page => u64::from(page),
        };
        Some(SqliteHeader { cookie: word(40)?, product: word(68)?, bytes: page * u64::from(word(28)?) })
    }
}

/// The path of a file beside another one.
fn sibling(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

/// Whether a file was truncated to nothing while in use: the log beside it shows that it had content.
#[must_use]
pub fn is_truncated(path: &Path) -> bool {
    let bytes = |path: &Path| std::fs::metadata(path).map(|found| found.len()).ok();
    bytes(path) == Some(0) && bytes(&sibling(path, "-wal")) > Some(0)
}

/// The shell commands that move a file away with the two beside it, which SQLite would use for whatever replaces it.
#[must_use]
pub fn move_away_command(path: &Path) -> String {
    move_command(path, &["", "-wal", "-shm"], ".damaged")
}

/// The shell commands that move away only what an earlier file has left beside the present one.
#[must_use]
pub fn move_log_command(path: &Path) -> String {
    move_command(path, &["-wal", "-shm"], ".log")
}

fn move_command(path: &Path, ends: &[&str], folder: &str) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let files = ends.iter().map(|end| sibling(&path, end)).filter(|file| file.exists());
    let files: Vec<_> = files.map(|file| shell_quoted(&file)).collect();
    let folder = shell_quoted(&sibling(&path, folder));
    format!("mkdir {folder} && mv {} {folder}", files.join(" "))
}

/// A path, quoted for a shell.
#[must_use]
pub fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The number that distinguishes a file: an inode is not reused for a file created at the same moment.
fn fingerprint(found: &Metadata) -> u64 {
    let made = found.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let nanos = made.map_or(0, |made| made.as_nanos());
    // Scrambled, so that no fingerprint is likely to equal another file's plain inode.
    let nanos = u64::try_from(nanos).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    found.ino() ^ nanos
}

/// The shared handle of the file at a path; opened with these options if there is none yet.
fn shared_handle(path: &Path, options: &OpenOptions) -> io::Result<Arc<File>> {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(found) = std::fs::metadata(path)
        && let Some(known) = handles.get(&(found.dev(), found.ino()))
    {
        return Ok(known.clone());
    }
    let file = Arc::new(options.open(path)?);
    let found = file.metadata()?;
    Ok(handles.entry((found.dev(), found.ino())).or_insert(file).clone())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    struct DamagedFileCase {
        _folder: tempfile::TempDir,
        path: PathBuf,
        db: Connection,
        witness: FileIntegrity,
    }

    /// A file in use, with some pages, and more in its log.
    fn database_in_use() -> DamagedFileCase {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let witness = FileIntegrity::open_or_create(&path).expect("it is made");
        let db = Connection::open(&path).expect("it is opened");
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA application_id = 7; CREATE TABLE t (x); PRAGMA wal_checkpoint;",
        )
        .expect("it is written");
        let place = DamagedFileCase { _folder: folder, path, db, witness };
        place.grow(50);
        assert_eq!(place.witness.verify(), Ok(()));
        place
    }

    impl DamagedFileCase {
        fn grow(&self, rows: u32) {
            for _ in 0..rows {
                self.db.execute("INSERT INTO t VALUES (zeroblob(2000))", ()).expect("a row");
            }
        }

        fn checkpoint(&self) {
            self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).expect("a checkpoint");
        }
    }

    #[test]
    fn whatever_sqlite_does_to_its_file_is_no_harm() {
        let place = database_in_use();
        for _ in 0..3 {
            place.grow(100);
            assert_eq!(place.witness.verify(), Ok(()));
            place.checkpoint();
            assert_eq!(place.witness.verify(), Ok(()));
        }
        place.db.execute_batch("DELETE FROM t; VACUUM").expect("it is shortened");
        assert_eq!(place.witness.verify(), Ok(()));
        let before = std::fs::metadata(&place.path).expect("a file").len();
        place.checkpoint();
        assert!(std::fs::metadata(&place.path).expect("a file").len() < before);
        assert_eq!(place.witness.verify(), Ok(()));
        place.grow(10);
        place.checkpoint();
        assert_eq!(place.witness.verify(), Ok(()));
    }

    #[test]
    fn a_file_that_is_cut_or_written_over_is_damaged() {
        let cut = |bytes: u64| {
            move |path: &Path| {
                let file = OpenOptions::new().write(true).open(path).expect("a file");
                file.set_len(bytes).expect("it is cut");
            }
        };
        let over = |path: &Path| {
            let bytes =
                vec![b'x'; usize::try_from(std::fs::metadata(path).expect("a file").len()).unwrap_or(0)];
            std::fs::write(path, bytes).expect("it is written over");
        };
        let harms: [&dyn Fn(&Path); 4] = [&cut(0), &cut(50), &cut(8_192), &over];
        for harm in harms {
            let place = database_in_use();
            place.checkpoint();
            assert_eq!(place.witness.verify(), Ok(()));
            harm(&place.path);
            assert_eq!(place.witness.verify(), Err(FileDamage::Damaged));
            assert_eq!(place.witness.verify(), Err(FileDamage::Damaged), "it stays so");
        }
    }

    #[test]
    fn an_older_copy_that_is_written_over_it_is_damage() {
        let place = database_in_use();
        place.checkpoint();
        let older = std::fs::read(&place.path).expect("it is read");
        place.db.execute_batch("CREATE TABLE u (x)").expect("a table");
        place.grow(50);
        place.checkpoint();
        assert_eq!(place.witness.verify(), Ok(()));
        std::fs::write(&place.path, older).expect("it is written over");
        assert_eq!(place.witness.verify(), Err(FileDamage::Damaged));
    }

    #[test]
    fn a_file_that_is_moved_away_is_replaced_and_so_is_its_log() {
        for name in ["", "-wal", "-shm"] {
            let place = database_in_use();
            let path = sibling(&place.path, name);
            std::fs::rename(&path, place.path.with_extension("away")).expect("it is moved");
            assert_eq!(place.witness.verify(), Err(FileDamage::Replaced), "{name}");
            assert!(!place.witness.has_stale_log(), "there is nothing that it could be mixed with");
            std::fs::write(&path, b"another one").expect("written");
            assert_eq!(place.witness.verify(), Err(FileDamage::Replaced), "{name}");
            assert_eq!(place.witness.has_stale_log(), name.is_empty(), "{name}");
        }
    }

    #[test]
    fn the_commands_that_move_it_away_name_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("it's a db");
        for name in ["", "-wal"] {
            std::fs::write(sibling(&path, name), name).expect("written");
        }
        let moved = std::process::Command::new("sh")
            .args(["-c", &move_away_command(&path)])
            .status()
            .expect("sh runs");
        assert!(moved.success());
        let left = std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|it| it.file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["it's a db.damaged"]);
        let away = std::fs::read_dir(folder.path().join("it's a db.damaged")).expect("a folder");
        assert_eq!(away.count(), 2, "and nothing that is not there was named");
    }

    /// Closing any handle of a file releases the process's locks on it.
    #[test]
    fn one_handle_is_kept_for_each_file() {
        let place = database_in_use();
        let other = FileIntegrity::open_or_create(&place.path).expect("it is there");
        assert!(Arc::ptr_eq(&other.file, &place.witness.file));
        assert_eq!(other.identity().ok(), place.witness.identity().ok());
    }
}
