//! The sharded jobs of the trial: what they write down, and who judges it.

pub(crate) mod skips;
pub(crate) mod verdict;
pub(crate) mod witness;
