//! The functions that still take such parameters. Nothing is added here; what is mended has to leave.

use super::NamedFunction;

/// Functions that take a tuple of three or more parts.
pub(super) const TUPLES: &[NamedFunction] = &[
    // The web framework reads a path of three parts into a tuple.
    ("crates/server/src/api/shards.rs", "switch"),
];

/// Public functions of core that take a bare `bool`.
pub(super) const BOOLS: &[NamedFunction] = &[];
