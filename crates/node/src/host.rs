//! What is measured of the host: how much of its processors and of its memory is in use.

use evenkeel_core::load::{Part, Sample};
use procfs::{Current, CurrentSI, KernelStats, Meminfo};

/// Measures, and remembers what it needs to compare with.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// Ticks of all processors when they were last read: idle ones, and all.
    before: Option<(u64, u64)>,
}

impl Host {
    /// How busy the host has been since the last call. What cannot be read is not known, which counts as busy.
    pub(crate) fn measure(&mut self) -> Sample {
        Sample { cpu: self.processors(), memory: memory() }
    }

    fn processors(&mut self) -> Option<Part> {
        let ticks = KernelStats::current().ok()?.total;
        let idle = ticks.idle + ticks.iowait.unwrap_or(0);
        let busy = ticks.user + ticks.nice + ticks.system;
        let other = [ticks.irq, ticks.softirq, ticks.steal].into_iter().flatten().sum::<u64>();
        let now = (idle, idle + busy + other);
        let (idle_before, all_before) = self.before.replace(now)?;
        share(now.1.checked_sub(all_before)?, now.0.checked_sub(idle_before)?)
    }
}

fn memory() -> Option<Part> {
    let memory = Meminfo::current().ok()?;
    share(memory.mem_total, memory.mem_available?)
}

/// What of a whole is not free.
fn share(whole: u64, free: u64) -> Option<Part> {
    if whole == 0 {
        return None;
    }
    let used = u128::from(whole.saturating_sub(free)) * 10_000 / u128::from(whole);
    u32::try_from(used).ok().map(Part::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_measured_from_the_second_look_on() {
        let mut host = Host::default();
        let first = host.measure();
        assert_eq!(first.cpu, None, "there is nothing to compare with yet");
        assert!(first.memory.is_some_and(|part| (1..10_000).contains(&part.hundredths())));
        // The kernel counts in hundredths of a second.
        let cpu = std::iter::repeat_with(|| host.measure().cpu).take(1_000_000).find_map(|cpu| cpu);
        assert!(cpu.is_some_and(|part| part.hundredths() <= 10_000));
    }

    #[test]
    fn odd_counts_are_not_known_or_kept_within_bounds() {
        assert_eq!(share(0, 0), None);
        assert_eq!(share(100, 200).map(Part::hundredths), Some(0));
        assert_eq!(share(u64::MAX, 0).map(Part::hundredths), Some(10_000));
    }
}
