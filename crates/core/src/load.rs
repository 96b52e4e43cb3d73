//! The load score: how busy a node is, as one number of two decimals.
//!
//! 0.00 is the least loaded state and 100.00 the busiest. 64 % is the processor's part, for scheduling uses that most,
//! 32 % the slots', since each run takes one, and 4 % the memory's (S0-28 … S0-32). It decides how long a node waits
//! before it claims a beat, and breaks ties between nodes with equally many free slots. No safety depends on it.

use core::fmt;
use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// The longest wait before claiming a beat (S0-35).
pub const WAIT_MAX: Millis = Millis::secs(1);
/// The whole of something, in hundredths of a percent.
const WHOLE: u32 = 10_000;

/// A utilization in hundredths of a percent, 0 to 10,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct Utilization(u32);

impl Utilization {
    /// A measured fraction, held within 0 and 1; `None` for what is no number.
    #[must_use]
    pub fn measured(fraction: f64) -> Option<Self> {
        if fraction.is_nan() {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "held within 0 and 1 before"
        )]
        Some(Self((fraction.clamp(0.0, 1.0) * f64::from(WHOLE) + 0.5) as u32))
    }

    /// In hundredths of a percent.
    #[must_use]
    pub fn hundredths(self) -> u32 {
        self.0
    }
}

impl From<u32> for Utilization {
    fn from(hundredths: u32) -> Self {
        Self(hundredths.min(WHOLE))
    }
}

impl From<Utilization> for u32 {
    fn from(part: Utilization) -> Self {
        part.0
    }
}

/// The measured load of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostLoad {
    /// How much of all its processors is in use; `None` when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Utilization>,
    /// How much of its memory is in use; `None` when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Utilization>,
}

/// A load score in hundredths: 4100 is 41.00.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Score(pub u32);

impl Score {
    /// The busiest state.
    pub const FULL: Self = Self(WHOLE);

    /// The score of a host with so many slots of which so many are busy. A part that cannot be measured counts as full,
    /// so such a node does not win by accident; so do the slots of a node without any (S0-29 … S0-32, I0-01 … I0-04).
    #[must_use]
    pub fn of(sample: HostLoad, busy: u32, slots: u32) -> Self {
        let part = |part: Option<Utilization>| u64::from(part.map_or(WHOLE, |part| part.0));
        let (busy, slots) = if slots == 0 { (1, 1) } else { (busy.min(slots), slots) };
        let (busy, slots) = (u64::from(busy), u64::from(slots));
        // Hundredths of points, times 100 × slots, so that only the last step rounds.
        let exact = (64 * part(sample.cpu) + 4 * part(sample.memory)) * slots + 32 * busy * u64::from(WHOLE);
        let scale = 100 * slots;
        let rounded = (exact + scale / 2) / scale;
        Self(u32::try_from(rounded).unwrap_or(WHOLE).min(WHOLE))
    }

    /// How long a node of this score lets less loaded ones go first at a beat: ten milliseconds a point, at most a
    /// second (S0-34, S0-35).
    #[must_use]
    pub fn wait(self) -> Millis {
        Millis(i64::from(self.0) / 10).min(WAIT_MAX)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn sample(cpu: f64, memory: f64) -> HostLoad {
        HostLoad { cpu: Utilization::measured(cpu), memory: Utilization::measured(memory) }
    }

    /// proves: S0-08, S0-28, S0-32, S0-34, I43
    #[test]
    fn the_table_of_seed_000() {
        for (cpu, busy, slots, memory, score, wait) in [
            (0.0, 0, 32, 0.0, "0.00", 0),
            (1.0, 32, 32, 1.0, "100.00", 1000),
            (0.50, 8, 32, 0.25, "41.00", 410),
            (0.10, 4, 16, 0.50, "16.40", 164),
            (0.90, 2, 64, 0.80, "61.80", 618),
            (0.25, 16, 16, 0.50, "50.00", 500),
            (0.20, 0, 8, 0.90, "16.40", 164),
        ] {
            let got = Score::of(sample(cpu, memory), busy, slots);
            assert_eq!((got.to_string().as_str(), got.wait()), (score, Millis(wait)));
        }
    }

    /// proves: S0-29, S0-30, S0-31
    #[test]
    fn each_part_weighs_what_the_source_says() {
        let at = |cpu, busy, memory| i64::from(Score::of(sample(cpu, memory), busy, 10).0);
        for step in 0..100_u32 {
            let (from, to) = (f64::from(step) / 100.0, f64::from(step + 1) / 100.0);
            assert_eq!(at(to, 3, 0.5) - at(from, 3, 0.5), 64, "0.64 a percent of the processors");
            assert_eq!(at(0.5, 3, to) - at(0.5, 3, from), 4, "0.04 a percent of the memory");
        }
        assert_eq!(at(0.3, 10, 0.7) - at(0.3, 0, 0.7), 3200, "32.00 from no slot to all");
    }

    /// proves: S0-35, I43
    #[test]
    fn whatever_is_measured_the_score_and_the_wait_stay_within_bounds() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 0.333_333, 1.0, 7.0] {
            for memory in [f64::NAN, -3.0, 0.5, 9.0] {
                for (busy, slots) in [(0, 0), (5, 0), (0, 7), (3, 7), (9, 7), (u32::MAX, u32::MAX)] {
                    let score = Score::of(sample(odd, memory), busy, slots);
                    assert!(
                        score <= Score::FULL && score.wait() <= WAIT_MAX,
                        "{odd} {memory} {busy}/{slots}"
                    );
                }
            }
        }
        let unknown = Score::of(HostLoad::default(), 0, 8);
        assert_eq!(unknown, Score(6800), "a node that cannot measure itself never wins by it");
        assert_eq!(Score::of(sample(0.0, 0.0), 0, 0), Score(3200), "no slots are no free slots");
    }
}
