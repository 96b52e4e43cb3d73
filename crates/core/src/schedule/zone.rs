//! Time zones: the only place that knows what a clock change does to a local time.
//!
//! A zone is a row of spans with one offset each. Between two spans the wall clock jumps: forward, and some local times
//! are skipped; or back, and some are shown twice. The schedule's [`Dst`] decides what happens then.

use super::error::{ScheduleError, quote};
use super::zone_names;
use crate::characters;
use crate::steps::step;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::hash::{Hash, Hasher};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};

/// More seconds than any two offsets differ by: what happens at an instant decides nothing further away than this.
pub(super) const REACH: i64 = 2 * 86_400;

/// Spans looked at before a rule is given up that meets nothing but gaps: 400 years of two changes each, and some.
pub(super) const MAX_CHANGES: usize = 1000;

/// Later than every instant, with room to add to it.
const NEVER: i64 = i64::MAX / 4;

/// What happens with a local time that a clock change skips or shows twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dst {
    /// A skipped local time does not happen, a repeated one happens when it is first shown.
    Skip,
    /// A skipped local time happens as much later as the clock goes forward, so 02:30 at 03:30; a repeated one when it
    /// is first shown.
    Shift,
    /// Every local time happens once: a skipped one at the first instant after the gap, a repeated one when it is first
    /// shown. The rule of schedules that name their times, as `30 2 * * *` does.
    Once,
    /// Whatever the wall clock shows happens: never when it is skipped, twice when it is shown twice. The rule of
    /// schedules that say "every so often", as `*/30 * * * *` does: their fires keep their distance in real time.
    Twice,
}

/// An IANA time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone(TimeZone);

impl PartialOrd for Zone {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Zone {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// A stretch of time with one offset; times are seconds since the Unix epoch, offsets are seconds east of UTC.
struct OffsetSpan {
    /// Its first instant.
    from: i64,
    /// The first instant after it.
    until: i64,
    offset: i64,
    /// The offset of the span before.
    before: i64,
}

/// The first estimate of a fire without a look at clock changes.
enum FirstEstimate {
    /// It is at this instant: none is near.
    Due(i64),
    /// It is at this instant or later: none is near `from`.
    NotBefore(i64),
    /// None: a clock change is near.
    Near,
}

/// The clock change that concerns a fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockChange {
    /// The clock skipped the local time it stands for.
    Skipped,
    /// The clock shows its local time twice, and this is the first time.
    First,
    /// This is the second time.
    Second,
}

impl Zone {
    /// The zone of that IANA name, from the database built into the program; empty means UTC.
    ///
    /// A zone takes some 2 KB. With jiff's `std` a program keeps each zone once, however many schedules use it.
    pub(super) fn named(name: &str) -> Result<Self, ScheduleError> {
        if name.is_empty() {
            return Ok(Self(TimeZone::UTC));
        }
        let names = TimeZoneDatabase::bundled();
        match names.get(name) {
            Ok(zone) if !zone.is_unknown() => return Ok(Self(zone)),
            _ => {}
        }
        if let Some(c) = characters::foreign(name) {
            let (odd, instead) = (characters::describe(c), characters::instead(c));
            return Err(ScheduleError::new(format_args!("timezone {} holds {odd}: {instead}", quote(name))));
        }
        let known: Vec<_> = names.available().collect();
        let fix = zone_names::fix(name, known.iter().map(|known| known.as_str()));
        Err(ScheduleError::new(format_args!("timezone {} is not an IANA time zone; {fix}", quote(name))))
    }

