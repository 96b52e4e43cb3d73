//! Prints what a node answers.

use serde::Serialize;

use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::output::{self, OutputFormat, TableRow};

/// Prints a response: as JSON for programs, as a sentence for people.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn print_response(
    reach: &ConnectArgs,
    answer: &impl Serialize,
    sentence: &str,
) -> Result<(), CliError> {
    match reach.output.is_text() {
        true => output::line(sentence),
        false => output::changed(reach.output, answer),
    }
}

/// Prints one object: as such for programs, as a table of one row for people.
///
/// # Errors
/// `--columns` names an unknown column, or standard output is closed.
pub(crate) fn show_row<R: TableRow>(output: OutputFormat, found: R) -> Result<(), CliError> {
    match output.is_text() {
        true => output::list(output, &[found], ""),
        false => output::value(output, &found),
    }
}
