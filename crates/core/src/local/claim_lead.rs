//! The claim lead: how long before its due moment a fire is claimed.

use alloc::collections::VecDeque;

use crate::time::{Millis, Mono};

/// The lead is so many times the time within which 99 of 100 recent commits were answered.
const MARGIN: i64 = 4;
/// The answer times are counted in steps of this length.
const STEP: Millis = Millis(10);
/// The number of steps. A slower answer counts in the last one.
const STEPS: usize = 26;
/// Answers are counted in periods of this length.
const PERIOD: Millis = Millis::secs(60);
/// How many periods count as recent, with the one that goes on: long enough that a burst at each full minute is among them.
const PERIODS: i64 = 5;

/// How long before its due moment a fire is claimed.
///
/// A fire that was claimed and did not start is lost with its node, if its job runs at most once; so the lead is the time
/// that a crash puts in doubt. A fire whose claim has no answer yet starts late. So the lead is no longer than the claim's
/// answer is likely to take, by the commits of the last minutes. Before the first answer it is the longest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimLead {
    least: Millis,
    most: Millis,
    lead: Millis,
    /// Recent answers by period, the newest last.
    periods: VecDeque<AnswerTimes>,
    /// All of them together.
    recent: [u32; STEPS],
}

/// The answers of one period.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AnswerTimes {
    /// The number of the period.
    period: i64,
    /// How many answers took so many steps.
    counts: [u32; STEPS],
}

impl ClaimLead {
    /// A lead between these two; where they are equal it does not change.
    pub(super) fn new(least: Millis, most: Millis) -> Self {
        Self { least, most, lead: most, periods: VecDeque::new(), recent: [0; STEPS] }
    }

    /// The present lead.
    pub(crate) fn lead(&self) -> Millis {
        self.lead
    }

    /// Takes the time that the answer of a commit took.
    pub(crate) fn answered(&mut self, now: Mono, took: Millis) {
        if self.least >= self.most {
            return;
        }
        let period = now.0.div_euclid(PERIOD.0);
        while let Some(old) = self.periods.pop_front_if(|old| old.period <= period - PERIODS) {
            self.recent.iter_mut().zip(old.counts).for_each(|(sum, old)| *sum -= old);
        }
        if self.periods.back().is_none_or(|newest| newest.period < period) {
            self.periods.push_back(AnswerTimes { period, counts: [0; STEPS] });
        }
        let step = usize::try_from(took.0 / STEP.0).unwrap_or(0).min(STEPS - 1);
        if let Some(newest) = self.periods.back_mut() {
            newest.counts[step] += 1;
            self.recent[step] += 1;
        }
        self.lead = Millis(MARGIN * self.usual().0).clamp(self.least, self.most);
    }

    /// The time within which 99 of 100 recent commits were answered; of fewer than a hundred, all.
    fn usual(&self) -> Millis {
        let slow = self.recent.iter().sum::<u32>() / 100;
        let mut above = 0;
        let step = self.recent.iter().rposition(|count| {
            above += count;
            above > slow
        });
        Millis(STEP.0 * (step.unwrap_or(0) as i64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead() -> ClaimLead {
        ClaimLead::new(Millis(50), Millis(1_000))
    }

    fn after(lead: &mut ClaimLead, at: i64, took: &[(i64, usize)]) -> i64 {
        for (took, times) in took {
            (0..*times).for_each(|_| lead.answered(Mono(at), Millis(*took)));
        }
        lead.lead().0
    }

    #[test]
    fn it_is_the_longest_until_the_first_answer_and_then_four_times_what_they_take() {
        let mut lead = lead();
        assert_eq!(lead.lead(), Millis(1_000));
        assert_eq!(after(&mut lead, 0, &[(2, 1)]), 50, "never shorter");
        assert_eq!(after(&mut lead, 0, &[(29, 1)]), 120);
        assert_eq!(after(&mut lead, 0, &[(5_000, 1)]), 1_000, "never longer");
        let mut fixed = ClaimLead::new(Millis(300), Millis(300));
        assert_eq!(after(&mut fixed, 0, &[(2, 100)]), 300);
    }

    #[test]
    fn one_slow_answer_in_a_hundred_does_not_lengthen_it() {
        let mut lead = lead();
        assert_eq!(after(&mut lead, 0, &[(2, 198), (100, 2)]), 50);
        assert_eq!(after(&mut lead, 0, &[(100, 1)]), 440);
        assert_eq!(after(&mut lead, 0, &[(2, 200)]), 50);
    }

    #[test]
    fn answers_count_for_five_minutes() {
        let mut lead = lead();
        assert_eq!(after(&mut lead, 59_999, &[(100, 10)]), 440);
        assert_eq!(after(&mut lead, 299_999, &[(2, 100)]), 440);
        assert_eq!(after(&mut lead, 300_000, &[(2, 1)]), 50);
        assert_eq!(lead.recent.iter().sum::<u32>(), 101);
        assert_eq!(after(&mut lead, 3_600_000, &[(2, 1)]), 50);
        assert_eq!((lead.periods.len(), lead.recent.iter().sum::<u32>()), (1, 1));
    }
}
