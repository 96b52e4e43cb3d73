//! The content of a world's history.

use std::collections::BTreeMap;

use evenkeel_core::effect::Verdict;
use evenkeel_core::ids::RunId;

/// The content of the history.
#[derive(Clone, Debug, Default)]
pub(super) struct SimHistory {
    pub(super) verdicts: BTreeMap<(RunId, u32), Verdict>,
    pub(super) away: bool,
}

impl SimHistory {
    pub(super) fn verdicts(&self) -> &BTreeMap<(RunId, u32), Verdict> {
        &self.verdicts
    }

    /// Drops the writes since then: the same runs may have other outcomes.
    pub(super) fn go_back(&mut self, then: &BTreeMap<(RunId, u32), Verdict>) {
        self.verdicts.retain(|key, _| then.contains_key(key));
    }
}
