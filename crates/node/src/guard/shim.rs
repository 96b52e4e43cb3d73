//! The shim: a short-lived copy of the guard, in the run's own process, that takes the last step before the run.
//!
//! It checks `not_after` with nothing left to wait for, and then becomes the run's program, which keeps its process and
//! its group. Without it the check would come before the fork, and a host that stalls in between would start a run that
//! already belongs to another node (law 2).
//!
//! The guard has one thread, so its copy is complete: no lock in it is held by a thread that was not copied. The shim
//! waits only for what the job itself names, and the guard does not wait for the shim.
//!
//! A shim may be forked ahead of its work, and then waits for it in its cgroup: see `standby`.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use evenkeel_core::job::LaunchSettings;
use fork::Fork;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::environment;
use super::limits;
use super::report::report;
use super::secret_files::RunSecretFolder;
use super::user::RunUser;
use super::wire::LaunchSpec;
use crate::clock;

/// The shim's text when it was too late.
pub(super) const LATE: &str = "late";

/// A forked shim, seen from the guard.
pub(super) struct ShimProcess {
    /// The process, which leads a group of its own.
    pub(super) pid: Pid,
    /// Carries why nothing was started; its end without a text means that the program took over.
    pub(super) status: PipeReader,
    /// Carries the run's output.
    pub(super) output: PipeReader,
}

/// What a shim is to do. One that stands by gets it as a line of JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShimOrder {
    pub(super) launch: Box<LaunchSpec>,
    /// The files through which it enters the run's cgroup.
    entry_files: Vec<PathBuf>,
    /// Whether the run has limits that a process outside of the cgroup would escape.
    bounded: bool,
    /// The folder for the files with its secrets; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret_folder: Option<RunSecretFolder>,
}

impl ShimOrder {
    /// The order to start this within the cgroup.
    pub(super) fn new(launch: Box<LaunchSpec>, cgroup: Option<&Cgroup>) -> Self {
        Self {
            launch,
            entry_files: cgroup.map(Cgroup::entry_files).unwrap_or_default(),
            bounded: cgroup.is_some_and(Cgroup::is_bounded),
            secret_folder: None,
        }
    }
}

/// Where a shim has its order from.
pub(super) enum ShimSource<'a> {
    /// It was there before the fork.
    Known(&'a ShimOrder),
    /// It will come through this pipe; until then the shim waits in the cgroup of these files.
    Awaited(PipeReader, Vec<PathBuf>),
}

/// The output pipe and the null device of a shim, opened before the fork.
struct ShimStreams {
    null: File,
    stdout: PipeWriter,
    stderr: PipeWriter,
}

/// Forks a shim. In the copy `let_go` closes what only the guard itself may hold open.
///
/// # Errors
/// The host lacks resources, and may have some later: whatever can be lacking is created before the fork.
pub(super) fn start(source: ShimSource<'_>, let_go: impl FnOnce()) -> io::Result<ShimProcess> {
    let (status, mut says) = io::pipe()?;
    let (output, stdout) = io::pipe()?;
    for reader in [status.as_fd(), output.as_fd()] {
        rustix::fs::fcntl_setfl(reader, OFlags::NONBLOCK)?;
    }
    let streams = ShimStreams { null: File::open("/dev/null")?, stderr: stdout.try_clone()?, stdout };
    // Only the input of a run that is known by now can be created before the fork.
    let stdin = match &source {
        ShimSource::Known(order) => Some(open_stdin(&order.launch.setting)?),
        ShimSource::Awaited(..) => None,
    };
    let guard = rustix::process::getpid();
    match fork::fork()? {
        Fork::Parent(pid) => {
            let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("a process without a number"))?;
            // Both sides do it, so that neither finds the group missing. It fails once the program took over.
            let _ = rustix::process::setpgid(Some(pid), Some(pid));
            Ok(ShimProcess { pid, status, output })
        }
        Fork::Child => {
            // Whatever delays this process below must delay neither the next guard nor the node's notice that this
            // guard is gone.
            drop((status, output));
            let begin = || {
                let_go();
                let null = &streams.null;
                nix::unistd::dup2_stdin(null)
                    .and_then(|()| nix::unistd::dup2_stdout(null))
                    .map_err(|e| format!("its guard's pipes cannot be closed: {e}"))?;
                bind_to(guard)?;
                rustix::process::setpgid(None, None)
                    .map_err(|e| format!("it cannot lead a group of its own: {e}"))?;
                match source {
                    ShimSource::Known(order) => become_the_run(guard, order, stdin, streams),
                    ShimSource::Awaited(orders, entry_files) => {
                        let order = stand_by(orders, &entry_files)?;
                        become_the_run(guard, &order, stdin, streams)
                    }
                }
            };
            let why = match catch_unwind(AssertUnwindSafe(begin)) {
                Ok(Ok(never)) => match never {},
                Ok(Err(why)) => why,
                Err(_) => "it was not started, for a fault of Evenkeel's: see the node's log".to_owned(),
            };
            // Only a guard that is gone does not read it.
            let _ = says.write_all(why.as_bytes());
            // Not by the guard's own exit path: nothing may be cleaned up or flushed here. If this fails, it aborts.
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
            std::process::abort()
        }
    }
}

