//! Measures the host's load: the used part of its processors and of its memory.

use evenkeel_core::load::{HostLoad, Utilization};
use procfs::{Current, CurrentSI, KernelStats, Meminfo};

/// Measures the load, with the state for the next comparison.
#[derive(Debug, Default)]
pub(crate) struct HostSampler {
    /// Ticks of all processors when they were last read: idle ones, and all.
    before: Option<(u64, u64)>,
}

impl HostSampler {
    /// The host's load since the last call. What cannot be read is unknown, which counts as busy.
    pub(crate) fn measure(&mut self) -> HostLoad {
        HostLoad { cpu: self.processors(), memory: memory() }
    }

    fn processors(&mut self) -> Option<Utilization> {
        let ticks = KernelStats::current().ok()?.total;
        let idle = ticks.idle + ticks.iowait.unwrap_or(0);
        let busy = ticks.user + ticks.nice + ticks.system;
        let other = [ticks.irq, ticks.softirq, ticks.steal].into_iter().flatten().sum::<u64>();
        let now = (idle, idle + busy + other);
        let (idle_before, all_before) = self.before.replace(now)?;
        used_part(now.1.checked_sub(all_before)?, now.0.checked_sub(idle_before)?)
    }
}

fn memory() -> Option<Utilization> {
    let memory = Meminfo::current().ok()?;
    used_part(memory.mem_total, memory.mem_available?)
}

/// The used part of a whole.
fn used_part(whole: u64, free: u64) -> Option<Utilization> {
    if whole == 0 {
        return None;
    }
    let used = u128::from(whole.saturating_sub(free)) * 10_000 / u128::from(whole);
    u32::try_from(used).ok().map(Utilization::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_measured_from_the_second_look_on() {
        let mut host = HostSampler::default();
        let first = host.measure();
        assert_eq!(first.cpu, None, "there is nothing to compare with yet");
        assert!(first.memory.is_some_and(|part| (1..10_000).contains(&part.hundredths())));
        // The kernel counts in hundredths of a second.
        let cpu = std::iter::repeat_with(|| host.measure().cpu).take(1_000_000).find_map(|cpu| cpu);
        assert!(cpu.is_some_and(|part| part.hundredths() <= 10_000));
    }

    #[test]
    fn odd_counts_are_not_known_or_kept_within_bounds() {
        assert_eq!(used_part(0, 0), None);
        assert_eq!(used_part(100, 200).map(Utilization::hundredths), Some(0));
        assert_eq!(used_part(u64::MAX, 0).map(Utilization::hundredths), Some(10_000));
    }
}
