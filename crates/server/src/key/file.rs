//! The files of keys: one that the operator names, or the user's own, which the first node makes.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{ClusterKey, KeyRing, hex};
use crate::bounded;
use crate::exit::{CliError, ExitKind};
use crate::file_version::{FileVersion, version};
use crate::request;
use crate::state_folder::{state_folder, state_path};

/// The mode bits of a key file that let everybody read it, or others than its owner change it.
const OPEN: u32 = 0o027;
/// What such a file is called.
const WHAT: &str = "cluster key";
/// The size limit of a key file, far above any real one.
const KEY_BYTES_MAX: u64 = 64 * 1024;

/// Reads a secret: the file's first line.
///
/// # Errors
/// The file cannot be read, or others may read or change it.
pub(crate) fn read_secret(what: &str, path: &Path) -> Result<String, CliError> {
    let text = read_private(what, path)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Reads a file with secrets, without the mark of its encoding.
fn read_private(what: &str, path: &Path) -> Result<String, CliError> {
    let shown = path.display();
    let unreadable = |e| CliError::unreadable(format!("{what} {shown}"), e);
    let text = bounded::text(path, KEY_BYTES_MAX).map_err(unreadable)?;
    let meta = fs::metadata(path).map_err(unreadable)?;
    let mode = meta.permissions().mode() & 0o777;
    // A pipe or a device is read once, and has no reader but this process.
    if meta.is_file() && mode & OPEN != 0 {
        return Err(CliError::usage(format!(
            "{what} {shown}: others on this host can read or change it (mode {mode:03o}): chmod 600 {shown}, and \
             replace it if another user may have read it"
        )));
    }
    // Its owner can change it, whatever its mode; root may give its own file to a node of another user.
    let user = rustix::process::geteuid();
    if meta.is_file() && ![user.as_raw(), 0].contains(&meta.uid()) && !user.is_root() {
        return Err(CliError::usage(format!(
            "{what} {shown}: it belongs to another user: chown it to the user of this program"
        )));
    }
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// Reads a key: the file's first line.
///
/// # Errors
/// The file cannot be read, others may read or change it, or the key is too short or too simple to be safe.
pub(crate) fn read_key(path: &Path) -> Result<String, CliError> {
    checked(path, "first", read_secret(WHAT, path)?)
}

/// Reads the keys that a node accepts: the file's first line, and its second one, if there is one.
fn read_keys(path: &Path) -> Result<(ClusterKey, Option<ClusterKey>), CliError> {
    let text = read_private(WHAT, path)?;
    let mut lines = text.lines().map(|line| line.trim().to_owned());
    let first = checked(path, "first", lines.next().unwrap_or_default())?;
    let second = lines.next().filter(|line| !line.is_empty());
    let second = second.map(|line| checked(path, "second", line)).transpose()?;
    Ok((ClusterKey::new(first), second.map(ClusterKey::new)))
}

/// A key that is neither too short nor too simple.
fn checked(path: &Path, line: &str, key: String) -> Result<String, CliError> {
    let shown = path.display();
    let printable = key.bytes().all(|b| b.is_ascii_graphic());
    let problem = match () {
        () if key.is_empty() => format!("the {line} line is empty, and it must be the key"),
        () if key.len() < 16 || !printable => {
            format!("the {line} line must be 16 or more printable characters without blanks")
        }
        () if is_guessable(&key) => format!("the key in the {line} line is easy to guess"),
        () => return Ok(key),
    };
    Err(CliError::usage(format!(
        "cluster key {shown}: {problem}; make one with: (umask 077; head -c 32 /dev/urandom | base64 > {shown})"
    )))
}

/// Whether a key has few different characters, or mostly repeats or counts.
fn is_guessable(key: &str) -> bool {
    let bytes = key.as_bytes();
    let different: BTreeSet<u8> = bytes.iter().copied().collect();
    let steps = bytes.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1).count();
    different.len() < 8 || 2 * steps > bytes.len()
}

/// The file with the keys of a node, which is read again when it changes.
pub(crate) struct KeyFile {
    path: PathBuf,
    seen: Mutex<FileVersion>,
    ring: Arc<KeyRing>,
    /// Whether it is the user's own, which no option named.
    is_own: bool,
}

impl KeyFile {
    /// The file at this path.
    ///
    /// # Errors
    /// Its keys cannot be used.
    pub(crate) fn open(path: PathBuf) -> Result<Self, CliError> {
        // Before it is read: what changes meanwhile is read again.
        let seen = Mutex::new(version(&path));
        let (first, second) = read_keys(&path)?;
        Ok(Self { path, seen, ring: Arc::new(KeyRing::new(first, second)), is_own: false })
    }

    /// The file of this user on this host, which all of its nodes share that are given no other. The first one makes it.
    ///
    /// # Errors
    /// It can be neither read nor made.
    pub(crate) fn own() -> Result<Self, CliError> {
        Ok(Self { is_own: true, ..Self::open(own_key_path()?)? })
    }

    /// Whether an option named it.
    pub(crate) fn is_given(&self) -> bool {
        !self.is_own
    }

    /// The keys.
    pub(crate) fn ring(&self) -> Arc<KeyRing> {
        self.ring.clone()
    }

    /// Reads the file again if it has changed. The keys of before stay in use if it cannot be used.
    pub(crate) fn refresh(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = version(&self.path);
        // A pipe can be read once only.
        if std::mem::replace(&mut *seen, now) == now || !self.path.is_file() {
            return;
        }
        let shown = self.path.display();
        match read_keys(&self.path) {
            Ok((first, second)) => {
                let keys = if second.is_some() { "two keys are" } else { "one key is" };
                self.ring.replace(first, second);
                tracing::info!("cluster key {shown} has changed: {keys} accepted");
            }
            Err(why) => tracing::error!("the cluster key of before stays in use: {why}"),
        }
    }
}

/// The file of this user's own key, made if it is missing.
fn own_key_path() -> Result<PathBuf, CliError> {
    let path = state_folder()?.join("key");
    if !path.exists() {
        make(&path).map_err(|e| {
            CliError::new(
                ExitKind::Failed,
                format!("the key {} cannot be made ({e}): give --cluster-key-file FILE", path.display()),
            )
        })?;
    }
    Ok(path)
}

/// The file of this user's own key, if there is one: no node of this user ran on this host otherwise.
pub(crate) fn existing_own_key() -> Option<PathBuf> {
    state_path().ok().map(|folder| folder.join("key")).filter(|path| path.exists())
}

/// Writes a new key. Nodes that start together all read the key of the first: a file gets its name once, when it is
/// whole.
fn make(path: &Path) -> std::io::Result<()> {
    let random = |e: CliError| std::io::Error::other(e.message);
    let (name, key): ([u8; 8], [u8; 32]) =
        (request::chance().map_err(random)?, request::chance().map_err(random)?);
    let draft = path.with_file_name(format!(".key-{}", hex(&name)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = writeln!(file, "{}", hex(&key)).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    fs::remove_file(&draft)?;
    linked?;
    // The name itself outlives a loss of power only when the folder is written.
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_start_together_make_one_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| make(&path).expect("made"));
            }
        });
        let key = read_key(&path).expect("it is a good key");
        assert_eq!(key.len(), 64);
        make(&path).expect("it is there already");
        assert_eq!(read_key(&path).expect("it is the same file"), key);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1, "no draft stays");
        assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
    }
}
