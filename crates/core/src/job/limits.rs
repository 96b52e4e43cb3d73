//! Resource limits of a command on its host.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::{SpanLimits, TimeSpan};

/// The least memory limit: below it not even the smallest program is loaded.
const MEMORY_MIN: u64 = 1 << 20;
/// The least number of open files: the three pipes, and some to load libraries with.
const FILES_MIN: u64 = 8;
/// The smallest part of a core that a kernel can give: a millisecond of every hundred.
const CORES_MIN: u32 = 10;
/// The most cores: no host has more, so more is a typing error.
const CORES_MAX: u32 = 100_000_000;

/// Limits as declared; an absent one is not enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// How long each process may compute, such as `10m`.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub cpu: String,
    /// How much address space each process may have, such as `512M`.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub memory: String,
    /// How many files each process may have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// How many processes its user may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// The limits of all processes of a run together.
    #[serde(
        default,
        deserialize_with = "super::written::table_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub together: Option<RunLimits>,
}

/// Limits of a whole run over all its processes, as declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLimits {
    /// Their memory, such as `512M`.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub memory: String,
    /// The cores that they may keep busy, such as `1.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Cores>,
    /// Their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
}

/// A number of cores, kept in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cores(u32);

impl Cores {
    /// In thousandths of a core.
    #[must_use]
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// Parses `1.5` to the third digit after the point; `None` when it is no such number.
    fn read(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || part.len() > 3 || !digits(whole) || !digits(part) {
            return None;
        }
        let whole = whole.parse::<u32>().ok()?.checked_mul(1000)?;
        let part = format!("{part:0<3}").parse::<u32>().ok()?;
        whole.checked_add(part).map(Self)
    }
}

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1000 {
            0 => output.serialize_u32(self.0 / 1000),
            _ => output.serialize_f64(f64::from(self.0) / 1000.0),
        }
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct CoresVisitor;
        impl CoresVisitor {
            fn read<E: de::Error>(text: &str) -> Result<Cores, E> {
                let wrong = || {
                    E::custom(format!(
                        "limits.together.cores is {text}: write a number of cores with up to three digits after the \
                         point, as 1.5"
                    ))
                };
                Cores::read(text).ok_or_else(wrong)
            }
        }
        impl Visitor<'_> for CoresVisitor {
            type Value = Cores;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of cores, as 1.5")
            }
            fn visit_u64<E: de::Error>(self, cores: u64) -> Result<Cores, E> {
                Self::read(&format!("{cores}"))
            }
            fn visit_i64<E: de::Error>(self, cores: i64) -> Result<Cores, E> {
                Self::read(&format!("{cores}"))
            }
            // What is shown of it is the shortest decimal that means the same.
            fn visit_f64<E: de::Error>(self, cores: f64) -> Result<Cores, E> {
                Self::read(&format!("{cores}"))
            }
        }
        input.deserialize_any(CoresVisitor)
    }
}

/// The limits as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitValues {
    /// In seconds.
    pub cpu: Option<u64>,
    /// In bytes.
    pub memory: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// Processes of one user.
    pub processes: Option<u64>,
    /// The limits of all processes of a run together.
    pub together: RunLimitValues,
}

/// Limits of a whole run as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimitValues {
    /// In bytes.
    pub memory: Option<u64>,
    /// Cores kept busy.
    pub cores: Option<Cores>,
    /// Processes.
    pub processes: Option<u64>,
}

impl Limits {
    /// Parses the limits.
    ///
    /// # Errors
    /// One is invalid; the text says which and what is allowed.
    pub fn read(&self) -> Result<LimitValues, String> {
        let cpu = match self.cpu.as_str() {
            "" => None,
            text => {
                let cpu = TimeSpan::parse("limits.cpu", text, SpanLimits::SCHEDULE);
                Some(cpu.map_err(|e| e.to_string())?.millis())
            }
        };
        let memory = match self.memory.as_str() {
            "" => None,
            text => Some(memory("limits.memory", text)?),
        };
        if let Some(files) = self.files.filter(|files| *files < FILES_MIN) {
            return Err(format!(
                "limits.files is {files}: give {FILES_MIN} or more, which it takes to start a program"
            ));
        }
        if self.processes == Some(0) {
            return Err("limits.processes is 0: the command itself is one".to_string());
        }
        let cpu = cpu.map(|span| span.0.unsigned_abs().div_ceil(1000));
        let together = self.together.as_ref().map_or(Ok(RunLimitValues::default()), RunLimits::read)?;
        Ok(LimitValues { cpu, memory, files: self.files, processes: self.processes, together })
    }
}

impl RunLimits {
    fn read(&self) -> Result<RunLimitValues, String> {
        let memory = match self.memory.as_str() {
            "" => None,
            text => Some(memory("limits.together.memory", text)?),
        };
        if self.cores.is_some_and(|cores| !(CORES_MIN..=CORES_MAX).contains(&cores.0)) {
            return Err(
                "limits.together.cores: write a number of cores from 0.01 on, as 0.5 or 2".to_string()
            );
        }
        if self.processes == Some(0) {
            return Err("limits.together.processes is 0: the command itself is one".to_string());
        }
        if *self == Self::default() {
            return Err(
                "limits.together says nothing: give memory, cores or processes, or leave it out".to_string()
            );
        }
        Ok(RunLimitValues { memory, cores: self.cores, processes: self.processes })
    }
}

