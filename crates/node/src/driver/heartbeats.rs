//! The node's heartbeats to its guard, which ends a process that hangs.

use evenkeel_core::lease::usable;
use evenkeel_core::registry::EngineFacts;
use evenkeel_core::time::{Millis, Mono};

use crate::config::Config;
use crate::executors::Executors;

/// The shortest time without heartbeats after which a node may count as hanging, whatever its lease: a busy host
/// stalls any process for a moment.
const SHORTEST: Millis = Millis::secs(1);

/// When the next heartbeat is due.
pub(super) struct Heartbeats {
    /// Within what time the next one is promised; `None` where the guard is to expect none.
    within: Option<Millis>,
    next: Mono,
}

impl Heartbeats {
    /// The heartbeats of a node.
    pub(super) fn new(config: &Config, facts: &EngineFacts) -> Self {
        let within = config.watchdog.then(|| promise(config.term(facts), facts.early));
        Self { within, next: Mono(i64::MIN) }
    }

    /// When the next heartbeat is due: four times as often as promised.
    pub(super) fn next(&self) -> Option<Mono> {
        self.within.map(|_| self.next)
    }

    /// Sends one if it is due.
    pub(super) fn send_due(&mut self, now: Mono, executor: &Executors) {
        if let Some(within) = self.within.filter(|_| self.next <= now) {
            self.next = now + Millis(within.0 / 4);
            executor.commands.send_heartbeat(Some(within));
        }
    }

    /// Lets the guard expect none until the next one.
    pub(super) fn rest(&mut self, executor: &Executors) {
        if self.within.is_some() {
            self.next = Mono(i64::MIN);
            executor.commands.send_heartbeat(None);
        }
    }
}

/// Within what time each heartbeat promises the next, under a lease of this term. The guard looks twice, the second time
/// after half as long again: together that is a third of the time for which the lease is trusted.
fn promise(ttl: Millis, early: Millis) -> Millis {
    Millis(Millis(usable(ttl, early).0 / 3).max(SHORTEST).0 * 2 / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_hangs_after_a_third_of_its_trust_and_not_sooner_than_a_second() {
        let hangs_after = |ttl| promise(Millis::secs(ttl), Millis::ZERO).0 * 3 / 2;
        assert_eq!((hangs_after(15), hangs_after(9), hangs_after(2)), (3_333, 1_999, 999));
    }
}
