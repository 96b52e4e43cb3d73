//! Parameters of manual runs: how much of them one entry of the registry holds.

use crate::record::Attempt;

/// The most parameters of open runs in one entry, as JSON, in bytes: far below every engine's limit for a value, also where
/// retries split the shards of a run into several attempts.
const OPEN_BYTES_MAX: usize = 64 * 1024;

/// Whether one more run with parameters fits beside these attempts. If not, its request waits until one of them ends.
pub(crate) fn has_parameter_room(open: &[Attempt]) -> bool {
    open.iter().map(|attempt| attempt.parameters.bytes()).sum::<usize>() < OPEN_BYTES_MAX
}
