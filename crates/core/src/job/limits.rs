//! How much of its host a command may use.

use alloc::format;
use alloc::string::{String, ToString};
use serde::{Deserialize, Serialize};

/// The least memory that is worth a try: below it not even the smallest program is loaded.
const MEMORY_MIN: u64 = 1 << 20;
/// The least number of open files: the three pipes, and some to load libraries with.
const FILES_MIN: u64 = 8;

/// Limits as declared; what is absent has none of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// How long each process may compute, such as `10m`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu: String,
    /// How much address space each process may have, such as `512M`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory: String,
    /// How many files each process may have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// How many processes its user may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
}

/// The same as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// In seconds.
    pub cpu: Option<u64>,
    /// In bytes.
    pub memory: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// Processes of one user.
    pub processes: Option<u64>,
}

impl Limits {
    /// Reads them.
    ///
    /// # Errors
    /// One makes no sense; the text says which and what is allowed.
    pub fn read(&self) -> Result<Ceilings, String> {
        let cpu = match self.cpu.as_str() {
            "" => None,
            text => Some(crate::schedule::span("limits.cpu", text).map_err(|e| e.to_string())?),
        };
        let memory = match self.memory.as_str() {
            "" => None,
            text => Some(memory(text)?),
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
        Ok(Ceilings { cpu, memory, files: self.files, processes: self.processes })
    }
}

/// Reads `512M`: bytes, or with K, M, G or T as many times 1024.
fn memory(text: &str) -> Result<u64, String> {
    let wrong = || format!("limits.memory is {text:?}: write a whole number with K, M, G or T, as 512M");
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
        return Err(format!("limits.memory is {text:?}: less than 1M is too little for any program"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Ceilings, String> {
        serde_json::from_str::<Limits>(text).map_err(|e| e.to_string())?.read()
    }

    #[test]
    fn limits_are_read_or_refused_with_what_is_allowed() {
        let all = read(r#"{"cpu":"1m30s","memory":"512M","files":64,"processes":9}"#).unwrap();
        let expected =
            Ceilings { cpu: Some(90), memory: Some(512 << 20), files: Some(64), processes: Some(9) };
        assert_eq!(all, expected);
        assert_eq!(read("{}").unwrap(), Ceilings::default());
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
}