/// A size as it must be written, made of one in other words, such as `512MB`, `512 MiB` or `1g`.
fn meant_size(text: &str) -> Option<String> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit = unit.trim_start().to_ascii_uppercase();
    let letter = unit.strip_suffix('B').unwrap_or(&unit);
    let letter = letter.strip_suffix('I').unwrap_or(letter);
    let known = !number.is_empty() && matches!(letter, "K" | "M" | "G" | "T");
    known.then(|| format!("{number}{letter}"))
}

/// Parses `512M`: bytes, or with K, M, G or T as many times 1024.
fn memory(field: &str, text: &str) -> Result<u64, String> {
    let wrong = || {
        let meant = meant_size(text).map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
        format!("{field} is {text:?}: write a whole number with K, M, G or T, as 512M{meant}")
    };
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(end);
    let power = match unit {
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return Err(wrong()),
    };
    let bytes =
        number.parse::<u64>().ok().and_then(|n| n.checked_mul(1024_u64.pow(power))).ok_or_else(wrong)?;
    if bytes < MEMORY_MIN {
        return Err(format!("{field} is {text:?}: less than 1M is too little for any program"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LimitValues, String> {
        serde_json::from_str::<Limits>(text).map_err(|e| e.to_string())?.read()
    }

    #[test]
    fn a_size_in_other_words_gets_its_fix() {
        for (text, meant) in [("512MB", "512M"), ("512Mi", "512M"), ("2 GiB", "2G"), ("1g", "1G")] {
            let said = read(&format!(r#"{{"memory":"{text}"}}"#)).unwrap_err();
            assert!(said.ends_with(&format!("; did you mean \"{meant}\"?")), "{text}: {said}");
        }
        let said = read(r#"{"memory":"much"}"#).unwrap_err();
        assert!(said.ends_with("as 512M"), "{said}");
    }

    #[test]
    fn limits_are_read_or_refused_with_what_is_allowed() {
        let all = read(r#"{"cpu":"1m30s","memory":"512M","files":64,"processes":9}"#).unwrap();
        let expected = LimitValues {
            cpu: Some(90),
            memory: Some(512 << 20),
            files: Some(64),
            processes: Some(9),
            ..LimitValues::default()
        };
        assert_eq!(all, expected);
        assert_eq!(read("{}").unwrap(), LimitValues::default());
        assert_eq!(read(r#"{"memory":"1024K"}"#).unwrap().memory, Some(1 << 20));
        for (wrong, why) in [
            (r#"{"cpu":"90"}"#, "limits.cpu"),
            (r#"{"cpu":"-1s"}"#, "limits.cpu"),
            (r#"{"memory":"512"}"#, "as 512M"),
            (r#"{"memory":"M"}"#, "as 512M"),
            (r#"{"memory":"1.5G"}"#, "as 512M"),
            (r#"{"memory":"-1G"}"#, "as 512M"),
            (r#"{"memory":"99999999999T"}"#, "as 512M"),
            (r#"{"memory":"1000K"}"#, "too little"),
            (r#"{"files":3}"#, "8 or more"),
            (r#"{"processes":0}"#, "the command itself"),
            (r#"{"disk":"1G"}"#, "unknown field `disk`"),
        ] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
    #[test]
    fn what_a_whole_run_may_use_is_read_and_written_as_it_was() {
        let text = r#"{"together":{"memory":"512M","cores":1.5,"processes":50}}"#;
        let together = read(text).unwrap().together;
        assert_eq!((together.memory, together.processes), (Some(512 << 20), Some(50)));
        assert_eq!(together.cores.map(Cores::thousandths), Some(1_500));
        for text in [text, r#"{"together":{"cores":2}}"#, r#"{"together":{"cores":0.015}}"#] {
            let limits: Limits = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&limits).unwrap(), text);
        }
        assert_eq!(read(r#"{"together":{"cores":2.0}}"#), read(r#"{"together":{"cores":2}}"#));
        // Each of a thousand parts is read as what it is, and written as it was read.
        for part in 10..1_010 {
            let cores = Cores(part);
            let text = serde_json::to_string(&cores).unwrap();
            assert_eq!(serde_json::from_str::<Cores>(&text).unwrap(), cores, "{text}");
        }
        for (wrong, why) in [
            (r#"{"together":{}}"#, "says nothing"),
            (r#"{"together":{"cores":0}}"#, "from 0.01 on"),
            (r#"{"together":{"cores":0.009}}"#, "from 0.01 on"),
            (r#"{"together":{"cores":-1}}"#, "cores is -1"),
            (r#"{"together":{"cores":1.0001}}"#, "three digits"),
            (r#"{"together":{"cores":1e300}}"#, "as 1.5"),
            (r#"{"together":{"cores":5000000}}"#, "as 1.5"),
            (r#"{"together":{"cores":400000}}"#, "from 0.01 on"),
            (r#"{"together":{"cores":"all"}}"#, "a number of cores"),
            (r#"{"together":{"memory":"100K"}}"#, "limits.together.memory is \"100K\": less than 1M"),
            (r#"{"together":{"processes":0}}"#, "the command itself"),
            (r#"{"together":{"files":9}}"#, "unknown field `files`"),
        ] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
