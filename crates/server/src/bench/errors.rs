//! The errors of measurements.

use evenkeel::bench::RegistryError;

use crate::exit::{CliError, ExitKind};

/// An error of a measurement that could not be made.
pub(super) fn failed(message: impl Into<String>) -> CliError {
    CliError::new(ExitKind::Failed, message)
}

/// A registry's error: a URL that cannot be used is the caller's to correct.
pub(super) fn registry_error(error: &RegistryError) -> CliError {
    let exit = match error {
        RegistryError::Refused(_) => ExitKind::Usage,
        RegistryError::Unavailable(_) => ExitKind::Unavailable,
        RegistryError::Fatal(_) => ExitKind::Failed,
    };
    CliError::new(exit, error.to_string())
}
