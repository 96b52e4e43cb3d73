//! Prints what a node answers.

use serde::Serialize;

use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::output::{self, OutputFormat};

/// Prints a response: as JSON for programs, as a sentence for people.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn print_response(
    reach: &ConnectArgs,
    answer: &impl Serialize,
    sentence: &str,
) -> Result<(), CliError> {
    match reach.output {
        OutputFormat::Json => output::json(answer),
        OutputFormat::Table => output::line(sentence),
    }
}
