//! Priority: which jobs start first where slots are short.

use alloc::format;
use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The priority of a job, from 0 (lowest) to 9 (highest). It takes no slot from a running run, and gives no guarantee:
/// a job waits for ever where jobs of higher priority always want all slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// The highest priority.
    pub const MAX: Self = Self(9);

    /// The default priority.
    pub const MIDDLE: Self = Self(5);
}

impl Default for Priority {
    fn default() -> Self {
        Self::MIDDLE
    }
}

impl TryFrom<u8> for Priority {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        let priority = Self(number);
        (priority <= Self::MAX).then_some(priority).ok_or_else(|| {
            format!(
                "priority is {number}, allowed are 0, which starts last, to {}, which starts first",
                Self::MAX
            )
        })
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_one_digit() {
        let read = |text: &str| serde_json::from_str::<Priority>(text).map_err(|e| format!("{e}"));
        assert!(read("9").unwrap() > Priority::default() && read("0").unwrap() < Priority::default());
        let said = read("10").unwrap_err();
        assert!(
            said.contains("priority is 10, allowed are 0, which starts last, to 9, which starts first"),
            "{said}"
        );
    }
}
