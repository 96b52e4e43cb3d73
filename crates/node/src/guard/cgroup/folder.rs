//! One node's folder in a tree: creates a run's cgroup there, with its limits.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use evenkeel_core::job::RunLimitValues;

use super::members::write_if_there;
use super::tree::Controller;

/// The period, in microseconds, over which the kernel limits a run's CPU time.
const PERIOD: u64 = 100_000;

/// One node's folder in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgroupFolder {
    pub(super) path: PathBuf,
    pub(super) unified: bool,
    pub(super) controllers: Vec<Controller>,
}

impl CgroupFolder {
    /// Creates a run's cgroup, with its limits.
    pub(super) fn furnish(&self, dir: &Path, totals: RunLimitValues) -> io::Result<()> {
        match fs::create_dir(dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        for (controller, _) in wanted(totals) {
            if self.controllers.contains(&controller) {
                self.bound(dir, controller, totals)?;
            }
        }
        if self.unified && self.controllers.contains(&Controller::Memory) {
            // If the kernel kills one process of a run, the whole run ends. Older kernels cannot do this.
            write_if_there(&dir.join("memory.oom.group"), "1")?;
        }
        Ok(())
    }

    fn bound(&self, dir: &Path, controller: Controller, totals: RunLimitValues) -> io::Result<()> {
        let write = |file: &str, value: String| {
            fs::write(dir.join(file), &value).map_err(|e| {
                io::Error::new(e.kind(), format!("{value} in {}: {e}", dir.join(file).display()))
            })
        };
        match (controller, self.unified) {
            (Controller::Pids, _) => write("pids.max", totals.processes.unwrap_or_default().to_string()),
            (Controller::Memory, true) => {
                write("memory.max", totals.memory.unwrap_or_default().to_string())?;
                write_if_there(&dir.join("memory.swap.max"), "0")
            }
            (Controller::Memory, false) => {
                let limit = totals.memory.unwrap_or_default().to_string();
                write("memory.limit_in_bytes", limit.clone())?;
                write_if_there(&dir.join("memory.memsw.limit_in_bytes"), &limit)
            }
            (Controller::Cpu, unified) => {
                let thousandths = totals.cores.map_or(0, evenkeel_core::job::Cores::thousandths);
                let share = u64::from(thousandths) * PERIOD / 1000;
                if unified {
                    return write("cpu.max", format!("{share} {PERIOD}"));
                }
                write("cpu.cfs_period_us", PERIOD.to_string())?;
                write("cpu.cfs_quota_us", share.to_string())
            }
        }
    }
}

/// The controllers that these limits need, each with the field that asks for it.
pub(super) fn wanted(totals: RunLimitValues) -> Vec<(Controller, &'static str)> {
    let all = [
        (totals.processes.is_some(), Controller::Pids, "processes"),
        (totals.memory.is_some(), Controller::Memory, "memory"),
        (totals.cores.is_some(), Controller::Cpu, "cores"),
    ];
    all.into_iter().filter(|(is, ..)| *is).map(|(_, controller, field)| (controller, field)).collect()
}
