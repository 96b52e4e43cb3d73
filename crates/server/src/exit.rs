//! Errors of the command line: an exit code for programs and a sentence with the fix for people.

use std::{fmt, io};

/// The kind of an error. Its number is the process's exit code and part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitKind {
    /// The command was tried and failed; also, an awaited run did not succeed.
    Failed = 1,
    /// The command line or the settings are invalid, or a file that they name cannot be read.
    Usage = 2,
    /// No node answers at the address.
    Unreachable = 3,
    /// There is no such job, run or node.
    NotFound = 4,
    /// The input is invalid: a job file, a schedule, a crontab line, a name.
    Invalid = 5,
    /// The command conflicts with the present state.
    Conflict = 6,
    /// The node cannot do it now; try again.
    Unavailable = 7,
    /// The cluster key is missing or wrong, the address is not one of the node's own, the certificate of a server is not
    /// trusted, or a server names a leader that is no member.
    Denied = 8,
    /// The outcome is unknown: the response was lost.
    Unknown = 9,
}

impl ExitKind {
    /// Every code with its name, as `-o json` prints it, and its meaning, as the reference prints it.
    pub(crate) const ALL: [(Self, &'static str, &'static str); 9] = [
        (
            Self::Failed,
            "failed",
            "the action failed: a file could not be written, `cluster doctor` found a fault, the run of `run wait` did not \
             succeed, `report` found a fire that is not accounted for, or `cluster status` that the cluster is not well. \
             `job run --follow` ends with the exit code of the run's command instead, whatever that is",
        ),
        (
            Self::Usage,
            "usage",
            "the command line or the settings are not valid, or a file that they name cannot be read; for `apply --plan`, which \
             has 1 for every error: something would change",
        ),
        (Self::Unreachable, "unreachable", "no node answers at any address given by `--server`"),
        (Self::NotFound, "not_found", "the job, calendar, namespace, run, fire or node does not exist"),
        (
            Self::Invalid,
            "invalid",
            "the contents of a file, a schedule, a crontab line or a name are not valid; nothing was changed",
        ),
        (Self::Conflict, "conflict", "the present state does not allow it, for example a disabled job"),
        (
            Self::Unavailable,
            "unavailable",
            "the node cannot do it at present, or a required node is away: try again; for `run wait` and `node drain --wait`: \
             the given time is over",
        ),
        (
            Self::Denied,
            "denied",
            "the cluster key is missing or wrong, the host in `--server` is no name of the node, its certificate is not \
             trusted, or the node names a leader that is not in its list of nodes",
        ),
        (
            Self::Unknown,
            "unknown",
            "it is not known whether the change was made: it was sent, and the answer never came. Look at the object, or at \
             `evenkeel audit`, before you ask again",
        ),
    ];

    /// The kind with this name, if there is one.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(exit, ..)| *exit)
    }

    /// The name of the code.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(exit, ..)| *exit == self).map_or("failed", |(_, name, _)| name)
    }
}

/// An error for the person who typed the command.
#[derive(Debug)]
pub(crate) struct CliError {
    /// The exit code.
    pub(crate) exit: ExitKind,
    /// What happened and the fix.
    pub(crate) message: String,
    /// The exit code of a run, if the process takes it over.
    run_code: Option<u8>,
}

impl CliError {
    /// An error of this kind.
    pub(crate) fn new(exit: ExitKind, message: impl Into<String>) -> Self {
        Self { exit, message: without_numbers(message.into()), run_code: None }
    }

    /// An error for a run that was followed and did not succeed: the process ends with its exit code, from 1 to 255.
    pub(crate) fn of_run(code: u8, message: impl Into<String>) -> Self {
        Self { run_code: Some(code.max(1)), ..Self::new(ExitKind::Failed, message) }
    }

    /// The exit code of the process.
    pub(crate) fn code(&self) -> u8 {
        self.run_code.unwrap_or(self.exit as u8)
    }

    /// The end of a plan with changes: no error, and no message. Its exit code is 2 and not that of a success.
    pub(crate) fn plan_has_changes() -> Self {
        Self::new(ExitKind::Usage, "")
    }

    /// An error for invalid input.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ExitKind::Invalid, message)
    }

    /// An error for a named file that cannot be read.
    pub(crate) fn unreadable(file: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::usage(format!("{file}: cannot be read: {why}"))
    }

    /// The same for a file whose contents are the input: the contents may be at fault.
    pub(crate) fn unreadable_input(file: impl fmt::Display, why: &io::Error) -> Self {
        let is_contents = matches!(why.kind(), io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge);
        let exit = if is_contents { ExitKind::Invalid } else { ExitKind::Usage };
        Self { exit, ..Self::unreadable(file, why) }
    }

    /// An error for a named file that cannot be written.
    pub(crate) fn unwritable(file: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(ExitKind::Failed, format!("{file}: cannot be written: {why}: choose another place"))
    }

    /// An error for an invalid command line or invalid settings.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitKind::Usage, message)
    }
}

/// The message without the numbers of the system's errors, which say nothing beside their text.
fn without_numbers(mut message: String) -> String {
    const BEFORE: &str = " (os error ";
    while let Some(at) = message.find(BEFORE) {
        let Some(length) = message[at..].find(')') else { break };
        message.replace_range(at..=at + length, "");
    }
    message
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(failure) => failure,
            Err(error) => Self::new(ExitKind::Failed, format!("{error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_run_takes_the_place_of_the_kind_and_is_never_0() {
        assert_eq!(CliError::new(ExitKind::Conflict, "").code(), 6);
        assert_eq!([CliError::of_run(255, "").code(), CliError::of_run(0, "").code()], [255, 1]);
    }

    #[test]
    fn the_number_of_an_error_of_the_system_is_left_out() {
        let why = std::io::Error::from_raw_os_error(2);
        let message =
            CliError::unreadable("a.toml", &why).message + &CliError::usage(format!("b: {why}!")).message;
        assert_eq!(message, "a.toml: cannot be read: No such file or directoryb: No such file or directory!");
    }

    #[test]
    fn every_code_has_a_name_and_a_number_of_its_own() {
        let numbers: Vec<u8> = ExitKind::ALL.iter().map(|(exit, ..)| *exit as u8).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let names: std::collections::BTreeSet<_> =
            ExitKind::ALL.iter().map(|(exit, ..)| exit.name()).collect();
        assert_eq!(names.len(), numbers.len());
    }
}
