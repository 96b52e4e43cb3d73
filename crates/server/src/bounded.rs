//! Reads files and standard input up to a size limit: a device or a pipe has no size that could be checked first.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a whole file of at most `max` bytes; `-` is standard input.
///
/// # Errors
/// It cannot be read, or is larger.
pub(crate) fn bytes(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        return all(io::stdin().lock(), max, 0);
    }
    let file = File::open(path)?;
    let size = file.metadata().map_or(0, |meta| meta.len());
    all(file, max, size)
}

/// Reads a whole text file of at most `max` bytes; `-` is standard input.
///
/// # Errors
/// It cannot be read, is larger, or is not UTF-8.
pub(crate) fn text(path: &Path, max: u64) -> io::Result<String> {
    let not_text =
        |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8: convert it with iconv first");
    String::from_utf8(bytes(path, max)?).map_err(not_text)
}

/// Reads all bytes of a source that has about `size` of them, as far as it says.
fn all(source: impl Read, max: u64, size: u64) -> io::Result<Vec<u8>> {
    // One more, where reading finds the end.
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(max)).unwrap_or(0) + 1);
    source.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        let larger = format!("it is larger than {max} bytes: split it, or name the right file");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, larger));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_the_bound() {
        assert_eq!(all(&b"abc"[..], 3, 0).expect("it fits"), b"abc");
        let refused = all(io::repeat(b'x'), 1_000, 7).expect_err("it has no end");
        assert!(refused.to_string().contains("larger than 1000 bytes: split it"), "{refused}");
        let device = text(Path::new("/dev/zero"), 10).expect_err("a device has no size");
        assert!(device.to_string().contains("larger than 10 bytes"), "{device}");
    }
}
