//! The node's socket for programs on its own host: the kernel says which user calls.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use crate::exit::{CliError, ExitKind};

/// Which users of the host may connect: the node's own, and root.
const MODE: u32 = 0o600;
/// The mode bits of a folder in which others could put a socket of their own in place of the node's.
const OPEN: u32 = 0o022;

/// The node's socket. Its file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The file's device and number: another process may have taken the path meanwhile.
    file: (u64, u64),
}

impl LocalSocket {
    /// Listens at this path. What a process that has died left there is replaced, and nothing else.
    ///
    /// # Errors
    /// The folder is open to others, something else is at the path, or a process answers there.
    pub(crate) fn bind(path: &Path) -> Result<Self, CliError> {
        let shown = path.display();
        let failed =
            |e: io::Error| CliError::new(ExitKind::Failed, format!("cannot listen on --socket {shown}: {e}"));
        check_folder(path)?;
        if let Ok(meta) = fs::symlink_metadata(path) {
            if !meta.file_type().is_socket() {
                return Err(CliError::usage(format!(
                    "--socket {shown}: another file is there: choose another path"
                )));
            }
            match BlockingStream::connect(path) {
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(failed)?
                }
                Err(e) => return Err(failed(e)),
                Ok(_) => {
                    let text = format!(
                        "cannot listen on --socket {shown}: another process does: choose another path"
                    );
                    return Err(CliError::new(ExitKind::Failed, text));
                }
            }
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        // Until here others may have connected, and each caller is looked at again.
        fs::set_permissions(path, fs::Permissions::from_mode(MODE)).map_err(failed)?;
        let meta = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned(), file: (meta.dev(), meta.ino()) })
    }

    /// Waits for a caller; with the number of its user.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, u32)> {
        let (stream, _) = self.listener.accept().await?;
        let user = stream.peer_cred()?.uid();
        Ok((stream, user))
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let is_own = fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file);
        if is_own {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses a folder in which other users could replace the socket.
fn check_folder(path: &Path) -> Result<(), CliError> {
    let shown = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = folder.display();
    let meta = fs::metadata(folder).map_err(|e| {
        CliError::usage(format!(
            "--socket {shown}: the folder cannot be read ({e}): make it with `mkdir -m 700 {named}`"
        ))
    })?;
    let user = rustix::process::geteuid().as_raw();
    let mode = meta.permissions().mode() & 0o7777;
    if ![user, 0].contains(&meta.uid()) || mode & OPEN != 0 {
        return Err(CliError::usage(format!(
            "--socket {shown}: other users can put a socket of their own there (mode {mode:03o}): choose a folder that only \
             this user can change, made with `mkdir -m 700 {named}`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        LocalSocket::bind(path).expect_err("it is refused").message
    }

    #[tokio::test]
    async fn a_socket_replaces_only_what_a_dead_process_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("node.sock");
        let own = LocalSocket::bind(&path).expect("it listens");
        assert_eq!(fs::symlink_metadata(&path).expect("a file").permissions().mode() & 0o777, MODE);
        assert!(refusal(&path).contains("another process does"));
        drop(own);
        assert!(!path.exists(), "it is removed");
        // The file stays when a process is killed.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("it listens"));
        let own = LocalSocket::bind(&path).expect("it listens");
        // A file that another process put there meanwhile is not this one's to remove.
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "").expect("written");
        drop(own);
        assert!(path.exists());
        assert!(refusal(&path).contains("another file is there"));
    }

    #[tokio::test]
    async fn a_folder_that_others_can_change_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for mode in [0o777, 0o1777, 0o770] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
            assert!(refusal(&folder.path().join("node.sock")).contains("mkdir -m 700"), "{mode:o}");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        assert!(LocalSocket::bind(&folder.path().join("node.sock")).is_ok());
        assert!(refusal(&folder.path().join("none/node.sock")).contains("cannot be read"));
    }
}
