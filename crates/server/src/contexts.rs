//! Contexts: clusters by name, with the addresses of their nodes and the files that prove who asks. They are in a file of the user.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::exit::{CliError, ExitKind};
use crate::host;

/// The size limit of the file, far above any real one.
const BYTES_MAX: u64 = 1024 * 1024;

/// A cluster, as the command line reaches it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterContext {
    /// The addresses of nodes.
    pub(crate) server: Vec<String>,
    /// The file with the cluster's key, or with the secret of an API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_key_file: Option<PathBuf>,
    /// The certificates of authorities whose servers are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The namespace of names that are written without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
}

/// All contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContextFile {
    /// The context that is used where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// The contexts by name.
    #[serde(default)]
    pub(crate) context: BTreeMap<String, ClusterContext>,
}

impl ContextFile {
    /// The path of the file: `evenkeel/contexts.toml` in `XDG_CONFIG_HOME`, or in `~/.config`; none for a user without a
    /// home folder. It need not exist.
    pub(crate) fn path() -> Option<PathBuf> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || absolute("HOME").or_else(host::home).map(|home| home.join(".config"));
        absolute("XDG_CONFIG_HOME").or_else(home).map(|folder| folder.join("evenkeel/contexts.toml"))
    }

    /// Reads the user's file; one that does not exist has no contexts.
    ///
    /// # Errors
    /// It cannot be read, or is no such file.
    pub(crate) fn read() -> Result<Self, CliError> {
        Self::path().map_or_else(|| Ok(Self::default()), |path| Self::read_at(&path))
    }

    /// Reads it for a command that names this context, or none. For one that names none, a file that this user may not reach has
    /// no contexts: `HOME` may be another user's, as after `sudo -u`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn read_for(named: Option<&str>) -> Result<Self, CliError> {
        let opened = Self::path().map(File::open);
        match opened {
            Some(Err(e)) if named.is_none() && e.kind() == ErrorKind::PermissionDenied => Ok(Self::default()),
            _ => Self::read(),
        }
    }

    /// Waits until no other command changes the file. The lock ends with what is returned.
    ///
    /// # Errors
    /// The lock's file cannot be made, or the user has no home folder.
    pub(crate) fn lock() -> Result<File, CliError> {
        let none = || CliError::usage("this user has no home folder: set HOME or XDG_CONFIG_HOME");
        let path = Self::path().ok_or_else(none)?.with_extension("toml.lock");
        let locked = || {
            if let Some(folder) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        locked().map_err(|e: std::io::Error| CliError::unwritable(path.display(), e))
    }

    fn read_at(path: &Path) -> Result<Self, CliError> {
        let text = match bounded::text(path, BYTES_MAX) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(CliError::unreadable(path.display(), e)),
        };
        toml::from_str(&text).map_err(|e| CliError::usage(format!("{}: {e}", path.display())))
    }

    /// Writes the user's file with mode 0600: who reads it knows where the keys are. A reader has the old one or the new one.
    ///
    /// # Errors
    /// It cannot be written, or the user has no home folder.
    pub(crate) fn write(&self) -> Result<(), CliError> {
        let none = || CliError::usage("this user has no home folder: set HOME or XDG_CONFIG_HOME");
        self.write_at(&Self::path().ok_or_else(none)?)
    }

    fn write_at(&self, path: &Path) -> Result<(), CliError> {
        let text = toml::to_string(self).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?;
        let part = path.with_extension(format!("toml.{}", std::process::id()));
        let put = || {
            if let Some(folder) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&part)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&part, path)
        };
        put().map_err(|e| {
            let _ = std::fs::remove_file(&part);
            CliError::unwritable(path.display(), e)
        })
    }

    /// A context by name.
    ///
    /// # Errors
    /// There is none of that name; the text lists the others.
    pub(crate) fn find(&self, name: &str) -> Result<&ClusterContext, CliError> {
        self.context.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.context.keys().map(String::as_str).collect();
            let there = match names.as_slice() {
                [] => "add one with `evenkeel context add NAME --server URL`".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            CliError::usage(format!("no context is called {name:?}: {there}"))
        })
    }

    /// The context that a command uses: the named one, or the current one; none if there is neither.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn chosen(&self, named: Option<&str>) -> Result<Option<&ClusterContext>, CliError> {
        named.or(self.current.as_deref()).map(|name| self.find(name)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_only_its_user_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/contexts.toml");
        assert_eq!(ContextFile::read_at(&path).expect("none is no error"), ContextFile::default());
        let context = ClusterContext {
            server: vec!["https://a:1".to_owned(), "https://b:1".to_owned()],
            namespace: Some("team-a".to_owned()),
            ..ClusterContext::default()
        };
        let written = ContextFile {
            current: Some("prod".to_owned()),
            context: BTreeMap::from([("prod".to_owned(), context.clone())]),
        };
        written.write_at(&path).expect("written");
        written.write_at(&path).expect("written again");
        assert_eq!(ContextFile::read_at(&path).expect("read"), written);
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(path.parent().expect("a folder")).expect("read").count(), 1);
        assert_eq!(written.chosen(None).expect("known"), Some(&context));
        assert_eq!(ContextFile::default().chosen(None).expect("none is known"), None);
        let refused = written.chosen(Some("prdo")).expect_err("unknown");
        assert!(refused.message.contains("there are prod"), "{refused}");
        std::fs::write(&path, "[context.x]\nsrever = []\n").expect("written");
        let refused = ContextFile::read_at(&path).expect_err("a misspelt key");
        assert!(refused.exit == ExitKind::Usage && refused.message.contains("srever"), "{refused}");
    }
}
