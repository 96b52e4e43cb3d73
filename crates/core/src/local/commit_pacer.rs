//! The commit pacer limits the commits in flight to what the registry has shown that it answers in time.

use crate::time::Millis;

/// The largest limit: what a registry of 8,000 transactions a second answers in time.
const MOST: usize = 4_000;
/// The smallest limit. With fewer in flight a late answer means that the registry is far away or ill, not overloaded.
const LEAST: usize = 64;
/// The answer time aimed at. A claimed fire may start for a second; half of that is left for everything else.
const IN_TIME: Millis = Millis(500);

/// One answer moves the estimate by this part of the difference.
const MEMORY: usize = 16;

/// The limit of claims and confirmations of fires in flight at once.
///
/// With more of them than the registry answers in time each would come back too late to start, be confirmed, and be
/// too late again. Each answer gives an estimate: if so many took so long, then how many take just [`IN_TIME`]? Only
/// answers in time raise the limit and only late ones lower it, so a node with little to do loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CommitPacer(usize);

impl Default for CommitPacer {
    fn default() -> Self {
        Self(LEAST)
    }
}

impl CommitPacer {
    /// The limit.
    #[must_use]
    pub(super) fn most(self) -> usize {
        self.0
    }

    /// Takes the answer time of a commit, and how many were in flight when it was sent.
    pub(super) fn answered(&mut self, took: Millis, among: usize) {
        let told = among.saturating_mul(IN_TIME.0.unsigned_abs() as usize) / (took.0.max(1) as usize);
        let sum = self.0 * (MEMORY - 1) + told.clamp(LEAST, MOST);
        if took <= IN_TIME {
            self.0 = self.0.max(sum.div_ceil(MEMORY));
        } else if among >= LEAST {
            self.0 = self.0.min(sum / MEMORY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    /// Simulates a node that has more to claim than a registry of so many answers a second can take, for ten seconds:
    /// returns how many answers came before their fires were too old to start, and the final limit.
    fn played(per_second: usize) -> (usize, usize) {
        let (mut pace, mut queue, mut young) = (CommitPacer::default(), VecDeque::new(), 0);
        for now in 0..10_000_i64 {
            while queue.len() < pace.most() {
                queue.push_back((now, queue.len() + 1));
            }
            let answers = per_second * (now as usize + 1) / 1_000 - per_second * now as usize / 1_000;
            for _ in 0..answers {
                let Some((asked, among)) = queue.pop_front() else { break };
                young += usize::from(now - asked < 1_000);
                pace.answered(Millis(now - asked), among);
            }
        }
        (young, pace.most())
    }

    #[test]
    fn what_is_asked_of_a_slow_registry_is_answered_before_it_is_too_late() {
        for per_second in [200, 1_000, 3_000] {
            let (young, pace) = played(per_second);
            assert_eq!(young, per_second * 10, "all that it can answer");
            assert!((per_second * 4 / 10..=per_second * 6 / 10).contains(&pace), "{pace} at {per_second}");
        }
        assert_eq!(played(20_000).1, MOST, "a fast one is asked as much as may be");
    }

    #[test]
    fn with_little_under_way_no_answer_lowers_it() {
        let mut pace = CommitPacer(MOST);
        pace.answered(Millis::secs(60), LEAST - 1);
        pace.answered(Millis(400), 1);
        assert_eq!(pace.most(), MOST);
        (0..200).for_each(|_| pace.answered(Millis::secs(100), MOST));
        assert_eq!(pace.most(), LEAST);
    }
}
