//! Parameters of a job, as it declares them: their types, defaults and allowed values.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::defaults::is_default;
use super::run_parameters::ParameterValue;
use super::variables::validate_variable;

/// The most parameters of a job.
pub const PARAMETERS_MAX: usize = 32;
/// The longest name of a parameter, in bytes.
const NAME_MAX: usize = 64;
/// The most allowed values of a parameter.
const ALLOWED_MAX: usize = 64;
/// The declaration of one parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobParameter {
    /// What its values are.
    #[serde(default, rename = "type", skip_serializing_if = "is_default")]
    pub kind: ParameterType,
    /// The value of a run that is given none; without it each run needs one, so such a job has no schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<ParameterValue>,
    /// The only allowed values; every value of its type when empty.
    #[serde(default, deserialize_with = "super::written::some", skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<ParameterValue>,
    /// A description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// The type of a parameter. Each value has one way to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    /// Any text.
    #[default]
    String,
    /// A whole number of 64 bits with sign, as `-7`.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A day, as `2026-01-31`.
    Date,
}

impl ParameterType {
    /// Refuses what is no value of this type; the text says what is one.
    fn check(self, text: &str) -> Result<(), String> {
        let known = match self {
            Self::String if text.contains('\0') => {
                return Err("a text with a NUL character, which no program can be given".into());
            }
            Self::String => return Ok(()),
            Self::Integer => text.parse::<i64>().map(|number| number.to_string()).ok(),
            Self::Boolean => text.parse::<bool>().map(|truth| truth.to_string()).ok(),
            Self::Date => text.parse::<jiff::civil::Date>().map(|day| day.to_string()).ok(),
        };
        // A value has one way to be written, so that the allowed ones are compared as texts.
        match known {
            Some(written) if written == text => Ok(()),
            Some(written) => Err(format!("{text:?}: write it as {written:?}")),
            None => Err(format!("{:?}: it takes {}", shortened(text), self.takes())),
        }
    }

    fn takes(self) -> &'static str {
        match self {
            Self::String => "a text",
            Self::Integer => "a whole number, as 7 or -7",
            Self::Boolean => "true or false",
            Self::Date => "a day, as 2026-01-31",
        }
    }
}

/// The beginning of a value, for messages.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

impl JobParameter {
    /// Whether a run has to be given a value.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.default.is_none()
    }

    /// Refuses a value that a run may not be given; the text says what is allowed.
    pub(super) fn check(&self, value: &ParameterValue) -> Result<(), String> {
        self.kind.check(value.as_str())?;
        if self.allowed.is_empty() || self.allowed.contains(value) {
            return Ok(());
        }
        Err(format!("{:?}: allowed are {}", shortened(value.as_str()), self.allowed_texts()))
    }

    fn allowed_texts(&self) -> String {
        let allowed: Vec<String> = self.allowed.iter().map(|value| format!("{:?}", value.as_str())).collect();
        allowed.join(", ")
    }

    /// What it takes, for people.
    pub(super) fn takes(&self) -> String {
        match self.allowed.is_empty() {
            true => self.kind.takes().into(),
            false => format!("one of {}", self.allowed_texts()),
        }
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        if self.allowed.len() > ALLOWED_MAX {
            let count = self.allowed.len();
            return Err(format!("allowed has {count} values, and may have at most {ALLOWED_MAX}"));
        }
        for value in &self.allowed {
            self.kind.check(value.as_str()).map_err(|wrong| format!("allowed has {wrong}"))?;
        }
        self.default.iter().try_for_each(|default| self.check(default)).map_err(|e| format!("default is {e}"))
    }
}

/// Variables by which a caller who may only run a job could make it run other code.
const DECIDING: [&str; 6] = ["PATH", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "TRACEPARENT"];

/// Refuses what is no name of a parameter: it is the name of a variable that every shell can read.
pub(super) fn validate_name(name: &str) -> Result<(), String> {
    validate_variable("parameters", name)?;
    if DECIDING.contains(&name) || name.starts_with("LD_") {
        return Err(format!(
            "parameters names {name}, which decides what a command runs or is set for it: choose another name"
        ));
    }
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match first && plain && name.len() <= NAME_MAX {
        true => Ok(()),
        false => Err(format!(
            "parameters names {:?}: a name has up to {NAME_MAX} letters, digits and _, and begins with no digit",
            shortened(name)
        )),
    }
}
