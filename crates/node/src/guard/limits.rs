//! Limits a run's use of its host, inside its own process just before its program takes over.

use evenkeel_core::job::LimitValues;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Seconds between the signal that the CPU time is used up and the one that kills.
const CPU_GRACE: u64 = 5;

/// Sets the limits. The node's own limits cannot be exceeded.
///
/// # Errors
/// The node may not allow that much.
pub(super) fn set(ceilings: LimitValues) -> Result<(), String> {
    set_one("processes", Resource::Nproc, ceilings.processes, 0)?;
    set_one("files", Resource::Nofile, ceilings.files, 0)?;
    set_one("cpu", Resource::Cpu, ceilings.cpu, CPU_GRACE)?;
    // Last, since from here on this process itself may get no more memory.
    set_one("memory", Resource::As, ceilings.memory, 0)
}

fn set_one(name: &str, resource: Resource, item: Option<u64>, grace: u64) -> Result<(), String> {
    let Some(item) = item else { return Ok(()) };
    let maximum = item.saturating_add(grace);
    let own = getrlimit(resource).maximum;
    let maximum = own.map_or(maximum, |own| maximum.min(own.max(item)));
    setrlimit(resource, Rlimit { current: Some(item), maximum: Some(maximum) }).map_err(|e| {
        let own = own.map_or_else(|| "none".to_string(), |own| own.to_string());
        format!("limits.{name} cannot be set to {item}: {e}; the node's own limit is {own}: ask for no more, or raise that")
    })
}
