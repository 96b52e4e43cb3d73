//! What became of each fire that was due: rows of `GET /api/v1/report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of a fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FireState {
    /// It has no record, and none is expected any more.
    Unaccounted,
    /// It has no record that was found, and a history that may have one could not be read, or its schedule is not known.
    Unknown,
    /// Its last attempt failed, took too long or is lost.
    Failed,
    /// No node ran it in time.
    Missed,
    /// It was ended by a request, or replaced by a later fire.
    Killed,
    /// It executes.
    Running,
    /// It has not begun, or waits for its next attempt.
    Waiting,
    /// It did not run because its job or an operator wanted it so.
    Skipped,
    /// It succeeded.
    Ran,
    /// It was due by the schedule, and its job was paused or disabled.
    NotExpected,
}

impl FireState {
    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unaccounted => "unaccounted",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Missed => "missed",
            Self::Killed => "killed",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
            Self::Ran => "ran",
            Self::NotExpected => "not_expected",
        }
    }
}

/// How many fires came to what. A fire of a job with shards counts once, by its worst shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportCounts {
    /// Fires that were due: the sum of the others but `not_expected` and `to_come`.
    pub fires: u64,
    /// Those that succeeded.
    pub ran: u64,
    /// Those whose last attempt failed, took too long or is lost.
    pub failed: u64,
    /// Those that were ended by a request, or replaced by a later fire.
    pub killed: u64,
    /// Those that no node ran in time.
    pub missed: u64,
    /// Those that did not run because their job or an operator wanted it so.
    pub skipped: u64,
    /// Those that execute.
    pub running: u64,
    /// Those that have not begun, or wait for their next attempt.
    pub waiting: u64,
    /// Those without a record, of which none is expected any more.
    pub unaccounted: u64,
    /// Those of which it cannot be said.
    pub unknown: u64,
    /// Fires of the schedule while the job was paused or disabled.
    pub not_expected: u64,
    /// Fires of the span that are not due yet.
    pub to_come: u64,
}

impl ReportCounts {
    /// Counts so many fires of this state.
    pub fn add(&mut self, state: FireState, fires: u64) {
        if state != FireState::NotExpected {
            self.fires += fires;
        }
        *match state {
            FireState::Unaccounted => &mut self.unaccounted,
            FireState::Unknown => &mut self.unknown,
            FireState::Failed => &mut self.failed,
            FireState::Missed => &mut self.missed,
            FireState::Killed => &mut self.killed,
            FireState::Running => &mut self.running,
            FireState::Waiting => &mut self.waiting,
            FireState::Skipped => &mut self.skipped,
            FireState::Ran => &mut self.ran,
            FireState::NotExpected => &mut self.not_expected,
        } += fires;
    }

    /// Adds the counts of another job.
    pub fn merge(&mut self, other: &Self) {
        for (mine, more) in [
            (&mut self.fires, other.fires),
            (&mut self.ran, other.ran),
            (&mut self.failed, other.failed),
            (&mut self.killed, other.killed),
            (&mut self.missed, other.missed),
            (&mut self.skipped, other.skipped),
            (&mut self.running, other.running),
            (&mut self.waiting, other.waiting),
            (&mut self.unaccounted, other.unaccounted),
            (&mut self.unknown, other.unknown),
            (&mut self.not_expected, other.not_expected),
            (&mut self.to_come, other.to_come),
        ] {
            *mine += more;
        }
    }
}

/// A fire of a job, or several that follow each other and came to the same for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportRow {
    /// The job.
    pub job: String,
    /// When the fire was due; the first of several.
    pub due: String,
    /// When the last of several was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How many fires.
    pub fires: u64,
    /// What became of them.
    pub state: FireState,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The node of the attempt that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// The fires of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportJob {
    /// The job.
    pub name: String,
    /// The time zone of its schedule.
    pub timezone: String,
    /// The counts of its fires.
    pub counts: ReportCounts,
    /// Its fires: those that ran only if all were asked for.
    pub rows: Vec<ReportRow>,
    /// What else is to be known, in words: when the schedule changed, or why there is nothing to expect.
    pub notes: Vec<String>,
    /// If the job has more fires than one answer looks at: the `since` of the next question about this job.
    pub next_since: Option<String>,
}

/// A report on the fires of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportPage {
    /// The first moment of the span.
    pub since: String,
    /// The end of the span.
    pub until: String,
    /// The jobs.
    pub jobs: Vec<ReportJob>,
    /// The `after` of the next page; none at the end.
    pub after: Option<String>,
    /// Nodes whose own histories could not be read, each with the reason: what only they know is unknown.
    pub missing: Vec<String>,
}
