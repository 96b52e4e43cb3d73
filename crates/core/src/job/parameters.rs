//! Parameters of a job: values that a manual run is given, declared with their types, defaults and allowed values.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::defaults::is_default;
use super::variables::validate_variable;
use super::{JobFile, JobParts};

/// The most parameters of a job.
pub const PARAMETERS_MAX: usize = 32;
/// The longest name of a parameter, in bytes.
const NAME_MAX: usize = 64;
/// The most allowed values of a parameter.
const ALLOWED_MAX: usize = 64;
/// The most that the parameters of one run may have together, names and values, as JSON, in bytes. A job may have 64
/// requests and 128 planned runs in one entry of the registry.
pub const RUN_PARAMETERS_BYTES_MAX: usize = 4 * 1024;

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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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

/// A value as a text. It is read from a text, a whole number or a truth, and written as a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterValue(String);

/// The parameters of one run, by name. All shards of a fire share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunParameters(Option<Arc<BTreeMap<String, ParameterValue>>>);

impl ParameterValue {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ParameterValue {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Serialize for ParameterValue {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ParameterValue {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct ParameterVisitor;
        impl Visitor<'_> for ParameterVisitor {
            type Value = ParameterValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a whole number, true or false")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(ParameterValue(text.into()))
            }
            fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Self::Value, E> {
                Ok(ParameterValue(truth.to_string()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Ok(ParameterValue(number.to_string()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(ParameterValue(number.to_string()))
            }
        }
        input.deserialize_any(ParameterVisitor)
    }
}

impl FromIterator<(String, String)> for RunParameters {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self::of(pairs.into_iter().map(|(name, value)| (name, ParameterValue(value))).collect())
    }
}

impl Serialize for RunParameters {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for RunParameters {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(input).map(Self::of)
    }
}

impl RunParameters {
    fn of(values: BTreeMap<String, ParameterValue>) -> Self {
        Self(Some(values).filter(|values| !values.is_empty()).map(Arc::new))
    }

    fn values(&self) -> impl Iterator<Item = (&String, &ParameterValue)> {
        self.0.iter().flat_map(|values| values.iter())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.get(name).map(ParameterValue::as_str)
    }

    /// The names and their values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How long they are as JSON, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        if self.is_empty() { 0 } else { serde_json::to_vec(self).map_or(usize::MAX, |text| text.len()) }
    }

    /// The same, where they are not too long together.
    fn bounded(self) -> Result<Self, String> {
        match self.bytes() {
            bytes if bytes > RUN_PARAMETERS_BYTES_MAX => Err(format!(
                "the parameters of a run are {bytes} bytes as JSON, allowed are {RUN_PARAMETERS_BYTES_MAX}: put long \
                 values where the run can read them, and give it the place"
            )),
            _ => Ok(self),
        }
    }
}

/// The parameters as people read them: `day="2026-01-31", region="eu"`.
impl fmt::Display for RunParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().enumerate().try_for_each(|(nth, (name, value))| {
            let comma = if nth == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={value:?}")
        })
    }
}

