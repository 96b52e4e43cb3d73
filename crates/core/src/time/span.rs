//! Spans of time as people write them: one type for job files, settings, flags and the API.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Millis;
use super::interval::interval;
use crate::characters;
use crate::schedule::quote;
use crate::steps::step;

/// Units of spans, in milliseconds.
const UNITS: &[(&str, i64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", DAY)];
const DAY: i64 = 86_400_000;

/// A span of time, written as a text such as `90s`, `1h30m` or `1500ms`. Where nothing else is said it has whole seconds,
/// from none to 366 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(Millis);

/// Which spans are allowed in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanLimits {
    least: Millis,
    most: Millis,
    /// Whether a part of a second is refused.
    whole_seconds: bool,
}

/// The reason why a text is no span, or none that is allowed there, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSpanError(String);

impl SpanLimits {
    /// From a second to a year: what schedules and jobs take.
    pub const SCHEDULE: Self = Self::new(Millis::secs(1), Millis(366 * DAY));
    /// From no time at all to a hundred years.
    pub const ANY: Self = Self::new(Millis::ZERO, Millis(36_500 * DAY));
    /// Whole seconds, from none to a year.
    pub const WHOLE_SECONDS: Self =
        Self { whole_seconds: true, ..Self::new(Millis::ZERO, Millis(366 * DAY)) };

    /// From the least to the most, both of them included.
    #[must_use]
    pub const fn new(least: Millis, most: Millis) -> Self {
        Self { least, most, whole_seconds: false }
    }

    /// The same with another least span.
    #[must_use]
    pub const fn at_least(self, least: Millis) -> Self {
        Self { least, ..self }
    }

    /// The same with another longest span.
    #[must_use]
    pub const fn at_most(self, most: Millis) -> Self {
        Self { most, ..self }
    }
}

impl TimeSpan {
    /// A span of whole seconds.
    #[must_use]
    pub fn secs(secs: u64) -> Self {
        Self(Millis::secs(i64::try_from(secs).unwrap_or(i64::MAX)))
    }

    /// Parses a span; the error names `word`, the key or flag for which it was written.
    ///
    /// # Errors
    /// The text is no span, or none within the limits.
    pub fn parse(word: &str, text: &str, limits: SpanLimits) -> Result<Self, TimeSpanError> {
        let wrong = |reason: &str| TimeSpanError(format!("{word} {}: {reason}", quote(text)));
        let SpanLimits { least, most, whole_seconds } = limits;
        let outside = || {
            let (least, most) = (in_days(least), in_days(most));
            wrong(&format!("the span must be at least {least} and at most {most}"))
        };
        let (mut rest, mut span) = (text, 0_i64);
        while !rest.is_empty() {
            step();
            let unit_at = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, tail) = rest.split_at(unit_at);
            let unit_end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let unit = UNITS.iter().find(|(name, _)| *name == unit).filter(|_| !number.is_empty());
            let Some((_, ms)) = unit else {
                return Err(wrong(&advice(text)));
            };
            let number = number.parse::<i64>().map_err(|_| outside())?;
            span = number.checked_mul(*ms).and_then(|ms| span.checked_add(ms)).ok_or_else(outside)?;
            rest = tail;
        }
        if text.is_empty() {
            return Err(wrong("the span is missing, such as `90s` or `1h30m`"));
        }
        if !(least..=most).contains(&Millis(span)) {
            return Err(outside());
        }
        if whole_seconds && span % 1_000 != 0 {
            let more = span / 1_000 + 1;
            return Err(wrong(&format!("only whole seconds count here; write `{more}s`")));
        }
        Ok(Self(Millis(span)))
    }

    /// The span in milliseconds.
    #[must_use]
    pub fn millis(self) -> Millis {
        self.0
    }

    /// The span in whole seconds, rounded down.
    #[must_use]
    pub fn as_secs(self) -> u64 {
        Duration::from(self).as_secs()
    }
}

/// What to write instead of a text that is no span.
fn advice(text: &str) -> String {
    if let Some(c) = characters::foreign(text) {
        return format!("it holds {}: {}", characters::describe(c), characters::instead(c));
    }
    let units = "write numbers with a unit (d, h, m, s or ms), such as `90s` or `1h30m`";
    match interval(text) {
        Some(meant) => format!("{units}; did you mean `{meant}`?"),
        None => units.to_string(),
    }
}

