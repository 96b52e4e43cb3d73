//! The work of a job: what its runs do.

use alloc::format;
use alloc::string::{String, ToString};

use super::limits::Limits;
use super::program::{LaunchSettings, OWN, Program};
use super::{JobFile, Work};

impl JobFile {
    /// The action of its runs.
    #[must_use]
    pub fn work(&self) -> Work {
        match (&self.http, self.function.as_str()) {
            (Some(http), _) => Work::Http(http.clone()),
            (None, "") => Work::Command(self.command.argv()),
            (None, name) => Work::Function(name.to_string()),
        }
    }

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
