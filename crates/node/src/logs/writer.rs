//! Writes one attempt's output into its file, within a size and a rate.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use evenkeel_core::time::Mono;

use super::mask::OutputMask;
use super::rate_limit::LogRateLimit;
use crate::clock;
use crate::secrets::SecretText;

/// The limits of an attempt's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLimits {
    /// The most bytes in total.
    pub(crate) keep: u64,
    /// The most bytes a second, if limited.
    pub(crate) rate: Option<u64>,
}

/// The writer of an attempt's output file.
pub(crate) struct LogWriter {
    /// `None` when it cannot be written, or the limit is reached.
    file: Option<File>,
    kept: u64,
    keep: u64,
    rate_limit: Option<LogRateLimit>,
    /// `None` when there are no secrets to look for.
    mask: Option<OutputMask>,
}

impl LogWriter {
    /// Opens the file. If that fails the output is lost and the run continues; `told` gets the error.
    pub(crate) fn new(path: &Path, bounds: LogLimits, told: impl FnOnce(&io::Error)) -> Self {
        let file = create(path).inspect_err(told).ok();
        let pace = bounds.rate.map(|rate| LogRateLimit::new(rate, clock::now().mono));
        Self { file, kept: 0, keep: bounds.keep, rate_limit: pace, mask: None }
    }

    /// Replaces these secrets in all that is written from here on.
    pub(crate) fn mask<'a>(&mut self, secrets: impl Iterator<Item = &'a SecretText>) {
        self.mask = OutputMask::new(secrets);
    }

    /// Closes the file in a copy of this process. The other process goes on writing it.
    pub(crate) fn let_go(mut self) {
        self.file = None;
    }

    /// How many bytes were kept so far.
    pub(crate) fn written(&self) -> u64 {
        self.kept
    }

    /// Writes as much as the limits allow.
    pub(crate) fn write(&mut self, piece: &[u8]) {
        if self.file.is_none() {
            return;
        }
        match self.mask.as_mut().map(|mask| mask.take(piece)) {
            Some(masked) => self.write_at(&masked, clock::now().mono),
            None => self.write_at(piece, clock::now().mono),
        }
    }

    /// Writes what is held back, as it might have been the beginning of a secret: no more follows.
    pub(crate) fn finish(&mut self) {
        if let Some(rest) = self.mask.as_mut().map(OutputMask::finish).filter(|rest| !rest.is_empty()) {
            self.write_at(&rest, clock::now().mono);
        }
    }

    fn write_at(&mut self, piece: &[u8], now: Mono) {
        let (n, said) =
            self.rate_limit.as_mut().map_or((piece.len(), None), |pace| pace.take(piece.len(), now));
        if let Some(said) = said {
            self.put(said.as_bytes());
        }
        self.put(piece.get(..n).unwrap_or(piece));
    }

    fn put(&mut self, piece: &[u8]) {
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

impl Drop for LogWriter {
    /// Bytes dropped at the very end are reported as well.
    fn drop(&mut self) {
        self.finish();
        if let Some(said) = self.rate_limit.as_mut().and_then(LogRateLimit::take_missed) {
            self.put(said.as_bytes());
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    match (open(), path.parent()) {
        // Only the first run of a job finds no folder.
        (Err(e), Some(folder)) if e.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            open()
        }
        (opened, _) => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_fast_is_left_out_and_told_also_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogWriter::new(&path, LogLimits { keep: 10_000, rate: Some(1) }, |e| panic!("{e}"));
        let begun = clock::now().mono;
        log.write_at(b"0123456789abc", begun);
        log.write_at(b"later", begun + evenkeel_core::time::Millis::secs(2));
        drop(log);
        let too_fast = |n| format!("\n[{n} bytes came faster than 1 a second and are not kept]\n");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("0123456789{}la{}", too_fast(3), too_fast(3)));
    }

    #[test]
    fn what_is_told_counts_as_kept_so_the_file_has_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogWriter::new(&path, LogLimits { keep: 20, rate: Some(1) }, |e| panic!("{e}"));
        log.write(b"0123456789abc");
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "0123456789\n[3 bytes \n[output beyond 20 bytes is not kept]\n");
    }
}
