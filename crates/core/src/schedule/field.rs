//! One field of a cron line: a list of numbers, names, ranges and steps.

use super::error::{ScheduleError, quote};
use crate::steps::step;
use alloc::format;
use alloc::string::{String, ToString};

/// The cron dialect of a line; a word before it says so, or else the number of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CronDialect {
    /// 5 fields, as cron on Debian reads them.
    Vixie,
    /// 6 or 7 fields, seconds first.
    Quartz,
}

/// The longest list in one field; no field has as many numbers.
const LIST: usize = 256;

/// The numbers that one field may hold.
pub(super) struct CronField {
    /// Its name for people.
    pub(super) name: &'static str,
    /// Its smallest number.
    pub(super) min: u16,
    /// Its largest number.
    pub(super) max: u16,
    /// Names of `min`, `min + 1`, and so on.
    pub(super) names: &'static [&'static str],
    /// The hash behind `H` in this field, before it is reduced to the range: from the job's name and the field's.
    pub(super) hash: u64,
    /// Whether a range may run past the end and go on at the start, as `22-2` does.
    pub(super) wraps: bool,
}

impl CronField {
    /// Parses the field's list and hands every part to `part`; an error gets the field's name in front.
    pub(super) fn list(
        &self,
        text: &str,
        mut part: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<(), ScheduleError> {
        text.split(',').enumerate().try_for_each(|(at, piece)| {
            step();
            let done = match piece {
                _ if at == LIST => {
                    Err(format!("a list has at most {LIST} parts; write a range such as `1-5`"))
                }
                "" => Err("nothing between the commas".to_string()),
                _ => part(piece),
            };
            done.map_err(|why| {
                ScheduleError::new(format_args!("{} field {}: {why}", self.name, quote(text))).on(piece)
            })
        })
    }

    /// Parses `*`, `5`, `1-5`, `*/2`, `1-5/2` (and Quartz's `5/15`, `/15`) and hands every number meant to `set`.
    pub(super) fn numbers(
        &self,
        dialect: CronDialect,
        part: &str,
        mut set: impl FnMut(u16),
    ) -> Result<(), String> {
        let (range, every) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (part, None),
        };
        if let Some(bounds) = range.strip_prefix(['H', 'h']) {
            return self.hashed(bounds, every, set);
        }
        let (from, to) = self.range(dialect, range, every)?;
        let size = self.max - self.min + 1;
        let length = if from <= to { to - from } else { to + size - from };
        for ahead in (0..=length).step_by(usize::from(every.unwrap_or(1))) {
            step();
            set(self.min + (from - self.min + ahead) % size);
        }
        Ok(())
    }

    /// Reads what follows an `H`: nothing, or bounds as in `H(0-5)`. Without a step it is one number between the
    /// bounds, with one it is where the steps begin.
    fn hashed(&self, bounds: &str, step: Option<u16>, mut set: impl FnMut(u16)) -> Result<(), String> {
        let wrong = || "`H` stands alone or with bounds, as in `H(0-5)` or `H(0-29)/10`".to_string();
        let (low, high) = match bounds {
            // So that it is due in each month and on one day of the week.
            "" => {
                (self.min, if self.max == 31 { 28 } else { self.max - u16::from(self.max - self.min == 7) })
            }
            _ => {
                let bounds =
                    bounds.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(wrong)?;
                let (low, high) = bounds.split_once('-').ok_or_else(wrong)?;
                (self.number(low)?, self.number(high)?)
            }
        };
        if low > high {
            return Err(format!("the bounds {low}-{high} run backwards; write `H({high}-{low})`"));
        }
        let size = high - low + 1;
        let begin = low + (self.hash % u64::from(step.unwrap_or(size).min(size))) as u16;
        let last = if step.is_some() { high } else { begin };
        (begin..=last).step_by(usize::from(step.unwrap_or(1))).for_each(&mut set);
        Ok(())
    }

    /// One number or name of this field.
    pub(super) fn number(&self, text: &str) -> Result<u16, String> {
        if let Some(at) = self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(self.min + u16::try_from(at).unwrap_or(u16::MAX));
        }
        match digits(text) {
            Some(n) if (self.min..=self.max).contains(&n) => Ok(n),
            Some(_) => Err(format!("{} is outside {}-{}", shown(text), self.min, self.max)),
            None => Err(self.no_number(text)),
        }
    }

    fn range(&self, dialect: CronDialect, text: &str, step: Option<u16>) -> Result<(u16, u16), String> {
        if text == "*" || (text.is_empty() && step.is_some() && dialect == CronDialect::Quartz) {
            return Ok((self.min, self.max));
        }
        let Some((from, to)) = text.split_once('-') else {
            let from = self.number(text)?;
            return match (step, dialect) {
                (None, _) => Ok((from, from)),
                (Some(_), CronDialect::Quartz) => Ok((from, self.max)),
                (Some(step), CronDialect::Vixie) => {
                    Err(format!("a step needs a range; write `{text}-{}/{step}`", self.max))
                }
            };
        };
        let (first, last) = (self.number(from)?, self.number(to)?);
        if first > last && !self.wraps {
            let (min, max) = (self.min, self.max);
            return Err(format!("`{from}-{to}` runs backwards; write `{from}-{max},{min}-{to}`"));
        }
        Ok((first, last))
    }

    fn step(&self, text: &str) -> Result<u16, String> {
        let size = self.max - self.min + 1;
        match digits(text) {
            Some(n) if (1..=size).contains(&n) => Ok(n),
            Some(n) => {
                let units = [("second", "s"), ("minute", "m"), ("hour", "h"), ("day-of-month", "d")];
                let unit =
                    units.iter().find(|(name, _)| *name == self.name).filter(|_| n > size && text.len() < 5);
                let longer =
                    unit.map_or_else(String::new, |(_, unit)| format!("; `@every {n}{unit}` counts on"));
                Err(format!("step {} is outside 1-{size}{longer}", shown(text)))
            }
            None => Err(format!("step {} is not a number", quote(text))),
        }
    }

    fn no_number(&self, text: &str) -> String {
        let reason = format!("{} is not a number {}-{}", quote(text), self.min, self.max);
        match (text, self.names) {
            ("", _) => format!("a number {}-{} is missing", self.min, self.max),
            (_, [first, .., last]) => format!("{reason} or a name {first}-{last}"),
            _ => reason,
        }
    }
}

/// A plain decimal number; one that is too large for any field becomes the largest.
pub(super) fn digits(text: &str) -> Option<u16> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.bytes().fold(0_u16, |n, b| n.saturating_mul(10).saturating_add(u16::from(b - b'0'))))
}

/// A number as it was written, unless it is absurdly long.
fn shown(text: &str) -> String {
    if text.len() <= 10 { text.to_string() } else { quote(text) }
}
