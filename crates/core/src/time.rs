//! Two clocks that must never be mixed: leases live by [`Mono`], calendars by [`Wall`].

mod interval;
mod span;

use core::fmt;
use core::ops::{Add, Sub};
use serde::{Deserialize, Serialize};

pub(crate) use interval::interval;
pub use span::{SpanLimits, TimeSpan, TimeSpanError};

/// A span of time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

/// A moment on a node's own clock that counts suspend and never steps, in milliseconds since that host booted.
/// Compared only with moments of the same host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub i64);

/// A moment of the calendar: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wall(pub i64);

/// Both clocks of a node, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Now {
    /// The clock for leases and waits.
    pub mono: Mono,
    /// The clock for due times.
    pub wall: Wall,
}

impl Millis {
    /// Nothing at all.
    pub const ZERO: Self = Self(0);

    /// `n` seconds.
    #[must_use]
    pub const fn secs(n: i64) -> Self {
        Self(n.saturating_mul(1000))
    }
}

impl Wall {
    /// Before every fire.
    pub const MIN: Self = Self(i64::MIN);
    /// After every fire.
    pub const MAX: Self = Self(i64::MAX);
}

macro_rules! moment {
    ($t:ty) => {
        impl Add<Millis> for $t {
            type Output = Self;
            fn add(self, span: Millis) -> Self {
                Self(self.0.saturating_add(span.0))
            }
        }
        impl Sub<Millis> for $t {
            type Output = Self;
            fn sub(self, span: Millis) -> Self {
                Self(self.0.saturating_sub(span.0))
            }
        }
        impl Sub for $t {
            type Output = Millis;
            fn sub(self, earlier: Self) -> Millis {
                Millis(self.0.saturating_sub(earlier.0))
            }
        }
    };
}
moment!(Mono);
moment!(Wall);

impl Add for Millis {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Millis {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms if ms % 1000 == 0 => write!(f, "{}s", ms / 1000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

/// RFC 3339 in UTC with milliseconds, the one way a due time is written for people and programs (`EVENKEEL_DUE`).
/// Moments outside the years that RFC 3339 can write are shown as their number.
impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{t:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn due_times_are_written_with_milliseconds_in_utc() {
        assert_eq!(Wall(1_763_749_200_000).to_string(), "2025-11-21T18:20:00.000Z");
        assert_eq!(Wall(5).to_string(), "1970-01-01T00:00:00.005Z");
    }

    #[test]
    fn moments_saturate_instead_of_wrapping() {
        assert_eq!(Wall::MAX + Millis(1), Wall::MAX);
        assert_eq!(Wall::MIN - Millis(1), Wall::MIN);
    }
}
