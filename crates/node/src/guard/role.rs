//! How a program learns that it is to be a guard, and what it needs to be one.

/// The environment variable that gives a fresh process its role.
pub(crate) const ROLE: &str = "EVENKEEL_ROLE";

/// The guard's argument, after its data folder, that turns cgroups off.
pub(super) const NO_CGROUPS: &str = "no-cgroups";

/// The file in the data folder that a guard locks for as long as runs may live.
pub(crate) const LOCK: &str = "guard.lock";

/// The fix for a program that is to run commands.
pub(crate) const BE_ALONE: &str = "call evenkeel::guard::run_if_asked() first in main, before #[tokio::main] or anything else starts \
                                   a thread";

/// Whether this process has one thread. A fork copies no other, and a lock held by another would stay locked.
pub(super) fn is_alone() -> bool {
    // If the host does not say, assume one thread.
    std::fs::read_dir("/proc/self/task").map_or(true, |threads| threads.count() == 1)
}
