//! Writes one attempt's output into its file, within a size and a rate. Of output beyond the size the first and the last
//! part are kept, as a mistake is mostly reported at the end.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::mem;
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

/// The longest last part, in bytes. It is in memory until the run ends.
const LAST_MAX: u64 = 64 * 1024;

/// The writer of an attempt's output file.
pub(crate) struct LogWriter {
    /// `None` when it cannot be written.
    file: Option<File>,
    kept: u64,
    /// The most bytes of the first part, which is written as it comes.
    first: u64,
    last: LastPart,
    rate_limit: Option<LogRateLimit>,
    /// The last bytes of what came too fast and is not reported yet.
    too_fast: LastPart,
    /// `None` when there are no secrets to look for.
    mask: Option<OutputMask>,
}

impl LogWriter {
    /// Opens the file. If that fails the output is lost and the run continues; `told` gets the error.
    pub(crate) fn new(path: &Path, bounds: LogLimits, told: impl FnOnce(&io::Error)) -> Self {
        let file = create(path).inspect_err(told).ok();
        let pace = bounds.rate.map(|rate| LogRateLimit::new(rate, clock::now().mono));
        let last = (bounds.keep / 2).min(LAST_MAX);
        // No more than a burst's worth, so that the rate limits what a run leaves, too.
        let too_fast = bounds.rate.map_or(0, LogRateLimit::burst).min(last);
        Self {
            file,
            kept: 0,
            first: bounds.keep - last,
            last: LastPart::new(last),
            rate_limit: pace,
            too_fast: LastPart::new(too_fast),
            mask: None,
        }
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

    /// Writes what is held back, as it might have been the beginning of a secret, and the last part: no more follows.
    pub(crate) fn finish(&mut self) {
        if let Some(rest) = self.mask.as_mut().map(OutputMask::finish).filter(|rest| !rest.is_empty()) {
            self.write_at(&rest, clock::now().mono);
        }
        // Of bytes dropped at the very end the last ones are kept.
        let (_, dropped) = self.too_fast.take();
        if let Some(said) = self.rate_limit.as_mut().and_then(|pace| pace.take_missed(dropped.len())) {
            self.put(said.as_bytes());
        }
        self.put(&dropped);
        let (cut, last) = self.last.take();
        if let Some(file) = self.file.as_mut().filter(|_| cut > 0 || !last.is_empty()) {
            let marked = match cut {
                0 => Ok(()),
                _ => write!(file, "\n[{cut} bytes in the middle are not kept]\n"),
            };
            match marked.and_then(|()| file.write_all(&last)) {
                Ok(()) => self.kept += last.len() as u64,
                Err(_) => self.file = None,
            }
        }
    }

    fn write_at(&mut self, piece: &[u8], now: Mono) {
        let (n, said) =
            self.rate_limit.as_mut().map_or((piece.len(), None), |pace| pace.take(piece.len(), now));
        if let Some(said) = said {
            self.too_fast.take();
            self.put(said.as_bytes());
        }
        let (kept, dropped) = piece.split_at(n.min(piece.len()));
        self.put(kept);
        self.too_fast.add(dropped);
    }

    fn put(&mut self, piece: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let room = usize::try_from(self.first.saturating_sub(self.kept)).unwrap_or(usize::MAX);
        let (fits, beyond) = piece.split_at(piece.len().min(room));
        match file.write_all(fits) {
            Ok(()) => self.kept += fits.len() as u64,
            Err(_) => self.file = None,
        }
        self.last.add(beyond);
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The last bytes of what goes beyond the first part.
struct LastPart {
    room: usize,
    bytes: VecDeque<u8>,
    /// How many bytes came and are no longer among the last.
    cut: u64,
    /// Whether the latest of those ended a line.
    at_line: bool,
}

impl LastPart {
    fn new(room: u64) -> Self {
        Self {
            room: usize::try_from(room).unwrap_or(usize::MAX),
            bytes: VecDeque::new(),
            cut: 0,
            at_line: false,
        }
    }

    fn add(&mut self, piece: &[u8]) {
        let (old, new) = piece.split_at(piece.len().saturating_sub(self.room));
        let spare = (self.bytes.len() + new.len()).saturating_sub(self.room);
        self.cut += (old.len() + spare) as u64;
        let from_old = self.bytes.drain(..spare.min(self.bytes.len())).next_back();
        if let Some(latest) = old.last().copied().or(from_old) {
            self.at_line = latest == b'\n';
        }
        self.bytes.extend(new);
    }

    /// The bytes, from the beginning of a line where some are cut, and how many are cut.
    fn take(&mut self) -> (u64, Vec<u8>) {
        let cut = mem::take(&mut self.cut);
        let mut bytes = Vec::from(mem::take(&mut self.bytes));
        let line = bytes.iter().position(|b| *b == b'\n').map(|end| end + 1);
        match line.filter(|begin| cut > 0 && !self.at_line && *begin < bytes.len()) {
            Some(begin) => (cut + begin as u64, bytes.split_off(begin)),
            None => (cut, bytes),
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
        log.write_at(&b"x".repeat(100_000), begun + evenkeel_core::time::Millis::secs(2));
        log.write_at(b"the end", begun + evenkeel_core::time::Millis::secs(2));
        drop(log);
        let too_fast = |n| format!("\n[{n} bytes came faster than 1 a second and are not kept]\n");
        let text = std::fs::read_to_string(&path).unwrap();
        // Of the last ones that are dropped the end is kept.
        assert_eq!(text, format!("0123456789{}la{}xxxthe end", too_fast(3), too_fast(100_000)));
    }

    /// What a file holds after these pieces, of which this many bytes are kept, and how many are counted as kept.
    fn kept(keep: u64, pieces: &[&[u8]]) -> (String, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogWriter::new(&path, LogLimits { keep, rate: None }, |e| panic!("{e}"));
        pieces.iter().for_each(|piece| log.write(piece));
        log.finish();
        let written = log.written();
        drop(log);
        (std::fs::read_to_string(&path).unwrap(), written)
    }

    #[test]
    fn what_is_said_of_dropped_bytes_counts_as_kept_so_the_file_has_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogWriter::new(&path, LogLimits { keep: 20, rate: Some(1) }, |e| panic!("{e}"));
        log.write(b"0123456789abc");
        log.write(b"0123456789");
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "0123456789\n[56 bytes in the middle are not kept]\n0123456789");
    }

    #[test]
    fn the_first_and_the_last_part_are_kept_with_a_mark_between() {
        // As much as is kept has no mark, in whichever pieces it comes.
        assert_eq!(kept(10, &[b"0123456789"]), ("0123456789".to_owned(), 10));
        assert_eq!(kept(10, &[b"0123", b"", b"4567", b"8", b"9"]), ("0123456789".to_owned(), 10));
        let marked = |first: &str, cut: u64, last: &str| {
            format!("{first}\n[{cut} bytes in the middle are not kept]\n{last}")
        };
        assert_eq!(kept(10, &[b"0123456789a"]), (marked("01234", 1, "6789a"), 10));
        assert_eq!(kept(10, &[b"01234567", b"89a", b"b"]), (marked("01234", 2, "789ab"), 10));
        assert_eq!(kept(10, &[&b"x".repeat(1_000_000), b"end"]), (marked("xxxxx", 999_993, "xxend"), 10));
        // The last part begins with a line.
        assert_eq!(
            kept(20, &[b"first line\n", b"second\nthird\n", b"end\n"]),
            (marked("first line", 8, "third\nend\n"), 20)
        );
        assert_eq!(kept(0, &[b"abc"]), (marked("", 3, ""), 0));
    }

    #[test]
    fn the_last_part_takes_little_memory() {
        let line = b"0123456789abcdef0123456789abcd\n\n".repeat(32);
        let pieces = vec![line.as_slice(); 3_000];
        let (text, written) = kept(2_000_000, &pieces);
        let (first, last) = text.split_once("\n[").unwrap();
        assert_eq!(first.len() as u64, 2_000_000 - LAST_MAX);
        assert!(last.len() as u64 <= LAST_MAX + 60 && last.ends_with("abcd\n\n"), "{}", last.len());
        assert!(written <= 2_000_000);
    }
}
