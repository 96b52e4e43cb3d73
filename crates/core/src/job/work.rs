//! The work of a job: what its runs do.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::limits::Limits;
use super::program::{LaunchSettings, Program};
use super::secrets::CommandSecrets;
use super::variables::validate_variable;
use super::{Dataflow, Http, JobFile, Work};
use crate::characters::refuse_hidden;

/// What the runs of a job do, with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobWork {
    /// They run a command.
    Command(Box<CommandWork>),
    /// They call a function of the embedding program.
    Function(FunctionWork),
    /// They make a request.
    Http(Box<Http>),
}

/// A command and the settings of its start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommandWork {
    /// The program and its arguments, or a text for the shell.
    pub program: Program,
    /// The folder in which it starts; that of the node when empty.
    pub directory: String,
    /// Variables that it gets.
    pub environment: BTreeMap<String, String>,
    /// Names of the node's own variables that it gets as well.
    pub inherit: Vec<String>,
    /// Secrets that it gets; `None` if there are none.
    pub secrets: Option<Box<CommandSecrets>>,
    /// The text on its standard input.
    pub stdin: String,
    /// The user it runs as; that of the node when empty.
    pub user: String,
    /// How much of its host it may use.
    pub limits: Limits,
}

/// A function and how it fetches and processes data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionWork {
    /// The name under which the embedding program registered it.
    pub name: String,
    /// How it fetches, processes and counts data, where it does (S2-21 … S2-24).
    pub dataflow: Option<Dataflow>,
}

impl JobWork {
    /// The command, if it is one.
    #[must_use]
    pub fn command(&self) -> Option<&CommandWork> {
        match self {
            Self::Command(command) => Some(command),
            Self::Function(_) | Self::Http(_) => None,
        }
    }

    /// The dataflow of the function, if it has one.
    #[must_use]
    pub fn dataflow(&self) -> Option<Dataflow> {
        match self {
            Self::Function(function) => function.dataflow,
            Self::Command(_) | Self::Http(_) => None,
        }
    }

    /// The names of the secrets that a run is given.
    #[must_use]
    pub fn secrets(&self) -> BTreeSet<&str> {
        match self {
            Self::Command(command) => {
                command.secrets.as_deref().map(CommandSecrets::names).unwrap_or_default()
            }
            Self::Http(http) => http.secrets(),
            Self::Function(_) => BTreeSet::new(),
        }
    }

    /// The action of a run.
    #[must_use]
    pub fn action(&self) -> Work {
        match self {
            Self::Command(command) => Work::Command(command.program.argv()),
            Self::Function(function) => Work::Function(function.name.clone()),
            Self::Http(http) => Work::Http(http.clone()),
        }
    }

    /// The launch settings of a run.
    #[must_use]
    pub fn launch_settings(&self) -> LaunchSettings {
        match self {
            Self::Command(command) => LaunchSettings {
                directory: command.directory.clone(),
                environment: command.environment.clone(),
                inherit: command.inherit.clone(),
                secrets: command.secrets.clone(),
                stdin: command.stdin.clone(),
                user: command.user.clone(),
                limits: command.limits.clone(),
                dataflow: None,
            },
            Self::Function(function) => {
                LaunchSettings { dataflow: function.dataflow, ..LaunchSettings::default() }
            }
            Self::Http(_) => LaunchSettings::default(),
        }
    }

    /// The work of a declaration, taken out of it.
    pub(super) fn take(file: &mut JobFile) -> Result<Self, String> {
        use core::mem::take;
        file.validate_work_keys()?;
        Ok(match file.http.take() {
            Some(http) => Self::Http(http),
            None if !file.function.is_empty() => {
                Self::Function(FunctionWork { name: take(&mut file.function), dataflow: file.dataflow })
            }
            None => Self::Command(Box::new(CommandWork {
                program: take(&mut file.command),
                directory: take(&mut file.directory),
                environment: take(&mut file.environment),
                inherit: take(&mut file.inherit),
                secrets: Some(file.secrets()).filter(|secrets| !secrets.is_empty()).map(Box::new),
                stdin: take(&mut file.stdin),
                user: take(&mut file.user),
                limits: take(&mut file.limits),
            })),
        })
    }