impl From<TimeSpan> for Duration {
    fn from(span: TimeSpan) -> Self {
        Self::from_millis(u64::try_from(span.0.0).unwrap_or(0))
    }
}

/// The span as a limit is written: in days where it has whole ones.
fn in_days(span: Millis) -> String {
    match span.0 {
        ms if ms > 0 && ms % DAY == 0 => format!("{}d", ms / DAY),
        _ => TimeSpan(span).to_string(),
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, ms) = (self.as_secs(), self.0.0 % 1_000);
        let parts = [(secs / 3_600, "h"), (secs / 60 % 60, "m"), (secs % 60, "s"), (ms.unsigned_abs(), "ms")];
        for (number, unit) in parts.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, "{number}{unit}")?;
        }
        if self.0 == Millis::ZERO { f.write_str("0s") } else { Ok(()) }
    }
}

impl FromStr for TimeSpan {
    type Err = TimeSpanError;

    fn from_str(text: &str) -> Result<Self, TimeSpanError> {
        Self::parse("span", text, SpanLimits::WHOLE_SECONDS)
    }
}

impl fmt::Display for TimeSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for TimeSpanError {}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct TimeSpanVisitor;
        impl Visitor<'_> for TimeSpanVisitor {
            type Value = TimeSpan;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a span such as \"90s\" or \"1h30m\"")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<TimeSpan, E> {
                Err(E::custom(format_args!("takes a span with its unit: write \"{number}s\" for seconds")))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<TimeSpan, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TimeSpan, E> {
                text.parse().map_err(E::custom)
            }
        }
        input.deserialize_any(TimeSpanVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(text: &str) -> Result<Millis, TimeSpanError> {
        TimeSpan::parse("--wait", text, SpanLimits::ANY).map(TimeSpan::millis)
    }

    #[test]
    fn spans_are_read() {
        assert_eq!(any("1500ms"), Ok(Millis(1_500)));
        assert_eq!(any("2m"), Ok(Millis::secs(120)));
        assert_eq!(any("1h30m"), Ok(Millis::secs(5_400)));
        assert_eq!(any("0s"), Ok(Millis::ZERO));
        let (sixty, day) = (TimeSpan::secs(60), TimeSpan::secs(86_400));
        assert_eq!(("60s".parse(), "1d".parse()), (Ok(sixty), Ok(day)));
        assert_eq!((Duration::from(sixty), day.as_secs()), (Duration::from_mins(1), 86_400));
    }

    #[test]
    fn what_is_no_span_is_refused_with_the_fix() {
        for nonsense in ["s", "-1s", "1", "1y", "x", "P1M"] {
            let refused = any(nonsense).unwrap_err().to_string();
            let fix = "write numbers with a unit (d, h, m, s or ms), such as `90s` or `1h30m`";
            assert_eq!(refused, format!("--wait `{nonsense}`: {fix}"));
        }
        for (nearly, meant) in [
            ("5 minutes", "5m"),
            ("5min", "5m"),
            ("1.5s", "1s500ms"),
            (" 1s", "1s"),
            ("PT1H30M", "1h30m"),
            ("1w", "7d"),
        ] {
            let refused = any(nearly).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("; did you mean `{meant}`?")), "{refused}");
        }
        let unseen = any("5\u{a0}m").unwrap_err().to_string();
        assert!(unseen.contains("a no-break space (U+00A0): write a plain space"), "{unseen}");
        assert_eq!(
            any("").unwrap_err().to_string(),
            "--wait ``: the span is missing, such as `90s` or `1h30m`"
        );
        let limits = SpanLimits::SCHEDULE.at_most(Millis::secs(3_600));
        for outside in ["999ms", "1h1ms", "99999999999999999999h", "9223372036854775807d"] {
            let refused = TimeSpan::parse("wait", outside, limits).unwrap_err().to_string();
            assert_eq!(refused, format!("wait `{outside}`: the span must be at least 1s and at most 1h"));
        }
        let part = "1001ms".parse::<TimeSpan>().unwrap_err().to_string();
        assert_eq!(part, "span `1001ms`: only whole seconds count here; write `2s`");
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (ms, text) in
            [(0, "0s"), (90_000, "1m30s"), (5_400_000, "1h30m"), (129_600_000, "36h"), (3_600_001, "1h1ms")]
        {
            assert_eq!(TimeSpan(Millis(ms)).to_string(), text);
            assert_eq!(any(text), Ok(Millis(ms)));
        }
    }
}
