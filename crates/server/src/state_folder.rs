//! The folder of what a user keeps on this host for all of its nodes, and for its command line.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use crate::exit::{CliError, ExitKind};
use crate::host;

/// The folder `evenkeel` of `XDG_STATE_HOME`, or `~/.local/state/evenkeel`. It need not exist.
///
/// # Errors
/// The user has no home folder.
pub(crate) fn state_path() -> Result<PathBuf, CliError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").or_else(host::home).map(|home| home.join(".local/state"));
    let folder = absolute("XDG_STATE_HOME").or_else(home).ok_or_else(|| {
        CliError::usage(
            "this user has no home folder: set HOME or XDG_STATE_HOME, or give --cluster-key-file FILE",
        )
    })?;
    Ok(folder.join("evenkeel"))
}

/// The same folder, made if it is missing, with mode 0700.
///
/// # Errors
/// It cannot be made.
pub(crate) fn state_folder() -> Result<PathBuf, CliError> {
    let folder = state_path()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|e| {
        let shown = folder.display();
        CliError::new(
            ExitKind::Failed,
            format!(
                "the folder {shown} cannot be made ({e}): set XDG_STATE_HOME to a folder of this user, or give \
                 --cluster-key-file FILE"
            ),
        )
    })?;
    Ok(folder)
}
