//! The checker's track of the registry's generations.

use std::collections::BTreeSet;

use evenkeel_core::ids::{RunId, Token};

/// The checker's knowledge of earlier generations.
#[derive(Clone, Debug)]
pub(super) struct GenerationTrack {
    /// The generation that tokens carry, counted from 1.
    pub(super) generation: u16,
    /// Whether nodes can join it.
    pub(super) founded: bool,
    /// The runs that physically started in earlier ones.
    pub(super) began: BTreeSet<RunId>,
}

impl Default for GenerationTrack {
    fn default() -> Self {
        Self { generation: 1, founded: true, began: BTreeSet::new() }
    }
}

impl GenerationTrack {
    /// The token of this generation with this number.
    pub(super) fn token(&self, seq: u64) -> Token {
        Token::new(self.generation, seq)
    }

    /// Whether nodes may take part.
    pub(super) fn is_founded(&self) -> bool {
        self.founded
    }
}
