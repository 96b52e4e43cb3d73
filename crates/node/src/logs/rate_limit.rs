//! The rate limit of one attempt's output: bytes a second, with a burst of ten seconds' worth.

use evenkeel_core::time::Mono;

/// How many seconds' worth a burst may have.
const BURST: u64 = 10;

/// The state of the limit.
#[derive(Debug)]
pub(super) struct LogRateLimit {
    /// Bytes a second.
    rate: u64,
    /// The free allowance, in thousandths of bytes.
    room: u64,
    /// The moment up to which allowance was added.
    at: Mono,
    /// Bytes dropped since the last report.
    missed: u64,
}

impl LogRateLimit {
    pub(super) fn new(rate: u64, now: Mono) -> Self {
        let mut pace = Self { rate: rate.max(1), room: 0, at: now, missed: 0 };
        pace.room = pace.most();
        pace
    }

    /// How many bytes a burst may have at a rate.
    pub(super) fn burst(rate: u64) -> u64 {
        rate.saturating_mul(BURST)
    }

    fn most(&self) -> u64 {
        self.rate.saturating_mul(BURST * 1000)
    }

    /// Takes `n` bytes: returns how many of them are kept, and the text about dropped bytes to write before them.
    ///
    /// Once bytes are dropped, they are dropped for a second at least, so there is one text a second at most.
    pub(super) fn take(&mut self, n: usize, now: Mono) -> (usize, Option<String>) {
        let passed = u64::try_from((now - self.at).0).unwrap_or(0);
        self.room = self.room.saturating_add(passed.saturating_mul(self.rate)).min(self.most());
        self.at = self.at.max(now);
        let come = n as u64;
        if self.missed > 0 && self.room < self.rate.saturating_mul(1000) {
            self.missed = self.missed.saturating_add(come);
            return (0, None);
        }
        let said = self.take_missed(0);
        let kept = come.min(self.room / 1000);
        self.room -= kept * 1000;
        self.missed = come - kept;
        (usize::try_from(kept).unwrap_or(n), said)
    }

    /// Takes the text about the dropped bytes, of which this many are kept after all.
    pub(super) fn take_missed(&mut self, kept: usize) -> Option<String> {
        let missed = std::mem::take(&mut self.missed).saturating_sub(kept as u64);
        let said =
            || format!("\n[{missed} bytes came faster than {} a second and are not kept]\n", self.rate);
        (missed > 0).then(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(bytes: u64) -> Option<String> {
        Some(format!("\n[{bytes} bytes came faster than 100 a second and are not kept]\n"))
    }

    #[test]
    fn a_burst_is_kept_and_what_goes_on_is_counted() {
        let mut pace = LogRateLimit::new(100, Mono(0));
        assert_eq!(pace.take(600, Mono(0)), (600, None));
        assert_eq!(pace.take(600, Mono(0)), (400, None), "ten seconds' worth");
        assert_eq!(pace.take(50, Mono(999)), (0, None), "none until a whole second's worth may come");
        assert_eq!(pace.take(50, Mono(1_000)), (50, expected(250)));
        assert_eq!(pace.take(50, Mono(1_000)), (50, None));
        assert_eq!(pace.take(70, Mono(1_500)), (50, None), "half a second later, half of it");
        assert_eq!((pace.take_missed(0), pace.take_missed(0)), (expected(20), None));
    }

    /// proves: I47
    #[test]
    fn whatever_comes_no_more_is_kept_than_the_rate_and_a_burst() {
        let mut pace = LogRateLimit::new(100, Mono(0));
        let (mut kept, mut lines) = (0, 0);
        for step in 0..10_000 {
            let (n, said) = pace.take(37, Mono(step * 7));
            (kept, lines) = (kept + n, lines + usize::from(said.is_some()));
        }
        assert!((7_900..=8_000).contains(&kept), "70 s and a burst: {kept}");
        assert!(lines <= 70, "once a second at most: {lines}");
        // A clock that stands still, and a long pause.
        assert_eq!(pace.take(9_999, Mono(1_000_000)).0, 1_000);
        assert_eq!(pace.take(9_999, Mono(0)).0, 0);
    }
}
