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
    match output {
        OutputFormat::Json if calendars.is_empty() => output::json(&jobs),
        OutputFormat::Json => output::json(&json!({ "calendar": calendars, "job": jobs })),
        OutputFormat::Table => {
            let file = match calendars.is_empty() {
                true => json!({ "job": jobs }),
                false => json!({ "calendar": calendars, "job": jobs }),
            };
            let text = toml::to_string(&file);
            output::line(text.map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?.trim_end())
        }
    }
}
