//! Notes on one fire, in words for people: clock changes, fires that calendars left out, jitter, the last fire.

use super::rule::ScheduleRule;
use super::zone::ClockChange;
use super::{Schedule, ScheduleRules};
use crate::time::{Millis, Wall};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use jiff::Timestamp;
use jiff::tz::Offset;

/// How far back the fire before is searched, to report what was left out since.
const LOOKED_BACK: Millis = Millis::secs(400 * 86_400);
/// How many left-out fires are counted.
const COUNTED: usize = 1_000;

impl Schedule {
    /// The notes on the fire at `due`; none as a rule.
    #[must_use]
    pub fn notes(&self, due: Wall) -> Vec<String> {
        let mut said = Vec::new();
        if self.follows_runs() {
            said.push("counted from the end of the run before".to_string());
            return said;
        }
        let named = |after| self.named(after);
        let origin = match &self.bounds {
            Some(bounds) if bounds.moves() => bounds.origin(due, named).unwrap_or(due),
            _ => due,
        };
        said.extend(self.oddity(origin).map(ToString::to_string));
        said.extend(self.left_out(origin));
        if origin != due {
            said.push(format!("jitter: {} later than {origin}", due - origin));
        }
        if let Some(bounds) = &self.bounds
            && bounds.ends_before(named(origin))
        {
            said.push("the last one before end_at".to_string());
        }
        said
    }

    /// The note on a clock change at it.
    fn oddity(&self, due: Wall) -> Option<&'static str> {
        let rules = match &self.rules {
            ScheduleRules::One(rule) => core::slice::from_ref(rule),
            ScheduleRules::Many(rules) => rules,
        };
        let calendars = || {
            rules.iter().filter_map(|rule| match rule {
                ScheduleRule::Cron(calendar, _) if rule.next(&self.zone, due - Millis(1)) == Some(due) => {
                    Some(calendar)
                }
                _ => None,
            })
        };
        calendars().next()?;
        let names = |local: i64| calendars().any(|calendar| calendar.names(local));
        Some(match self.zone.oddity(due.0.div_euclid(1000), names)? {
            ClockChange::Skipped => "the clock goes forward and skips the time this stands for",
            ClockChange::First => "the clock goes back: this is the first time it shows this",
            ClockChange::Second => "the clock went back: this is the second time it shows this",
        })
    }

    /// The note on the fires that calendars left out between the fire before this one and it.
    fn left_out(&self, origin: Wall) -> Option<String> {
        let calendars = self.calendars.as_deref()?;
        let back = self.bounds.as_ref().map_or(Wall::MIN, |bounds| bounds.before());
        let back = back.max(origin - LOOKED_BACK);
        let last = super::bounds::latest(back, origin - Millis(1), |after| self.named(after));
        let after = |at: Wall| self.ruled(at).filter(|at| *at < origin);
        let left = core::iter::successors(after(last.unwrap_or(back)), |at| after(*at));
        let shown: Vec<i64> =
            left.take(COUNTED + 1).filter_map(|at| self.zone.shown(at.0.div_euclid(1000))).collect();
        let first = *shown.first()?;
        let mut by: Vec<String> = Vec::new();
        for (name, holds) in shown.iter().flat_map(|local| calendars.closing(*local)) {
            let why = format!("{} {name}", if holds { "closed by" } else { "outside" });
            if !by.contains(&why) {
                by.push(why);
            }
        }
        let first = Offset::UTC.to_datetime(Timestamp::from_second(first).ok()?);
        let first = format!("{} {:02}:{:02}", first.date(), first.hour(), first.minute());
        let count = match shown.len() {
            1 => return Some(format!("{first} left out: {}", by.join(", "))),
            n if n > COUNTED => format!("more than {COUNTED}"),
            n => n.to_string(),
        };
        Some(format!("{count} left out from {first} on: {}", by.join(", ")))
    }
}
