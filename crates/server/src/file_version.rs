//! Whether a file has changed since it was read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What distinguishes two versions of a file; `None` if it cannot be looked at.
pub(crate) type FileVersion = Option<(u64, u64, i64, i64)>;

/// The present version of a file.
pub(crate) fn version(path: &Path) -> FileVersion {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}
