//! What must be so of an object for a command to change it.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

/// What the caller of a command wants of the object that it changes, so that no edit overwrites a version that its caller has
/// not read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Precondition {
    /// It exists, in any version.
    Exists,
    /// It does not exist.
    Absent,
    /// It has one of these versions.
    Version(Vec<u64>),
}

impl Precondition {
    /// Whether an object of this version, or a missing one (`None`), is as the caller wants it.
    #[must_use]
    pub fn is_met(&self, version: Option<u64>) -> bool {
        match self {
            Self::Exists => version.is_some(),
            Self::Absent => version.is_none(),
            Self::Version(wanted) => version.is_some_and(|version| wanted.contains(&version)),
        }
    }
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("any version"),
            Self::Absent => f.write_str("none"),
            Self::Version(wanted) => {
                let wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
                write!(f, "version {}", wanted.join(" or "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_as_wanted_or_not() {
        let wanted = [Precondition::Exists, Precondition::Absent, Precondition::Version([7, 9].into())];
        let met = |version| [0, 1, 2].map(|n: usize| wanted[n].is_met(version));
        assert_eq!(met(None), [false, true, false]);
        assert_eq!(met(Some(7)), [true, false, true]);
        assert_eq!(met(Some(8)), [true, false, false]);
        assert_eq!(wanted[2].to_string(), "version 7 or 9");
    }
}
