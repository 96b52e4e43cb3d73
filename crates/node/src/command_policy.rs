//! What the commands of this node's jobs may do: as which users they run, and what they may not gain.

use std::collections::BTreeSet;

use nix::unistd::{Uid, User};

/// The users as which commands may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandUsers {
    /// The node's own user, also if that is root.
    Own,
    /// The node's own user, unless that is root.
    OwnUnlessRoot,
    /// These, and no others.
    Named(BTreeSet<String>),
    /// Every user of the host.
    Any,
}

/// What commands may do. A job that wants more fails with the reason; it does not run as another user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPolicy {
    /// The users as which they may run.
    pub users: CommandUsers,
    /// The permission bits that files made by a command lack, unless the command changes that; `None` keeps the node's.
    pub umask: Option<u32>,
    /// Whether a command can gain no privileges by programs such as sudo, which belong to another user and run as that
    /// user (`no_new_privs` of the kernel), and starts without ambient capabilities.
    pub no_new_privileges: bool,
}

impl Default for CommandPolicy {
    fn default() -> Self {
        Self { users: CommandUsers::Own, umask: Some(0o077), no_new_privileges: true }
    }
}

impl CommandPolicy {
    /// Checks the user that a job names; an empty name is the node's own user.
    ///
    /// # Errors
    /// No command may run as that user on this node; the text says the fix.
    pub(crate) fn check(&self, user: &str) -> Result<(), String> {
        let own = || User::from_uid(Uid::effective()).ok().flatten().map(|own| own.name);
        // A user that the host does not know by name has no name to be allowed by, except as the node's own.
        let name = if user.is_empty() { own().unwrap_or_default() } else { user.to_owned() };
        let is_own = user.is_empty() || own().is_some_and(|own| own == user);
        let is_root = if is_own { Uid::effective().is_root() } else { is_root(user) };
        let allowed = match &self.users {
            CommandUsers::Own => is_own,
            CommandUsers::OwnUnlessRoot => is_own && !is_root,
            CommandUsers::Named(users) => users.contains(&name),
            CommandUsers::Any => true,
        };
        match allowed {
            true => Ok(()),
            false if is_own => Err(format!(
                "no command runs as {name} on this node, which itself does: name another user in the job, or start the \
                 node with --command-users {name}"
            )),
            false => Err(format!(
                "no command runs as {name} on this node: start it with --command-users {name}, or change the job's user"
            )),
        }
    }
}

/// Whether this is a name of root.
fn is_root(user: &str) -> bool {
    User::from_name(user).ok().flatten().is_some_and(|user| user.uid.is_root())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(users: CommandUsers, user: &str) -> bool {
        CommandPolicy { users, ..CommandPolicy::default() }.check(user).is_ok()
    }

    #[test]
    fn commands_run_as_the_users_that_the_node_allows() {
        let own = User::from_uid(Uid::effective()).unwrap().unwrap().name;
        let root = Uid::effective().is_root();
        let other = if root { "nobody" } else { "root" };
        let named = |user: &str| CommandUsers::Named([user.to_owned()].into());
        for user in ["", &own] {
            assert!(allows(CommandUsers::Own, user) && allows(CommandUsers::Any, user));
            assert_eq!(allows(CommandUsers::OwnUnlessRoot, user), !root);
            assert!(allows(named(&own), user) && !allows(named(other), user), "{user}");
        }
        assert!(!allows(CommandUsers::Own, other) && !allows(CommandUsers::OwnUnlessRoot, other));
        assert!(allows(named(other), other) && allows(CommandUsers::Any, other));
        let refused = CommandPolicy::default().check(other).unwrap_err();
        assert!(refused.contains(&format!("--command-users {other}")), "{refused}");
    }
}
