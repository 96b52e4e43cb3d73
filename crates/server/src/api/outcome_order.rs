//! Which of several outcomes stands for all.

use evenkeel::AttemptState;

/// The states in which a run has ended, the worst first.
pub(super) const WORST_FIRST: [AttemptState; 7] = [
    AttemptState::Lost,
    AttemptState::Fenced,
    AttemptState::TimedOut,
    AttemptState::Failed,
    AttemptState::Killed,
    AttemptState::Skipped,
    AttemptState::Succeeded,
];
