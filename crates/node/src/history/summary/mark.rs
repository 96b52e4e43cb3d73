//! What one fire counts as.

use evenkeel_core::ids::Fire;
use evenkeel_core::lifecycle;

use super::counts::{CountDelta, CountKind};
use crate::history::record::{AttemptState, RunRecord};

/// The outcome of a scheduled fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FireClass {
    /// It succeeded.
    Ran,
    /// Its last attempt failed, took too long or is lost.
    Failed,
    /// It was ended by a request, or replaced by a later fire.
    Killed,
    /// No node ran it in time.
    Missed,
    /// Its job or an operator wanted it not to run.
    Skipped,
}

/// What the row of an attempt counts as: of the rows of a run, one at most has a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::history) struct FireMark {
    pub(in crate::history) class: Option<FireClass>,
    /// Whether it counts as a late start.
    pub(in crate::history) late: bool,
}

/// The bit of a late start beside the number of the class.
const LATE_BIT: i64 = 8;

impl FireClass {
    const ALL: [Self; 5] = [Self::Ran, Self::Failed, Self::Killed, Self::Missed, Self::Skipped];

    /// The class of a run whose last attempt came to this state. `None` for one that was cut off: the verdict on it
    /// follows, and says whether there is another attempt.
    pub(in crate::history) fn of_end(state: AttemptState) -> Option<Self> {
        match state {
            AttemptState::Succeeded => Some(Self::Ran),
            AttemptState::Failed | AttemptState::TimedOut => Some(Self::Failed),
            AttemptState::Killed => Some(Self::Killed),
            AttemptState::Fenced
            | AttemptState::Lost
            | AttemptState::Skipped
            | AttemptState::Running
            | AttemptState::Waiting => None,
        }
    }

    /// The class of a run whose attempt will not be made.
    pub(in crate::history) fn of_skip(attempt: u32, reason: &str) -> Self {
        if lifecycle::is_shadow(reason) {
            return Self::Skipped;
        }
        match (attempt > 1, lifecycle::is_skipped_on_purpose(reason)) {
            // The attempt before failed or is lost, unless an operator ended the run while it waited.
            (true, false) => Self::Failed,
            (true, true) => Self::Killed,
            (false, false) => Self::Missed,
            (false, true) => Self::Skipped,
        }
    }

    /// The class of a run whose last row is this one.
    pub(super) fn of_row(record: &RunRecord) -> Option<Self> {
        Self::of_attempt(record.state, record.attempt, &record.reason)
    }

    /// The class of a run whose last attempt has this state, number and reason: `None` while that is no outcome.
    #[must_use]
    pub fn of_attempt(state: AttemptState, attempt: u32, reason: &str) -> Option<Self> {
        match state {
            AttemptState::Fenced => Some(Self::Failed),
            AttemptState::Lost => Some(Self::Failed).filter(|_| !lifecycle::is_repeated(reason)),
            AttemptState::Skipped => Some(Self::of_skip(attempt, reason)),
            state => Self::of_end(state),
        }
    }

    /// Its place among the kinds of counts.
    pub(in crate::history) fn kind(self) -> usize {
        Self::ALL.iter().position(|class| *class == self).unwrap_or_default()
    }
}

impl FireMark {
    /// The number in the table.
    pub(in crate::history) fn number(self) -> i64 {
        let class = self.class.map_or(0, |class| class.kind() as i64 + 1);
        if self.late { class | LATE_BIT } else { class }
    }

    /// Reads the number in the table. An unknown class of a newer version is none.
    pub(in crate::history) fn of(number: i64) -> Self {
        let class = usize::try_from((number & !LATE_BIT) - 1).ok();
        Self { class: class.and_then(|n| FireClass::ALL.get(n)).copied(), late: number & LATE_BIT != 0 }
    }
}

/// What a run of this class, with this row as its last, adds to the counts.
pub(in crate::history) fn contribution(record: &RunRecord, class: FireClass) -> CountDelta {
    if let Fire::Asked(_) = record.run.fire {
        return CountDelta::of(CountKind::Manual as usize, 1);
    }
    let mut delta = CountDelta::of(class.kind(), 1);
    if let (Some(started), Some(ended)) = (record.started, record.ended) {
        delta.add(&CountDelta::of(CountKind::RunMillis as usize, (ended - started).0.max(0)));
    }
    delta
}

/// What a late start adds to the counts.
pub(in crate::history) fn late_start() -> CountDelta {
    CountDelta::of(CountKind::Late as usize, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_back_as_written() {
        for class in std::iter::once(None).chain(FireClass::ALL.map(Some)) {
            for late in [false, true] {
                let mark = FireMark { class, late };
                assert_eq!(FireMark::of(mark.number()), mark);
            }
        }
        assert_eq!(FireMark::of(7).class, None, "of a newer version");
        assert_eq!(FireMark::default().number(), 0, "what the migration writes");
    }
}