/// Enters the cgroup, which may take long, and waits for the order. Returns what is left to do.
fn stand_by(orders: PipeReader, entry_files: &[PathBuf]) -> Result<ShimOrder, String> {
    let closed: Vec<&PathBuf> = entry_files.iter().filter(|file| enter_cgroup(file).is_err()).collect();
    let mut line = Vec::new();
    // The guard ends an order with a line end, and kills a shim to which it could not write a whole one. A pipe that
    // ends without it is that of a guard that is gone.
    let read = BufReader::new(orders).read_until(b'\n', &mut line);
    if read.is_err() || line.last() != Some(&b'\n') {
        return Err(LATE.to_string());
    }
    let mut order: ShimOrder =
        serde_json::from_slice(&line).map_err(|e| format!("its order cannot be read: {:?}", e.classify()))?;
    // A file that could not be written is tried once more, and tells why.
    order.entry_files.retain(|file| !entry_files.contains(file) || closed.contains(&file));
    Ok(order)
}

/// Enters a cgroup by this file. From here on all that this process starts is in there too.
fn enter_cgroup(file: &PathBuf) -> io::Result<()> {
    // Zero is the writing process.
    std::fs::write(file, "0")
}

fn become_the_run(
    guard: Pid,
    order: &ShimOrder,
    stdin_ahead: Option<Stdio>,
    streams: ShimStreams,
) -> Result<Infallible, String> {
    let ShimOrder { launch, entry_files, bounded, secret_folder } = order;
    for file in entry_files {
        // Without limits a failure does no harm: outside, its orphan processes are found in another way.
        if let Err(e) = enter_cgroup(file)
            && *bounded
        {
            return Err(format!("its cgroup cannot be entered: {}: {e}", file.display()));
        }
    }
    let stdin = match stdin_ahead {
        Some(stdin) => stdin,
        // The host lacks resources, and may have some later: then it is started again.
        None => open_stdin(&launch.setting).map_err(|e| {
            report(format_args!("{} did not start: {e}", launch.id.run));
            LATE.to_string()
        })?,
    };
    let Some((program, arguments)) = launch.argv.split_first() else {
        return Err("the run has no program".to_string());
    };
    let setting = &launch.setting;
    let ceilings = setting.limits.read()?;
    let runner = RunUser::find(&setting.user)?;
    let mut run = Command::new(program);
    run.args(arguments).stdin(stdin).stdout(streams.stdout).stderr(streams.stderr);
    run.env_clear().envs(environment::inherited(&setting.inherit));
    run.envs(runner.iter().flat_map(RunUser::variables));
    run.envs(&setting.environment);
    let (files, variables): (Vec<_>, Vec<_>) =
        launch.secrets.iter().partition(|secret| !secret.file.is_empty());
    run.envs(variables.iter().map(|secret| (&secret.variable, secret.text.value())));
    if let Some(folder) = secret_folder {
        run.envs(folder.fill(files.into_iter(), runner.as_ref())?);
    }
    run.envs(&launch.environment);
    // From here on no file can be opened, as the run may be allowed fewer than the guard has open.
    limits::set(ceilings)?;
    if let Some(runner) = &runner {
        runner.become_it()?;
        // The change of user has undone it.
        bind_to(guard)?;
    }
    enter(&setting.directory)?;
    confine(launch)?;
    if clock::now().mono.0 >= launch.not_after {
        return Err(LATE.to_string());
    }
    let error = run.exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => format!("no such program: {program}"),
        io::ErrorKind::PermissionDenied => format!("not allowed to run {program}"),
        io::ErrorKind::WouldBlock => {
            format!("cannot run {program}: its user has as many processes as it may: raise limits.processes")
        }
        _ => format!("cannot run {program}: {error}"),
    })
}

/// Takes from this process what its program need not have.
fn confine(launch: &LaunchSpec) -> Result<(), String> {
    if let Some(bits) = launch.umask {
        rustix::process::umask(Mode::from_raw_mode(bits));
    }
    if launch.no_new_privileges {
        let set = rustix::thread::set_no_new_privs(true);
        let set = set.and_then(|()| rustix::thread::clear_ambient_capability_set());
        set.map_err(|e| format!("its privileges cannot be limited: {e}"))?;
    }
    Ok(())
}

/// Makes the kernel end this process when the guard is killed.
///
/// # Errors
/// The guard is gone already.
fn bind_to(guard: Pid) -> Result<(), String> {
    let bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if bound.is_err() || rustix::process::getppid() != Some(guard) {
        return Err(LATE.to_string());
    }
    Ok(())
}

/// The run's standard input.
fn open_stdin(setting: &LaunchSettings) -> io::Result<Stdio> {
    if setting.stdin.is_empty() {
        return Ok(File::open("/dev/null")?.into());
    }
    // A file in memory, which needs no writer while a run reads slowly or not at all.
    let mut file = File::from(rustix::fs::memfd_create("evenkeel-stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(setting.stdin.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// Enters the run's working directory.
fn enter(directory: &str) -> Result<(), String> {
    if directory.is_empty() {
        return Ok(());
    }
    std::env::set_current_dir(directory).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            format!("no such directory: {directory}: create it on this node, or change the job's directory")
        }
        io::ErrorKind::PermissionDenied => format!("not allowed to enter the directory {directory}"),
        _ => format!("cannot enter the directory {directory}: {e}"),
    })
}
