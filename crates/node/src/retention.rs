//! How much of the output and records of runs is kept.

use std::time::Duration;

/// How much of the output and records of runs is kept (`I48`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The most bytes of output kept of one attempt; later output is read and dropped.
    pub output: u64,
    /// The most bytes a second of a command's output, with a burst of ten seconds' worth; output beyond is counted and
    /// dropped. `None` for no bound.
    pub output_rate: Option<u64>,
    /// The most bytes of all output together.
    pub outputs: u64,
    /// How long records and output are kept.
    pub age: Duration,
    /// How long the audit log is kept.
    pub audit: Duration,
    /// How long roll-ups are kept, by hour, day and job.
    pub summary: Duration,
    /// How many attempts of each job are kept.
    pub runs_of_job: u32,
    /// How many attempts are kept in total: of this node's own history, or of the one that all nodes share.
    pub runs: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            output: 10 << 20,
            output_rate: Some(1 << 20),
            outputs: 1 << 30,
            age: Duration::from_hours(30 * 24),
            audit: Duration::from_hours(400 * 24),
            summary: Duration::from_hours(400 * 24),
            runs_of_job: 1000,
            runs: 2_000_000,
        }
    }
}
