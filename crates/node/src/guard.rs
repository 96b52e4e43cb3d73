//! The guard process ends a node's runs in time, whatever happens to the node: no run overlaps its successor (law 4).
//!
//! A node may be killed, paused or cut off at any moment, and cannot be trusted to end its runs then. So a separate
//! process starts them, each as the leader of a process group, and knows until when they may live. At that deadline, or
//! when the node is gone, it ends the groups: first by a signal to stop, then by force, before the lease can end. It is
//! the same program, started again with a role in its environment; each run is, for a moment, a copy of it (see
//! `shim`).

mod cgroup;
mod child;
mod client;
mod environment;
mod handoff;
mod limits;
mod orphans;
mod output;
mod preparing;
mod process;
mod removal;
mod report;
mod role;
mod secret_files;
mod shim;
mod signals;
mod standby;
mod starts;
mod user;
mod watchdog;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::upgrade;

pub(crate) use client::{GuardClient, GuardConnection};
pub(crate) use environment::withhold_own;
pub(crate) use handoff::{GuardHandoff, GuardPipes, GuardTransfer};
pub(crate) use removal::MemberRemoval;
pub use report::report_as_json;
use role::is_alone;
pub(crate) use role::{BE_ALONE, LOCK, ROLE};
pub(crate) use wire::{AttemptId, GuardRequest, LaunchSpec, WIRE};

static CAN_GUARD: AtomicBool = AtomicBool::new(false);

/// Turns this process into a guard if it was started as one. Call it first in `main` of a program that runs commands.
///
/// A node starts its own program once more as its guard. In that process this never returns; everywhere else it does
/// nothing. A guard copies itself for each run and so must be alone in its process: where threads were started before
/// this, no commands are run. Programs whose jobs are all functions need no guard.
pub fn run_if_asked() {
    CAN_GUARD.store(is_alone(), Ordering::Relaxed);
    let Some(role) = std::env::var_os(ROLE) else { return };
    match role.to_str() {
        Some("guard") => std::process::exit(process::main(std::env::args_os().skip(1))),
        Some(upgrade::INFO_ROLE) => std::process::exit(upgrade::print_info()),
        _ => {}
    }
}

/// Whether this program can be its own guard.
pub(crate) fn is_possible() -> bool {
    CAN_GUARD.load(Ordering::Relaxed)
}