    /// Writes the work into a declaration.
    pub(super) fn write(&self, file: &mut JobFile) {
        match self {
            Self::Http(http) => file.http = Some(http.clone()),
            Self::Function(function) => {
                file.function.clone_from(&function.name);
                file.dataflow = function.dataflow;
            }
            Self::Command(command) => {
                file.shell = matches!(command.program, Program::Line(_));
                let LaunchSettings {
                    directory,
                    environment,
                    inherit,
                    secrets,
                    stdin,
                    user,
                    limits,
                    dataflow: _,
                } = self.launch_settings();
                let CommandSecrets { variables, files } = secrets.map(|secrets| *secrets).unwrap_or_default();
                (file.secrets, file.secret_files) = (variables, files);
                (file.directory, file.environment, file.inherit) = (directory, environment, inherit);
                (file.stdin, file.user, file.limits) = (stdin, user, limits);
                file.command = command.program.clone();
            }
        }
    }
}

impl JobFile {
    /// Refuses keys that do not go with what the job does.
    fn validate_work_keys(&self) -> Result<(), String> {
        match (self.command.is_none(), self.function.is_empty(), self.http.is_none()) {
            (true, true, true) => {
                return Err("it does nothing: give command = [program, arguments…], function or http".into());
            }
            (false, true, true) => self.validate_shell()?,
            (true, false, true) => self.validate_no_program("calls a function")?,
            (true, true, false) => self.validate_no_program("makes a request")?,
            _ => return Err("give one of command, function and http, not more".into()),
        }
        Ok(())
    }

    pub(super) fn validate_program(&self) -> Result<(), String> {
        self.validate_work_keys()?;
        if !self.command.is_none() {
            self.validate_command()?;
        }
        self.validate_http()?;
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
            ("secrets", self.secrets.is_empty()),
            ("secret_files", self.secret_files.is_empty()),
            ("stdin", self.stdin.is_empty()),
            ("user", self.user.is_empty()),
            ("limits", self.limits == Limits::default()),
        ];
        match fields.into_iter().find(|(_, absent)| !absent) {
            Some((field, _)) => Err(format!("{field} is for commands: leave it out of a job that {does}")),
            None => Ok(()),
        }
    }

    /// Refuses a program that is not written as `shell` says.
    fn validate_shell(&self) -> Result<(), String> {
        match (&self.command, self.shell) {
            (Program::Line(_), false) => {
                Err("command is a text, which only a shell reads: write it as a list of the program and its \
                            arguments, or set shell = true"
                    .into())
            }
            (Program::Argv(_), true) => {
                Err("shell = true takes command as one text: write command = \"…\", or leave shell out"
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// The secrets of the command.
    fn secrets(&self) -> CommandSecrets {
        CommandSecrets { variables: self.secrets.clone(), files: self.secret_files.clone() }
    }

    fn validate_command(&self) -> Result<(), String> {
        match (&self.command, self.shell) {
            (Program::Line(line), true) if line.trim().is_empty() => {
                return Err("command says nothing to the shell".into());
            }
            (Program::Argv(argv), false) if argv.first().is_some_and(|program| program.trim().is_empty()) => {
                return Err("command names no program".into());
            }
            (Program::Argv(argv), _) => {
                argv.first().map_or(Ok(()), |program| refuse_hidden("the program of command", program))?;
            }
            (Program::Line(_), _) => {}
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
        self.validate_environment()?;
        self.secrets().validate(&self.environment, &self.inherit)
    }

    fn validate_environment(&self) -> Result<(), String> {
        let names = self.environment.keys().map(|name| ("environment", name));
        for (field, name) in names.chain(self.inherit.iter().map(|name| ("inherit", name))) {
            validate_variable(field, name)?;
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
