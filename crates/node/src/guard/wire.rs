//! The protocol between a node and its guard: one JSON object a line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_core::effect::StopReason;
use evenkeel_core::ids::RunId;
use evenkeel_core::job::{LaunchSettings, Priority};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

use super::removal::MemberRemoval;
use crate::secrets::{GivenSecret, SecretReader};

/// The protocol version. A guard stays the program it was started from, so after an upgrade the two may differ.
pub(crate) const WIRE: u32 = 4;

/// One attempt of one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct AttemptId {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
}

/// A message from the node. Moments are milliseconds of `CLOCK_BOOTTIME`, one clock for all processes of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardRequest {
    /// Runs may live until `until` and must be dead soon after `kill` (law 4). Answered by `Trusted`.
    Trust { until: i64, kill: i64 },
    /// Start this attempt.
    Start(Box<LaunchSpec>),
    /// End this run.
    Stop { run: RunId, reason: StopReason },
    /// When the node's process dies, remove this member.
    Member(MemberRemoval),
    /// The node lives. The next one of these comes from the same thread within so many milliseconds, or none comes.
    Heartbeat { thread: i32, within: Option<i64> },
    /// The node parts with its guard and lives on: remove no member.
    Part,
}

/// The specification of an attempt to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchSpec {
    pub(crate) id: AttemptId,
    pub(crate) argv: Vec<String>,
    /// The environment that every run gets.
    pub(crate) environment: BTreeMap<String, String>,
    /// The job's launch settings.
    #[serde(default)]
    pub(crate) setting: LaunchSettings,
    /// The secrets that it is given. They are masked in its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<GivenSecret>,
    /// The permission bits that its files lack; `None` keeps the guard's.
    #[serde(default)]
    pub(crate) umask: Option<u32>,
    /// Whether it can gain no privileges.
    #[serde(default)]
    pub(crate) no_new_privileges: bool,
    /// In milliseconds, from the start.
    pub(crate) timeout: Option<i64>,
    /// From this moment on it must not start (law 2).
    pub(crate) not_after: i64,
    /// The file of its output.
    pub(crate) log: PathBuf,
    /// How many bytes of output are kept.
    pub(crate) keep: u64,
    /// How many bytes of output a second are kept, if bounded.
    #[serde(default)]
    pub(crate) rate: Option<u64>,
    /// What reads the secrets that `setting` names. The guard gets them in `secrets`.
    #[serde(skip)]
    pub(crate) reader: SecretReader,
    /// The run's due moment. The guard need not know.
    #[serde(skip)]
    pub(crate) due: Wall,
    /// Its priority among waiting starts. The guard need not know.
    #[serde(skip)]
    pub(crate) priority: Priority,
    /// When its job fires again. The guard need not know.
    #[serde(skip)]
    pub(crate) again: Option<Wall>,
}

/// The variable that holds the node's data folder, which no other node of this host shares.
pub(super) const DATA: &str = "EVENKEEL_DATA";

/// A message from the guard. The answer to `Start` is `NotStarted`, or `Started` and then `Ended`, or `Ended` alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardEvent {
    /// The guard has locked the data folder: the last guard and all its runs are gone. `lacking` says which limits of
    /// whole runs it cannot enforce, and why.
    Ready { lacking: Option<String> },
    /// The deadline was moved.
    Trusted,
    /// The attempt runs, as the leader of this process group.
    Started { id: AttemptId, group: i32, at: i64 },
    /// The attempt did not start and will not.
    NotStarted { id: AttemptId },
    /// The attempt has ended, and no process of it is left.
    Ended { id: AttemptId, end: ProcessEnd },
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessEnd {
    /// Why the guard ended it; `None` when it ended by itself.
    pub(crate) stopped: Option<StopReason>,
    /// The exit code of its first process; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// The reason in words; empty when there is nothing to add.
    pub(crate) reason: String,
    /// How many bytes of output were kept.
    pub(crate) output: u64,
    /// When, by the wall clock.
    pub(crate) at: i64,
}

/// Splits pieces of a stream into lines.
#[derive(Debug, Default)]
pub(crate) struct LineReader(Vec<u8>);

impl LineReader {
    /// Continues a line of which this much was read.
    pub(crate) fn begun(line: Vec<u8>) -> Self {
        Self(line)
    }

    /// The part of an incomplete line that was read.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.0
    }

    /// Takes a piece and returns the lines that are complete now.
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

/// An object as one line of JSON.
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
            GuardRequest::Heartbeat { thread: 7, within: Some(5) },
            GuardRequest::Heartbeat { thread: 7, within: None },
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
