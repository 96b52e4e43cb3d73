//! Where the last lines of output begin.

use evenkeel::RunRecord;
use evenkeel_core::ids::RunId;
use memchr::memrchr_iter;

use super::{ApiError, App, relay};
use crate::peer::LogTailQuery;

/// The most lines that may be asked for.
pub(super) const LINES_MAX: u32 = 10_000;
/// How far from its end output is read: of longer lines only the last part is found.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The number of bytes read at once.
const BLOCK: u64 = 64 * 1024;

/// Where the last lines of an attempt's output begin that is written now, on the node that made it.
///
/// # Errors
/// That node does not answer or is of an earlier version, or the output cannot be read.
pub(super) async fn begin(app: &App, record: &RunRecord, lines: u32) -> Result<u64, ApiError> {
    let wanted = LogTailQuery { attempt: record.attempt, lines };
    match relay::other(app, &record.node)? {
        Some(other) => other.tail(&record.run, wanted).await,
        None => begin_here(app, &record.run, wanted).await,
    }
}

/// The same for output of this node; its end if it has none.
///
/// # Errors
/// The output cannot be read.
pub(crate) async fn begin_here(app: &App, run: &RunId, wanted: LogTailQuery) -> Result<u64, ApiError> {
    let LogTailQuery { attempt, lines } = wanted;
    let read = async |from: u64, length: u64| {
        let chunk = app.handle.log(run, attempt, from, usize::try_from(length).unwrap_or(usize::MAX)).await;
        chunk.map_err(|e| ApiError::internal(format!("the output of run {run} cannot be read: {e}")))
    };
    let size = read(0, 0).await?.size;
    let mut search = TailSearch { left: lines, start: size };
    while search.start > 0 && size - search.start < BYTES_MAX {
        let from = search.start.saturating_sub(BLOCK);
        let block = read(from, search.start - from).await?.data;
        if search.found(from, &block, size) {
            break;
        }
    }
    Ok(search.start)
}

/// Counts lines from the end of the output.
struct TailSearch {
    /// How many lines are still to be found.
    left: u32,
    /// Where the part begins that was read.
    start: u64,
}

impl TailSearch {
    /// Takes the block before that part, which begins at `from`; whether the last lines begin in it.
    fn found(&mut self, from: u64, block: &[u8], size: u64) -> bool {
        for end in memrchr_iter(b'\n', block) {
            let begin = from + end as u64 + 1;
            // The end of the last line begins no other.
            if begin < size {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.start = begin;
                    return true;
                }
            }
        }
        self.start = from;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last lines of a text that is read in blocks of this length.
    fn tail(text: &str, lines: u32, block: usize) -> &str {
        let size = text.len() as u64;
        let mut search = TailSearch { left: lines, start: size };
        while search.start > 0 {
            let end = usize::try_from(search.start).expect("a small text");
            let from = end.saturating_sub(block);
            if search.found(from as u64, &text.as_bytes()[from..end], size) {
                break;
            }
        }
        &text[usize::try_from(search.start).expect("a small text")..]
    }

    #[test]
    fn the_last_lines_are_found_however_the_text_is_cut_into_blocks() {
        for text in ["", "\n", "one", "one\n", "one\ntwo", "one\ntwo\n", "\n\n\n", "one\n\ntwo\nthree\n"] {
            let all: Vec<&str> = text.split_inclusive('\n').collect();
            for lines in 1..6 {
                let expected = all[all.len().saturating_sub(lines)..].concat();
                for block in 1..20 {
                    let found = tail(text, u32::try_from(lines).expect("few"), block);
                    assert_eq!(found, expected, "{lines} of {text:?}, by {block}");
                }
            }
        }
    }
}
