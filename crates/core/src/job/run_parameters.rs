//! The parameters of one run: names and values, bounded together.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most that the parameters of one run may have together, names and values, as JSON, in bytes. A job may have 64
/// requests and 128 planned runs in one entry of the registry.
pub const RUN_PARAMETERS_BYTES_MAX: usize = 4 * 1024;

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
    pub(super) fn of(values: BTreeMap<String, ParameterValue>) -> Self {
        Self(Some(values).filter(|values| !values.is_empty()).map(Arc::new))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = (&String, &ParameterValue)> {
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
    pub(super) fn bounded(self) -> Result<Self, String> {
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
