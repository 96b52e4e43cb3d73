//! The parts of a benchmark: a registry that is removed again, jobs by the thousand, and what their starts show.
//!
//! The command `evenkeel bench` and this crate's own benches are made of them.

mod fire_log;
mod jobs;
mod usage;

pub use evenkeel_registry::{RegistryError, TemporaryRegistry};

pub use fire_log::{FireLog, FireTally, Percentiles, until};
pub use jobs::{
    BenchObserver, FUNCTION, declare, declare_sealed, declare_with, job_name, job_number, jobs_held,
};
pub use usage::{ProcessUsage, usage};

use std::path::Path;

/// Whether the guard of a data folder has ended, so that nothing of its node is left that could write to the registry.
#[must_use]
pub fn is_guard_gone(data: &Path) -> bool {
    match std::fs::File::open(data.join(crate::guard::LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        // There has never been one.
        Err(_) => true,
    }
}
