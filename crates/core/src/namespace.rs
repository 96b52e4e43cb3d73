//! Namespaces: each owns jobs, calendars and pools, whose names are unique inside it, and may limit how many jobs it holds and how many runs
//! execute at once.

use alloc::format;
use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::ids::Namespace;
use crate::run_limit::RUN_LIMIT_MAX;

/// The longest description in bytes.
const DESCRIPTION_MAX: usize = 4_096;

/// A namespace as declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSettings {
    /// Its name, for ever.
    pub name: Namespace,
    /// A description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How many jobs it may hold, disabled ones too; any number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_max: Option<u32>,
    /// How many of its runs may execute at once, in the whole cluster; any number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_max: Option<u32>,
}

/// An invalid namespace. Its display says the field and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceError(String);

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for NamespaceError {}

impl NamespaceSettings {
    /// A namespace without limits.
    #[must_use]
    pub fn new(name: Namespace) -> Self {
        Self { name, ..Self::default() }
    }

    /// Checks its fields.
    ///
    /// # Errors
    /// An invalid field.
    pub fn check(&self) -> Result<(), NamespaceError> {
        let fail = |text: &str| Err(NamespaceError(format!("namespace {}: {text}", self.name)));
        if self.description.len() > DESCRIPTION_MAX {
            return fail(&format!("description is longer than {DESCRIPTION_MAX} bytes: shorten it"));
        }
        if self.jobs_max == Some(0) {
            return fail("jobs_max is 0: give 1 or more, or leave it out for any number");
        }
        if self.runs_max.is_some_and(|max| !(1..=RUN_LIMIT_MAX).contains(&max)) {
            return fail(&format!(
                "runs_max allows 1 to {RUN_LIMIT_MAX}: give such a number, or leave it out for any number of runs"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_namespace_that_could_hold_nothing_is_refused() {
        let settings =
            |jobs_max| NamespaceSettings { jobs_max, ..NamespaceSettings::new("a".parse().unwrap()) };
        assert_eq!(settings(None).check(), Ok(()));
        assert_eq!(settings(Some(1)).check(), Ok(()));
        assert!(settings(Some(0)).check().unwrap_err().to_string().contains("jobs_max is 0"));
        let long = NamespaceSettings { description: "x".repeat(DESCRIPTION_MAX + 1), ..settings(None) };
        assert!(long.check().unwrap_err().to_string().contains("longer than 4096"));
    }
}
