//! A run's output: read without end so that the run never waits, kept up to a bound.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// How much is read at once; also how much memory the output of all runs takes together.
const PIECE: usize = 64 * 1024;
/// How many pieces are read of one run before the next has its turn.
const PIECES: usize = 16;

/// The reading end of a run's output and the file it goes to.
pub(super) struct Output {
    /// `None` when every writer is gone.
    pipe: Option<PipeReader>,
    /// `None` when the file cannot be written, or nothing more is to be kept.
    file: Option<File>,
    kept: u64,
    keep: u64,
}

impl Output {
    /// `pipe` must not block. A file that cannot be opened costs the output and not the run.
    pub(super) fn new(pipe: PipeReader, path: &Path, keep: u64) -> Self {
        let file = create(path)
            .inspect_err(|e| eprintln!("evenkeel guard: no output is kept in {}: {e}", path.display()))
            .ok();
        Self { pipe: Some(pipe), file, kept: 0, keep }
    }

    /// The end to wait on.
    pub(super) fn pipe(&self) -> Option<&PipeReader> {
        self.pipe.as_ref()
    }

    /// Bytes kept so far.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Reads what is there, up to a fair share.
    pub(super) fn read(&mut self, piece: &mut Vec<u8>) {
        piece.resize(PIECE, 0);
        for _ in 0..PIECES {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(piece) {
                Ok(0) => self.pipe = None,
                Ok(n) => self.keep(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Reads what is left, of a run whose processes are gone. Something outside its group may still hold the pipe.
    pub(super) fn read_rest(&mut self, piece: &mut Vec<u8>) {
        self.read(piece);
        self.pipe = None;
    }

    fn keep(&mut self, piece: &[u8]) {
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
