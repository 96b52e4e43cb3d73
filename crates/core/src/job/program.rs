//! The program of a job: how it is written, and the settings of its start.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CommandSecrets, Dataflow, Limits};

/// The shell that reads the `command` of a job with `shell = true`.
pub const SHELL: &str = "/bin/sh";

/// A job's `command` as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// A program and its arguments; no shell reads them. A job that calls a function has none.
    Argv(Vec<String>),
    /// A text for the shell.
    Line(String),
}

impl Default for Program {
    fn default() -> Self {
        Self::Argv(Vec::new())
    }
}

impl Program {
    /// The executable.
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        match self {
            Self::Argv(argv) => argv.clone(),
            Self::Line(line) => vec![SHELL.to_string(), "-c".to_string(), line.clone()],
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::Argv(argv) => argv.iter(),
            Self::Line(line) => core::slice::from_ref(line).iter(),
        }
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Argv(argv) => output.collect_seq(argv),
            Self::Line(line) => output.serialize_str(line),
        }
    }
}

impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct ProgramVisitor;
        impl<'de> Visitor<'de> for ProgramVisitor {
            type Value = Program;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a program and its arguments as a list, or a text with shell = true")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Program::Line(text.to_string()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let argv = core::iter::from_fn(|| list.next_element().transpose());
                argv.collect::<Result<_, _>>().map(Program::Argv)
            }
        }
        input.deserialize_any(ProgramVisitor)
    }
}

/// The launch settings of a command or a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchSettings {
    /// The folder in which it starts; the node's own when empty.
    pub directory: String,
    /// Variables that it gets.
    pub environment: BTreeMap<String, String>,
    /// Names of the node's own variables that it gets as well.
    pub inherit: Vec<String>,
    /// Secrets that it gets; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Box<CommandSecrets>>,
    /// The text on its standard input.
    pub stdin: String,
    /// The user it runs as; the node's when empty.
    pub user: String,
    /// How much of its host it may use.
    pub limits: Limits,
    /// How a function fetches and processes data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataflow: Option<Dataflow>,
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::job::{Job, JobFile};

    fn read(fields: &str) -> Result<JobFile, String> {
        let text = format!(r#"{{"name":"j",{fields}}}"#);
        let file: JobFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        Job::parse(file).map(|job| job.to_file()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_text_is_for_the_shell_and_a_list_is_not() {
        let job = read(r#""command":"a | b","shell":true"#).unwrap();
        assert_eq!(job.command.argv(), ["/bin/sh", "-c", "a | b"]);
        let list = read(r#""command":["a","|","b"]"#).unwrap();
        assert_eq!(list.command.argv(), ["a", "|", "b"]);
        for job in [job, list] {
            let text = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<JobFile>(&text).unwrap(), job);
        }
        let wrong = |fields| read(fields).unwrap_err();
        assert!(wrong(r#""command":"a | b""#).contains("or set shell = true"));
        assert!(wrong(r#""command":["a"],"shell":true"#).contains("or leave shell out"));
        assert!(wrong(r#""command":" ","shell":true"#).contains("says nothing"));
        assert!(wrong(r#""command":"","shell":true"#).contains("says nothing"));
        assert!(wrong(r#""command":[""]"#).contains("names no program"));
        assert!(wrong(r#""command":7"#).contains("a program and its arguments as a list"));
        assert!(wrong(r#""shell":true"#).contains("it does nothing"));
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        let job = read(r#""command":["a"]"#).unwrap();
        assert_eq!(serde_json::to_string(&job).unwrap(), r#"{"name":"j","command":["a"]}"#);
        let fields = r#""command":["a"],"directory":"/tmp","environment":{"A":"1"},"inherit":["B"],"stdin":"x","user":"u","limits":{"files":9}"#;
        let job = read(fields).unwrap();
        assert_eq!(serde_json::to_string(&job).unwrap(), format!(r#"{{"name":"j",{fields}}}"#));
        let LaunchSettings { directory, environment, inherit, secrets, stdin, user, limits, dataflow } =
            Job::parse(job).unwrap().work.launch_settings();
        assert_eq!((dataflow, secrets), (None, None));
        assert_eq!((user.as_str(), limits.files), ("u", Some(9)));
        assert_eq!((directory.as_str(), stdin.as_str()), ("/tmp", "x"));
        assert_eq!(
            (environment.get("A").map(String::as_str), inherit.as_slice()),
            (Some("1"), &["B".into()][..])
        );
    }

    #[test]
    fn what_no_process_can_have_is_refused_with_its_field() {
        for (field, why) in [
            (r#""directory":"tmp""#, "begins with /"),
            (r#""environment":{"":"1"}"#, "not empty"),
            (r#""environment":{"A=B":"1"}"#, "holds no ="),
            (r#""environment":{"A":"\u0000"}"#, "NUL"),
            (r#""environment":{"EVENKEEL_FENCE":"1"}"#, "set for every run"),
            (r#""inherit":["EVENKEEL_REGISTRY_PASSWORD"]"#, "never the node's own"),
            (r#""user":"a/b""#, "no user's name"),
            (r#""limits":{"memory":"much"}"#, "limits.memory"),
            (r#""inherit":["A"],"environment":{"A":"1"}"#, "once is enough"),
        ] {
            let said = read(&format!(r#""command":["a"],{field}"#)).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        for field in [
            r#""shell":true"#,
            r#""directory":"/""#,
            r#""environment":{"A":"1"}"#,
            r#""inherit":["A"]"#,
            r#""stdin":"x""#,
            r#""user":"u""#,
            r#""limits":{"files":9}"#,
        ] {
            let said = read(&format!(r#""function":"f",{field}"#)).unwrap_err();
            assert!(said.contains("is for commands"), "{said}");
        }
    }
}
