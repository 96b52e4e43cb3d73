//! The processor time and memory of a process.

use procfs::process::Process;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// Its processor time, in seconds.
    pub processor: f64,
    /// The processor time of those of its children that have ended, and theirs, in seconds.
    pub children: f64,
    /// Its memory in bytes, as far as it is in the host's.
    pub memory: u64,
}

/// What a process has used so far; `None` is this process. A process that has ended has used nothing that could be read.
#[must_use]
pub fn usage(process: Option<u32>) -> ProcessUsage {
    let found = match process {
        None => Process::myself(),
        Some(id) => Process::new(i32::try_from(id).unwrap_or(-1)),
    };
    let Ok(stat) = found.and_then(|process| process.stat()) else { return ProcessUsage::default() };
    let second = procfs::ticks_per_second() as f64;
    ProcessUsage {
        processor: (stat.utime + stat.stime) as f64 / second,
        children: (stat.cutime + stat.cstime) as f64 / second,
        memory: stat.rss * procfs::page_size(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_something_and_one_that_is_not_there_nothing() {
        let own = usage(None);
        assert!(own.memory > 1 << 20, "{own:?}");
        assert!(usage(Some(std::process::id())).memory > 1 << 20);
        assert_eq!(usage(Some(u32::MAX)), ProcessUsage::default());
    }
}
