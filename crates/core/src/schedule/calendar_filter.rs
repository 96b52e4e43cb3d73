//! The calendar filter leaves out the fires of a schedule when the clock of the job's zone shows a closed time. It
//! jumps over a closed interval, however many fires that has.

use super::zone::{Dst, Zone};
use crate::calendar::{LocalTimes, SearchBudget};
use crate::ids::CalendarName;
use crate::steps::step;
use crate::time::{Millis, Wall};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The search budget for one fire, in jumps from interval to interval.
const EFFORT: u32 = 8_000;
/// The part of the budget for one query of a rule. So a rule is given up that meets nothing but closed times a
/// thousand times in a row.
const ASKED: u32 = 8;

/// The calendars that a job names, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CalendarFilter {
    exclude: Vec<(CalendarName, Arc<LocalTimes>)>,
    require: Vec<(CalendarName, Arc<LocalTimes>)>,
}

impl CalendarFilter {
    /// A moment is open when none of `exclude` holds it and all of `require` do: each calendar takes fires away.
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
            // The time on the wall clock decides, also when it is shown twice.
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

    /// The calendar that closes a local time, and whether by holding it: a required calendar does by not holding it.
    pub(super) fn closing(&self, local: i64) -> impl Iterator<Item = (&CalendarName, bool)> {
        let except = self.exclude.iter().filter(move |(_, times)| times.holds(local));
        let only = self.require.iter().filter(move |(_, times)| !times.holds(local));
        except.map(|(name, _)| (name, true)).chain(only.map(|(name, _)| (name, false)))
    }
}
