//! The guard process: whatever becomes of a node, no run of it lives beside its successor's (law 4).
//!
//! A node may be killed, paused or cut off at any moment, and cannot be trusted to end its runs then. So a process of
//! its own starts them, each as the leader of a process group, and knows until when they may live. At that deadline, or
//! when the node is gone, it ends the groups: first asking, then by force, before the lease can end. It is the same
//! program, started again with a role in its environment; each run is, for a moment, a copy of it (see `shim`).

mod cgroup;
mod child;
mod client;
mod environment;
mod handoff;
mod limits;
mod orphans;
mod output;
mod process;
mod shim;
mod signals;
mod starts;
mod user;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::upgrade;

pub(crate) use client::{GuardClient, GuardConnection};
pub(crate) use environment::withhold_own;
pub(crate) use handoff::{GuardHandoff, GuardPipes, GuardTransfer};
pub(crate) use wire::{AttemptId, GuardRequest, LaunchSpec, WIRE};

/// The environment variable that gives a fresh process its role.
pub(crate) const ROLE: &str = "EVENKEEL_ROLE";
/// What a guard is told, after its data folder, whose runs are to have no cgroups.
const NO_CGROUPS: &str = "no-cgroups";
/// The file in the data folder that a guard holds for as long as runs may live.
pub(crate) const LOCK: &str = "guard.lock";

/// What a program has to do that is to run commands.
pub(crate) const BE_ALONE: &str = "call evenkeel::guard::run_if_asked() first in main, before #[tokio::main] or anything else starts \
                                   a thread";

static CAN_GUARD: AtomicBool = AtomicBool::new(false);

/// Call this first in `main` of every program that runs command jobs.
///
/// A node starts its own program once more as its guard. In that process this never returns; everywhere else it does nothing.
/// A guard copies itself for each run and so must be alone in its process: where threads were started before this, no
/// commands are run. Programs whose jobs are all functions need no guard.
pub fn run_if_asked() {
    CAN_GUARD.store(is_alone(), Ordering::Relaxed);
    let Some(role) = std::env::var_os(ROLE) else { return };
    match role.to_str() {
        Some("guard") => std::process::exit(process::main(std::env::args_os().skip(1))),
        Some(upgrade::INFO_ROLE) => std::process::exit(upgrade::print_info()),
        _ => {}
    }
}

/// Whether this process has one thread, as a fork copies no other: what another one has locked stays so in the copy.
fn is_alone() -> bool {
    // A host that does not tell is taken at its best.
    std::fs::read_dir("/proc/self/task").map_or(true, |threads| threads.count() == 1)
}

/// Whether this program can be its own guard.
pub(crate) fn is_possible() -> bool {
    CAN_GUARD.load(Ordering::Relaxed)
}
