//! One attempt's output on its way into its file: kept up to a bound.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The file that an attempt's output goes to.
pub(crate) struct LogWriter {
    /// `None` when it cannot be written, or nothing more is to be kept.
    file: Option<File>,
    kept: u64,
    keep: u64,
}

impl LogWriter {
    /// A file that cannot be opened costs the output and not the run; `told` hears why.
    pub(crate) fn new(path: &Path, keep: u64, told: impl FnOnce(&io::Error)) -> Self {
        Self { file: create(path).inspect_err(told).ok(), kept: 0, keep }
    }

    /// Bytes kept so far.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Keeps what there is room for.
    pub(crate) fn write(&mut self, piece: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let room = usize::try_from(self.keep - self.kept).unwrap_or(usize::MAX);
        let (fits, beyond) = piece.split_at(piece.len().min(room));
        let mut written = file.write_all(fits);
        self.kept += fits.len() as u64;
        if written.is_ok() && !beyond.is_empty() {
            written = write!(file, "\n[output beyond {} bytes is not kept]\n", self.keep);
        }
        if written.is_err() || !beyond.is_empty() {
            self.file = None;
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
