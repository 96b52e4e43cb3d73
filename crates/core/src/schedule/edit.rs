//! The effect of an edit on the fires to come: those it adds, removes, and those that repeat one of the past.

use super::Schedule;
use crate::time::{Millis, Wall};
use alloc::vec::Vec;

/// How many fires are compared; for a job that is due every second, about an hour's.
const LOOKED_AT: usize = 4_000;

/// The effect of an edit on one fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditEffect {
    /// It is due from now on, and was not before.
    Added,
    /// It was due, and is not any more.
    Dropped,
    /// It is added, and the clocks showed its local time already when the job was due at this moment: in another zone.
    Repeats(Wall),
}

/// How much of an edit is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditLimits {
    /// The number of changed fires.
    pub changes: usize,
    /// The number of compared fires.
    pub compared: usize,
}

impl EditLimits {
    /// So many changed fires, and the usual number of compared ones.
    #[must_use]
    pub fn changes(changes: usize) -> Self {
        Self { changes, compared: LOOKED_AT }
    }
}

/// The effect of an edit, as far as it was computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleEdit {
    /// The fires that it changes, in order.
    pub changes: Vec<(Wall, EditEffect)>,
    /// How many stay as they are.
    pub kept: usize,
    /// The last fire that was compared; `None` when there was none.
    pub until: Option<Wall>,
}

impl ScheduleEdit {
    /// Compares the fires after `now`, until `most` of them have changed or a few thousand were compared. `None` stands
    /// for a job that has none: missing, paused, disabled, or run only when triggered.
    #[must_use]
    pub fn of(old: Option<&Schedule>, new: Option<&Schedule>, now: Wall, most: usize) -> Self {
        Self::within(old, new, now, EditLimits { changes: most, compared: LOOKED_AT })
    }

    /// Compares the fires after `now` within these limits.
    #[must_use]
    pub fn within(old: Option<&Schedule>, new: Option<&Schedule>, now: Wall, limits: EditLimits) -> Self {
        let after = |schedule: Option<&Schedule>, at| schedule.and_then(|schedule| schedule.next(at));
        let mut edit = Self::default();
        let (mut was, mut is) = (after(old, now), after(new, now));
        for _ in 0..limits.compared {
            let Some(due) = was.into_iter().chain(is).min().filter(|_| edit.changes.len() < limits.changes)
            else {
                break;
            };
            edit.until = Some(due);
            match (was == Some(due), is == Some(due)) {
                (true, true) => edit.kept += 1,
                (true, false) => edit.changes.push((due, EditEffect::Dropped)),
                (false, _) => {
                    let past = old.zip(new).and_then(|(old, new)| repeated(old, new, due, now));
                    edit.changes.push((due, past.map_or(EditEffect::Added, EditEffect::Repeats)));
                }
            }
            was = was.filter(|was| *was > due).or_else(|| after(old, due));
            is = is.filter(|is| *is > due).or_else(|| after(new, due));
        }
        edit
    }
}

/// The past fire that was due when the clocks of the old zone showed what those of the new one show at `due`.
fn repeated(old: &Schedule, new: &Schedule, due: Wall, now: Wall) -> Option<Wall> {
    let secs = due.0.div_euclid(1000);
    let local = new.zone.shown(secs)?;
    let past = secs - (old.zone.shown(secs)? - local);
    let at = Wall(past.checked_mul(1000)?);
    let same = old.zone.shown(past)? == local && at <= now;
    (same && old.next(at - Millis(1)) == Some(at)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn schedule(text: &str, zone: &str) -> Schedule {
        Schedule::parse(text, zone).unwrap()
    }

    fn at(text: &str) -> Wall {
        let moment: jiff::Timestamp = text.parse().unwrap();
        Wall(moment.as_millisecond())
    }

    #[test]
    fn fires_of_both_are_neither_added_nor_dropped() {
        let (old, new) = (schedule("0 */2 * * *", ""), schedule("0 */3 * * *", ""));
        let edit = ScheduleEdit::of(Some(&old), Some(&new), at("2026-11-22T00:30:00Z"), 5);
        let told: Vec<_> = edit.changes.iter().map(|(due, fate)| (due.to_string(), *fate)).collect();
        let expected = [
            ("02", EditEffect::Dropped),
            ("03", EditEffect::Added),
            ("04", EditEffect::Dropped),
            ("08", EditEffect::Dropped),
            ("09", EditEffect::Added),
        ];
        let expected = expected.map(|(hour, fate)| (alloc::format!("2026-11-22T{hour}:00:00.000Z"), fate));
        assert_eq!(told, expected);
        assert_eq!((edit.kept, edit.until), (1, Some(at("2026-11-22T09:00:00Z"))), "at six both are due");
    }

    #[test]
    fn a_job_that_comes_or_goes_has_all_its_fires_added_or_dropped() {
        let daily = schedule("@daily", "");
        let now = at("2026-11-22T00:30:00Z");
        let fates = |old, new| {
            ScheduleEdit::of(old, new, now, 3).changes.into_iter().map(|(_, fate)| fate).collect::<Vec<_>>()
        };
        assert_eq!(fates(None, Some(&daily)), [EditEffect::Added; 3]);
        assert_eq!(fates(Some(&daily), None), [EditEffect::Dropped; 3]);
        assert_eq!(fates(None, None), []);
        assert_eq!(ScheduleEdit::of(Some(&daily), Some(&daily), now, 3).kept, LOOKED_AT);
    }

    #[test]
    fn a_zone_further_west_repeats_what_was_already_and_one_further_east_does_not() {
        let (berlin, york) =
            (schedule("30 2 * * *", "Europe/Berlin"), schedule("30 2 * * *", "America/New_York"));
        // It is five in the morning in Berlin, and eleven in the evening before in New York.
        let now = at("2026-11-22T04:00:00Z");
        let west = ScheduleEdit::of(Some(&berlin), Some(&york), now, 3);
        assert_eq!(
            west.changes[0],
            (at("2026-11-22T07:30:00Z"), EditEffect::Repeats(at("2026-11-22T01:30:00Z")))
        );
        assert_eq!(west.changes[1], (at("2026-11-23T01:30:00Z"), EditEffect::Dropped));
        assert_eq!(west.changes[2], (at("2026-11-23T07:30:00Z"), EditEffect::Added));
        let east = ScheduleEdit::of(Some(&york), Some(&berlin), now, 2);
        assert_eq!(
            east.changes,
            [
                (at("2026-11-22T07:30:00Z"), EditEffect::Dropped),
                (at("2026-11-23T01:30:00Z"), EditEffect::Added)
            ]
        );
    }

    #[test]
    fn the_comparison_ends_with_the_schedules() {
        let (old, new) = (schedule("at 2026-11-23T00:00:00Z", ""), schedule("at 2026-11-24T00:00:00Z", ""));
        let edit = ScheduleEdit::of(Some(&old), Some(&new), at("2026-11-22T00:00:00Z"), 10);
        assert_eq!(
            edit.changes,
            [
                (at("2026-11-23T00:00:00Z"), EditEffect::Dropped),
                (at("2026-11-24T00:00:00Z"), EditEffect::Added)
            ]
        );
    }
}
