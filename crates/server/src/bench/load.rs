//! How much is measured.

use std::time::Duration;

/// The nodes and jobs of a measurement, and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchLoad {
    /// How many nodes.
    pub(crate) nodes: u32,
    /// How many jobs.
    pub(crate) jobs: u32,
    /// How long.
    pub(crate) span: Duration,
}
