//! A node in a process of its own, which can be killed.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::errors::failed;
use crate::exit::CliError;

/// The settings that a node takes from the environment and that are the caller's own.
const SETTINGS: &str = "EVENKEEL_";
/// Of these the one that the registry's URL needs.
const PASSWORD: &str = "EVENKEEL_REGISTRY_PASSWORD";

/// A node of this program with default settings.
pub(super) struct ChildNode {
    name: String,
    data: PathBuf,
    child: Child,
    is_killed: bool,
}

impl ChildNode {
    /// Starts it; it may not be a member yet.
    ///
    /// # Errors
    /// This program cannot be started.
    pub(super) fn start(name: &str, data: &Path, registry: &str) -> Result<Self, CliError> {
        let unable = |e: std::io::Error| failed(format!("node {name} cannot be started: {e}"));
        let log =
            File::options().create(true).append(true).open(data.with_extension("log")).map_err(unable)?;
        let mut command = Command::new(std::env::current_exe().map_err(unable)?);
        let settings = std::env::vars_os().map(|(name, _)| name);
        for own in settings.filter(|name| name.to_string_lossy().starts_with(SETTINGS) && name != PASSWORD) {
            command.env_remove(own);
        }
        // Its commands are the bench's own.
        command.args(["serve", "--port", "0", "--command-users", "own", "--name", name, "--data"]).arg(data);
        // The URL may have a password in it, so it is no argument. A group of its own is not reached by a terminal's Ctrl-C.
        command.env("EVENKEEL_REGISTRY", registry).env("EVENKEEL_LOG", "warn").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(unable)?;
        Ok(Self { name: name.to_owned(), data: data.to_owned(), child, is_killed: false })
    }

    /// Its number as a process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as `kill -9` does, and waits until it is gone. One that has ended stays as it is.
    pub(super) fn kill(&mut self) {
        self.is_killed = true;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it was killed.
    pub(super) fn is_killed(&self) -> bool {
        self.is_killed
    }

    /// Starts it again, as it was.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub(super) fn restart(&mut self, registry: &str) -> Result<(), CliError> {
        *self = Self::start(&self.name, &self.data, registry)?;
        Ok(())
    }

    /// Why it ended by itself; `None` while it lives.
    pub(super) fn end(&mut self) -> Option<CliError> {
        let status = self.child.try_wait().ok().flatten()?;
        let log = std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default();
        let last = log.lines().next_back().unwrap_or("it said nothing");
        Some(failed(format!("node {} has ended by itself ({status}): {last}", self.name)))
    }
}

impl Drop for ChildNode {
    fn drop(&mut self) {
        self.kill();
    }
}
