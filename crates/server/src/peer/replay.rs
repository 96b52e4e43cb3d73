//! Refuses replayed requests: none is accepted twice, and none is forgotten while it could come again.

use std::collections::BTreeSet;

use evenkeel_core::time::{Millis, Wall};

/// The requests of one time window, in order.
pub(super) struct ReplayWindow {
    window: Millis,
    max: usize,
    known: BTreeSet<(Wall, u128)>,
    /// The time of the latest forgotten request. A clock that is set back must not make it new again.
    forgotten: Option<Wall>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayError {
    /// Its time differs from the clock here by this much.
    ClockSkew(Millis),
    /// It was accepted before.
    Replayed,
    /// Too many requests came in one window.
    WindowFull,
}

impl ReplayWindow {
    pub(super) fn new(window: Millis, max: usize) -> Self {
        Self { window, max, known: BTreeSet::new(), forgotten: None }
    }

    /// Accepts a request that was not accepted before.
    pub(super) fn take(&mut self, at: Wall, nonce: u128, now: Wall) -> Result<(), ReplayError> {
        let apart = Millis(now.0.saturating_sub(at.0));
        if apart.0.saturating_abs() > self.window.0 {
            return Err(ReplayError::ClockSkew(apart));
        }
        while let Some(first) = self.known.first().filter(|(first, _)| *first < now - self.window) {
            self.forgotten = self.forgotten.max(Some(first.0));
            self.known.pop_first();
        }
        if self.forgotten >= Some(at) {
            return Err(ReplayError::ClockSkew(apart));
        }
        if self.known.contains(&(at, nonce)) {
            return Err(ReplayError::Replayed);
        }
        if self.known.len() >= self.max {
            return Err(ReplayError::WindowFull);
        }
        self.known.insert((at, nonce));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall(1_000_000);

    fn seen(max: usize) -> ReplayWindow {
        ReplayWindow::new(Millis(30_000), max)
    }

    #[test]
    fn a_request_is_let_in_once_as_long_as_its_time_is_near() {
        for (at, nonce) in [(NOW, 1), (Wall(970_000), 2), (Wall(1_030_000), 3)] {
            let mut seen = seen(9);
            assert_eq!(seen.take(at, nonce, NOW), Ok(()));
            for now in (970_000..=1_060_000).step_by(500).map(Wall) {
                let again = seen.take(at, nonce, now);
                assert!(
                    matches!(again, Err(ReplayError::Replayed | ReplayError::ClockSkew(_))),
                    "{at} at {now}: {again:?}"
                );
            }
        }
        let mut seen = seen(9);
        assert_eq!(seen.take(Wall(969_999), 1, NOW), Err(ReplayError::ClockSkew(Millis(30_001))));
        assert_eq!(seen.take(Wall(1_030_001), 1, NOW), Err(ReplayError::ClockSkew(Millis(-30_001))));
        assert_eq!(seen.take(Wall(i64::MIN), 1, NOW), Err(ReplayError::ClockSkew(Millis(i64::MAX))));
        assert_eq!(seen.take(NOW, 1, NOW), Ok(()));
        assert_eq!(seen.take(NOW, 2, NOW), Ok(()), "another one of the same moment");
    }

    #[test]
    fn when_it_is_full_it_refuses_rather_than_forgets() {
        let mut seen = seen(2);
        assert_eq!(seen.take(NOW, 1, NOW), Ok(()));
        assert_eq!(seen.take(NOW, 2, NOW), Ok(()));
        assert_eq!(seen.take(NOW, 3, NOW), Err(ReplayError::WindowFull));
        assert_eq!(seen.take(NOW, 1, NOW), Err(ReplayError::Replayed));
        let later = Wall(NOW.0 + 30_001);
        assert_eq!(seen.take(later, 3, later), Ok(()), "the window has passed on");
        assert_eq!(seen.known.len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nothing_new_again() {
        let mut seen = seen(9);
        assert_eq!(seen.take(NOW, 1, NOW), Ok(()));
        let ahead = Wall(NOW.0 + 3_600_000);
        assert_eq!(seen.take(ahead, 2, ahead), Ok(()), "which forgets the first one");
        assert_eq!(seen.take(NOW, 1, NOW), Err(ReplayError::ClockSkew(Millis(0))));
        assert_eq!(seen.take(Wall(NOW.0 + 1), 3, NOW), Ok(()));
    }
}
