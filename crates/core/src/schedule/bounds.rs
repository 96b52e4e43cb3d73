//! The bounds and the jitter of a schedule: the first and the last moment, and how far fires may be moved.

use super::error::ScheduleError;
use super::name_hash::NameHash;
use super::named;
use super::spec::ScheduleSpec;
use super::zone::Zone;
use crate::steps::step;
use crate::time::{Millis, SpanLimits, Wall};

/// The furthest that a fire may be moved.
const JITTER_MAX: Millis = Millis::secs(86_400);

/// Moments between which fires lie, and a jitter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ScheduleBounds {
    from: Wall,
    until: Wall,
    jitter: Millis,
    /// By which name fires are moved, if they are.
    spread: Option<NameHash>,
}

impl ScheduleBounds {
    /// Parses them; `None` when none is given.
    pub(super) fn read(times: &ScheduleSpec<'_>, zone: &Zone) -> Result<Option<Self>, ScheduleError> {
        if times.start_at.is_empty() && times.end_at.is_empty() && times.jitter.is_empty() {
            return Ok(None);
        }
        let moment = |word, text: &str, otherwise| match text {
            "" => Ok(otherwise),
            _ => named::moment(word, text, zone),
        };
        let jitter = match times.jitter {
            "" => 0,
            text => named::span("jitter", text, SpanLimits::SCHEDULE.at_most(JITTER_MAX))?,
        };
        let (from, until) =
            (moment("start_at", times.start_at, Wall::MIN)?, moment("end_at", times.end_at, Wall::MAX)?);
        if from >= until {
            return Err(ScheduleError::new(format_args!(
                "end_at `{}` is not after start_at `{}`: no fire lies between",
                times.end_at, times.start_at
            )));
        }
        let spread = (jitter > 0).then(|| NameHash::of(times.name));
        Ok(Some(Self { from, until, jitter: Millis(jitter), spread }))
    }

    /// Whether fires are moved at all.
    pub(super) fn moves(&self) -> bool {
        self.spread.is_some()
    }

    /// The last moment before all of them.
    pub(super) fn before(&self) -> Wall {
        self.from - Millis(1)
    }

    /// The first fire after `after`, where `named` gives the moments that calendars leave, and `ruled` all that rules
    /// name. A fire is moved no further than the next one that is ruled: so no change of a calendar moves another.
    pub(super) fn next(
        &self,
        after: Wall,
        named: impl Fn(Wall) -> Option<Wall>,
        ruled: impl Fn(Wall) -> Option<Wall>,
    ) -> Option<Wall> {
        let bounded = |after: Wall| named(after.max(self.before())).filter(|due| *due < self.until);
        let ruled = |after: Wall| ruled(after).filter(|due| *due < self.until);
        let Some(spread) = self.spread else { return bounded(after) };
        // Of the moments up to `after` only the last can be moved beyond it, since the order is kept.
        let moved = |due: Wall| self.moved(due, spread, ruled(due));
        let last = latest(after - self.jitter, after, bounded).map(moved).filter(|due| *due > after);
        last.or_else(|| bounded(after).map(moved))
    }

    /// Where a named moment is moved: by whole seconds, never as far as the next one.
    fn moved(&self, due: Wall, spread: NameHash, next: Option<Wall>) -> Wall {
        due + moved_by(spread, due, self.room(due, next))
    }

    /// The number of seconds that a named moment may be moved by, none among them. `next` is the next moment that is ruled.
    fn room(&self, due: Wall, next: Option<Wall>) -> u64 {
        let room = (next.unwrap_or(self.until) - due).min(self.jitter);
        (room.0 as u64).div_ceil(1000).max(1)
    }

    /// The first moment after `after` that is named, before it is moved, and the number of seconds that it may be moved by.
    pub(super) fn unmoved(
        &self,
        after: Wall,
        named: impl Fn(Wall) -> Option<Wall>,
        ruled: impl Fn(Wall) -> Option<Wall>,
    ) -> Option<(Wall, u64)> {
        let due = named(after.max(self.before())).filter(|due| *due < self.until)?;
        Some((due, self.room(due, ruled(due).filter(|due| *due < self.until))))
    }

    /// The longest way that a fire may be moved.
    pub(super) fn jitter(&self) -> Millis {
        self.jitter
    }

    /// The part of a span that lies between the bounds.
    pub(super) fn clip(&self, (from, until): (Wall, Wall)) -> (Wall, Wall) {
        (from.max(self.from), until.min(self.until))
    }

    /// The same bounds, which move fires as for a job without a name.
    pub(super) fn nameless(&self) -> Self {
        Self { spread: self.spread.map(|_| NameHash::of("")), ..self.clone() }
    }

    /// The named moment that was moved to `due`.
    pub(super) fn origin(&self, due: Wall, named: impl Fn(Wall) -> Option<Wall>) -> Option<Wall> {
        let bounded = |after: Wall| named(after.max(self.before())).filter(|due| *due < self.until);
        latest(due - self.jitter - Millis(1), due, bounded)
    }

    /// Whether a moment is the first possible one, or nothing more comes because of the end.
    pub(super) fn ends_before(&self, next: Option<Wall>) -> bool {
        self.until != Wall::MAX && next.is_some_and(|next| next >= self.until)
    }
}

/// How far the fire at `due` is moved, by a number of whole seconds less than `room`.
pub(super) fn moved_by(spread: NameHash, due: Wall, room: u64) -> Millis {
    Millis::secs((spread.of_moment(due) % room) as i64)
}

/// The last fire in `(after, until]` of those that `next` finds, by halving.
pub(super) fn latest(after: Wall, until: Wall, next: impl Fn(Wall) -> Option<Wall>) -> Option<Wall> {
    let fire_after = |t: i64| next(Wall(t)).filter(|due| *due <= until);
    let mut found = fire_after(after.0)?;
    // No fire lies in (none_after, until], and `found` is a fire at or before `none_after`.
    let mut none_after = until.0;
    while found.0 < none_after {
        step();
        let middle = found.0 + none_after.saturating_sub(found.0) / 2;
        match fire_after(middle) {
            Some(due) => found = due,
            None => none_after = middle,
        }
    }
    Some(found)
}
