//! The file of an identity: only its owner may read it, and it is written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::bounded;
use crate::exit::{CliError, ExitKind};
use crate::key::hex;
use crate::request;

/// The size limit of the file, far above any real one.
const BYTES_MAX: u64 = 256 * 1024;
/// The mode bits that let others than the owner do anything.
const OTHERS: u32 = 0o077;

/// Reads the file.
///
/// # Errors
/// It cannot be read, or others can read it.
pub(super) fn read(path: &Path) -> Result<String, CliError> {
    let shown = format!("the cluster's identity {}", path.display());
    let text = bounded::text(path, BYTES_MAX).map_err(|e| CliError::unreadable(&shown, e))?;
    let meta = fs::metadata(path).map_err(|e| CliError::unreadable(&shown, e))?;
    let mode = meta.permissions().mode() & 0o777;
    match meta.is_file() && mode & OTHERS != 0 {
        true => Err(CliError::usage(format!(
            "{shown}: others on this host can read or change it (mode {mode:03o}): chmod 600 it, and make a new identity if \
             another user may have read it"
        ))),
        false => Ok(text),
    }
}

/// Makes the file with this text, unless there is one already: nodes that start at once all read the first one's.
///
/// # Errors
/// It cannot be made.
pub(super) fn create(path: &Path, text: &str) -> Result<(), CliError> {
    let made = draft(path, text).and_then(|draft| {
        let linked = match fs::hard_link(&draft, path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        };
        fs::remove_file(&draft)?;
        linked?;
        sync_folder(path)
    });
    made.map_err(|e| unwritable(path, &e))
}

/// Replaces the file by one with this text.
///
/// # Errors
/// It cannot be written.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), CliError> {
    let written = draft(path, text).and_then(|draft| {
        fs::rename(&draft, path)?;
        sync_folder(path)
    });
    written.map_err(|e| unwritable(path, &e))
}

/// Writes a complete file beside it.
fn draft(path: &Path, text: &str) -> io::Result<PathBuf> {
    let name: [u8; 8] = request::chance().map_err(|e| io::Error::other(e.message))?;
    let draft = path.with_file_name(format!(".identity-{}", hex(&name)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written.map(|()| draft)
}

/// A name outlives a loss of power only when its folder is written.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn unwritable(path: &Path, why: &io::Error) -> CliError {
    CliError::new(
        ExitKind::Failed,
        format!(
            "the cluster's identity {} cannot be made ({why}): give another --identity FILE",
            path.display()
        ),
    )
}
