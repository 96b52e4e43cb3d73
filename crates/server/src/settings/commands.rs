//! The settings of what commands may do.

use evenkeel::{CommandPolicy, CommandUsers};

use super::values::choice;
use crate::exit::CliError;

/// The written settings of what commands may do.
#[derive(Debug, Default)]
pub(super) struct CommandSettings<'a> {
    pub(super) users: &'a [String],
    pub(super) umask: Option<&'a str>,
    pub(super) no_new_privileges: Option<&'a str>,
}

impl CommandSettings<'_> {
    /// # Errors
    /// One of them makes no sense.
    pub(super) fn resolve(&self) -> Result<CommandPolicy, CliError> {
        let choices = [("on", true), ("off", false)];
        let no_new_privileges = choice("--no-new-privileges", self.no_new_privileges, choices, true)?;
        Ok(CommandPolicy {
            users: users(self.users)?,
            umask: Some(self.umask.map_or(Ok(0o077), umask)?),
            no_new_privileges,
        })
    }
}

fn users(words: &[String]) -> Result<CommandUsers, CliError> {
    let names = words.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
    let names: Vec<&str> = names.collect();
    match names[..] {
        [] => Ok(CommandUsers::OwnUnlessRoot),
        ["own"] => Ok(CommandUsers::Own),
        ["any"] => Ok(CommandUsers::Any),
        _ if names.contains(&"any") || names.contains(&"own") => Err(CliError::usage(format!(
            "--command-users {}: write own or any alone, or the names of users",
            names.join(",")
        ))),
        _ => Ok(CommandUsers::Named(names.into_iter().map(ToOwned::to_owned).collect())),
    }
}

fn umask(text: &str) -> Result<u32, CliError> {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
    bits.ok_or_else(|| {
        CliError::usage(format!(
            "--command-umask is {text:?}: write octal digits up to 777, such as 077 or 022"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users_of(words: &[&str]) -> Option<CommandUsers> {
        users(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn users_are_own_any_or_named() {
        let named = |names: &[&str]| CommandUsers::Named(names.iter().map(ToString::to_string).collect());
        assert_eq!(users_of(&[]), Some(CommandUsers::OwnUnlessRoot));
        assert_eq!(users_of(&["own"]), Some(CommandUsers::Own));
        assert_eq!(users_of(&[" any "]), Some(CommandUsers::Any));
        assert_eq!(users_of(&["root", "www-data"]), Some(named(&["root", "www-data"])));
        assert_eq!(users_of(&["any", "root"]), None);
        assert_eq!(users_of(&["own", "root"]), None);
    }

    #[test]
    fn a_umask_is_octal() {
        assert_eq!((umask("077").ok(), umask("22").ok(), umask("0").ok()), (Some(0o77), Some(0o22), Some(0)));
        for odd in ["", "8", "1000", "u=rwx", "-1"] {
            assert!(umask(odd).is_err_and(|e| e.message.contains("such as 077")), "{odd}");
        }
    }
}
