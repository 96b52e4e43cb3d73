//! A host's two clocks: one counts since boot at its own rate, the other says the time of day and may be wrong.

use evenkeel_core::time::{Mono, Now, Wall};

/// What the clocks of every world show at its beginning.
pub const START: Wall = Wall(1_763_749_200_000);

/// The clocks of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimClock {
    /// When the host booted, in the world's time.
    booted: i64,
    /// By how many millionths its clock since boot is fast.
    rate: i64,
    /// By how much its time of day is ahead.
    ahead: i64,
}

impl SimClock {
    /// The clocks of a host that booted then.
    #[must_use]
    pub fn new(booted: i64) -> Self {
        Self { booted, rate: 0, ahead: 0 }
    }

    /// The same host with a clock that is so many millionths fast since boot.
    pub fn drift(&mut self, rate: i64) {
        self.rate = rate;
    }

    /// The host boots: its clock since boot begins again.
    pub fn reboot(&mut self, at: i64) {
        self.booted = at;
    }

    /// The time of day steps by so many milliseconds.
    pub fn step(&mut self, by: i64) {
        self.ahead += by;
    }

    /// The time of day is set right.
    pub fn correct(&mut self) {
        self.ahead = 0;
    }

    /// By how much the time of day is ahead of the truth.
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
