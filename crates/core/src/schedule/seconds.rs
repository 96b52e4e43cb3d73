//! Durations of whole seconds, as people write them.

use core::fmt;
use core::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::{ScheduleError, quote};
use super::named;

/// A duration of whole seconds, written as a text such as `90s` or `1h30m`: from no time at all to 366 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, secs) = (self.0 / 3_600, self.0 / 60 % 60, self.0 % 60);
        for (number, unit) in [(hours, 'h'), (minutes, 'm')] {
            if number > 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        if secs > 0 || self.0 == 0 { write!(f, "{secs}s") } else { Ok(()) }
    }
}

impl FromStr for Seconds {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let ms = named::span("span", text, 0)?.unsigned_abs();
        match ms % 1_000 {
            0 => Ok(Self(ms / 1_000)),
            _ => Err(ScheduleError::new(format_args!(
                "span {}: only whole seconds count here; write `{}s`",
                quote(text),
                ms.div_ceil(1_000)
            ))),
        }
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct SecondsVisitor;
        impl Visitor<'_> for SecondsVisitor {
            type Value = Seconds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a span such as \"90s\" or \"1h30m\"")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Seconds, E> {
                Err(E::custom(format_args!("takes a span with its unit: write \"{number}s\" for seconds")))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Seconds, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Seconds, E> {
                text.parse().map_err(E::custom)
            }
        }
        input.deserialize_any(SecondsVisitor)
    }
}
