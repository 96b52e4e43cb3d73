//! The node's folder of secrets: a file each.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use evenkeel_core::ids::DEFAULT_NAMESPACE;
use rustix::fs::OFlags;

use super::SecretText;

/// The largest secret, in bytes.
const SECRET_MAX: u64 = 64 * 1024;
/// Where a file belongs.
const HERE: &str = "there, in the folder that --secrets names";
/// The mode bits that let others read a file, or write to it.
const OPEN: u32 = 0o037;

/// The node's folder of secrets, or the folder in it of the secrets of one namespace, if the node has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SecretFolder(pub(super) Option<PathBuf>);

impl SecretFolder {
    /// The folder of the secrets that jobs of a namespace may read: in `default` the folder itself. No name of a secret or of
    /// a namespace leads out of it, so no job reads a secret of another namespace.
    pub(super) fn of(&self, namespace: &str) -> Self {
        match namespace {
            DEFAULT_NAMESPACE => self.clone(),
            _ => Self(self.0.as_ref().map(|folder| folder.join(namespace))),
        }
    }

    /// Reads the file of this name; `None` if there is none.
    ///
    /// # Errors
    /// Others may read it, or it is not valid; the text says the fix and contains nothing of it.
    pub(super) fn read(&self, name: &str) -> Result<Option<SecretText>, String> {
        let Some(folder) = &self.0 else { return Ok(None) };
        let path = folder.join(name);
        let wrong = |why: String| format!("the secret {name}: {} {why}", path.display());
        let Some(text) = text_of(&path).map_err(wrong)? else { return Ok(None) };
        SecretText::new(text).map(Some).ok_or_else(|| wrong("is empty: write it there".into()))
    }

    /// Why there is none, and the fix.
    pub(super) fn missing(&self, name: &str) -> String {
        match &self.0 {
            Some(folder) => format!("there is no file {}: put it {HERE}", folder.join(name).display()),
            None => format!(
                "this node has no folder of secrets: start it with --secrets DIR, where the file {name} lies"
            ),
        }
    }
}

/// The text of a file; `None` if there is none.
fn text_of(path: &Path) -> Result<Option<String>, String> {
    // Opening something that is no file, such as a pipe, must not block.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| format!("cannot be read ({e}): put a file of that name {HERE}"))?,
    };
    let meta = file.metadata().map_err(|e| format!("cannot be looked at: {e}"))?;
    if !meta.is_file() {
        return Err(format!("is no file: put a file of that name {HERE}"));
    }
    let mode = meta.permissions().mode() & 0o777;
    if mode & OPEN != 0 {
        return Err(format!("is open to others (mode {mode:03o}): chmod 600 it"));
    }
    let mut text = String::new();
    let read = file.take(SECRET_MAX + 1).read_to_string(&mut text);
    read.map_err(|e| format!("cannot be read as a text: {e}"))?;
    match text.len() as u64 > SECRET_MAX {
        true => Err(format!("is larger than {SECRET_MAX} bytes, which no secret is")),
        false => Ok(Some(text)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// proves: I52
    #[test]
    fn a_secret_is_read_only_from_a_file_that_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = SecretFolder(Some(folder.path().to_path_buf()));
        let put = |text: &str, mode| {
            let path = folder.path().join("token");
            // Its owner may not be allowed to write it.
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            secrets.read("token")
        };
        assert_eq!(secrets.read("token"), Ok(None));
        assert!(
            secrets.missing("token").contains("/token: put it there, in the folder that --secrets names")
        );
        assert_eq!(SecretFolder(None).read("token"), Ok(None));
        assert!(SecretFolder(None).missing("token").contains("--secrets DIR"));
        for (mode, good) in
            [(0o600, true), (0o640, true), (0o400, true), (0o644, false), (0o660, false), (0o604, false)]
        {
            let read = put("hunter2\n", mode);
            assert_eq!(read.is_ok(), good, "{mode:o}");
            match read {
                Ok(text) => assert_eq!(text.unwrap().value(), "hunter2"),
                Err(why) => assert!(why.contains("chmod 600") && !why.contains("hunter2"), "{why}"),
            }
        }
        assert_eq!(put("two\nlines\r\n", 0o600).unwrap().unwrap().value(), "two\nlines");
        assert!(put("\n", 0o600).unwrap_err().contains("is empty"));
        let long = put(&"x".repeat(65_537), 0o600).unwrap_err();
        assert!(long.contains("is larger than") && !long.contains("xxxxxxxx"), "{long}");
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(secrets.read("folder").is_err());
    }

    #[test]
    fn a_namespace_has_a_folder_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        put("token", "of default");
        put("shared", "of default");
        put("team-a/token", "of team-a");
        put("team-b/token", "of team-b");
        let secrets = SecretFolder(Some(folder.path().to_path_buf()));
        for (namespace, token) in
            [("default", "of default"), ("team-a", "of team-a"), ("team-b", "of team-b")]
        {
            assert_eq!(secrets.of(namespace).read("token").unwrap().unwrap().value(), token);
        }
        assert_eq!(secrets.of("team-a").read("shared"), Ok(None));
        assert!(secrets.of("team-a").missing("shared").contains("no file"));
        assert!(secrets.of("default").read("team-a").is_err(), "a folder is no secret");
    }
}
