//! A host's two clocks: one counts since boot at its own rate, the other is the wall clock and may be wrong.

use evenkeel_core::time::{Mono, Now, Wall};

/// The wall time at the beginning of every world.
pub const START: Wall = Wall(1_763_749_200_000);

/// The clocks of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimClock {
    /// When the host booted, in the world's time.
    booted: i64,
    /// By how many millionths its clock since boot is fast.
    rate: i64,
    /// By how much its wall clock is ahead.
    ahead: i64,
}

impl SimClock {
    /// The clocks of a host that booted then.
    #[must_use]
    pub fn new(booted: i64) -> Self {
        Self { booted, rate: 0, ahead: 0 }
    }

    /// Makes the clock since boot this many millionths fast.
    pub fn drift(&mut self, rate: i64) {
        self.rate = rate;
    }

    /// Reboots the host: its clock since boot restarts.
    pub fn reboot(&mut self, at: i64) {
        self.booted = at;
    }

    /// Steps the wall clock by this many milliseconds.
    pub fn step(&mut self, by: i64) {
        self.ahead += by;
    }

    /// Corrects the wall clock.
    pub fn correct(&mut self) {
        self.ahead = 0;
    }

    /// By how much the wall clock is ahead of the true time.
    #[must_use]
    pub fn ahead(&self) -> i64 {
        self.ahead
    }

    /// Both clocks at this moment of the world.
    #[must_use]
    pub fn read(&self, at: i64) -> Now {
        let since = at - self.booted;
        Now { mono: Mono(since + since * self.rate / 1_000_000), wall: Wall(START.0 + at + self.ahead) }
    }

    /// The first moment of the world at which the clock since boot shows at least this.
    #[must_use]
    pub fn when(&self, mono: Mono) -> i64 {
        let since = mono.0.saturating_mul(1_000_000) / (1_000_000 + self.rate);
        let mut at = since.saturating_add(self.booted).saturating_sub(2);
        while self.read(at).mono < mono {
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_way_back_from_read() {
        for rate in [-5_000, 0, 1, 5_000] {
            let mut clock = SimClock::new(-123_456);
            clock.drift(rate);
            for at in [0, 1, 999, 77_777, 500_000] {
                let back = clock.when(clock.read(at).mono);
                assert_eq!(clock.read(back).mono, clock.read(at).mono);
                assert!(back <= at && clock.read(back - 1).mono < clock.read(at).mono);
            }
        }
    }
}
