//! `--dry-run`: prints the job file that would be applied.

use serde_json::json;

use crate::exit::{CliError, ExitKind};
use crate::files::Declarations;
use crate::output::{self, OutputFormat};

/// Prints the job file that would be applied.
///
/// # Errors
/// Standard output is closed.
pub(super) fn dry(declared: &Declarations, output: OutputFormat) -> Result<(), CliError> {
    let Declarations { calendars, jobs } = declared;
    match output.is_text() {
        false if calendars.is_empty() => output::value(output, &jobs),
        false => output::value(output, &json!({ "calendar": calendars, "job": jobs })),
        true => {
            let file = match calendars.is_empty() {
                true => json!({ "job": jobs }),
                false => json!({ "calendar": calendars, "job": jobs }),
            };
            let text = toml::to_string(&file);
            output::line(text.map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?.trim_end())
        }
    }
}
