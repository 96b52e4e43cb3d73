//! The number of a job in a view.

/// A job's number within one view. Numbers are local to a node and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(crate) u32);
