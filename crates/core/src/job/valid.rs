//! A valid job, and the error of one that is not.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::Deref;
use serde::Deserialize;

use super::{JobFile, JobParts, SwitchPosition};
use crate::registry::DurabilityClass;

/// An invalid declaration. Its display says the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError(pub(super) String);

impl JobError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for JobError {}

/// A valid job: what [`Job::parse`] makes of a [`JobFile`]. Its fields can be read and not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "JobFile")]
pub struct Job(pub(super) JobParts);

impl Deref for Job {
    type Target = JobParts;

    fn deref(&self) -> &JobParts {
        &self.0
    }
}

impl Job {
    /// Parses a declaration: checks everything that can be checked without a registry, in bounded time.
    ///
    /// # Errors
    /// An invalid field: the error names it and says what is allowed.
    pub fn parse(mut file: JobFile) -> Result<Self, JobError> {
        file.resolve().map_err(|text| JobError(format!("job {}: {text}", file.name)))?;
        file.validate()?;
        Self::try_from(file)
    }

    /// The declaration as it is written and kept.
    #[must_use]
    pub fn to_file(&self) -> JobFile {
        self.0.to_file()
    }

    /// The same job with other keys.
    ///
    /// # Errors
    /// As for [`Job::parse`].
    pub fn changed(&self, change: impl FnOnce(&mut JobFile)) -> Result<Self, JobError> {
        let mut file = self.to_file();
        change(&mut file);
        Self::parse(file)
    }

    /// The same job, enabled or not.
    #[must_use]
    pub fn with_enabled(mut self, to: SwitchPosition) -> Self {
        self.0.enabled = to == SwitchPosition::On;
        self
    }

    /// Refuses the job where its required durability is above the class of this registry.
    ///
    /// # Errors
    /// The job asks for more, and the error says what to do.
    pub fn suits(&self, class: DurabilityClass) -> Result<(), JobError> {
        let Some(asked) = self.min_durability.filter(|asked| *asked > class) else { return Ok(()) };
        Err(JobError(format!(
            "job {}: it asks for min_durability = \"{asked:?}\", and this cluster's registry is of class {class:?}: see \
             `evenkeel cluster doctor` for what would make it better, or let the job ask for less",
            self.name
        )))
    }
}
