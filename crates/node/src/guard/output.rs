//! A run's output: always read, so that the run never waits, and kept up to a bound.

use std::io::{ErrorKind, PipeReader, Read};
use std::path::Path;

use super::report::report;
use crate::logs::{LogLimits, LogWriter};
use crate::secrets::SecretText;

/// How much is read at once; also how much memory the output of all runs takes together.
const PIECE: usize = 64 * 1024;
/// How many pieces are read of one run before the next has its turn.
const PIECES: usize = 16;

/// The reading end of a run's output and the file it goes to.
pub(super) struct RunOutput {
    /// `None` when every writer is gone.
    pipe: Option<PipeReader>,
    log: LogWriter,
}

impl RunOutput {
    /// `pipe` must not block. If the file cannot be opened, the output is lost and the run continues. The secrets are
    /// masked in it.
    pub(super) fn new<'a>(
        pipe: PipeReader,
        (path, bounds): (&Path, LogLimits),
        secrets: impl Iterator<Item = &'a SecretText>,
    ) -> Self {
        let mut log = LogWriter::new(path, bounds, |e| {
            report(format_args!("no output is kept in {}: {e}", path.display()));
        });
        log.mask(secrets);
        Self { pipe: Some(pipe), log }
    }

    /// The end to poll.
    pub(super) fn pipe(&self) -> Option<&PipeReader> {
        self.pipe.as_ref()
    }

    /// How many bytes were kept so far.
    pub(super) fn written(&self) -> u64 {
        self.log.written()
    }

    /// Closes it in a copy of the guard.
    pub(super) fn let_go(self) {
        self.log.let_go();
    }

    /// Reads what is available, up to a fair part.
    pub(super) fn read(&mut self, piece: &mut Vec<u8>) {
        piece.resize(PIECE, 0);
        for _ in 0..PIECES {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(piece) {
                Ok(0) => self.pipe = None,
                Ok(n) => self.log.write(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Reads the rest of the output once the run's processes are gone. A process outside its group may hold the pipe.
    pub(super) fn read_rest(&mut self, piece: &mut Vec<u8>) {
        self.read(piece);
        self.pipe = None;
        self.log.finish();
    }
}
