//! What calendars leave of a schedule: a moment that the rules name is due unless the clock of the job's zone shows a
//! closed time then. A closed stretch is jumped over, however many fires it swallows.

use super::zone::{Dst, Zone};
use crate::calendar::{LocalTimes, SearchBudget};
use crate::ids::CalendarName;
use crate::steps::step;
use crate::time::{Millis, Wall};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What may be looked at for one fire, in jumps from stretch to stretch.
const EFFORT: u32 = 8_000;
/// What it costs of that to ask a rule for its next moment. So a rule is given up that meets nothing but closed times a
/// thousand times in a row.
const ASKED: u32 = 8;

/// The calendars that a job names, read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CalendarFilter {
    exclude: Vec<(CalendarName, Arc<LocalTimes>)>,
    require: Vec<(CalendarName, Arc<LocalTimes>)>,
}

impl CalendarFilter {
    /// A moment is open when none of `except` holds it and all of `only` do: each calendar that is named takes fires away.
    #[must_use]
    pub fn new(
        except: Vec<(CalendarName, Arc<LocalTimes>)>,
        only: Vec<(CalendarName, Arc<LocalTimes>)>,
    ) -> Self {
        Self { exclude: except, require: only }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exclude.is_empty() && self.require.is_empty()
    }

    /// The first open moment after `after` of those that `ruled` gives.
    pub(super) fn next(
        &self,
        zone: &Zone,
        after: Wall,
        ruled: impl Fn(Wall) -> Option<Wall>,
    ) -> Option<Wall> {
        let all = self.exclude.iter().chain(&self.require);
        let dated: usize = all.map(|(_, times)| times.dated()).sum();
        let effort = SearchBudget::new(EFFORT.saturating_add(u32::try_from(dated).unwrap_or(u32::MAX)));
        let mut after = after;
        loop {
            step();
            let due = ruled(after)?;
            let second = due.0.div_euclid(1000);
            // What the wall clock shows decides, also when it shows it twice.
            let open = zone.first(second, Dst::Twice, |local| self.first_open(local, &effort))?;
            if open <= second {
                return Some(due);
            }
            after = Wall(open.checked_mul(1000)?) - Millis(1);
            effort.spend(ASKED)?;
        }
    }

    /// The first local time at or after `from` that is open.
    fn first_open(&self, from: i64, effort: &SearchBudget) -> Option<i64> {
        let mut local = from;
        loop {
            step();
            let before = local;
            for (_, times) in &self.exclude {
                local = times.first_free(local, effort)?;
            }
            for (_, times) in &self.require {
                local = times.first_held(local)?;
            }
            if local == before {
                return Some(local);
            }
            effort.spend(1)?;
        }
    }

    /// Who closes a local time, and whether by holding it: `only` does by not holding it.
    pub(super) fn closing(&self, local: i64) -> impl Iterator<Item = (&CalendarName, bool)> {
        let except = self.exclude.iter().filter(move |(_, times)| times.holds(local));
        let only = self.require.iter().filter(move |(_, times)| !times.holds(local));
        except.map(|(name, _)| (name, true)).chain(only.map(|(name, _)| (name, false)))
    }
}
