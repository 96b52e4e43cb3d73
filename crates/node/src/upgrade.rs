//! An upgrade: the process continues in the program that its file holds now, and its runs continue.
//!
//! The node pauses, writes down its state, and calls `exec`. The process stays the same one, so its guard is still its
//! child, and the pipes between the two are handed over. The state travels in a socket that the next program has as its
//! standard input: descriptors in there have no owner until they are taken out, so whatever happens to that program, a
//! guard without a node sees its pipe close and ends the runs.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_core::handoff::{HANDOFF_VERSION, NodeHandoff};
use evenkeel_core::job::Backoff;
use evenkeel_core::record::Layouts;
use nix::sys::signal::{SigSet, Signal};
use rustix::fs::MemfdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Deserialize, Serialize};

use crate::guard::{self, GuardHandoff, GuardPipes, ROLE};
use crate::history::RunRecord;

/// The signal that triggers an upgrade.
const UPGRADE: Signal = Signal::SIGUSR2;
/// The variable that says that the standard input holds a handoff.
const HANDOFF_VARIABLE: &str = "EVENKEEL_PASSED";
/// The role of a program that describes what it can continue.
pub(crate) const INFO_ROLE: &str = "upgrade";
/// The most descriptors of a handoff: the state's, the guard's two pipes, the listener.
const DESCRIPTORS: usize = 4;
/// The most bytes of a program's description.
const INFO_MAX: u64 = 64 * 1024;

/// A program's description of itself.
#[derive(Debug, Serialize, Deserialize)]
struct ProgramInfo {
    version: String,
    /// The handoff versions that it reads.
    baton: Vec<u32>,
    /// The guard protocol versions that it knows.
    wire: Vec<u32>,
    /// The layouts of the tree that it knows; a program that names none knows the first.
    #[serde(default = "Layouts::first_layout")]
    knows: Layouts,
}

/// A program that can continue where this one stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextProgram {
    /// Its version.
    pub version: String,
    /// The layouts of the tree that it knows.
    pub knows: Layouts,
}

/// The state that is handed over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandoffState {
    /// The URL of the registry of the lease, without its password.
    pub(crate) registry: String,
    pub(crate) node: NodeHandoff,
    /// The runs that history still has to record.
    pub(crate) runs: Vec<HandoffRecord>,
    pub(crate) guard: Option<GuardHandoff>,
    /// Whether a listener is among the descriptors.
    listener: bool,
}

/// A running attempt, as history records it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HandoffRecord {
    pub(crate) record: RunRecord,
    pub(crate) retry: Option<Box<Backoff>>,
}

/// The handoff of an earlier program of this process.
#[derive(Debug)]
pub struct ReceivedHandoff {
    pub(crate) state: HandoffState,
    pub(crate) pipes: Option<GuardPipes>,
    listener: Option<std::net::TcpListener>,
}

/// The file that this process's program was started from, which may be another one by now.
#[derive(Clone, Debug)]
pub struct ProgramFile {
    path: PathBuf,
    arguments: Vec<OsString>,
}

/// Why a program cannot continue where this one stops. The text says the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UpgradeError(String);

impl ProgramFile {
    /// This process's own file, under the name that it was started by: a link moved to another build leads there.
    ///
    /// # Errors
    /// The name leads nowhere.
    pub fn own() -> io::Result<Self> {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let name = PathBuf::from(arguments.first().cloned().unwrap_or_default());
        let path = match name.components().count() {
            0 => None,
            1 => found(&name),
            _ => Some(std::path::absolute(name)?),
        };
        Ok(Self { path: path.map_or_else(std::env::current_exe, Ok)?, arguments })
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks whether the present file can continue where this program stops, and waits for its answer no longer than
    /// this. Returns its description.
    ///
    /// # Errors
    /// It cannot continue.
    pub async fn check(&self, patience: Duration) -> Result<NextProgram, UpgradeError> {
        let place = self.path.display();
        let mut command = Command::new(&self.path);
        guard::withhold_own(&mut command);
        command.env(ROLE, INFO_ROLE).stdin(Stdio::null()).stderr(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let asked = command.stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut asked = asked.map_err(|e| {
            UpgradeError(format!(
                "{place} cannot be started ({e}): install the new program there, then try again"
            ))
        })?;
        let mut said = Vec::new();
        let heard = async {
            if let Some(words) = asked.stdout.take() {
                tokio::io::AsyncReadExt::read_to_end(
                    &mut tokio::io::AsyncReadExt::take(words, INFO_MAX),
                    &mut said,
                )
                .await?;
            }
            asked.wait().await
        };
        let heard = tokio::time::timeout(patience, heard).await;
        let ended =
            heard.map_err(|_| UpgradeError(format!("{place} did not say within {patience:?} what it is")))?;
        let whole = ended.is_ok_and(|status| status.success());
        let accepts = whole.then(|| serde_json::from_slice::<ProgramInfo>(&said).ok()).flatten();
        let Some(ProgramInfo { version, baton, wire, knows }) = accepts else {
            return Err(UpgradeError(format!(
                "{place} does not say what it is: no evenkeel that can take over runs"
            )));
        };
        if baton.contains(&HANDOFF_VERSION) && wire.contains(&guard::WIRE) {
            return Ok(NextProgram { version, knows });
        }
        Err(UpgradeError(format!(
            "{place} is {version}, which cannot take over runs from {}: drain the node and restart it instead",
            env!("CARGO_PKG_VERSION")
        )))
    }

    /// Continues in the program, with this handoff. Returns only if that fails.
    pub(crate) fn hand_over(
        &self,
        mut state: HandoffState,
        pipes: Option<GuardPipes>,
        listener: Option<&OwnedFd>,
    ) -> io::Error {
        state.listener = listener.is_some();
        match pack(&state, pipes.as_ref(), listener).and_then(|packed| self.execute(&packed)) {
            Ok(never) => match never {},
            Err(e) => e,
        }
    }

    /// Calls `exec`. The standard library's call leaves the process changed if it fails: with another
    /// standard input, and with the signal of a broken pipe set to kill.
    fn execute(&self, stdin: &OwnedFd) -> io::Result<Infallible> {
        let text = |text: OsString| CString::new(text.into_vec()).map_err(io::Error::other);
        let path = text(self.path.clone().into_os_string())?;
        let arguments: Vec<CString> = self.arguments.iter().cloned().map(text).collect::<Result<_, _>>()?;
        let pair = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            text(name)
        };
        let passed = (OsString::from(HANDOFF_VARIABLE), OsString::from("1"));
        let environment: Vec<CString> =
            std::env::vars_os().chain([passed]).map(pair).collect::<Result<_, _>>()?;
        let before = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 0)?;
        nix::unistd::dup2_stdin(stdin)?;
        // The next program handles signals only a little later, and till then this one would end it.
        SigSet::from(UPGRADE).thread_block()?;
        let failed = nix::unistd::execve(&path, &arguments, &environment);
        // Otherwise the guard's pipes would stay open in there, and it would never see that the node is gone.
        nix::unistd::dup2_stdin(before)?;
        unblock_signal()?;
        failed.map_err(io::Error::from)
    }
}

