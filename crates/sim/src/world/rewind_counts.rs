//! How often a world's registry was rewound, and what nodes know of that.

/// The number of rewinds, and their effects.
pub(super) struct RewindCounts {
    /// The number of rewinds.
    pub(super) count: u32,
    /// The number of rewinds at the latest join.
    pub(super) founded: u32,
    /// The registry's own generation.
    pub(super) engine: u16,
    /// The newest generation that tokens carry.
    pub(super) begun: u16,
}

impl Default for RewindCounts {
    fn default() -> Self {
        Self { count: 0, founded: 0, engine: 1, begun: 1 }
    }
}

impl RewindCounts {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn engine(&self) -> u16 {
        self.engine
    }
}