impl ParameterType {
    /// Refuses what is no value of this type; the text says what is one.
    fn check(self, text: &str) -> Result<(), String> {
        let known = match self {
            Self::String if text.contains('\0') => {
                return Err("a NUL character, which no program can be given".into());
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
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

impl JobParameter {
    /// Whether a run has to be given a value.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.default.is_none()
    }

    /// Refuses a value that a run may not be given; the text says what is allowed.
    fn check(&self, value: &ParameterValue) -> Result<(), String> {
        self.kind.check(value.as_str())?;
        if self.allowed.is_empty() || self.allowed.contains(value) {
            return Ok(());
        }
        let allowed: Vec<String> = self.allowed.iter().map(|value| format!("{:?}", value.as_str())).collect();
        Err(format!("{:?}: allowed are {}", shortened(value.as_str()), allowed.join(", ")))
    }

    fn validate(&self) -> Result<(), String> {
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

impl JobParts {
    /// The parameters of a manual run that is given these values: each is checked, and what is not given has its default.
    ///
    /// # Errors
    /// A value is not allowed, none of the job's parameters has that name, or one without a default is not given. The text
    /// says the fix.
    pub fn run_parameters(&self, given: &RunParameters) -> Result<RunParameters, String> {
        for (name, value) in given.values() {
            let Some(declared) = self.parameters.get(name) else {
                return Err(match self.parameters.is_empty() {
                    true => format!(
                        "job {} has no parameters: leave {:?} out, or declare it under parameters of the job",
                        self.name,
                        shortened(name)
                    ),
                    false => format!(
                        "job {} has no parameter {:?}: it has {}",
                        self.name,
                        shortened(name),
                        self.parameters.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
                    ),
                });
            };
            declared.check(value).map_err(|wrong| format!("parameter {name} is {wrong}"))?;
        }
        let missing =
            |(name, declared): &(&String, &JobParameter)| declared.is_required() && given.get(name).is_none();
        if let Some((name, declared)) = self.parameters.iter().find(missing) {
            let takes = declared.kind.takes();
            return Err(format!(
                "job {} needs the parameter {name}, {takes}: give it, as `--param {name}=VALUE`",
                self.name
            ));
        }
        self.with_defaults(given).bounded()
    }

    /// These values, and the defaults of the parameters without one.
    #[must_use]
    pub fn with_defaults(&self, values: &RunParameters) -> RunParameters {
        let default =
            |(name, declared): (&String, &JobParameter)| Some((name.clone(), declared.default.clone()?));
        if self.parameters.is_empty() {
            return values.clone();
        }
        let mut all: BTreeMap<_, _> = self.parameters.iter().filter_map(default).collect();
        all.extend(values.values().map(|(name, value)| (name.clone(), value.clone())));
        RunParameters::of(all)
    }
}

impl JobFile {
    /// Refuses parameters that are invalid, that clash with a variable of the job, or that its fires could not have.
    pub(super) fn validate_parameters(&self) -> Result<(), String> {
        let count = self.parameters.len();
        if count > PARAMETERS_MAX {
            return Err(format!("parameters has {count}, allowed are at most {PARAMETERS_MAX}"));
        }
        for (name, declared) in &self.parameters {
            validate_name(name)?;
            declared.validate().map_err(|wrong| format!("parameters.{name}: {wrong}"))?;
            let others = [
                ("environment", self.environment.contains_key(name)),
                ("inherit", self.inherit.contains(name)),
                ("secrets", self.secrets.contains_key(name)),
                ("secret_files", self.secret_files.contains_key(name)),
            ];
            if let Some((other, _)) = others.into_iter().find(|(_, named)| *named) {
                return Err(format!("parameters and {other} both name {name}: once is enough"));
            }
            if declared.is_required() && !self.schedule.is_empty() {
                return Err(format!(
                    "parameters.{name} has no default, which a fire of the schedule needs: give it one, or leave schedule out"
                ));
            }
        }
        let named = self.http.iter().flat_map(|http| http.parameters());
        if let Some(name) = named.into_iter().find(|name| !self.parameters.contains_key(*name)) {
            return Err(format!("http names the parameter {name}, which is not declared under parameters"));
        }
        let default =
            |(name, it): (&String, &JobParameter)| Some((name.clone(), it.default.as_ref()?.0.clone()));
        let defaults: RunParameters = self.parameters.iter().filter_map(default).collect();
        defaults.bounded().map(drop).map_err(|wrong| format!("parameters: with their defaults {wrong}"))
    }
}

/// Refuses what is no name of a parameter: it is the name of a variable that every shell can read.
fn validate_name(name: &str) -> Result<(), String> {
    validate_variable("parameters", name)?;
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

#[cfg(test)]
mod tests;
