//! `--shadow`: the imported jobs execute nothing until the same import is made without it.

use clap::Args;
use evenkeel_core::job::Job;

use crate::exit::CliError;

/// Whether the jobs are declared as shadows.
#[derive(Debug, Args)]
pub(super) struct ShadowArgs {
    /// Declare the jobs with shadow = true: they are scheduled and recorded, and execute nothing. The same import without this flag makes them real
    #[arg(long)]
    shadow: bool,
}

impl ShadowArgs {
    /// The jobs as they are declared.
    ///
    /// # Errors
    /// A job is not valid as a shadow.
    pub(super) fn declared(&self, jobs: Vec<Job>) -> Result<Vec<Job>, CliError> {
        let as_shadow = |job: Job| job.changed(|file| file.shadow = true);
        match self.shadow {
            true => jobs
                .into_iter()
                .map(as_shadow)
                .collect::<Result<_, _>>()
                .map_err(|e| CliError::invalid(e.to_string())),
            false => Ok(jobs),
        }
    }
}
