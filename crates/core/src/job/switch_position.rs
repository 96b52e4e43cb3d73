//! The position of a switch.

/// The two positions of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchPosition {
    /// The job is enabled.
    On,
    /// The job is disabled.
    Off,
}

impl From<bool> for SwitchPosition {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }
}
