//! How a verb fails: an exit code for programs and a sentence that says the fix for people.

use std::fmt;

/// Why a verb did not do what was asked. Its number is the process's exit code and part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was tried and failed; also a run that was waited for and did not succeed.
    Failed = 1,
    /// The command line or the settings make no sense.
    Usage = 2,
    /// No node answers at the address.
    Unreachable = 3,
    /// There is no such job, run or node.
    NotFound = 4,
    /// What was given makes no sense: a job file, a schedule, a crontab line, a name.
    Invalid = 5,
    /// It does not go with how things stand.
    Conflict = 6,
    /// The node cannot do it just now; try again.
    Unavailable = 7,
    /// The cluster key is missing or wrong, the address is not one of the node's own, or a server names a leader that is no member.
    Denied = 8,
}

impl Exit {
    /// Every code with its meaning, as the reference prints it.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Failed, "it was tried and failed; `run wait`: the run did not succeed"),
        (Self::Usage, "the command line or the settings make no sense"),
        (Self::Unreachable, "no node answers at the address given by `--server`"),
        (Self::NotFound, "there is no such job, run or node"),
        (Self::Invalid, "a job file, schedule, crontab line or name makes no sense; nothing was changed"),
        (Self::Conflict, "it does not go with how things stand, for example a disabled job"),
        (Self::Unavailable, "the node cannot do it just now; try again"),
        (
            Self::Denied,
            "the cluster key is missing or wrong, or a server names a leader that is not in its list of nodes",
        ),
    ];
}

/// A failure on its way to the person who typed the command.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What happened and the fix.
    pub(crate) message: String,
}

impl Failure {
    /// A failure of this kind.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// What was given makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Exit::Invalid, message)
    }

    /// The command line or the settings make no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(failure) => failure,
            Err(error) => Self::new(Exit::Failed, format!("{error:#}")),
        }
    }
}
