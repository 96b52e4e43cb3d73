//! The user that a run has, where it is not that of the node.

use std::ffi::CString;

use nix::unistd::{Gid, Uid, User, getgrouplist, setgid, setgroups, setuid};

/// A user that a run is to have, with everything looked up that takes memory and files.
pub(super) struct RunUser {
    user: User,
    groups: Vec<Gid>,
    /// Whether this process is that user already.
    same: bool,
}

impl RunUser {
    /// Finds the user; `None` where the job names none.
    ///
    /// # Errors
    /// This host knows no such user, or this process may not become another one.
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

    /// What its variables say of a user.
    pub(super) fn variables(&self) -> [(&'static str, std::ffi::OsString); 3] {
        let User { name, dir, .. } = &self.user;
        [("HOME", dir.clone().into()), ("USER", name.into()), ("LOGNAME", name.into())]
    }

    /// Turns this process into that user's, for good.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn become_it(&self) -> Result<(), String> {
        if self.same {
            return Ok(());
        }
        // The groups first: nobody but root may change them.
        let done =
            setgroups(&self.groups).and_then(|()| setgid(self.user.gid)).and_then(|()| setuid(self.user.uid));
        done.map_err(|e| format!("cannot become the user {}: {e}", self.user.name))
    }
}