    /// The zone's IANA name.
    pub(super) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The first instant at or after `from` (seconds since the Unix epoch) that is a local time named by `find`, which
    /// gives the first such local time at or after its argument.
    pub(super) fn first(&self, from: i64, dst: Dst, find: impl Fn(i64) -> Option<i64>) -> Option<i64> {
        let mut from = from.max(Timestamp::MIN.as_second() + REACH);
        for _ in 0..2 {
            match self.first_far_from_changes(from, &find) {
                FirstEstimate::Due(due) => return Some(due),
                FirstEstimate::NotBefore(at) => from = at,
                FirstEstimate::Near => break,
            }
        }
        for _ in 0..MAX_CHANGES {
            step();
            let span = self.span(from)?;
            let mut local = from + span.offset;
            let shown_until = span.from + span.before;
            // The first local time at or after the given one that the clock skipped when the span began.
            let skipped = |local: i64| {
                let gap = span.before < span.offset;
                find(local).filter(|local| gap && *local < span.from + span.offset)
            };
            if dst == Dst::Once && from == span.from && skipped(shown_until).is_some() {
                return Some(from);
            }
            if dst != Dst::Twice {
                local = local.max(shown_until);
            }
            let mut due = find(local).map_or(NEVER, |local| local - span.offset);
            if dst == Dst::Shift && span.before < span.offset {
                due = due.min(skipped(from + span.before).map_or(NEVER, |local| local - span.before));
            }
            if due < span.until {
                return Some(due);
            }
            // Whatever the offset, nothing is due further than REACH from both `from` and `due`.
            let far = span.until - from >= REACH;
            from = if far { span.until.max(due - REACH) } else { span.until };
        }
        None
    }

    /// The same, when no clock change is near enough to matter; that is nearly always.
    fn first_far_from_changes(&self, from: i64, find: impl Fn(i64) -> Option<i64>) -> FirstEstimate {
        let Ok(now) = Timestamp::from_second(from) else { return FirstEstimate::Near };
        let offset = self.offset(now);
        let Some(due) = find(from + offset).map(|local| local - offset) else { return FirstEstimate::Near };
        let Ok(before) = Timestamp::from_second(from - REACH) else { return FirstEstimate::Near };
        let change = self.change_after(before);
        match due - REACH {
            _ if change > due => FirstEstimate::Due(due),
            // The clock stands still around `from`, and nothing is due further than REACH from both `from` and `due`.
            near if change > from + REACH && near > from => FirstEstimate::NotBefore(near),
            _ => FirstEstimate::Near,
        }
    }

    /// The clock change around an instant at which the clock shows a due time: none as a rule.
    pub(super) fn oddity(&self, at: i64, names: impl Fn(i64) -> bool) -> Option<ClockChange> {
        let span = self.span(at)?;
        let local = at + span.offset;
        let gap = span.offset - span.before;
        if gap > 0 && at - span.from <= gap && !names(local) {
            return Some(ClockChange::Skipped);
        }
        if local < span.from + span.before {
            return Some(ClockChange::Second);
        }
        let next = Timestamp::from_second(span.until).map_or(span.offset, |until| self.offset(until));
        (local >= span.until.saturating_add(next)).then_some(ClockChange::First)
    }

    /// The local time that the clock shows at an instant.
    pub(super) fn shown(&self, at: i64) -> Option<i64> {
        Some(at + self.offset(Timestamp::from_second(at).ok()?))
    }

    fn span(&self, at: i64) -> Option<OffsetSpan> {
        let now = Timestamp::from_second(at).ok()?;
        let offset = self.offset(now);
        let from = self.0.preceding(Timestamp::from_second(at + 1).ok()?).next();
        let (from, before) = match from.map(|change| change.timestamp().as_second()) {
            Some(from) => (from, self.offset(Timestamp::from_second(from - 1).ok()?)),
            None => (Timestamp::MIN.as_second(), offset),
        };
        Some(OffsetSpan { from, until: self.change_after(now), offset, before })
    }

    fn offset(&self, at: Timestamp) -> i64 {
        i64::from(self.0.to_offset(at).seconds())
    }

    /// The first clock change after an instant.
    fn change_after(&self, at: Timestamp) -> i64 {
        self.0.following(at).next().map_or(NEVER, |change| change.timestamp().as_second())
    }
}
