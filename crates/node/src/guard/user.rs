//! Switches a run's process to the user that its job names.

use std::ffi::CString;

use nix::unistd::{Gid, Uid, User, getgrouplist, setgid, setgroups, setuid};

/// The user of a run, with everything looked up that takes memory and files.
pub(super) struct RunUser {
    user: User,
    groups: Vec<Gid>,
    /// Whether this process has that user already.
    same: bool,
}

impl RunUser {
    /// Finds the user; `None` where the job names none.
    ///
    /// # Errors
    /// This host has no such user, or this process may not switch to it.
    pub(super) fn find(name: &str) -> Result<Option<Self>, String> {
        if name.is_empty() {
            return Ok(None);
        }
        let cannot = |e: &dyn std::fmt::Display| format!("the user {name} cannot be looked up: {e}");
        let user = User::from_name(name).map_err(|e| cannot(&e))?;
        let user = user.ok_or_else(|| {
            format!("no such user: {name}: create it on this node, or change the job's user")
        })?;
        let same = user.uid == Uid::effective();
        if !same && !Uid::effective().is_root() {
            return Err(format!(
                "user = {name:?} takes a node that runs as root, and this one does not: start it as root, or leave \
                 user out"
            ));
        }
        let c_name = CString::new(name).map_err(|e| cannot(&e))?;
        let groups = getgrouplist(&c_name, user.gid).map_err(|e| cannot(&e))?;
        Ok(Some(Self { user, groups, same }))
    }

    /// Whether this process has that user already.
    pub(super) fn is_same(&self) -> bool {
        self.same
    }

    /// The number of the user.
    pub(super) fn id(&self) -> u32 {
        self.user.uid.as_raw()
    }

    /// The number of the user's own group.
    pub(super) fn group(&self) -> u32 {
        self.user.gid.as_raw()
    }

    /// The environment variables of the user.
    pub(super) fn variables(&self) -> [(&'static str, std::ffi::OsString); 3] {
        let User { name, dir, .. } = &self.user;
        [("HOME", dir.clone().into()), ("USER", name.into()), ("LOGNAME", name.into())]
    }

    /// Switches this process to the user, for good.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn become_it(&self) -> Result<(), String> {
        if self.same {
            return Ok(());
        }
        // The groups first: only root may change them.
        let done =
            setgroups(&self.groups).and_then(|()| setgid(self.user.gid)).and_then(|()| setuid(self.user.uid));
        done.map_err(|e| format!("cannot become the user {}: {e}", self.user.name))
    }
}
