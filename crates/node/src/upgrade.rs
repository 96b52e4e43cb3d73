//! An upgrade: the process goes on in the program that is in its file now, and its runs go on with it.
//!
//! The node rests, says what only it knows, and calls `exec`. The process stays the same one, so its guard is still its child,
//! and the pipes between the two are passed on. What is passed on travels in a socket that the next program has as its
//! standard input: descriptors in there are nobody's until they are taken out, so whatever becomes of that program, a guard
//! to which nobody speaks any more hears its pipe close and ends the runs.

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

/// The signal that asks for an upgrade.
const UPGRADE: Signal = Signal::SIGUSR2;
/// Says that the standard input brings what was passed on.
const HANDOFF_VARIABLE: &str = "EVENKEEL_PASSED";
/// The role of a program that is asked what it can go on with.
pub(crate) const INFO_ROLE: &str = "upgrade";
/// How many descriptors are passed on at most: what is known, the guard's two pipes, the listener.
const DESCRIPTORS: usize = 4;
/// The most that a program may say of itself.
const INFO_MAX: u64 = 64 * 1024;

/// What a program says of itself when it is asked.
#[derive(Debug, Serialize, Deserialize)]
struct ProgramInfo {
    version: String,
    /// Which ways of writing what is passed on it reads.
    baton: Vec<u32>,
    /// Which ways of speaking with a guard it knows.
    wire: Vec<u32>,
    /// Which layouts of the tree it knows; who says nothing of them knows the first.
    #[serde(default = "Layouts::first_layout")]
    knows: Layouts,
}

/// A program that can go on where this one stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextProgram {
    /// Its version.
    pub version: String,
    /// The layouts of the tree that it knows.
    pub knows: Layouts,
}

/// What is passed on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandoffState {
    /// Which registry the lease is of, without its password.
    pub(crate) registry: String,
    pub(crate) node: NodeHandoff,
    /// Whatever history is still to hear of.
    pub(crate) runs: Vec<HandoffRecord>,
    pub(crate) guard: Option<GuardHandoff>,
    /// Whether a listener is among the descriptors.
    listener: bool,
}

/// A run that goes on, as history has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HandoffRecord {
    pub(crate) record: RunRecord,
    pub(crate) retry: Option<Box<Backoff>>,
}

/// What an earlier program of this process passed on.
#[derive(Debug)]
pub struct ReceivedHandoff {
    pub(crate) state: HandoffState,
    pub(crate) pipes: Option<GuardPipes>,
    listener: Option<std::net::TcpListener>,
}

/// The program that this process was started from, as a file that may be another one by now.
#[derive(Clone, Debug)]
pub struct ProgramFile {
    path: PathBuf,
    arguments: Vec<OsString>,
}

/// Why a program cannot go on where this one stops. The text says the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UpgradeError(String);

impl ProgramFile {
    /// This process's own, under the name that it was started by: a link that was moved to another build since leads there.
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

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the file as it is now whether it can go on where this program stops, and waits for its answer no longer than
    /// this. Returns what it is.
    ///
    /// # Errors
    /// It cannot.
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

    /// Goes on in the program, which gets what is passed on. Returns only when that is not possible.
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

    /// The call itself. The standard library has one as well, but where it fails that leaves the process changed: with another
    /// standard input, and to be ended by the next pipe that breaks.
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
        // The next program hears signals only when it has come so far, and till then this one would end it.
        SigSet::from(UPGRADE).thread_block()?;
        let failed = nix::unistd::execve(&path, &arguments, &environment);
        // Else the guard's pipes would stay open in there, and it would never hear that the node is gone.
        nix::unistd::dup2_stdin(before)?;
        unblock_signal()?;
        failed.map_err(io::Error::from)
    }
}

/// Lets SIGUSR2 through, which an earlier program of this process held back over its end. To be called on the thread that
/// the process began with, once the signal is heard: one that is ended by it where nobody hears it.
///
/// # Errors
/// The operating system refuses.
pub fn unblock_signal() -> io::Result<()> {
    Ok(SigSet::from(UPGRADE).thread_unblock()?)
}

impl ReceivedHandoff {
    /// What was passed on to this program, if anything was. To be called once, before anything reads the standard input.
    ///
    /// # Errors
    /// It cannot be read. Then the runs are ended as after a crash, and the node is to begin anew.
    pub fn receive() -> io::Result<Option<Self>> {
        match std::env::var_os(HANDOFF_VARIABLE) {
            Some(_) => unpack().map(Some),
            None => Ok(None),
        }
    }

    /// Where the earlier program listened.
    pub fn listener(&mut self) -> Option<std::net::TcpListener> {
        self.listener.take()
    }

    /// Whether it was passed on by this node of this cluster.
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

/// Says what this program can go on with; the role of a process that was started for that.
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

/// The file of this name that a shell would start.
fn found(name: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(name));
    files.find(|file| file.is_file()).and_then(|file| std::path::absolute(file).ok())
}

/// Puts all of it into a socket whose other end is gone: it stays in there until it is taken out, or nobody can.
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