/// Unblocks SIGUSR2, which an earlier program of this process blocked until its end. Call this on the thread that
/// the process began with, once the signal is handled; without a handler it ends the process.
///
/// # Errors
/// The operating system refuses.
pub fn unblock_signal() -> io::Result<()> {
    Ok(SigSet::from(UPGRADE).thread_unblock()?)
}

impl ReceivedHandoff {
    /// Receives the handoff to this program, if there is one. Call it once, before anything reads the standard input.
    ///
    /// # Errors
    /// It cannot be read. Then the runs are ended as after a crash, and the node has to start anew.
    pub fn receive() -> io::Result<Option<Self>> {
        match std::env::var_os(HANDOFF_VARIABLE) {
            Some(_) => unpack().map(Some),
            None => Ok(None),
        }
    }

    /// The listener of the earlier program.
    pub fn listener(&mut self) -> Option<std::net::TcpListener> {
        self.listener.take()
    }

    /// Whether it comes from this node of this cluster.
    pub(crate) fn is_of(&self, node: &evenkeel_core::ids::NodeName, registry: &str) -> bool {
        self.state.node.member.node == *node && self.state.registry == registry
    }
}

impl HandoffState {
    pub(crate) fn new(
        registry: String,
        node: NodeHandoff,
        runs: Vec<HandoffRecord>,
        guard: Option<GuardHandoff>,
    ) -> Self {
        Self { registry, node, runs, guard, listener: false }
    }
}

/// Prints what this program can continue; the role of a process that was started for that.
pub(crate) fn print_info() -> i32 {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let accepts =
        ProgramInfo { version, baton: vec![HANDOFF_VERSION], wire: vec![guard::WIRE], knows: Layouts::OWN };
    let said = serde_json::to_vec(&accepts).map_err(io::Error::from);
    match said.and_then(|said| io::stdout().write_all(&said)) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// The file that a shell would start by this name.
fn found(name: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(name));
    files.find(|file| file.is_file()).and_then(|file| std::path::absolute(file).ok())
}

/// Puts everything into a socket whose other end is closed: it stays there until it is taken out.
fn pack(state: &HandoffState, pipes: Option<&GuardPipes>, listener: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("evenkeel", MemfdFlags::CLOEXEC)?);
    serde_json::to_writer(&file, state)?;
    file.rewind()?;
    let mut descriptors = vec![file.as_fd()];
    descriptors.extend(pipes.into_iter().flat_map(|pipes| [pipes.requests.as_fd(), pipes.events.as_fd()]));
    descriptors.extend(listener.map(AsFd::as_fd));
    let (near, far) = UnixStream::pair()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("too many descriptors are to be passed on"));
    }
    rustix::net::sendmsg(&near, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(OwnedFd::from(far))
}

fn unpack() -> io::Result<ReceivedHandoff> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let stdin = io::stdin();
    let (mut into, flags) = ([IoSliceMut::new(&mut byte)], RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC);
    rustix::net::recvmsg(&stdin, &mut into, &mut control, flags)?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    let mut descriptors = descriptors.into_iter();
    let missing = || io::Error::other("a descriptor is missing");
    let mut written = Vec::new();
    File::from(descriptors.next().ok_or_else(missing)?).read_to_end(&mut written)?;
    let state: HandoffState = serde_json::from_slice(&written)?;
    let pipes = match state.guard {
        Some(_) => {
            let (orders, words) = descriptors.next().zip(descriptors.next()).ok_or_else(missing)?;
            Some(GuardPipes { requests: orders, events: words })
        }
        None => None,
    };
    let listener = if state.listener { descriptors.next() } else { None };
    Ok(ReceivedHandoff { state, pipes, listener: listener.map(std::net::TcpListener::from) })
}
