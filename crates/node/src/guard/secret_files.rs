//! The files in which runs find secrets: in memory, in a folder of each run's own, and gone with the run.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::report::report;
use super::user::RunUser;
use crate::secrets::GivenSecret;

/// Where every user finds a file system in memory, on a host that has one.
const MEMORY: &str = "/dev/shm";
/// The type of such a file system.
const TMPFS: u64 = 0x0102_1994;
/// The folder in the data folder where there is none.
const ON_DISK: &str = "run-secrets";

/// Gives each run a folder. All are in one, which is this data folder's.
pub(super) struct SecretFolders {
    /// The possible places, the best first.
    places: Vec<PathBuf>,
    /// The one that is used, once a run needed one.
    place: Option<PathBuf>,
    count: u64,
}

/// The folder that a run is to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunSecretFolder {
    path: PathBuf,
    /// Whether only the node's user can reach it.
    private: bool,
}

impl SecretFolders {
    /// Removes what an earlier guard of this data folder left.
    pub(super) fn open(data: &Path) -> Self {
        let places = places(data, Path::new(MEMORY));
        for place in places.iter().filter(|place| is_own(place)) {
            if let Err(e) = fs::remove_dir_all(place) {
                report(format_args!("secrets of earlier runs cannot be removed: {}: {e}", place.display()));
            }
        }
        Self { places, place: None, count: 0 }
    }

    /// A folder that no other run has. It is not made yet.
    ///
    /// # Errors
    /// There is no place for it.
    pub(super) fn next(&mut self) -> Result<RunSecretFolder, String> {
        let mut failed = Ok(());
        if self.place.is_none() {
            self.place = self
                .places
                .iter()
                .find(|place| {
                    let made = make_place(place);
                    let good = made.is_ok();
                    failed = made.map_err(|e| format!("no folder for its secrets: {}: {e}", place.display()));
                    good
                })
                .cloned();
        }
        let Some(place) = &self.place else { return Err(failed.err().unwrap_or_default()) };
        self.count += 1;
        let private = !place.starts_with(MEMORY);
        Ok(RunSecretFolder { path: place.join(self.count.to_string()), private })
    }

    /// Removes the folder of all, which has none of a run any more.
    pub(super) fn close(&mut self) {
        if let Some(place) = self.place.take() {
            // Nothing is lost if it stays: the next guard removes it.
            let _ = fs::remove_dir(place);
        }
    }
}

/// The places for the secrets of this data folder's runs.
fn places(data: &Path, memory: &Path) -> Vec<PathBuf> {
    let in_memory = rustix::fs::statfs(memory).is_ok_and(|about| u64::try_from(about.f_type) == Ok(TMPFS));
    let named = in_memory.then(|| fs::metadata(data).ok()).flatten().map(|about| {
        // No other data folder of this host has these numbers.
        let user = rustix::process::geteuid().as_raw();
        memory.join(format!("evenkeel-secrets-{user}-{}-{}", about.dev(), about.ino()))
    });
    named.into_iter().chain([data.join(ON_DISK)]).collect()
}

/// Makes the folder of all runs' folders.
fn make_place(place: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o711).create(place) {
        Ok(()) => {}
        // Someone else may have made it, as everyone may in there.
        Err(e) if e.kind() == ErrorKind::AlreadyExists && is_own(place) => {}
        Err(e) => return Err(e),
    }
    // Other users pass through it and cannot list it, whatever the umask.
    fs::set_permissions(place, Permissions::from_mode(0o711))
}

/// Whether it is a folder that belongs to this user and that no other user can change.
fn is_own(place: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(place)
        .is_ok_and(|about| about.is_dir() && about.uid() == user && about.mode() & 0o022 == 0)
}

