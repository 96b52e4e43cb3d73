//! What the API says and the client reads: rows with stable fields, times as RFC 3339 in UTC with milliseconds.

use evenkeel_core::job::{Job, Placement};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its name.
    pub name: String,
    /// Its schedule as declared; empty when it runs only by hand.
    pub schedule: String,
    /// Its zone; `UTC` when none is declared.
    pub zone: String,
    /// How nodes are chosen for it.
    pub placement: Placement,
    /// The node that holds it.
    pub owner: Option<String>,
    /// Its next fire; none while it is paused, disabled or has no further fire.
    pub next: Option<String>,
    /// Whether it fires only by hand for now.
    pub paused: bool,
}

/// Everything about a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDetail {
    /// Its name.
    pub name: String,
    /// The declaration.
    pub job: Job,
    /// Rises with every change.
    pub version: u64,
    /// The node that holds it.
    pub owner: Option<String>,
    /// Its next fire.
    pub next: Option<String>,
    /// Whether it fires only by hand for now.
    pub paused: bool,
    /// Fires up to here are nobody's.
    pub since: String,
}

/// A run, or its latest attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Its id.
    pub run: String,
    /// Of which job.
    pub job: String,
    /// Which shard.
    pub shard: u32,
    /// The moment it stands for.
    pub due: String,
    /// The node that has it.
    pub node: String,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// `running`, `succeeded`, `failed`, `killed`, `timed_out`, `fenced`, `lost`, `skipped`.
    pub state: String,
    /// In words, where it did not succeed.
    pub reason: Option<String>,
    /// When the attempt started.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
}

/// A living node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// How many jobs it holds (X).
    pub held: usize,
    /// How many it may hold at most just now (N).
    pub quota: usize,
    /// Above how many it raises the alarm (M).
    pub alarm: u32,
    /// Whether it gives its jobs up.
    pub draining: bool,
    /// Its load score; none until load is sampled.
    pub score: Option<f64>,
}

/// A page of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPage {
    /// In the order of their names.
    pub jobs: Vec<JobRow>,
    /// Give this as `after` for the next page; none at the end.
    pub after: Option<String>,
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPage {
    /// The latest first.
    pub runs: Vec<RunRow>,
    /// Give this as `before` for the next page; none at the end.
    pub before: Option<String>,
}

/// A moment as the API writes it.
#[must_use]
pub fn moment(at: Wall) -> String {
    at.to_string()
}

/// A zone as the API writes it.
#[must_use]
pub fn zone(declared: &str) -> String {
    if declared.is_empty() { "UTC".to_owned() } else { declared.to_owned() }
}
