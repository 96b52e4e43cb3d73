//! The program of a job: how it is written, and the settings of its start.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Dataflow, Job, Limits};

/// The shell that reads the `command` of a job with `shell = true`.
pub const SHELL: &str = "/bin/sh";
/// The prefix of the reserved variable names.
const OWN: &str = "EVENKEEL_";

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

    fn texts(&self) -> impl Iterator<Item = &String> {
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

impl Job {
    /// The launch settings of its command.
    #[must_use]
    pub fn launch_settings(&self) -> LaunchSettings {
        LaunchSettings {
            directory: self.directory.clone(),
            environment: self.environment.clone(),
            inherit: self.inherit.clone(),
            stdin: self.stdin.clone(),
            user: self.user.clone(),
            limits: self.limits.clone(),
            dataflow: self.dataflow,
        }
    }

    pub(super) fn validate_program(&self) -> Result<(), String> {
        match (self.command.is_none(), self.function.is_empty(), self.http.is_none()) {
            (true, true, true) => {
                return Err("it does nothing: give command = [program, arguments…], function or http".into());
            }
            (false, true, true) => self.validate_command()?,
            (true, false, true) => self.validate_no_program("calls a function")?,
            (true, true, false) => {
                self.validate_no_program("makes a request")?;
                self.validate_http()?;
            }
            _ => return Err("give one of command, function and http, not more".into()),
        }
        let texts = self.command.texts().chain(&self.shard_parameters).chain([&self.parameter]);
        if texts.into_iter().any(|text| text.contains('\0')) {
            return Err("command or parameters hold a NUL character, which no program can be given".into());
        }
        Ok(())
    }

    /// Refuses fields of a process in a job without one.
    fn validate_no_program(&self, does: &str) -> Result<(), String> {
        let fields = [
            ("shell", !self.shell),
            ("directory", self.directory.is_empty()),
            ("environment", self.environment.is_empty()),
            ("inherit", self.inherit.is_empty()),
            ("stdin", self.stdin.is_empty()),
            ("user", self.user.is_empty()),
            ("limits", self.limits == Limits::default()),
        ];
        match fields.into_iter().find(|(_, absent)| !absent) {
            Some((field, _)) => Err(format!("{field} is for commands: leave it out of a job that {does}")),
            None => Ok(()),
        }
    }

    fn validate_command(&self) -> Result<(), String> {
        match (&self.command, self.shell) {
            (Program::Line(_), false) => {
                return Err(
                    "command is a text, which only a shell reads: write it as a list of the program and its \
                            arguments, or set shell = true"
                        .into(),
                );
            }
            (Program::Argv(_), true) => {
                return Err(
                    "shell = true takes command as one text: write command = \"…\", or leave shell out"
                        .into(),
                );
            }
            (Program::Line(line), true) if line.trim().is_empty() => {
                return Err("command says nothing to the shell".into());
            }
            (Program::Argv(argv), false) if argv.first().is_some_and(|program| program.trim().is_empty()) => {
                return Err("command names no program".into());
            }
            _ => {}
        }
        if !self.directory.is_empty() && !self.directory.starts_with('/') || self.directory.contains('\0') {
            return Err(format!(
                "directory is {:?}: write the whole path, which begins with /",
                self.directory
            ));
        }
        if self.user.contains(['\0', ':', '/', ' ', '\t', '\n']) {
            return Err(format!("user is {:?}, which is no user's name", self.user));
        }
        self.limits.read()?;
        self.validate_environment()
    }

    fn validate_environment(&self) -> Result<(), String> {
        let names = self.environment.keys().map(|name| ("environment", name));
        for (field, name) in names.chain(self.inherit.iter().map(|name| ("inherit", name))) {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!(
                    "{field} names {name:?}: a variable's name is not empty and holds no = and no NUL"
                ));
            }
            if name.starts_with(OWN) {
                return Err(format!(
                    "{field} names {name}: variables that begin with {OWN} are set for every run and never the node's own"
                ));
            }
        }
        if let Some(name) = self.inherit.iter().find(|name| self.environment.contains_key(*name)) {
            return Err(format!("environment and inherit both name {name}: once is enough"));
        }
        match self.environment.iter().find(|(_, value)| value.contains('\0')) {
            Some((name, _)) => {
                Err(format!("environment gives {name} a NUL character, which no program can be given"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str) -> Result<Job, String> {
        let text = format!(r#"{{"name":"j",{fields}}}"#);
        let job: Job = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        job.validate().map(|()| job).map_err(|e| e.to_string())
    }

    #[test]
    fn a_text_is_for_the_shell_and_a_list_is_not() {
        let job = read(r#""command":"a | b","shell":true"#).unwrap();
        assert_eq!(job.command.argv(), ["/bin/sh", "-c", "a | b"]);
        let list = read(r#""command":["a","|","b"]"#).unwrap();
        assert_eq!(list.command.argv(), ["a", "|", "b"]);
        for job in [job, list] {
            let text = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
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
        let LaunchSettings { directory, environment, inherit, stdin, user, limits, dataflow } =
            job.launch_settings();
        assert_eq!(dataflow, None);
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