impl RunSecretFolder {
    /// Makes the folder and a file for each of these secrets, for this user to read. Returns the variables with their
    /// paths. Called before the process becomes that user.
    ///
    /// # Errors
    /// The text says what cannot be written, or who could not read it.
    pub(super) fn fill<'a>(
        &self,
        secrets: impl Iterator<Item = &'a GivenSecret>,
        runner: Option<&RunUser>,
    ) -> Result<Vec<(&'a str, PathBuf)>, String> {
        let other = runner.filter(|runner| !runner.is_same());
        if self.private && other.is_some() {
            return Err(format!(
                "secret_files takes a file system in memory at {MEMORY} for a job with user, and this node has none"
            ));
        }
        let wrong =
            |path: &Path, e: &io::Error| format!("secret_files: {} cannot be written: {e}", path.display());
        DirBuilder::new().mode(0o700).create(&self.path).map_err(|e| wrong(&self.path, &e))?;
        if let Some(runner) = other {
            // The folder stays the guard's, so that only it can add or remove anything.
            chown(&self.path, None, Some(runner.group()))
                .and_then(|()| fs::set_permissions(&self.path, Permissions::from_mode(0o710)))
                .map_err(|e| wrong(&self.path, &e))?;
        }
        let mut paths = Vec::new();
        for secret in secrets {
            let path = self.path.join(&secret.file);
            write(&path, secret, other).map_err(|e| wrong(&path, &e))?;
            paths.push((secret.variable.as_str(), path));
        }
        Ok(paths)
    }

    /// Removes the folder with its files.
    pub(super) fn remove(&self) {
        match fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                report(format_args!("a run's secrets cannot be removed: {}: {e}", self.path.display()));
            }
            _ => {}
        }
    }
}

fn write(path: &Path, secret: &GivenSecret, owner: Option<&RunUser>) -> io::Result<()> {
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o400).open(path) {
        // Two variables may name one secret.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(()),
        opened => opened?,
    };
    file.write_all(secret.text.whole().as_bytes())?;
    owner.map_or(Ok(()), |owner| std::os::unix::fs::fchown(&file, Some(owner.id()), Some(owner.group())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::SecretText;

    fn secret(variable: &str, file: &str, text: &str) -> GivenSecret {
        let text = SecretText::new(text.to_owned()).unwrap();
        GivenSecret { variable: variable.to_owned(), file: file.to_owned(), text }
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    /// proves: I52
    #[test]
    fn a_run_has_a_folder_of_its_own_that_goes_with_it() {
        let data = tempfile::tempdir().unwrap();
        let mut folders = SecretFolders::open(data.path());
        let (first, second) = (folders.next().unwrap(), folders.next().unwrap());
        assert_ne!(first.path, second.path);
        assert!(!first.path.exists());
        let secrets = [secret("A", "key", "a\nb\n"), secret("B", "key", "a\nb\n"), secret("C", "pass", "p")];
        let paths = first.fill(secrets.iter(), None).unwrap();
        assert_eq!(paths.iter().map(|(variable, _)| *variable).collect::<Vec<_>>(), ["A", "B", "C"]);
        assert_eq!(paths[0].1, paths[1].1);
        assert_eq!(fs::read_to_string(&paths[0].1).unwrap(), "a\nb\n");
        assert_eq!(fs::read_to_string(&paths[2].1).unwrap(), "p");
        assert_eq!((mode(&paths[0].1), mode(&first.path)), (0o400, 0o700));
        let place = first.path.parent().unwrap().to_path_buf();
        assert_eq!(mode(&place), 0o711);
        first.remove();
        assert!(!first.path.exists());
        second.remove();
        folders.close();
        assert!(!place.exists());
    }

    /// proves: I52
    #[test]
    fn what_a_guard_that_was_killed_left_is_removed_by_the_next() {
        let data = tempfile::tempdir().unwrap();
        let left = SecretFolders::open(data.path()).next().unwrap();
        left.fill([secret("A", "key", "s")].iter(), None).unwrap();
        assert!(left.path.join("key").exists());
        SecretFolders::open(data.path());
        assert!(!left.path.parent().unwrap().exists());
    }

    #[test]
    fn a_folder_that_others_could_change_is_not_used() {
        let (data, memory) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in(MEMORY).unwrap());
        let places = places(data.path(), memory.path());
        let [in_memory, on_disk] = places.as_slice() else { panic!("{places:?}") };
        assert_eq!(*on_disk, data.path().join("run-secrets"));
        fs::create_dir(in_memory).unwrap();
        fs::set_permissions(in_memory, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(make_place(in_memory).unwrap_err().kind(), ErrorKind::AlreadyExists);
        fs::remove_dir(in_memory).unwrap();
        std::os::unix::fs::symlink(data.path(), in_memory).unwrap();
        assert!(make_place(in_memory).is_err());
        make_place(on_disk).unwrap();
        assert!(is_own(on_disk));
        assert_eq!(super::places(data.path(), data.path()).len(), 1, "a place on disk is no place in memory");
    }
}
