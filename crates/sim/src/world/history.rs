//! The history of runs: stores verdicts under (run, attempt), confirms them, and is unavailable at times.

use std::collections::BTreeMap;

use evenkeel_core::effect::Verdict;
use evenkeel_core::ids::{NodeName, RunId};
use evenkeel_core::input::Input;

use super::{SimWorld, WorldEvent};

/// The retry interval of a writer while the history is unavailable, in milliseconds.
const AGAIN: i64 = 300;

impl SimWorld {
    /// Makes the history unavailable, or available again.
    pub fn set_history_away(&mut self, away: bool) {
        self.history.away = away;
    }

    /// The verdicts in the history.
    #[must_use]
    pub fn verdicts(&self) -> &BTreeMap<(RunId, u32), Verdict> {
        self.history.verdicts()
    }

    pub(super) fn give_to_history(&mut self, name: &NodeName, verdict: Verdict) {
        let Some(life) = self.actors.get(name).map(|a| a.life) else { return };
        let delay = self.way();
        self.after(delay, WorldEvent::Record { node: name.clone(), life, verdict: Box::new(verdict) });
    }

    /// Records a verdict, unless its process has ended before it was written.
    pub(super) fn record(&mut self, name: &NodeName, life: u64, verdict: Verdict) {
        if self.actors.get(name).is_none_or(|a| a.life != life) || self.is_behind(name) {
            return;
        }
        if self.history.away {
            let event = WorldEvent::Record { node: name.clone(), life, verdict: Box::new(verdict) };
            return self.after(AGAIN, event);
        }
        let key = (verdict.run.clone(), verdict.attempt);
        self.checker.recorded(self.at, &verdict, self.history.verdicts.get(&key));
        self.history.verdicts.entry(key).or_insert_with(|| verdict.clone());
        let input = Input::Recorded { run: verdict.run, attempt: verdict.attempt };
        let delay = self.way();
        self.after(delay, WorldEvent::Give { node: name.clone(), life, input });
    }
}
