//! Where the text of this process goes: to its standard streams, or for `--watch` into memory.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::ids::is_unseen;

use crate::escaping::visible;
use crate::exit::{CliError, ExitKind};

/// What was printed, instead of on the standard streams.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CapturedOutput {
    /// The bytes of the answer.
    pub(crate) answer: Vec<u8>,
    /// The messages beside it, one a line.
    pub(crate) messages: String,
}

static CAPTURED: Mutex<Option<CapturedOutput>> = Mutex::new(None);

fn captured() -> MutexGuard<'static, Option<CapturedOutput>> {
    CAPTURED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `print` and returns what it printed.
pub(crate) fn capture<T>(print: impl FnOnce() -> T) -> (T, CapturedOutput) {
    *captured() = Some(CapturedOutput::default());
    let done = print();
    (done, captured().take().unwrap_or_default())
}

/// Prints one or more lines; characters that a terminal obeys or hides are escaped.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn line(text: &str) -> Result<(), CliError> {
    bytes(format!("{}\n", visible(text)).as_bytes())
}

/// Prints bytes as they are.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CliError> {
    if let Some(captured) = &mut *captured() {
        captured.answer.extend_from_slice(bytes);
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Prints a line on standard error. A reader that is gone is no error.
pub(super) fn message(line: &str) {
    match &mut *captured() {
        Some(captured) => captured.messages.push_str(&format!("{line}\n")),
        None => {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }
}

fn written(result: std::io::Result<()>) -> Result<(), CliError> {
    result.map_err(|e| match e.kind() {
        // The reader has seen enough, as `head` has: that is no error to print.
        std::io::ErrorKind::BrokenPipe => CliError::new(ExitKind::Failed, ""),
        _ => CliError::new(ExitKind::Failed, format!("cannot write to standard output: {e}")),
    })
}

/// A name or reason may come from anywhere: its characters that a terminal hides or obeys are escaped.
#[must_use]
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_sequence_reaches_a_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\nc"), "a [31mb c");
        assert_eq!(plain("job \u{202e}x\u{200b}y"), "job  x y", "nor what turns or hides the rest");
    }
}
