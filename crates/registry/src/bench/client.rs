//! What every baseline is: an engine's own client, and the rows that it replaces.

use crate::BoxFuture;

/// As long as a run state's value usually is.
pub const VALUE: [u8; 96] = [7; 96];

/// The key of a row.
#[must_use]
pub fn row_key(row: u32) -> String {
    let job = format!("job-{row:07}").parse().expect("such a name is allowed");
    evenkeel_core::keys::run_state(&job).to_string()
}

/// The error of a client.
pub type BenchError = Box<dyn std::error::Error + Send + Sync>;

/// An engine's own client, used directly: the ceiling for everything that commits through it.
///
/// Rows are named by [`row_key`] and hold [`VALUE`]. A commit replaces two of them, each guarded by its last revision,
/// as the two writes of one fire are.
pub trait BaselineClient: Send {
    /// Makes these commits. No row is named twice.
    fn commit<'a>(&'a mut self, pairs: &'a [[u32; 2]]) -> BoxFuture<'a, Result<(), BenchError>>;
}
