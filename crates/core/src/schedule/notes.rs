//! What is odd about one fire, in words for people: clock changes, jitter, the last one.

use super::zone::Oddity;
use super::{Rule, Rules, Schedule};
use crate::time::{Millis, Wall};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

impl Schedule {
    /// What is to be said of the fire at `due`; nothing as a rule.
    #[must_use]
    pub fn notes(&self, due: Wall) -> Vec<String> {
        let mut said = Vec::new();
        let named = |after| self.named(after);
        let origin = match &self.bounds {
            Some(bounds) if bounds.moves() => bounds.origin(due, named).unwrap_or(due),
            _ => due,
        };
        said.extend(self.oddity(origin).map(ToString::to_string));
        if origin != due {
            said.push(format!("jitter: {} later than {origin}", due - origin));
        }
        if let Some(bounds) = &self.bounds
            && bounds.ends_before(named(origin))
        {
            said.push("the last one before until".to_string());
        }
        said
    }

    /// What a clock change has to do with it.
    fn oddity(&self, due: Wall) -> Option<&'static str> {
        let rules = match &self.rules {
            Rules::One(rule) => core::slice::from_ref(rule),
            Rules::Many(rules) => rules,
        };
        let calendars = || {
            rules.iter().filter_map(|rule| match rule {
                Rule::Calendar(calendar, _) if rule.next(&self.zone, due - Millis(1)) == Some(due) => {
                    Some(calendar)
                }
                _ => None,
            })
        };
        calendars().next()?;
        let names = |local: i64| calendars().any(|calendar| calendar.names(local));
        Some(match self.zone.oddity(due.0.div_euclid(1000), names)? {
            Oddity::Skipped => "the clock goes forward and skips the time this stands for",
            Oddity::First => "the clock goes back: this is the first time it shows this",
            Oddity::Second => "the clock went back: this is the second time it shows this",
        })
    }
}
