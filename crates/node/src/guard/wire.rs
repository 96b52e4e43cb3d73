//! What a node and its guard say to each other: one JSON object a line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_core::effect::StopReason;
use evenkeel_core::ids::RunId;
use evenkeel_core::job::{LaunchSettings, Priority};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

/// The way this is spoken. A guard stays the program it was started from, so after an upgrade the two may differ.
pub(crate) const WIRE: u32 = 2;

/// One attempt of one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct AttemptId {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
}

/// From the node. Moments are milliseconds of `CLOCK_BOOTTIME`, which is one clock for all processes of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardRequest {
    /// Runs may live until `until` and must be dead soon after `kill` (law 4). Answered by `Trusted`.
    Trust { until: i64, kill: i64 },
    /// Start this attempt.
    Start(Box<LaunchSpec>),
    /// End this run.
    Stop { run: RunId, reason: StopReason },
}

/// Everything needed to start an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchSpec {
    pub(crate) id: AttemptId,
    pub(crate) argv: Vec<String>,
    /// What every run is told.
    pub(crate) environment: BTreeMap<String, String>,
    /// What the job says of how it starts.
    #[serde(default)]
    pub(crate) setting: LaunchSettings,
    /// In milliseconds, from the start.
    pub(crate) timeout: Option<i64>,
    /// From this moment on it must not start (law 2).
    pub(crate) not_after: i64,
    /// Where its output goes.
    pub(crate) log: PathBuf,
    /// How many bytes of it are kept.
    pub(crate) keep: u64,
    /// How many of them a second, where there is a bound.
    #[serde(default)]
    pub(crate) rate: Option<u64>,
    /// The moment the run stands for. The guard need not know.
    #[serde(skip)]
    pub(crate) due: Wall,
    /// How soon it starts beside others. The guard need not know.
    #[serde(skip)]
    pub(crate) priority: Priority,
    /// When its job fires again. The guard need not know.
    #[serde(skip)]
    pub(crate) again: Option<Wall>,
}

/// The variable that tells a run its node's data folder, of which no other node of this host has the same.
pub(super) const DATA: &str = "EVENKEEL_DATA";

/// From the guard. Each `Start` is answered by `NotStarted`, or by `Started` and then `Ended`, or by `Ended` alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardEvent {
    /// The guard holds the data folder: the last one and all its runs are gone. `lacking` says which limits of whole runs it
    /// cannot keep, and why.
    Ready { lacking: Option<String> },
    /// The deadline was moved.
    Trusted,
    /// It runs, as the leader of this process group.
    Started { id: AttemptId, group: i32, at: i64 },
    /// It did not start and will not.
    NotStarted { id: AttemptId },
    /// It has ended, and nothing of its group is left.
    Ended { id: AttemptId, end: ProcessEnd },
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessEnd {
    /// Why the guard ended it; `None` when it ended by itself.
    pub(crate) stopped: Option<StopReason>,
    /// The exit code of its first process; `None` when a signal ended that.
    pub(crate) code: Option<i32>,
    /// In words; empty when there is nothing to add.
    pub(crate) reason: String,
    /// Bytes of output kept.
    pub(crate) output: u64,
    /// When, by the wall clock.
    pub(crate) at: i64,
}

/// Reads lines out of pieces.
#[derive(Debug, Default)]
pub(crate) struct LineReader(Vec<u8>);

impl LineReader {
    /// Goes on reading a line of which this much was read.
    pub(crate) fn begun(line: Vec<u8>) -> Self {
        Self(line)
    }

    /// What was read of a line that is not whole.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.0
    }

    /// Takes a piece and returns the lines that are whole now.
    pub(crate) fn take<T: for<'a> Deserialize<'a>>(&mut self, piece: &[u8]) -> Vec<serde_json::Result<T>> {
        self.0.extend_from_slice(piece);
        let Some(last) = self.0.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.0.drain(..=last).collect();
        whole
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(serde_json::from_slice)
            .collect()
    }
}

/// One object as a line.
pub(crate) fn to_line<T: Serialize>(object: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(object).expect("words and orders are plain data with text keys");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whatever_the_pieces() {
        let run: RunId = "j:1:0".parse().unwrap();
        let orders = [
            GuardRequest::Trust { until: 5, kill: 6 },
            GuardRequest::Stop { run, reason: StopReason::Killed },
            GuardRequest::Trust { until: i64::MIN, kill: i64::MAX },
        ];
        let bytes: Vec<u8> = orders.iter().flat_map(to_line).collect();
        for size in 1..bytes.len() {
            let mut lines = LineReader::default();
            let read: Vec<GuardRequest> =
                bytes.chunks(size).flat_map(|piece| lines.take(piece)).map(Result::unwrap).collect();
            assert_eq!(read, orders);
        }
    }
}
