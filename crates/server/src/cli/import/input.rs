//! Reads the files of other schedulers.

use std::path::Path;

use crate::bounded;
use crate::exit::CliError;

/// The size limit of a file: far above what a scheduler exports, far below the memory of a small machine.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The name of a file in messages.
pub(super) fn shown(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// The text of a file, or of standard input.
///
/// # Errors
/// It cannot be read, is no UTF-8 or too large.
pub(super) fn text(file: &Path) -> Result<String, CliError> {
    let text =
        bounded::text(file, FILE_BYTES_MAX).map_err(|e| CliError::unreadable_input(file.display(), &e))?;
    Ok(crate::text_input::plain(text))
}
